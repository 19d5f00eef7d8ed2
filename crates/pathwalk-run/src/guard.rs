//! Three processes, so that nobody is taken for the program's who is not, and nobody of the program's stays behind.
//!
//! ```text
//!   outer              who was started; may have children of its own from before, as `sh -c 'daemon & exec pathwalk run …'`
//!    └ guard           had none; takes the orphans of all below, who are the program's
//!       └ supervisor   had none; answers the program's calls, and takes its orphans
//!          └ program …
//! ```
//!
//! 1. Outer hears the signals, and passes them on as bytes in a pipe, through guard to the supervisor. So one that was sent to all
//!    processes of a group is passed on once.
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
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::parent_id,
    },
    time::Duration,
};

/// Who looks twice for what is read once does not wait.
const PIPE: PipeFlags = PipeFlags::CLOEXEC.union(PipeFlags::NONBLOCK);

/// What the supervisor hears from.
pub(crate) struct Outside {
    /// The signals that were blocked when it was started.
    pub(crate) blocked: libc::sigset_t,
    /// Tells of children that ended, and of other signals, which are outer's.
    children: OwnedFd,
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
        // What the program sends its group comes here too, and else would count as waiting for ever.
        while process::next_signal(&self.children).is_some() {}
    }

    /// The signals that are to be passed on; none where outer or guard is gone.
    pub(crate) fn ordered(&self) -> Option<Vec<i32>> {
        let mut above = [PollFd::new(&self.above, PollFlags::empty())];
        let gone = poll(&mut above, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0);
        if gone { None } else { ordered(&self.orders) }
    }
}

/// What is in the pipe; none where nobody is left who could write there.
fn ordered(orders: &OwnedFd) -> Option<Vec<i32>> {
    let mut bytes = [0; 64];
    match io::read(orders, &mut bytes) {
        Ok(0) => None,
        Ok(read) => Some(bytes[..read].iter().map(|&byte| byte.into()).collect()),
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
        while let Some(Heard { signal, by_kernel_to_all, sender }) = process::next_signal(&signals)
        {
            // Of what all of a group are sent the program has its own; and what it sends its group, it gets itself.
            let twice = by_kernel_to_all || procfs::comes_of(sender, guard);
            if signal != libc::SIGCHLD && !twice {
                // Who is gone is heard of next.
                let _ = io::write(&to_guard, &[signal as u8]);
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
                Some(signals) => signals.iter().for_each(|&signal| {
                    let _ = io::write(&to_supervisor, &[signal as u8]);
                }),
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
        Ok(children) => work(Outside { blocked, children, orders, above, guard }),
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
