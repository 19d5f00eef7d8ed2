//! The program's process: how it is made.
//!
//! Manual: fork(2), execvp(3); name_to_handle_at(2).

#![expect(
    unsafe_code,
    reason = "making processes and hearing of signals takes calls that rustix leaves unsafe or has not"
)]

use super::{
    answer, checked, errno_of, last_errno,
    ptrace::{self, Report},
    seccomp,
};
use pathwalk::{Errno, Result};
use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::{
        Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, pidfd_getfd, pidfd_open, setrlimit,
    },
    thread::gettid,
};
use std::{
    cmp::Ordering as Order,
    ffi::{CString, OsStr},
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::Command,
    sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// `_NSIG`
const LAST: i32 = 64;
/// The first of those of which each is heard that was sent.
const REAL_TIME: i32 = 32;
/// By which the C library cancels threads, and has all change users. It leaves them out of its sets, and has the one not blocked in a
/// new thread, nor the other in who made the first.
const OF_THE_C_LIBRARY: [i32; 2] = [REAL_TIME, REAL_TIME + 1];

/// Which signals were ignored when this process began: bit 0 is that of the first. Rust's runtime has `SIGPIPE` ignored before
/// `main`, and Rust's exec has it end the process again, whatever was before.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// Which of the first three descriptors were closed when this process began: bit 0 is that of the first. Rust's runtime opens
/// `/dev/null` there before `main`.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look_around() {
    for fd in 0..3 {
        // SAFETY: it asks about a number and changes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Relaxed);
        }
    }
    for signal in (1..=LAST).filter(|&signal| disposition(signal, None) == libc::SIG_IGN) {
        IGNORED.fetch_or(1 << (signal - 1), Relaxed);
    }
}

// SAFETY: a program's start calls what is listed there, one after the other, in the one thread that there is.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look_around;

fn was_ignored(signal: i32) -> bool {
    IGNORED.load(Relaxed) & 1 << (signal - 1) != 0
}

/// What a signal does to this process, and from here on, where that is said: it calls no function. The kernel is asked, as
/// the C library says nothing of [`OF_THE_C_LIBRARY`].
fn disposition(signal: i32, new: Option<libc::sighandler_t>) -> libc::sighandler_t {
    // What it does, flags, by what a function returns, and a set.
    let mut old = [libc::SIG_DFL; 4];
    let new = new.map(|does| [does, 0, 0, 0]);
    let new_ptr = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let (old_ptr, set) = (&raw mut old, size_of::<u64>());
    // SAFETY: the kernel reads four words, if any, and writes four to where they are; nothing is called by what is set.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new_ptr, old_ptr, set) };
    old[0]
}

/// Has none of [`OF_THE_C_LIBRARY`] end this process, and who is made by it, until it runs a program.
pub(crate) fn ignore_those_of_the_c_library() {
    for signal in OF_THE_C_LIBRARY {
        disposition(signal, Some(libc::SIG_IGN));
    }
}

/// The signals that others may send and that can be heard: not those of job control, which all of a group follow, nor what Rust's runtime
/// ignores, nor those of the C library. Who has the signal of a fault blocked is ended by a fault of its own, without a word of Rust's
/// runtime.
pub(crate) fn signals() -> Vec<i32> {
    let not = [
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGCONT,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGWINCH,
        libc::SIGURG,
        libc::SIGPIPE,
    ];
    let heard = |signal: &i32| !not.contains(signal) && !OF_THE_C_LIBRARY.contains(signal);
    (1..=LAST).filter(heard).collect()
}

/// What runs in the new process.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    /// A program of the tree.
    Program {
        name: &'a OsStr,
        args: &'a [std::ffi::OsString],
        env: &'a [(std::ffi::OsString, std::ffi::OsString)],
    },
    /// A function of this program; what it returns is the exit status.
    Function(fn() -> u8),
}

/// What is to be run, and how.
pub(crate) struct Launch<'a> {
    pub(crate) start: Start<'a>,
    /// The directory of the host that it begins in.
    pub(crate) cwd: BorrowedFd<'a>,
    pub(crate) filter: &'a [libc::sock_filter],
    /// What it may use, where that is not what this process may.
    pub(crate) limits: &'a [(Resource, Rlimit)],
    /// The signals that it has blocked.
    pub(crate) blocked: libc::sigset_t,
}

