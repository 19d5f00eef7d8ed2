//! Three processes, so that nobody is taken for the program's who is not, and nobody of the program's stays behind.
//!
//! ```text
//!   outer              who was started; may have children of its own from before, as `sh -c 'daemon & exec pathwalk run …'`
//!    └ guard           had none; takes the orphans of all below, who are the program's
//!       └ supervisor   had none; answers the program's calls, and takes its orphans
//!          └ program …
//! ```
//!
//! 1. Outer hears the signals, and passes them on in a pipe, through guard to the supervisor. That is of the program's group as outer is, and
//!    gets what is sent to all of it before: so it knows what the program has already.
//! 2. All end as the program ended.
//! 3. If outer or the supervisor ends otherwise, guard kills all below it; if outer or guard does, the supervisor kills all below it.
//!    The end of a neighbour is the end of its pipe, or a `SIGCHLD`.
//! 4. Guard is a process group of its own, so that who kills that of the program does not kill all three at once.
//! 5. Who kills guard, or stops it, and the supervisor at once leaves processes whose path calls answer `ENOSYS`.

use crate::{
    cookies, kin, procfs,
    sys::{
        answer,
        process::{self, Heard},
        ptrace::{self, Report},
    },
    watchman::Watched,
};
use pathwalk::{Errno, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io,
    pipe::{PipeFlags, pipe_with},
    process::{getpgrp, setpgid},
};
use std::{
    cell::RefCell,
    collections::VecDeque,
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::parent_id,
    },
    time::{Duration, Instant},
};

/// Who looks twice for what is read once does not wait.
const PIPE: PipeFlags = PipeFlags::CLOEXEC.union(PipeFlags::NONBLOCK);

/// A signal that outer was sent, as it is written into a pipe: its number, and who sent it.
#[derive(Clone, Copy)]
struct Order([u32; 2]);

const ORDER: usize = size_of::<Order>();

impl Order {
    fn signal(self) -> i32 {
        self.0[0].cast_signed()
    }

    fn sender(self) -> u32 {
        self.0[1]
    }

    fn write(self, pipe: &OwnedFd) {
        // Who is gone is heard of next.
        let _ = io::write(pipe, self.0.map(u32::to_ne_bytes).as_flattened());
    }
}

/// Signals that the supervisor was sent itself, of which outer has not said yet that it was sent the same: by whom, how often, and when last.
#[derive(Default)]
struct OfGroup(VecDeque<(i32, u32, usize, Instant)>);

impl OfGroup {
    /// So many, and for so long. Of what a process of the program sent outer mostly says nothing.
    const MOST: usize = 256;
    const LONG: Duration = Duration::from_secs(10);
    /// Of those that are not queued one may stand for several, that were sent this soon after it.
    const SOON: Duration = Duration::from_millis(100);

    fn note(&mut self, &Heard { signal, sender, .. }: &Heard) {
        let known = self.0.iter().position(|&(it, by, ..)| (it, by) == (signal, sender));
        let times = known.and_then(|at| self.0.remove(at)).map_or(0, |(_, _, times, _)| times);
        self.0.truncate(Self::MOST - 1);
        self.0.push_front((signal, sender, times + 1, Instant::now()));
    }

    /// Whether it is one that outer was sent too: then it was sent to the group.
    fn takes(&mut self, order: Order) -> bool {
        let (signal, sender) = (order.signal(), order.sender());
        let is_soon = |since: &Instant| since.elapsed() < Self::SOON;
        self.0.retain(|(.., times, since)| {
            is_soon(since) || *times > 0 && since.elapsed() < Self::LONG
        });
        let same = |&&mut (it, by, times, _): &&mut _| (it, by) == (signal, sender) && times > 0;
        if let Some((_, _, times, _)) = self.0.iter_mut().find(same) {
            *times -= 1;
            return true;
        }
        let merged = |(it, .., since): &(i32, u32, usize, Instant)| *it == signal && is_soon(since);
        !process::is_queued(signal) && self.0.iter().any(merged)
    }
}

/// A signal that outer was sent.
pub(crate) struct Ordered {
    pub(crate) signal: i32,
    /// All of the program's group were.
    pub(crate) to_group: bool,
}

/// What the supervisor hears from.
pub(crate) struct Outside {
    /// The signals that were blocked when it was started.
    pub(crate) blocked: libc::sigset_t,
    /// Tells of children that ended, and of other signals.
    children: OwnedFd,
    of_group: RefCell<OfGroup>,
    orders: OwnedFd,
    /// Those of guard, who reads them; their end is that of outer.
    above: OwnedFd,
    guard: u32,
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The program may have stopped it, which is to hear how it ended.
        if parent_id() == self.guard {
            process::kill(self.guard, libc::SIGCONT);
        }
    }
}

