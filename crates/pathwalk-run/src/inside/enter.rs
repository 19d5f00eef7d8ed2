//! How the image gets into a process: the thread that calls maps it, and its library's calls are led there.
//!
//! ```text
//!   a call ──► the thread gets the memory N, and the descriptor NEWS ──► EINTR, and a stop before it sees that
//!     mmap(image), mmap(table), mmap(room for stubs), close(N)      made by the thread, one after the other
//!     the stubs are written, and over each call of the library a jump
//!   ──► it makes its call anew
//! ```
//!
//! The process has one thread, and nobody else has its memory: so nobody executes what is changed. If something goes wrong on the way
//! the call is made anew as it was, and what is mapped by then is in nobody's way.

use super::{
    NUMBER,
    sites::{self, Place},
};
use crate::{
    cpu::Kept,
    engine::{Caller, Engine},
    kin,
    sys::{
        memory, process,
        ptrace::{self, Report},
        seccomp::Notification,
    },
};
use pathwalk::{Errno, Result};
use pathwalk_inside::{BASE, IMAGE_BYTES, TABLE_BYTES};
use std::{ops::Range, os::fd::AsFd, time::Duration};

/// After so long it is looked whether a thread that makes a call is still there, and after so many looks it is given up.
const LOOK: Duration = Duration::from_millis(20);
const MOST_LOOKS: u32 = 250;
/// So many other reports of such a thread are heard.
const MOST_OTHERS: u32 = 1000;

/// What is to be done to a process.
struct Plan {
    /// Where the call begins, if its instructions make the one that was made: who jumped into them may have made another one.
    first: Option<u64>,
    /// The image is there already, for another library.
    again: bool,
    /// The code whose calls are led there, and where stubs are.
    library: Range<u64>,
    room: u64,
    /// The stubs and the jumps.
    changes: Vec<(u64, Vec<u8>)>,
}

impl Engine {
    /// Has the process of a call find answers by itself; whether the call is made anew. The call waits on where it is not.
    pub(super) fn enter(&mut self, caller: &Caller, call: &Notification) -> bool {
        match self.plan(caller, call) {
            Ok(Some(plan)) => {
                let gone = self.go_in(caller, &plan).is_ok();
                if let (true, Some(inside)) = (gone, &mut self.inside) {
                    inside.has_entered(call, plan.library);
                }
                gone
            }
            _ => false,
        }
    }

    /// What is to be done, where it can be done.
    ///
    /// # Errors
    ///
    /// Those of looking at the process.
    fn plan(&mut self, caller: &Caller, call: &Notification) -> Result<Option<Plan>> {
        let tid = call.tid;
        let taken = std::fs::symlink_metadata(format!("/proc/{tid}/fd/{NUMBER}")).is_ok();
        let Some(inside) = &mut self.inside else { return Ok(None) };
        // A filter of its own knows nothing of the calls by which answers are found. Whose address space is limited needs it for himself.
        let limited = process::soft_limit(tid, libc::RLIMIT_AS)? != libc::RLIM_INFINITY;
        if limited || !inside.alone.is(tid) {
            return Ok(None);
        }
        let areas = sites::areas(tid)?;
        let again = sites::place(&areas) == Place::Taken;
        // Who has given the number to something else keeps that.
        let may = again || !taken && sites::place(&areas) == Place::Free;
        let library = sites::library(&areas, call.behind).filter(|_| may);
        let Some((library, room)) =
            library.and_then(|library| Some((library, sites::room_near(&areas, library)?)))
        else {
            return Ok(None);
        };
        let first = sites::whole_call(tid, call.behind).filter(|(_, nr)| *nr == call.nr);
        let changes = inside.sites.changes(tid, library, room, again)?;
        self.still_waits(caller)?;
        let (first, library) = (first.map(|(at, _)| at), library.start..library.end);
        Ok((changes.len() > 1).then_some(Plan { first, again, library, room, changes }))
    }

    /// # Errors
    ///
    /// - `EPERM`: the thread is traced by somebody. Nothing was done then.
    fn go_in(&mut self, caller: &Caller, plan: &Plan) -> Result<()> {
        let tid = caller.tid;
        ptrace::seize(tid)?;
        let kept = Kept::here(tid);
        let number = match &self.inside {
            Some(_) if plan.again => Ok(-1),
            Some(inside) => {
                let (listener, id) = (&self.listener, caller.id);
                let news = listener.add_fd_at(id, inside.news.as_fd(), NUMBER);
                news.and_then(|_| listener.add_fd(id, inside.table.fd(), true, false))
            }
            None => Err(Errno::EBADF),
        };
        let _ = ptrace::interrupt(tid);
        let sent = self.listener.send(caller.id, Err(Errno::EINTR));
        if !self.waits(tid, Report::Stopped) {
            return Ok(());
        }
        if sent.is_ok() {
            let again = self.change(tid, plan, number);
            // It is gone, if not.
            let _ = again.and_then(|regs| ptrace::set_registers(tid, regs));
        }
        drop(kept);
        let _ = ptrace::detach(tid);
        Ok(())
    }