/// What came of it.
pub(crate) struct Launched {
    pub(crate) pid: u32,
    pub(crate) listener: seccomp::Listener,
    /// Where it says why the program could not be run; closed when it runs.
    pub(crate) failure: File,
}

/// What the new process could not do.
pub(crate) enum Failure {
    /// The system refused to make it.
    Process(Errno),
    /// The filter was refused.
    Filter(Errno),
    /// Its descriptor could not be fetched.
    Fetch(Errno),
    /// It was killed before, by this signal.
    Killed(i32),
}

/// The process, which waits to be told to run.
pub(crate) struct Launching {
    pid: i32,
    /// What it says.
    said: File,
    /// A byte lets it go on; without one, it ends.
    go: File,
}

/// Makes the process, whose first call that the filter tells about is the execution of the program, and which waits with that: so
/// whatever else there is to do may be done meanwhile.
///
/// # Errors
///
/// What could not be done, and why.
pub(crate) fn launch(launch: &Launch<'_>) -> Result<Launching, Failure> {
    let pipe = || answer(pipe_with(PipeFlags::CLOEXEC)).map_err(Failure::Process);
    let (from_child, to_parent) = pipe()?;
    let (from_parent, go) = pipe()?;
    // SAFETY: a supervisor has one thread now, so the child may do whatever the parent might. A test has more, and its child
    // neither allocates nor takes a lock: see [`child`].
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(Failure::Process(last_errno())),
        0 => {
            drop((from_child, go));
            child(launch, File::from(to_parent), File::from(from_parent))
        }
        pid => Ok(Launching { pid, said: File::from(from_child), go: File::from(go) }),
    }
}

impl Launching {
    /// Lets it run.
    ///
    /// # Errors
    ///
    /// What it could not do, and why; or by what it was killed, if that is seen here.
    pub(crate) fn go(mut self) -> Result<Launched, Failure> {
        let mut said = [0; 8];
        self.said
            .read_exact(&mut said)
            .map_err(|error| self.killed_or(&error, Failure::Filter(errno_of(&error))))?;
        let [status, fd] = halves(said);
        if status != 0 {
            let errno = Errno::from_raw(status).unwrap_or(Errno::EIO);
            return Err(Failure::Filter(errno));
        }
        // The descriptor is fetched before the program could close it.
        let fetched = fetch(self.pid, fd).map_err(|errno| {
            let killed = match errno {
                Errno::ESRCH => self.killed(true),
                // A kernel before 6.9, of who is ending.
                Errno::EBADF => self.killed(false),
                _ => None,
            };
            killed.unwrap_or(Failure::Fetch(errno))
        })?;
        self.go
            .write_all(&[0])
            .map_err(|error| self.killed_or(&error, Failure::Process(errno_of(&error))))?;
        let listener = seccomp::Listener::new(fetched);
        Ok(Launched { pid: self.pid as u32, listener, failure: self.said })
    }

    /// By what it was killed, where an error says that nobody is at the other end of a pipe; else the other failure.
    fn killed_or(&self, error: &io::Error, failure: Failure) -> Failure {
        let gone = [io::ErrorKind::UnexpectedEof, io::ErrorKind::BrokenPipe];
        let killed = gone.contains(&error.kind()).then(|| self.killed(true));
        killed.flatten().unwrap_or(failure)
    }

    /// By what it was killed, if it was; who knows that it is ending waits for that. How it ended by itself is lost: it could not even say
    /// why.
    fn killed(&self, wait: bool) -> Option<Failure> {
        match ptrace::wait(Some(self.pid as u32), wait) {
            Ok(Some((_, Report::Gone(status)))) if libc::WIFSIGNALED(status) => {
                Some(Failure::Killed(libc::WTERMSIG(status)))
            }
            _ => None,
        }
    }
}

fn halves(bytes: [u8; 8]) -> [i32; 2] {
    let [a, b, c, d, e, f, g, h] = bytes;
    [i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h])]
}