impl Outside {
    /// Ready when a child reports, when something is to be passed on or guard is gone, and when outer is gone.
    pub(crate) fn fds(&self) -> [PollFd<'_>; 3] {
        let of = PollFd::new;
        let (above, hears) = (of(&self.above, PollFlags::empty()), PollFlags::IN);
        [of(&self.children, hears), of(&self.orders, hears), above]
    }

    /// The same, for another thread.
    ///
    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left.
    pub(crate) fn watched(&self) -> Result<Watched> {
        let of = |fd: &OwnedFd| answer(io::fcntl_dupfd_cloexec(fd, 0));
        let (hears, none) = (PollFlags::IN, PollFlags::empty());
        Ok(vec![(of(&self.children)?, hears), (of(&self.orders)?, hears), (of(&self.above)?, none)])
    }

    /// To be called before the children are asked for, so that who reports later is told of anew.
    pub(crate) fn look_at_children(&self) {
        // What is sent to the group comes here too, and else would count as waiting for ever.
        while let Some(heard) = process::next_signal(&self.children) {
            if heard.signal != libc::SIGCHLD {
                self.of_group.borrow_mut().note(&heard);
            }
        }
    }

    /// The signals that outer was sent; none where outer or guard is gone. As by [`Outside::look_at_children`], children are to be asked for
    /// after it.
    pub(crate) fn ordered(&self) -> Option<Vec<Ordered>> {
        let mut above = [PollFd::new(&self.above, PollFlags::empty())];
        let gone = poll(&mut above, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0);
        if gone {
            return None;
        }
        let orders = ordered(&self.orders)?;
        self.look_at_children();
        let mut of_group = self.of_group.borrow_mut();
        let told = orders
            .into_iter()
            .map(|order| Ordered { signal: order.signal(), to_group: of_group.takes(order) });
        Some(told.collect())
    }
}

/// What is in the pipe; none where nobody is left who could write there.
fn ordered(orders: &OwnedFd) -> Option<Vec<Order>> {
    let mut bytes = [0; 64 * ORDER];
    match io::read(orders, &mut bytes) {
        Ok(0) => None,
        Ok(read) => {
            let word = |at: usize| {
                u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
            };
            let whole = (0..read / ORDER).map(|order| order * ORDER);
            Some(whole.map(|at| Order([word(at), word(at + 4)])).collect())
        }
        Err(_) => Some(Vec::new()),
    }
}

/// Does this in the third process; returns its exit status, or ends by the signal that ended it. This process must have no
/// second thread.
///
/// # Errors
///
/// - `EAGAIN`, `ENOMEM`: there can be no further process.
/// - `EMFILE`: no descriptor is left.
pub(crate) fn guarded(work: impl FnOnce(Outside) -> u8) -> Result<u8> {
    process::ignore_those_of_the_c_library();
    let (blocked, signals) = process::hear_signals(&process::signals())?;
    let (orders, to_guard) = answer(pipe_with(PIPE))?;
    let Some(guard) = process::fork()? else {
        drop((to_guard, signals));
        process::end(guard(orders, blocked, work));
    };
    drop(orders);
    loop {
        let mut fds = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        let _ = poll(&mut fds, None);
        while let Some(Heard { signal, sender }) = process::next_signal(&signals) {
            // What the program sends its group it gets itself, and outer alone nothing that is to be passed on; who is gone by now nobody
            // knows, which the supervisor does.
            if signal != libc::SIGCHLD && !procfs::comes_of(sender, guard) {
                Order([signal.cast_unsigned(), sender]).write(&to_guard);
            }
        }
        if let Some(status) = ended(guard) {
            return Ok(process::end_as(status));
        }
    }
}

/// How a child of this process ended, if it did.
fn ended(child: u32) -> Option<i32> {
    match ptrace::wait(Some(child), false) {
        Ok(Some((_, Report::Gone(status)))) => Some(status),
        _ => None,
    }
}

