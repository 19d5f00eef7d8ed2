//! What the mechanism takes alone, for `pathwalk bench run`: each call that would be answered is received, and the kernel goes on with
//! it. The program is in no tree, and nothing is kept from it.

use crate::{
    args::Args,
    room,
    run::{UNUSABLE, failed},
    sys::{
        answer, errno_of,
        process::{self, Launch, Launched, Start},
    },
    table::{Identity, calls, program},
    watchman::Watchman,
};
use pathwalk::Result;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{self, CWD, Mode, OFlags},
    process::{Pid, Resource, WaitOptions, waitpid},
};
use std::{io::Read, os::fd::AsFd, process::ExitCode};

/// Runs the program so.
pub(crate) fn run(args: &Args) -> ExitCode {
    match pass_all(args) {
        Ok(status) => ExitCode::from(process::end_as(status)),
        Err(text) => {
            eprintln!("pathwalk: {text}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn pass_all(args: &Args) -> std::result::Result<i32, String> {
    let here = fs::openat(CWD, ".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
    let here = answer(here).map_err(|errno| format!("the current directory: {errno}"))?;
    let (blocked, _) = process::hear_signals(&[]).map_err(|errno| format!("signals: {errno}"))?;
    let ((name, rest), env) = (args.program(), args.environment());
    let launching = process::launch(&Launch {
        start: Start::Program { name, args: rest, env: &env },
        cwd: here.as_fd(),
        filter: &program(calls(), Identity::Own),
        limits: &[(Resource::Stack, room::stack_of_program())],
        blocked,
    });
    let launched = launching.and_then(process::Launching::go).map_err(failed)?;
    serve(launched).map_err(|errno| format!("waiting for the program: {errno}"))
}

/// Passes every call on, in the way in which the engine receives and answers them; returns how the program ended.
fn serve(Launched { pid, mut listener, mut failure }: Launched) -> Result<i32> {
    listener.wake_synchronously();
    let mut watchman = Watchman::default();
    loop {
        let call = if watchman.is_asked_first() {
            let mut fds = [PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN)];
            if poll(&mut fds, None).is_err() {
                continue;
            }
            if !fds[0].revents().contains(PollFlags::IN) {
                break;
            }
            listener.receive()
        } else {
            watchman.receive(|| Ok(vec![listener.watched()?]), || listener.receive())
        };
        if let Ok(call) = call {
            // Who does not wait any more needs no answer.
            let _ = listener.pass(call.id);
        }
    }
    let mut said = [0; 8];
    if failure.read(&mut said).map_err(|error| errno_of(&error))? != 0 {
        eprintln!("pathwalk: the program cannot be run");
    }
    let ended = answer(waitpid(Pid::from_raw(pid as i32), WaitOptions::empty()))?;
    Ok(ended.map_or(0, |(_, status)| status.as_raw()))
}