fn fetch(pid: i32, fd: RawFd) -> Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(Errno::ESRCH)?;
    let pidfd = answer(pidfd_open(pid, PidfdFlags::empty()))?;
    answer(pidfd_getfd(pidfd, fd, PidfdGetfdFlags::empty()))
}

/// The new process: installs the filter and runs the program or the function. Where it is a function, nothing is allocated and no lock taken
/// before that.
fn child(launch: &Launch<'_>, mut to_parent: File, mut from_parent: File) -> ! {
    let say = |to_parent: &mut File, status: i32, fd: i32| {
        let mut said = [0; 8];
        said[..4].copy_from_slice(&status.to_ne_bytes());
        said[4..].copy_from_slice(&fd.to_ne_bytes());
        // Nobody is left to be told where this fails.
        let _ = to_parent.write_all(&said);
    };
    let filter = prepare(launch).and_then(|()| seccomp::install(launch.filter));
    match filter {
        Ok(fd) => {
            say(&mut to_parent, 0, fd);
            if !matches!(from_parent.read(&mut [0]), Ok(1)) {
                // SAFETY: as below.
                unsafe { libc::_exit(127) }
            }
            // SAFETY: it was just made, and nobody else knows it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            for signal in OF_THE_C_LIBRARY.into_iter().filter(|&signal| !was_ignored(signal)) {
                disposition(signal, Some(libc::SIG_DFL));
            }
            // A signal that came meanwhile comes to who is about to run the program.
            // SAFETY: the kernel reads one set there, and writes nothing.
            unsafe {
                libc::sigprocmask(
                    libc::SIG_SETMASK,
                    &raw const launch.blocked,
                    std::ptr::null_mut(),
                )
            };
            match launch.start {
                Start::Program { name, args, env } => {
                    let mut command = Command::new(name);
                    command.args(args).env_clear().envs(env.iter().cloned());
                    // SAFETY: what it does may be done after fork(2).
                    unsafe { command.pre_exec(be_as_it_was) };
                    let error = command.exec();
                    say(&mut to_parent, errno_of(&error).raw(), 0);
                }
                Start::Function(function) => {
                    // As an exec would do; the supervisor's are not for it.
                    // SAFETY: nobody in this process uses one of them again, not to close it either: it ends by `_exit`.
                    unsafe { libc::close_range(3, u32::MAX, 0) };
                    let status = std::panic::catch_unwind(function).unwrap_or(101);
                    // SAFETY: as below.
                    unsafe { libc::_exit(status.into()) }
                }
            }
        }
        Err(errno) => say(&mut to_parent, errno.raw(), 0),
    }
    // SAFETY: it ends the process, without what the parent would do at its end.
    unsafe { libc::_exit(127) }
}

/// Closes what was closed, and ignores what was ignored, and is not here.
fn be_as_it_was() -> std::io::Result<()> {
    for fd in (0..3).filter(|fd| CLOSED.load(Relaxed) & 1 << fd != 0) {
        // SAFETY: nobody in this process uses it again: what is said goes to another one.
        unsafe { libc::close(fd) };
    }
    for signal in [libc::SIGPIPE, libc::SIGCHLD] {
        if was_ignored(signal) {
            disposition(signal, Some(libc::SIG_IGN));
        }
    }
    Ok(())
}

fn prepare(launch: &Launch<'_>) -> Result<()> {
    answer(rustix::process::fchdir(launch.cwd))?;
    for (which, limit) in launch.limits {
        answer(setrlimit(*which, *limit))?;
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    answer(setrlimit(Resource::Core, none))?;
    // Else the parent could not fetch the descriptor.
    answer(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable))?;
    answer(rustix::thread::set_no_new_privs(true))
}