/// Makes the supervisor, and is there until nobody is left.
fn guard(orders: OwnedFd, blocked: libc::sigset_t, work: impl FnOnce(Outside) -> u8) -> u8 {
    let group = getpgrp();
    let _ = setpgid(None, None);
    let made = answer(process::take_orphans()).and_then(|()| {
        let (_, children) = process::hear_signals(&[libc::SIGCHLD])?;
        let (below, to_supervisor) = answer(pipe_with(PIPE))?;
        Ok((children, below, to_supervisor, process::fork()?))
    });
    let (children, below, to_supervisor, supervisor) = match made {
        Ok((children, below, to_supervisor, Some(supervisor))) => {
            (children, below, to_supervisor, supervisor)
        }
        Ok((children, below, to_supervisor, None)) => {
            drop((to_supervisor, children));
            let _ = setpgid(None, Some(group));
            return supervise([below, orders], blocked, work);
        }
        Err(errno) => return unusable(errno),
    };
    drop(below);
    let status = loop {
        let mut fds = [
            PollFd::from_borrowed_fd(children.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(orders.as_fd(), PollFlags::IN),
        ];
        let _ = poll(&mut fds, None);
        let told = !fds[1].revents().is_empty();
        while process::next_signal(&children).is_some() {}
        if let Some(status) = ended(supervisor) {
            break status;
        }
        if told {
            match ordered(&orders) {
                Some(orders) => orders.iter().for_each(|order| order.write(&to_supervisor)),
                None => {
                    process::kill(supervisor, libc::SIGKILL);
                    break libc::SIGKILL;
                }
            }
        }
    };
    end_all();
    if libc::WIFSIGNALED(status) {
        cookies::tidy_up_after(supervisor);
    }
    process::end_as(status)
}

fn supervise(
    [orders, above]: [OwnedFd; 2],
    blocked: libc::sigset_t,
    work: impl FnOnce(Outside) -> u8,
) -> u8 {
    let guard = parent_id();
    // Who loses its parent becomes a child of this process, which may read its memory then.
    let children = answer(process::take_orphans())
        .and_then(|()| process::hear_signals(&process::signals()).map(|(_, children)| children));
    match children {
        Ok(children) => {
            let of_group = RefCell::default();
            work(Outside { blocked, children, of_group, orders, above, guard })
        }
        Err(errno) => unusable(errno),
    }
}

/// Says that nobody can supervise.
pub(crate) fn unusable(errno: Errno) -> u8 {
    eprintln!("pathwalk: no process can be made to supervise: {errno}");
    crate::run::UNUSABLE
}

/// After so long it is looked again who is there.
const TURN: Duration = Duration::from_millis(1);

/// Kills all that come of this process, and waits until they are gone. Where it cannot be looked who they are, it is looked again.
pub(crate) fn end_all() {
    while try_end_all().is_err() {
        std::thread::sleep(TURN);
    }
}

/// The same, but it is not looked again.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: somebody was there, and it cannot be looked who.
pub(crate) fn try_end_all() -> Result<()> {
    while !is_alone() {
        // Who was made meanwhile is found by the next look.
        let all = kin::descendants();
        all.iter().flatten().for_each(|&process| process::kill(process, libc::SIGKILL));
        all?;
        std::thread::sleep(TURN);
    }
    Ok(())
}

/// Whether nobody comes of this process any more, which takes the orphans: who has no children.
fn is_alone() -> bool {
    loop {
        match ptrace::wait(None, false) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_were_sent_is_of_the_group() {
        let mut of_group = OfGroup::default();
        let hears = |of_group: &mut OfGroup, signal, sender| {
            of_group.note(&Heard { signal, sender });
        };
        let takes = |of_group: &mut OfGroup, signal: i32, sender| {
            of_group.takes(Order([signal.cast_unsigned(), sender]))
        };
        let (queued, merged) = (libc::SIGRTMIN(), libc::SIGTERM);
        for _ in 0..1000 {
            hears(&mut of_group, queued, 7);
        }
        assert_eq!((0..1000).filter(|_| takes(&mut of_group, queued, 7)).count(), 1000);
        assert!(!takes(&mut of_group, queued, 7));
        hears(&mut of_group, queued, 7);
        assert!(!takes(&mut of_group, queued, 8), "it was sent by another one");
        hears(&mut of_group, merged, 7);
        assert!(takes(&mut of_group, merged, 7));
        assert!(takes(&mut of_group, merged, 8), "it came while the other one waited");
        hears(&mut of_group, merged, 7);
        std::thread::sleep(OfGroup::SOON);
        assert!(!takes(&mut of_group, merged, 8));
        assert!(takes(&mut of_group, merged, 7));
        assert!(!takes(&mut of_group, merged, 7));
    }

    #[test]
    fn few_senders_are_noted() {
        let mut of_group = OfGroup::default();
        (0..10_000).for_each(|sender| {
            of_group.note(&Heard { signal: libc::SIGTERM, sender });
        });
        assert_eq!(of_group.0.len(), OfGroup::MOST);
    }
}
