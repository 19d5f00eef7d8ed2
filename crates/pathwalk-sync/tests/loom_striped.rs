//! Striped counters: a count is never missed, and its end is noticed.
#![cfg(loom)]

mod model;
mod plain;

use loom::sync::atomic::{AtomicBool, Ordering};
use model::{explore, spawn};
use pathwalk_sync::{Cell32, Seq, Striped};
use plain::Plain;
use std::{collections::BTreeSet, sync::Arc};

/// What is counted, and whether it is detached: then nobody new may hold it, and the last one out ends it.
#[derive(Default)]
struct Mount {
    count: Striped,
    seq: Seq,
    detached: Cell32,
    contents: Plain,
    /// The real thing would ask under a lock whether somebody else was faster; no model is about that lock.
    ended: std::sync::atomic::AtomicBool,
}

/// What became of a count that was asked for.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Got {
    Held,
    /// Refused; says whether the asker had to end it.
    Refused(bool),
}

impl Mount {
    /// A mount with so many holders. The main thread is the first to count, before there are others: which
    /// thread counts where is then no message from one to the other.
    fn held(holders: u32) -> Arc<Self> {
        let mount = Self::default();
        (0..=holders).for_each(|_| mount.count.get());
        mount.count.put();
        Arc::new(mount)
    }

    /// Takes a count unless the mount is detached.
    fn get(&self) -> Got {
        if self.count.get_if(|| self.detached.get() == 0) {
            Got::Held
        } else {
            Got::Refused(self.detached.get() != 0 && self.end_if_zero())
        }
    }

    /// Gives a count back; says whether this one had to end it.
    fn put(&self) -> bool {
        self.contents.read();
        self.count.put_then_look();
        self.detached.get() != 0 && self.end_if_zero()
    }

    /// Detaches the mount; says whether this one had to end it.
    fn detach(&self) -> bool {
        self.detached.set(1);
        self.end_if_zero()
    }

    fn end_if_zero(&self) -> bool {
        let ends = self.count.sum_after() == 0
            && !self.ended.swap(true, std::sync::atomic::Ordering::Relaxed);
        if ends {
            self.contents.write();
        }
        ends
    }
}

#[test]
fn whoever_detaches_sees_the_count_or_the_count_is_refused() {
    let seen = explore(|| {
        let mount = Mount::held(0);
        let walker = spawn(&mount, |mount| mount.count.get_if(|| mount.detached.get() == 0));
        let detacher = spawn(&mount, |mount| {
            mount.detached.set(1);
            mount.count.sum_after()
        });
        let (held, sum) = (walker.join().unwrap(), detacher.join().unwrap());
        assert_eq!(mount.count.sum_after(), u64::from(held));
        (held, sum)
    });
    assert_eq!(seen, BTreeSet::from([(true, 1), (false, 0), (false, 1)]));
}

#[test]
fn a_sequence_count_can_refuse_the_count() {
    let seen = explore(|| {
        let mount = Mount::held(0);
        let sample = mount.seq.sample();
        let walker = spawn(&mount, move |mount| mount.count.get_if(|| mount.seq.unchanged(sample)));
        let detacher = spawn(&mount, |mount| {
            mount.seq.invalidate();
            mount.count.sum_after()
        });
        (walker.join().unwrap(), detacher.join().unwrap())
    });
    assert_eq!(seen, BTreeSet::from([(true, 1), (false, 0), (false, 1)]));
}

#[test]
fn whoever_waits_for_the_end_of_an_unmount_does_not_hold_what_it_found_unused() {
    let seen = explore(|| {
        let mount = Mount::held(1);
        let walker = spawn(&mount, |mount| {
            let sample = mount.seq.sample_stable();
            mount.detached.get() == 0 && mount.count.get_if(|| mount.seq.unchanged(sample))
        });
        let unmounter = spawn(&mount, |mount| {
            // One change from before the sum until it is detached.
            let _change = mount.seq.change();
            let unused = mount.count.sum_after() <= 1;
            if unused {
                mount.detached.set(1);
            }
            unused
        });
        (walker.join().unwrap(), unmounter.join().unwrap())
    });
    assert_eq!(seen, BTreeSet::from([(true, false), (false, true), (false, false)]));
}

#[test]
fn of_those_who_leave_and_the_one_who_detaches_one_ends_it() {
    let seen = explore(|| {
        let mount = Mount::held(2);
        let [one, other] = [(); 2].map(|()| spawn(&mount, Mount::put));
        let detacher = spawn(&mount, Mount::detach);
        (one.join().unwrap(), other.join().unwrap(), detacher.join().unwrap())
    });
    let one_each = [(true, false, false), (false, true, false), (false, false, true)];
    assert_eq!(seen, BTreeSet::from(one_each));
}

#[test]
fn a_refused_count_does_not_hide_that_the_last_one_left() {
    let seen = explore(|| {
        let mount = Mount::held(1);
        let holder = spawn(&mount, Mount::put);
        let walker = spawn(&mount, |mount| match mount.get() {
            Got::Held => (Got::Held, mount.put()),
            refused => (refused, false),
        });
        let detacher = spawn(&mount, Mount::detach);
        (holder.join().unwrap(), walker.join().unwrap(), detacher.join().unwrap())
    });
    let one_each = [
        (true, (Got::Refused(false), false), false),
        (false, (Got::Refused(true), false), false),
        (false, (Got::Refused(false), false), true),
        (true, (Got::Held, false), false),
        (false, (Got::Held, true), false),
        (false, (Got::Held, false), true),
    ];
    assert_eq!(seen, BTreeSet::from(one_each));
}

#[test]
fn a_count_that_is_refused_for_another_reason_does_not_hide_the_end_either() {
    let seen = explore(|| {
        let mount = Mount::held(0);
        let sample = mount.seq.sample();
        mount.seq.invalidate();
        let walker = spawn(&mount, move |mount| {
            let held = mount.count.get_if(|| mount.seq.unchanged(sample));
            held || mount.detached.get() != 0 && mount.end_if_zero()
        });
        let detacher = spawn(&mount, Mount::detach);
        (walker.join().unwrap(), detacher.join().unwrap())
    });
    assert_eq!(seen, BTreeSet::from([(true, false), (false, true)]));
}

#[test]
fn a_count_that_is_passed_on_is_never_missed() {
    let seen = explore(|| {
        let mount = Mount::held(1);
        let passed = Arc::new((mount, AtomicBool::new(false)));
        let holder = spawn(&passed, |(mount, passed)| {
            mount.count.get();
            passed.store(true, Ordering::Release);
        });
        let other = spawn(&passed, |(mount, passed)| {
            if passed.load(Ordering::Acquire) {
                mount.count.put();
            }
        });
        // Counts itself too, so that each of the others is at times on the earlier line.
        let summer = spawn(&passed, |(mount, _)| {
            mount.count.get();
            mount.count.sum_after()
        });
        holder.join().unwrap();
        other.join().unwrap();
        summer.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([2, 3]));
}