/// Blocks the signals that this process hears of by a descriptor from now on; returns what was blocked before, and the
/// descriptor. Those that were ignored stay so, but for `SIGCHLD`: who ignores that never hears how a child ended.
///
/// # Errors
///
/// - `EMFILE`: no descriptor is left.
pub(crate) fn hear_signals(signals: &[i32]) -> Result<(libc::sigset_t, OwnedFd)> {
    // SAFETY: a set is numbers, for which zero is a value.
    let (mut set, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    for &signal in signals {
        if signal == libc::SIGCHLD {
            disposition(signal, Some(libc::SIG_DFL));
        } else if was_ignored(signal) {
            continue;
        }
        // SAFETY: `set` is a set.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: the kernel reads one set and writes the other.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
    // SAFETY: the kernel reads the set.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: it was just made.
    Ok((before, unsafe { seccomp::own(fd) }))
}

/// Whether each one is heard that was sent, and not one for several.
pub(crate) fn is_queued(signal: i32) -> bool {
    signal >= REAL_TIME
}

/// A signal that was heard of.
pub(crate) struct Heard {
    pub(crate) signal: i32,
    /// The process that sent it; 0 where the kernel did, as a terminal's keys have it do.
    pub(crate) sender: u32,
}

/// The next signal that was heard of, if there is one.
pub(crate) fn next_signal(fd: &OwnedFd) -> Option<Heard> {
    let mut info = [0; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(fd, &mut info).ok()?;
    // Its number, an errno, how it was sent, and by whom.
    let word = |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    let heard = Heard { signal: word(0), sender: word(12).cast_unsigned() };
    (read == info.len()).then_some(heard)
}

/// Makes another process that goes on from here; none in that. This one must have no second thread.
///
/// # Errors
///
/// - `EAGAIN`, `ENOMEM`: there can be no further one.
pub(crate) fn fork() -> Result<Option<u32>> {
    // What waits to be written is written once.
    let _ = std::io::stdout().flush();
    // SAFETY: this process has one thread, so the child may do whatever the parent might.
    match unsafe { libc::fork() } {
        -1 => Err(last_errno()),
        0 => Ok(None),
        pid => Ok(Some(pid as u32)),
    }
}

/// Has all that come of this process and lose their parent become its children.
///
/// # Errors
///
/// None that prctl(2) has for it.
pub(crate) fn take_orphans() -> rustix::io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
}

/// Ends this process.
pub(crate) fn end(status: u8) -> ! {
    std::process::exit(status.into())
}

/// The exit status of a process that ended so; where a signal ended it, that ends this one too.
pub(crate) fn end_as(status: i32) -> u8 {
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        end_by(signal);
        return 128 + signal as u8;
    }
    libc::WEXITSTATUS(status) as u8
}

/// Sends a signal; who is gone gets none.
pub(crate) fn kill(pid: u32, signal: i32) {
    // SAFETY: the arguments are numbers.
    unsafe { libc::kill(pid as i32, signal) };
}

/// Sends a signal to one thread; who is gone gets none.
pub(crate) fn kill_thread(tid: u32, signal: i32) {
    // SAFETY: the arguments are numbers.
    unsafe { libc::syscall(libc::SYS_tkill, tid, signal) };
}

/// By which a thread of this process is interrupted. Of those that are queued the kernel sends none where the user has as many as one may
/// (`RLIMIT_SIGPENDING`), as any of its programs can have it be; and this one neither it nor anybody else sends a group, as `SIGURG`.
const INTERRUPTS: i32 = libc::SIGSTKFLT;

/// Has [`interrupt`] end what this thread waits for with `EINTR`, from now on.
pub(crate) fn be_interruptible() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: all fields are numbers, for which zero is a value, or a pointer to a function that may be none.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
    // SAFETY: the handler does nothing.
    unsafe { libc::sigaction(INTERRUPTS, &raw const action, std::ptr::null_mut()) };
    // SAFETY: a set is numbers, for which zero is a value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a set.
    unsafe { libc::sigaddset(&raw mut set, INTERRUPTS) };
    // SAFETY: the kernel reads one set there, and writes nothing.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Has a thread of this process not wait any more.
pub(crate) fn interrupt(tid: u32) {
    // SAFETY: the arguments are numbers.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), tid, INTERRUPTS) };
}

/// Ends this process as the program ended: by this signal, without a core of its own.
pub(crate) fn end_by(signal: i32) {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    disposition(signal, Some(libc::SIG_DFL));
    let (set, thread) = (1_u64 << (signal - 1), gettid().as_raw_nonzero().get());
    let (how, before, len) = (libc::SIG_UNBLOCK, std::ptr::null_mut::<u64>(), size_of_val(&set));
    // SAFETY: the kernel reads one set there, and writes nothing.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const set, before, len) };
    // As raise(3) does, which refuses those of the C library.
    // SAFETY: the arguments are numbers.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, signal) };
}

/// A descriptor of a thread, as one of this process: the same open file.
///
/// # Errors
///
/// - `EBADF`: it has no such.
/// - `ESRCH`: it is gone.
pub(crate) fn descriptor(pidfd: &OwnedFd, fd: i32) -> Result<OwnedFd> {
    answer(pidfd_getfd(pidfd, fd, PidfdGetfdFlags::empty()))
}

/// A thread, as a descriptor.
///
/// # Errors
///
/// - `ESRCH`: it is gone.
pub(crate) fn thread(tid: u32) -> Result<OwnedFd> {
    let open = |flags: u32| {
        // SAFETY: the arguments are numbers.
        checked_fd(unsafe { libc::syscall(libc::SYS_pidfd_open, tid, flags) })
    };
    match open(libc::PIDFD_THREAD) {
        // A kernel before 6.9.
        Err(Errno::EINVAL) => open(0),
        answer => answer,
    }
}

/// Whether a thread is known to be the first of its process, which has its number.
pub(crate) fn is_first(tid: u32) -> bool {
    let nothing = 0;
    // SAFETY: the arguments are numbers; no signal is sent.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, tid, tid, nothing) };
    // No process has a thread of that number but its first; and whoever may not send anything hears of one that is there.
    sent == 0 || last_errno() == Errno::EPERM
}

/// Whether the kernel tells of the current directory by statx(2) where the path is no pointer, as since Linux 6.11 or some later one.
pub(crate) fn statx_needs_no_path() -> bool {
    let mut told = [0_u64; size_of::<libc::statx>() / 8];
    let (path, to) = (std::ptr::null::<libc::c_char>(), told.as_mut_ptr().cast());
    // SAFETY: the kernel writes one `struct statx` there, which has room.
    unsafe { libc::statx(libc::AT_FDCWD, path, libc::AT_EMPTY_PATH, libc::STATX_INO, to) == 0 }
}

/// Whether there is still the thread that a descriptor is of, so that its number is no other's.
pub(crate) fn is_there(thread: &OwnedFd) -> bool {
    let (nothing, none) = (0, std::ptr::null::<libc::siginfo_t>());
    // SAFETY: no signal is sent; the arguments are numbers, but for one that points nowhere.
    let sent =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, thread.as_raw_fd(), nothing, none, 0) };
    sent == 0 || last_errno() != Errno::ESRCH
}

