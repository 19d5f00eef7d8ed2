//! Stopping a thread for a moment, to change its registers.
//!
//! Manual: ptrace(2).

#![expect(unsafe_code, reason = "rustix has no ptrace")]

use super::{checked, last_errno};
use libc::{c_void, user_regs_struct};
use pathwalk::{Errno, Result};
use std::mem;

/// `PTRACE_EVENT_STOP`
const EVENT_STOP: i32 = 128;

/// What a stop at a call shows as its signal (`PTRACE_O_TRACESYSGOOD`).
const CALL: i32 = libc::SIGTRAP | 0x80;

/// The length of the instruction that makes a call.
pub(crate) const SYSCALL: u64 = 2;

/// The registers of a thread that stopped behind its call, and is to make it again.
pub(crate) fn again(mut regs: user_regs_struct) -> user_regs_struct {
    (regs.rax, regs.rip) = (regs.orig_rax, regs.rip - SYSCALL);
    // It returns from no call that could be made again.
    regs.orig_rax = u64::MAX;
    regs
}

/// With what a call failed that answered this.
pub(crate) fn errno_in(answer: i64) -> Option<Errno> {
    i32::try_from(-answer).ok().and_then(Errno::from_raw)
}

/// Why a thread that is traced reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// It stopped because it was told to, or its process is: it goes on where it is told to, and stops again where it is let go.
    Stopped,
    /// It runs another program, of which no instruction ran yet.
    Execed,
    /// It is to get this signal.
    Signal(i32),
    /// It is about to make a call, or made it.
    Call,
    /// It is gone, with this status.
    Gone(i32),
}

fn request(request: u32, tid: u32, address: *mut c_void, data: *mut c_void) -> Result<i64> {
    // SAFETY: the callers pass addresses of what the request reads or writes, or numbers.
    checked(unsafe { libc::ptrace(request, tid as i32, address, data) })
}

fn number(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

/// Begins to trace a thread, which goes on; if this process ends, it is killed.
///
/// # Errors
///
/// - `EPERM`: it is traced already, or may not be.
/// - `ESRCH`: it is gone.
pub(crate) fn seize(tid: u32) -> Result<()> {
    let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
    request(libc::PTRACE_SEIZE, tid, number(0), number(options as usize)).map(drop)
}

/// Makes it stop as soon as it can.
///
/// # Errors
///
/// - `ESRCH`: it is gone.
pub(crate) fn interrupt(tid: u32) -> Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, number(0), number(0)).map(drop)
}

/// Marks a thread that waits in a call as one that has a signal to take: it looks for one before it returns. By another thread, which traces
/// it for a moment, in which it does not run, and lets it go by its own end; the mark stays.
///
/// # Errors
///
/// - `EPERM`: it is traced, or may not be.
/// - `ESRCH`: it is gone.
/// - `EAGAIN`: no thread can be made.
pub(crate) fn mark(tid: u32) -> Result<()> {
    let mark = move || {
        request(libc::PTRACE_SEIZE, tid, number(0), number(0))?;
        interrupt(tid)
    };
    let marks = std::thread::Builder::new().spawn(mark).map_err(|_| Errno::EAGAIN)?;
    marks.join().unwrap_or(Err(Errno::EAGAIN))
}

/// Lets it go on, with a signal or 0.
///
/// # Errors
///
/// - `ESRCH`: it is gone, or not stopped.
pub(crate) fn cont(tid: u32, signal: i32) -> Result<()> {
    request(libc::PTRACE_CONT, tid, number(0), number(signal as usize)).map(drop)
}

/// Lets it go on, with a signal or 0, to the beginning of its next call, or to the end of the one that it is in.
///
/// # Errors
///
/// - `ESRCH`: it is gone, or not stopped.
pub(crate) fn cont_to_call(tid: u32, signal: i32) -> Result<()> {
    request(libc::PTRACE_SYSCALL, tid, number(0), number(signal as usize)).map(drop)
}

/// Lets it go on, and traces it no longer.
///
/// # Errors
///
/// - `ESRCH`: it is gone, or not stopped.
pub(crate) fn detach(tid: u32) -> Result<()> {
    request(libc::PTRACE_DETACH, tid, number(0), number(0)).map(drop)
}

/// The number that a thread had before it ran another program.
///
/// # Errors
///
/// - `ESRCH`: it is gone, or not stopped.
pub(crate) fn former_number(tid: u32) -> Result<u32> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, number(0), (&raw mut message).cast())?;
    Ok(message as u32)
}

/// The registers of a stopped thread.
///
/// # Errors
///
/// - `ESRCH`: it is gone, or not stopped.
pub(crate) fn registers(tid: u32) -> Result<user_regs_struct> {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut regs: user_regs_struct = unsafe { mem::zeroed() };
    request(libc::PTRACE_GETREGS, tid, number(0), (&raw mut regs).cast())?;
    Ok(regs)
}

/// Sets the registers of a stopped thread.
///
/// # Errors
///
/// - `ESRCH`: it is gone, or not stopped.
pub(crate) fn set_registers(tid: u32, mut regs: user_regs_struct) -> Result<()> {
    request(libc::PTRACE_SETREGS, tid, number(0), (&raw mut regs).cast()).map(drop)
}

/// The signals that a stopped thread has blocked.
///
/// # Errors
///
/// - `ESRCH`: it is gone, or not stopped.
pub(crate) fn signal_mask(tid: u32) -> Result<u64> {
    let mut mask = 0_u64;
    request(libc::PTRACE_GETSIGMASK, tid, number(8), (&raw mut mask).cast())?;
    Ok(mask)
}

/// Sets the signals that a stopped thread has blocked.
///
/// # Errors
///
/// - `ESRCH`: it is gone, or not stopped.
pub(crate) fn set_signal_mask(tid: u32, mut mask: u64) -> Result<()> {
    request(libc::PTRACE_SETSIGMASK, tid, number(8), (&raw mut mask).cast()).map(drop)
}

/// What a thread reports, traced or a child of this process; of any (`tid` none) or of one. None where nothing is to be
/// reported and it does not wait.
///
/// # Errors
///
/// - `ECHILD`: there is no such.
pub(crate) fn wait(tid: Option<u32>, wait: bool) -> Result<Option<(u32, Report)>> {
    let mut status = 0;
    let options = libc::__WALL | if wait { 0 } else { libc::WNOHANG };
    let pid = loop {
        // SAFETY: the kernel writes one number there.
        let pid =
            unsafe { libc::waitpid(tid.map_or(-1, |tid| tid as i32), &raw mut status, options) };
        match pid {
            -1 if last_errno() == Errno::EINTR => {}
            -1 => return Err(last_errno()),
            pid => break pid,
        }
    };
    if pid == 0 {
        return Ok(None);
    }
    let report = if libc::WIFSTOPPED(status) {
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            EVENT_STOP => Report::Stopped,
            libc::PTRACE_EVENT_EXEC => Report::Execed,
            _ if signal == CALL => Report::Call,
            _ => Report::Signal(signal),
        }
    } else {
        Report::Gone(status)
    };
    Ok(Some((pid as u32, report)))
}
