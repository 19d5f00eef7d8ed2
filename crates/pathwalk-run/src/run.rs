//! `pathwalk run`: from the command line to the exit status.

use crate::{
    args::Args,
    cookies::{Cookies, Known},
    engine::{self, Ended, Virtual},
    floor,
    given::Given,
    guard::{self, Outside, guarded},
    inside::Inside,
    procfs::Asker,
    room,
    spec::What,
    sys::{
        errno_of,
        process::{self, Failure, Launch, Start},
    },
    table::{Identity, calls, program},
    trace::{Lines, Trace},
    tree::{self, Owner},
};
use clap::Parser;
use pathwalk::{CapSet, Errno};
use rustix::{
    fs,
    io::fcntl_dupfd_cloexec,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use std::{
    io::Write,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    process::ExitCode,
    sync::Arc,
};

/// The exit status where the tree could not be made.
pub(crate) const UNUSABLE: u8 = 2;

/// Runs a program; what is wrong is one line on standard error.
pub fn run(args: &Args) -> ExitCode {
    if args.only_passes() {
        return floor::run(args);
    }
    let (name, rest) = args.program();
    let env = args.environment();
    run_guarded(args, Start::Program { name, args: rest, env: &env })
}

/// Runs a function as `pathwalk run --uid 0 --mount mem:/ --cwd /` would run a program: in a process of its own, in a tree that
/// has nothing but an empty file system in memory. This process must have no second thread; the function's has descriptors
/// 0 to 2 alone, and its result is the exit status.
pub fn run_in_memory(function: fn() -> u8) -> ExitCode {
    let args = ["pathwalk", "--uid", "0", "--mount", "mem:/", "--cwd", "/", "function"];
    let args = Args::parse_from(args);
    run_guarded(&args, Start::Function(function))
}

fn run_guarded(args: &Args, start: Start<'_>) -> ExitCode {
    let handles = match room::are_few(getrlimit(Resource::Nofile).maximum) {
        None => Ok(usize::MAX),
        Some(most) => {
            let cwd = std::env::current_dir().unwrap_or_default();
            room::held_by_each(&args.tree(&cwd), most)
        }
    };
    let done = match handles {
        Err(text) => Ok(end(args, Err(text))),
        Ok(handles) => guarded(|outside| end(args, prepare_and_run(args, start, outside, handles))),
    };
    ExitCode::from(done.unwrap_or_else(guard::unusable))
}

fn end(args: &Args, ended: Result<Ended, String>) -> u8 {
    match ended {
        Ok(Ended::Exited(status)) => status as u8,
        Ok(Ended::Killed(signal)) => process::end_as(signal),
        Ok(Ended::NotRun(errno)) => {
            let name = args.program().0.as_bytes().escape_ascii();
            eprintln!("pathwalk: {name} cannot be run: {errno}");
            if errno == Errno::ENOENT { 127 } else { 126 }
        }
        Ok(Ended::Refused) => 126,
        Err(text) => {
            eprintln!("pathwalk: {text}");
            UNUSABLE
        }
    }
}

/// Makes the tree, in which each mount holds so many descriptors, and runs the program in it.
fn prepare_and_run(
    args: &Args,
    start: Start<'_>,
    outside: Outside,
    handles: usize,
) -> Result<Ended, String> {
    let said = |what: &'static str| move |errno: Errno| format!("{what}: {errno}");
    let host_cwd = match std::env::current_dir() {
        Err(error) if args.begins_here() => {
            return Err(format!("the current directory: {}", errno_of(&error)));
        }
        host_cwd => host_cwd.unwrap_or_default(),
    };
    let limits = raise_limits(outside.fds()[0].as_fd());
    no_directory_is_inherited();
    let mut cookies = Cookies::new().map_err(said("a private directory"))?;
    let credentials = args.credentials();
    let (_, permitted) = tree::capabilities();
    let watches = permitted.intersects(CapSet::PERFMON | CapSet::SYS_ADMIN);
    let identity = match credentials {
        Some(_) => Identity::Virtual,
        None if watches => Identity::Privileged,
        None => Identity::Own,
    };
    let filter = program(calls(), identity);
    let beginning = cookies.beginning().map_err(said("a private directory"))?;
    let (cwd, blocked) = (beginning.as_fd(), outside.blocked);
    // The process is made first: it gets ready while the tree is made, and is a copy of little.
    let launch = Launch { start, cwd, filter: &filter, limits: &limits, blocked };
    let launching = process::launch(&launch).map_err(failed)?;

    let asker = Asker::default();
    cookies.only_hands(asker.unseen());
    let owner = credentials.as_ref().map_or_else(Owner::own, |who| Owner::virtual_(who.cred()));
    let specs = args.tree(&host_cwd);
    // Below memory there is nothing.
    let hides = specs.iter().any(|spec| !matches!(spec.what, What::Mem { .. }));
    let (lines, sums) = args.told();
    // Where they are told apart, or each call is told, none finds an answer by itself.
    let mut inside = match args.inside() {
        Some(after) if credentials.is_none() && lines == Lines::None => {
            Inside::new(after, cookies.in_flight(), asker.unseen()).ok()
        }
        _ => None,
    };
    if inside.is_some() {
        asker.find_inside();
    }
    let made = Inside::as_one(inside.as_mut(), |inside| {
        tree::make((&specs, handles), &owner, &asker, &cookies.knowns(), inside)
    });
    let (tree, mut task) = made.map_err(|error| error.to_string())?;
    let virtual_ = credentials.map(|credentials| {
        Given::new(task.fork(), hides).map(|given| Virtual { credentials, given })
    });
    let virtual_ = virtual_.transpose().map_err(said("mounts"))?;
    task.set_cred(owner.cred);
    let cwd = args.cwd(&host_cwd);
    let _known = begin_in(&task, &mut cookies, &cwd)?;
    let launched = match launching.go() {
        Err(Failure::Killed(signal)) => return Ok(Ended::Killed(signal)),
        launched => launched.map_err(failed)?,
    };
    // The library says which permissions a new file has, and the umask is the program's.
    rustix::process::umask(fs::Mode::empty());
    // From here on nobody looks into this process, who is not privileged to.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let trace = Trace::new(lines, sums);
    let (ended, trace) =
        engine::serve(launched, task, virtual_, cookies, asker, (trace, inside), outside);
    // Standard error may be closed.
    let _ = std::io::stderr().write_all(trace.sums().as_bytes());
    tree.ends();
    Ok(ended)
}

fn begin_in(
    task: &pathwalk::Task,
    cookies: &mut Cookies,
    cwd: &Path,
) -> Result<Arc<Known>, String> {
    let said = |errno| format!("{} cannot be entered in the tree: {errno}", cwd.display());
    let directory = tree::begin_in(task, cwd.as_os_str().as_bytes()).map_err(said)?;
    cookies.begins_in(&directory).map_err(said)
}

pub(crate) fn failed(failure: Failure) -> String {
    match failure {
        Failure::Process(errno) => format!("no process can be made: {errno}"),
        Failure::Filter(Errno::EBUSY) => {
            "a seccomp listener is there already: pathwalk run does not run inside another".into()
        }
        Failure::Filter(Errno::EINVAL | Errno::ENOSYS) => {
            "this kernel has no seccomp user notification: Linux 5.14 or newer is needed, and \
             6.9 for programs with threads"
                .into()
        }
        Failure::Filter(errno) => format!("the seccomp filter is refused: {errno}"),
        Failure::Fetch(errno) => format!("the seccomp listener cannot be fetched: {errno}"),
        Failure::Killed(signal) => format!("the program's process was killed by signal {signal}"),
    }
}

/// So many descriptors there is room for from the beginning.
const ROOM: i32 = 4096;

/// Takes all that this process may, as it works for all of the program's; returns what each of those has.
fn raise_limits(any: BorrowedFd<'_>) -> Vec<(Resource, Rlimit)> {
    let those = [Resource::Nofile, Resource::Fsize, Resource::Cpu, Resource::As, Resource::Data];
    let mut before = Vec::from(those.map(|which| {
        let before = getrlimit(which);
        let _ = setrlimit(which, Rlimit { current: before.maximum, ..before });
        (which, before)
    }));
    make_room(any, before[0].1.maximum);
    before.push((Resource::Stack, room::stack_of_program()));
    before
}

/// Makes room for the descriptors of files in memory. The kernel lets who has threads wait some 20 ms whenever its table has to be a larger
/// one: it is made when there is one thread.
fn make_room(any: BorrowedFd<'_>, most: Option<u64>) {
    let most = most.and_then(|most| i32::try_from(most).ok()).unwrap_or(ROOM);
    // Where no descriptor is left, it grows when it has to.
    let _ = fcntl_dupfd_cloexec(any, most.min(ROOM) - 1);
}

/// A directory of the host that was given by a descriptor is not given to the program.
fn no_directory_is_inherited() {
    let list = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = list.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.collect::<Vec<_>>() {
        let _ = process::close_if_directory(number);
    }
}