fn checked_fd(fd: i64) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: it was just made.
    Ok(unsafe { seccomp::own(fd as RawFd) })
}

/// Whether the host lets an open file be run.
///
/// # Errors
///
/// - `EACCES`: it does not.
pub(crate) fn may_run(file: BorrowedFd<'_>) -> Result<()> {
    let (path, flags) = (c"".as_ptr(), libc::AT_EACCESS | libc::AT_EMPTY_PATH);
    // SAFETY: the path is a C string, and the other arguments are numbers.
    let may =
        unsafe { libc::syscall(libc::SYS_faccessat2, file.as_raw_fd(), path, libc::X_OK, flags) };
    checked(may).map(drop)
}

/// The path by which this process finds a descriptor of its own.
pub(crate) fn by_number(fd: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Whether the file system of an open file of the host has handles, of such a kind; none is made.
///
/// # Errors
///
/// - `EOPNOTSUPP`: it has none.
pub(crate) fn has_handles(file: &OwnedFd, kind: u32) -> Result<()> {
    let path = CString::new(by_number(file)).map_err(|_| Errno::EINVAL)?;
    // No room for bytes: it says how many there are.
    let (mut head, mut mount) = ([0_u32; 2], 0_u64);
    // SAFETY: the path is a C string; the kernel writes two words of 32 bits to the one place, and one of 32 or 64 to the other.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            head.as_mut_ptr(),
            &raw mut mount,
            kind | libc::AT_SYMLINK_FOLLOW.cast_unsigned(),
        )
    };
    match checked(answer) {
        Ok(_) | Err(Errno::EOVERFLOW) => Ok(()),
        // A kernel that does not know the kind.
        Err(Errno::EINVAL) => Err(Errno::EOPNOTSUPP),
        Err(errno) => Err(errno),
    }
}

