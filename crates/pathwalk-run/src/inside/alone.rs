//! Whether a process is alone: it has one thread, nobody else has its memory or its descriptors, and nobody but us looks at its calls.
//!
//! Who runs a program is alone then; and he stays that as long as no process or thread is made at all, by whomever. The kernel says which
//! was the last: to ask that is one call, where to look at all processes of the program takes dozens. As numbers come again, that is believed for a moment,
//! in which there are not as many made as there are numbers, and until another one is seen to be the last. Who may say which number
//! comes next (`set_tid` of clone3(2), `ns_last_pid`) needs a capability for that, and may deceive himself. Who sets up a filter is heard of.
//!
//! Manual: proc_loadavg(5).

use super::MOST_COUNTED;
use crate::kin;
use rustc_hash::FxHashMap;
use rustix::io::pread;
use std::{
    fs::File,
    time::{Duration, Instant},
};

/// For so long it is believed that nobody was made.
const MOMENT: Duration = Duration::from_millis(100);

/// What is known of processes.
#[derive(Debug)]
pub(super) struct Alone {
    /// `/proc/loadavg`, which ends with the number of the process that was made last.
    loadavg: Option<File>,
    /// Which one that was when it was looked last, and who has run a program since it was, and when.
    last: Option<u32>,
    since: FxHashMap<u32, Instant>,
    /// Some process has a filter of its own, or had.
    filters: bool,
}

impl Default for Alone {
    fn default() -> Self {
        let loadavg = File::open("/proc/loadavg").ok();
        Self { loadavg, last: None, since: FxHashMap::default(), filters: false }
    }
}

impl Alone {
    /// The number of the process or thread that was made last.
    pub(super) fn made_last(&self) -> Option<u32> {
        let mut text = [0; 128];
        let read = pread(self.loadavg.as_ref()?, &mut text, 0).ok()?;
        last_in(&text[..read])
    }

    /// Who has run a program since this one was made, which was the last.
    fn since(&mut self, last: Option<u32>) -> &mut FxHashMap<u32, Instant> {
        if last.is_none() || last != self.last || self.since.len() >= MOST_COUNTED {
            self.since.clear();
            self.last = last;
        }
        &mut self.since
    }

    /// A process runs another program, of which no instruction ran yet.
    pub(super) fn runs_another(&mut self, process: u32) {
        let last = self.made_last();
        self.since(last).insert(process, Instant::now());
    }

    /// Some process is about to have a filter of its own.
    pub(super) fn is_filtered(&mut self) {
        self.filters = true;
    }

    /// The number of the process or thread that was made last when somebody ran a program the last time.
    pub(super) fn last(&self) -> Option<u32> {
        self.last
    }

    /// Whether no process or thread was made since this one ran a program.
    pub(super) fn was_last(&mut self, process: u32) -> bool {
        let last = self.made_last();
        self.since(last).contains_key(&process)
    }

    /// Whether a process has one thread, and nobody else has its memory or its descriptors.
    pub(super) fn has_no_other(&mut self, process: u32) -> bool {
        let last = self.made_last();
        let since = self.since(last).get(&process);
        since.is_some_and(|since| since.elapsed() < MOMENT) || has_no_other_now(process)
    }

    /// The same, and its calls are looked at by no filter of its own.
    pub(super) fn is(&mut self, process: u32) -> bool {
        self.has_no_other(process) && !(self.filters && has_filters(process))
    }
}

/// `0.20 0.18 0.12 1/80 11206`
fn last_in(loadavg: &[u8]) -> Option<u32> {
    let number = loadavg.trim_ascii_end().rsplit(|&byte| byte == b' ').next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

fn has_no_other_now(process: u32) -> bool {
    kin::threads_of(process).is_ok_and(|threads| threads == [process])
        && !kin::shares_memory_with_others(process)
}

/// Whether a thread has filters beside the one of this process's making, and those that this process has itself.
fn has_filters(tid: u32) -> bool {
    let own = kin::filters(std::process::id());
    own.is_none_or(|own| kin::filters(tid) != Some(own + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, id};

    #[test]
    fn who_was_made_last_is_the_last_word() {
        assert_eq!(last_in(b"0.20 0.18 0.12 1/80 11206\n"), Some(11206));
        assert_eq!([b"".as_slice(), b"\n", b"1/80"].map(last_in), [None; 3]);
        let alone = Alone::default();
        let before = alone.made_last();
        let mut child = Command::new("true").spawn().expect("it runs");
        assert!(before.is_some() && alone.made_last() != before);
        child.wait().expect("it runs");
    }

    /// A number that comes again is not the one that it was: a process that ends has it no more, and another one, or a thread, may.
    #[test]
    fn numbers_come_again() {
        let mut alone = Alone::default();
        let now = Instant::now();
        alone.since(Some(7)).insert(7, now);
        assert!(alone.since(Some(7)).contains_key(&7));
        assert!(!alone.since(Some(8)).contains_key(&7) && !alone.since(Some(7)).contains_key(&7));
        alone.since(Some(9)).insert(9, now);
        assert!(!alone.since(None).contains_key(&9) && !alone.since(Some(9)).contains_key(&9));
        alone.since(None).insert(9, now);
        assert!(!alone.since(None).contains_key(&9));
    }

    /// What it was when it ran its program is asked no more as soon as somebody was made. This process has several threads.
    #[test]
    fn who_was_alone_is_looked_at_again_when_somebody_was_made() {
        let mut alone = Alone::default();
        let several = std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(1)));
        // Others make processes, too.
        let believed = (0..1000).any(|_| {
            alone.runs_another(id());
            alone.has_no_other(id())
        });
        assert!(believed);
        let mut child = Command::new("true").spawn().expect("it runs");
        assert!(!alone.has_no_other(id()));
        child.wait().expect("it runs");
        alone.runs_another(id());
        std::thread::sleep(MOMENT);
        assert!(!alone.has_no_other(id()));
        several.join().expect("it ends");
    }
}