    /// Changes a process whose thread has stopped; the registers with which it makes its call anew.
    ///
    /// # Errors
    ///
    /// - `ESRCH`: it is gone.
    fn change(
        &mut self,
        tid: u32,
        plan: &Plan,
        number: Result<i64>,
    ) -> Result<libc::user_regs_struct> {
        let mut regs = ptrace::again(ptrace::registers(tid)?);
        let Ok(number) = number else { return Ok(regs) };
        let mask = ptrace::signal_mask(tid)?;
        ptrace::set_signal_mask(tid, u64::MAX)?;
        let changed = self.map(tid, plan, regs, number.cast_unsigned());
        let changed = changed.and_then(|()| {
            let pieces: Vec<(u64, &[u8])> =
                plan.changes.iter().map(|(at, piece)| (*at, &piece[..])).collect();
            memory::write_code(tid, &pieces)
        });
        ptrace::set_signal_mask(tid, mask)?;
        if let Some(first) = plan.first.filter(|_| changed.is_ok())
            && plan.changes.iter().any(|(at, _)| *at == first)
        {
            regs.rip = first;
        }
        Ok(regs)
    }

    /// Has the thread map the image, the table and room for stubs, and close the memory that it has them from.
    ///
    /// # Errors
    ///
    /// - those of mmap(2).
    /// - `ESRCH`: it is gone.
    fn map(
        &mut self,
        tid: u32,
        plan: &Plan,
        regs: libc::user_regs_struct,
        number: u64,
    ) -> Result<()> {
        let (read, execute) = (libc::PROT_READ as u64, libc::PROT_EXEC as u64);
        let here = libc::MAP_FIXED_NOREPLACE as u64;
        let (private, shared) = (libc::MAP_PRIVATE as u64 | here, libc::MAP_SHARED as u64 | here);
        let nothing = private | libc::MAP_ANONYMOUS as u64;
        let (image, table) = (IMAGE_BYTES as u64, TABLE_BYTES as u64);
        let maps = [
            [BASE, image, read | execute, private, number, 0],
            [BASE + image, table, read, shared, number, image],
            [plan.room, sites::STUBS, read | execute, nothing, u64::MAX, 0],
        ];
        let first = if plan.again { maps.len() - 1 } else { 0 };
        let mapped = maps[first..].iter().try_for_each(|args| {
            let at = self.make(tid, regs, libc::SYS_mmap, *args)?;
            if at.cast_unsigned() == args[0] { Ok(()) } else { Err(Errno::ENOMEM) }
        });
        if !plan.again {
            self.make(tid, regs, libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
        }
        mapped
    }

    /// Has a thread that has stopped make a call.
    ///
    /// # Errors
    ///
    /// - those of the call.
    /// - `ESRCH`: it is gone.
    fn make(
        &mut self,
        tid: u32,
        mut regs: libc::user_regs_struct,
        nr: i64,
        args: [u64; 6],
    ) -> Result<i64> {
        regs.rax = nr.cast_unsigned();
        [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9] = args;
        ptrace::set_registers(tid, regs)?;
        // To its beginning and to its end. A step would be reported by a signal, whose handler is the program's.
        for _ in 0..2 {
            ptrace::cont_to_call(tid, 0)?;
            if !self.waits(tid, Report::Call) {
                return Err(Errno::ESRCH);
            }
        }
        let answer = ptrace::registers(tid)?.rax.cast_signed();
        let errno = ptrace::errno_in(answer);
        errno.map_or(Ok(answer), Err)
    }

    /// Waits until a thread stops in this way; whether it does. One that takes too long is killed: somebody else changed what it
    /// executes, or keeps it from executing.
    fn waits(&mut self, tid: u32, wanted: Report) -> bool {
        let (mut looks, mut others) = (0, 0);
        loop {
            match self.next_report(Some(LOOK)) {
                Ok(Some((now, report))) if now == tid => {
                    // Somebody who stops it again and again keeps all others from being answered.
                    others += 1;
                    if others == MOST_OTHERS {
                        process::kill(tid, libc::SIGKILL);
                    }
                    match report {
                        report if report == wanted => return true,
                        // That its process is stopped does not keep it from what it does here, and holds again when it is let go.
                        Report::Stopped | Report::Call => drop(ptrace::cont_to_call(tid, 0)),
                        Report::Signal(signal) => drop(ptrace::cont_to_call(tid, signal)),
                        Report::Gone(_) | Report::Execed => {
                            self.on_report(now, report);
                            return false;
                        }
                    }
                }
                Ok(Some((now, report))) => self.on_report(now, report),
                Ok(None) if kin::is_ending(tid) => return false,
                Ok(None) => {
                    looks += 1;
                    if looks == MOST_LOOKS {
                        process::kill(tid, libc::SIGKILL);
                    }
                }
                Err(_) => return false,
            }
        }
    }
}