/// Has a descriptor closed by exec if it is a directory's.
///
/// # Errors
///
/// - `EBADF`: there is no such.
pub(crate) fn close_if_directory(number: RawFd) -> Result<()> {
    // SAFETY: it is used for two calls, which answer `EBADF` where it was closed meanwhile.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let stat = answer(rustix::fs::fstat(fd))?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory {
        answer(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC))?;
    }
    Ok(())
}

/// What a thread may use of something, now.
///
/// # Errors
///
/// - `ESRCH`: it is gone.
pub(crate) fn soft_limit(tid: u32, which: u32) -> Result<u64> {
    // It is the first of two words.
    limit(tid, which, None).map(|limit| limit as u64)
}

/// A limit of a process, soft and hard as `struct rlimit64` has them, and sets it to another one.
///
/// # Errors
///
/// Those of prlimit(2).
pub(crate) fn limit(tid: u32, which: u32, new: Option<u128>) -> Result<u128> {
    let mut old = 0_u128;
    let new_ptr = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let old_ptr = &raw mut old;
    // SAFETY: the kernel reads 16 bytes, if any, and writes 16 to where there are so many.
    checked(unsafe { libc::syscall(libc::SYS_prlimit64, tid, which, new_ptr, old_ptr) })?;
    Ok(old)
}

/// Where a thread has its list of robust futexes, and its length.
///
/// # Errors
///
/// - `ESRCH`: it is gone.
pub(crate) fn robust_list(tid: u32) -> Result<(u64, u64)> {
    let (mut head, mut len) = (0_u64, 0_u64);
    let (head_ptr, len_ptr) = (&raw mut head, &raw mut len);
    // SAFETY: the kernel writes two words, to where they are.
    checked(unsafe { libc::syscall(libc::SYS_get_robust_list, tid, head_ptr, len_ptr) })?;
    Ok((head, len))
}

/// Whether two threads share something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shares {
    Yes,
    No,
    /// The kernel does not tell, or one is gone.
    Unknown,
}

/// Whether two threads share root and current directory.
pub(crate) fn shares_place(one: u32, other: u32) -> Shares {
    /// `KCMP_FS`
    const FS: i32 = 3;
    shares(one, other, FS)
}

/// Has this thread run for so long at once as is short for what it does, if others want to run: who runs for a short time is let run at once,
/// and who is woken does not take the CPU in the middle of that. A kernel before 6.12 gives all the same.
///
/// # Errors
///
/// - `EINVAL`: it runs by another policy, as a real-time one.
/// - `ENOSYS`: the kernel does not know how.
pub(crate) fn run_for_short_times(at_once: Duration) -> Result<()> {
    // 0 is who asks.
    if !shares_its_time(0) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes as much there as it is said to.
    checked(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) })?;
    attr.sched_runtime = at_once.as_nanos() as u64;
    // SAFETY: it reads no more than the size says that is in it.
    checked(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) }).map(drop)
}

/// The CPUs that a thread may run on, as many bytes as the kernel says of so many.
///
/// # Errors
///
/// Those of sched_getaffinity(2).
pub(crate) fn affinity(tid: u32, len: u32) -> Result<Vec<u8>> {
    /// So much is no kernel's mask.
    const MOST: u32 = 1 << 16;
    let mut mask = vec![0; len.min(MOST) as usize];
    // SAFETY: the kernel writes no more than the length, and no more than its mask, which has a bit for each of 8,192 CPUs at most.
    let written =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, len, mask.as_mut_ptr()) };
    mask.truncate(checked(written)? as usize);
    Ok(mask)
}

/// Whether a thread runs as most do, and not as a real-time one.
pub(crate) fn shares_its_time(tid: u32) -> bool {
    const OTHERS: [i32; 3] = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
    // SAFETY: the arguments are numbers.
    let policy = unsafe { libc::sched_getscheduler(tid.cast_signed()) };
    OTHERS.contains(&(policy & !libc::SCHED_RESET_ON_FORK))
}

/// Whether two processes share their memory.
pub(crate) fn shares_memory(one: u32, other: u32) -> Shares {
    /// `KCMP_VM`
    const VM: i32 = 1;
    shares(one, other, VM)
}

/// The order of two threads by their descriptors, which is the kernel's own; those are equal that share them. None where the kernel
/// does not tell, or one is gone.
pub(crate) fn files_in_order(one: u32, other: u32) -> Option<Order> {
    /// `KCMP_FILES`
    const FILES: i32 = 2;
    match kcmp(one, other, FILES) {
        0 => Some(Order::Equal),
        1 => Some(Order::Less),
        2 => Some(Order::Greater),
        _ => None,
    }
}

fn shares(one: u32, other: u32, what: i32) -> Shares {
    match kcmp(one, other, what) {
        0 => Shares::Yes,
        -1 => Shares::Unknown,
        _ => Shares::No,
    }
}

fn kcmp(one: u32, other: u32, what: i32) -> i64 {
    // SAFETY: the arguments are numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, what, 0, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        left_out::left_out,
        table::{Identity, calls, program},
    };
    use rustix::{
        event::{PollFd, PollFlags, poll},
        process::{WaitId, WaitIdOptions, waitid},
    };
    use std::os::fd::AsFd;

    #[test]
    fn the_first_thread_of_a_process_is_known_and_no_other_is_taken_for_one() {
        assert!(is_first(std::process::id()));
        let other = || rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let other = std::thread::spawn(move || (other(), is_first(other())));
        let (tid, first) = other.join().expect("it asks");
        assert!(tid != std::process::id() && !first && !is_first(tid));
    }

    /// A process that would end with 3.
    fn launched() -> Launching {
        // SAFETY: a set is numbers, for which zero is a value.
        let blocked: libc::sigset_t = unsafe { std::mem::zeroed() };
        let cwd = File::open("/").expect("it is there");
        let made = launch(&Launch {
            start: Start::Function(|| 3),
            cwd: cwd.as_fd(),
            filter: &program(calls(), Identity::Own),
            limits: &[],
            blocked,
        });
        made.unwrap_or_else(|_| panic!("it is made"))
    }

    fn status_of(pid: u32) -> i32 {
        let Ok(Some((_, Report::Gone(status)))) = ptrace::wait(Some(pid), true) else {
            panic!("it ends");
        };
        status
    }

    #[test]
    fn who_is_launched_goes_on_when_told_to_and_not_else() {
        // One after the other: who is made has all that its maker has, the pipes of others too.
        let told = match launched().go() {
            Ok(launched) => launched,
            Err(Failure::Filter(errno)) if errno != Errno::EIO => {
                return left_out(format_args!("no filter can be set: {errno}"));
            }
            Err(_) => panic!("it goes on"),
        };
        assert_eq!(libc::WEXITSTATUS(status_of(told.pid)), 3);
        let untold = launched();
        let pid = untold.pid as u32;
        drop(untold);
        assert_eq!(libc::WEXITSTATUS(status_of(pid)), 127);
        for has_spoken in [false, true] {
            let killed = launched();
            if has_spoken {
                let mut said = [PollFd::new(&killed.said, PollFlags::IN)];
                poll(&mut said, None).expect("it speaks");
            }
            kill(killed.pid as u32, libc::SIGKILL);
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(Pid::from_raw(killed.pid).unwrap()), ended).expect("it ends");
            let Err(Failure::Killed(signal)) = killed.go() else {
                panic!("it says by what it was killed")
            };
            assert_eq!(signal, libc::SIGKILL);
        }
    }

    #[test]
    fn the_host_has_none_of_its_proc() {
        let proc = OwnedFd::from(std::fs::File::open("/proc").expect("it is there"));
        assert_eq!(has_handles(&proc, 0), Err(Errno::EOPNOTSUPP));
    }
}
