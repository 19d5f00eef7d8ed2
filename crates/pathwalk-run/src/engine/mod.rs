//! The supervisor: receives the calls of the program and all that comes of it, and answers them.
//!
//! ```text
//!   a thread of the program          the supervisor
//!   openat("/tmp/a", …) ── filter ──► receive: the call and its arguments
//!      (waits)                        copy what they point to, once; does the thread still wait?
//!                                     answer by the library: walk, permission, file system
//!      fd 3, or an errno      ◄────── a value, a descriptor, or the kernel goes on with it
//! ```
//!
//! Rules:
//!
//! 1. What an argument points to is read once, and never again.
//! 2. The kernel goes on with a call only where its arguments are numbers whose meaning stays, or where what came of it is looked at
//!    before the program runs another instruction (`patch`).
//! 3. What may take long is done by a thread of its own; all else one after the other.
//!
//! Manual: seccomp_unotify(2).

mod place;

pub(crate) use place::{Base, Descriptor};

use crate::{
    answer::socket::Sockets,
    cookies::{Cookies, HostId},
    cpu::Kept,
    credentials::Credentials,
    cwd::Remembered,
    errand::Errands,
    given::Given,
    guard::{self, Ordered, Outside},
    handles::Handles,
    inside::Inside,
    kin,
    nameless::Nameless,
    passed::RunBefore,
    patch::{Loads, Patches},
    people::People,
    room::Room,
    setid::SetIds,
    stay::Stays,
    sys::{
        memory,
        process::{self, Launched},
        ptrace::{self, Report},
        seccomp::{Listener, Notification},
    },
    table::{self, Handler, Handling, Identity},
    trace::Trace,
    watches::Watches,
    watchman::Watchman,
};
use pathwalk::{Errno, File, ResolveFlags, Result, Task};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs, io,
    process::{Pid, getpgid, getpgrp},
};
use std::{
    cell::{Cell, RefCell},
    io::{Read, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

/// A call to be answered.
pub(crate) struct Caller {
    pub(crate) id: u64,
    pub(crate) tid: u32,
    pub(crate) args: [u64; 6],
    /// The paths that were copied, and which argument each is.
    pub(crate) paths: RefCell<Vec<(usize, Vec<u8>)>>,
    /// The name of the extended attribute that was asked about.
    pub(crate) attribute: RefCell<Vec<u8>>,
    /// Those that were looked up, with the directory in which each began, to be explained.
    pub(crate) walked: RefCell<Vec<(Base, Vec<u8>)>>,
    /// What it bounds its walk by.
    pub(crate) resolve: Cell<ResolveFlags>,
    /// Where its path begins, or what its descriptor is, and what the host says of that.
    pub(crate) base: RefCell<Option<(Base, Option<fs::Stat>)>>,
    /// What was written into its memory, where that is kept.
    pub(crate) written: RefCell<Vec<u8>>,
    keeps: bool,
    /// What is answered is not written into its memory any more.
    silent: Cell<bool>,
    /// Where it waits for the answer.
    listener: Arc<Listener>,
    looks: Cell<bool>,
}

impl Caller {
    /// The call changes nothing. So it is not asked, before it is done, whether the thread still waits: its answer reaches nobody else.
    /// Something that is put into its memory would, and before that it is asked.
    pub(crate) fn only_looks(&self) {
        self.looks.set(true);
    }

    /// Whether it is about what a descriptor has open that is no directory.
    fn was_given_a_file(&self) -> bool {
        let base = self.base.borrow();
        let stat = base.as_ref().and_then(|(_, stat)| stat.as_ref());
        stat.is_some_and(|stat| !fs::FileType::from_raw_mode(stat.st_mode).is_dir())
    }

    /// It is answered anew.
    fn begins_again(&self) {
        self.paths.borrow_mut().clear();
        self.walked.borrow_mut().clear();
        self.base.take();
    }

    /// It is answered once more, for others.
    pub(crate) fn is_not_told(&self) {
        self.silent.set(true);
    }

    /// An argument that is a descriptor, or `AT_FDCWD`.
    pub(crate) fn fd(&self, index: usize) -> i32 {
        self.args[index] as i32
    }

    /// An argument of 32 bits.
    pub(crate) fn word(&self, index: usize) -> u32 {
        self.args[index] as u32
    }

    /// Copies a path, once.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: there is none.
    /// - `ENAMETOOLONG`: it has more than 4095 bytes.
    pub(crate) fn path(&self, index: usize) -> Result<Vec<u8>> {
        if let Some((_, path)) = self.paths.borrow().iter().find(|(copied, _)| *copied == index) {
            return Ok(path.clone());
        }
        let path = memory::read_string(self.tid, self.args[index], pathwalk::abi::PATH_MAX - 1)?;
        self.paths.borrow_mut().push((index, path.clone()));
        Ok(path)
    }

    /// Writes what the call answers to where an argument says.
    ///
    /// # Errors
    ///
    /// - `ESRCH`: the thread does not wait any more.
    /// - `EFAULT`: there is no such room.
    pub(crate) fn put(&self, index: usize, data: &[u8]) -> Result<()> {
        if self.looks.get() && !self.listener.is_valid(self.id) {
            return Err(Errno::ESRCH);
        }
        if !self.silent.get() {
            memory::write(self.tid, self.args[index], data)?;
        }
        if self.keeps {
            self.written.replace(data.to_vec());
        }
        Ok(())
    }
}

/// What becomes of a call.
pub(crate) enum Reply {
    /// It answers a value.
    Value(i64),
    /// It answers a descriptor, which the thread gets.
    Install(OwnedFd, Cloexec),
    /// The same of an open file of the library that is one of the host.
    InstallFile(File, Cloexec),
    /// The kernel goes on with it.
    Pass,
    /// It is, or will be, answered by somebody else.
    Later,
    /// It is answered when that process is not in the middle of exec any more, and did nothing yet.
    AfterExec(u32),
}

/// Whether a descriptor is closed by exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cloexec {
    Yes,
    No,
}

impl Cloexec {
    /// As the flags of an opening say.
    pub(crate) fn of(flags: u64) -> Self {
        if flags & pathwalk::OpenFlags::CLOEXEC.bits() != 0 { Self::Yes } else { Self::No }
    }
}

/// The supervisor.
pub(crate) struct Engine {
    pub(crate) listener: Arc<Listener>,
    /// Who asks the library, with the caller's credentials.
    pub(crate) task: Arc<Task>,
    /// Who the callers are, where they have virtual credentials; and the mounts that they found.
    pub(crate) people: Option<People>,
    pub(crate) given: Option<Given>,
    pub(crate) cookies: Cookies,
    pub(crate) patches: Patches,
    pub(crate) loads: Loads,
    pub(crate) run_before: RunBefore,
    pub(crate) stays: Stays,
    pub(crate) sockets: Sockets,
    pub(crate) cwds: Remembered,
    pub(crate) asker: crate::procfs::Asker,
    pub(crate) trace: Trace,
    pidfds: FxHashMap<u32, Arc<OwnedFd>>,
    pub(crate) nameless: Nameless,
    pub(crate) handles: Handles,
    pub(crate) errands: Errands,
    pub(crate) watches: Watches,
    pub(crate) set_ids: SetIds,
    pub(crate) inside: Option<Inside>,
    /// Whether an interpreter of the tree takes `--argv0`, as it was changed last.
    pub(crate) interpreters: FxHashMap<(HostId, i64, u64), bool>,
    /// Files that have no place in the tree.
    strangers: FxHashSet<HostId>,
    outside: Outside,
    watchman: Watchman,
    /// The program's process, when it was first asked to end, when it was gone, and how it ended.
    program: u32,
    /// Where the program's process says why it could not be run; closed when it runs.
    failure: std::fs::File,
    /// It was said of a program that it is of another kind, and whether it was the one that was to be run.
    told: bool,
    refused: bool,
    asked: Option<Instant>,
    gone: Option<Instant>,
    ended: Option<Ended>,
    /// Somebody reported, and others may have: one signal tells of them all, and it was taken.
    more_reports: bool,
    /// Calls that are answered when an exec is over: where it is said, that of this process.
    postponed: Vec<(Notification, Option<u32>)>,
    /// Answers that are given then.
    held: Vec<(Notification, u32, Result<Reply>)>,
    /// Where listings are written before the program gets them.
    pub(crate) listing: Vec<u8>,
    room: Room,
}

/// What there is to be looked at.
#[derive(Default)]
struct News {
    call: Option<Notification>,
    children: bool,
    orders: bool,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It never ran.
    NotRun(Errno),
    /// It never ran, and it was said why.
    Refused,
}

/// What a program with virtual credentials begins with.
pub(crate) struct Virtual {
    pub(crate) credentials: Credentials,
    pub(crate) given: Given,
}

/// So long the supervisor runs at once. To answer a call takes less.
const AT_ONCE: Duration = Duration::from_micros(100);
/// So often a call is answered anew.
const TRIES: u32 = 4;
/// Who is asked to end again within this time is asked once.
const ONCE: Duration = Duration::from_millis(100);
impl Engine {
    pub(crate) fn new(
        Launched { pid: program, mut listener, failure }: Launched,
        task: Task,
        virtual_: Option<Virtual>,
        cookies: Cookies,
        asker: crate::procfs::Asker,
        (trace, inside): (Trace, Option<Inside>),
        outside: Outside,
    ) -> Self {
        listener.wake_synchronously();
        let set_ids = SetIds::new(task.fork());
        let task = Arc::new(task);
        let (people, given) = virtual_
            .map(|Virtual { credentials, given }| {
                (People::new(asker.threads(), program, credentials, Arc::clone(&task)), given)
            })
            .unzip();
        Self {
            listener: Arc::new(listener),
            task,
            people,
            given,
            cookies,
            patches: Patches::default(),
            loads: Loads::default(),
            run_before: RunBefore::default(),
            stays: Stays::new().unwrap_or_default(),
            sockets: Sockets::default(),
            cwds: Remembered::default(),
            asker,
            trace,
            pidfds: FxHashMap::default(),
            nameless: Nameless::default(),
            handles: Handles::default(),
            errands: Errands::default(),
            watches: Watches::default(),
            set_ids,
            inside,
            interpreters: FxHashMap::default(),
            strangers: FxHashSet::default(),
            outside,
            watchman: Watchman::default(),
            program,
            failure,
            told: false,
            refused: false,
            asked: None,
            gone: None,
            ended: None,
            more_reports: false,
            postponed: Vec::new(),
            held: Vec::new(),
            listing: Vec::new(),
            room: Room::default(),
        }
    }

    /// Answers until nobody is left who could call.
    fn serve(&mut self) -> Ended {
        while let Some(News { call, children, orders }) = self.next() {
            self.tell_of_contents();
            self.look_at_nameless();
            if let Some(call) = call {
                self.answer(&call);
            }
            if children {
                self.reap();
            }
            if orders {
                self.hear();
            }
            self.answer_waiting();
        }
        while self.ended.is_none()
            && let Ok(report) = self.next_report(None)
        {
            report.into_iter().for_each(|(tid, report)| self.on_report(tid, report));
        }
        let mut said = [0; 8];
        if self.failure.read_exact(&mut said).is_ok() {
            if self.refused {
                return Ended::Refused;
            }
            let errno = i32::from_ne_bytes([said[0], said[1], said[2], said[3]]);
            return Ended::NotRun(Errno::from_raw(errno).unwrap_or(Errno::EIO));
        }
        self.ended.unwrap_or(Ended::Exited(0))
    }

    /// Waits for a call, or for what else there is to be looked at; none where nobody is left. What was done by descriptors before the call
    /// is there to be told by then.
    fn next(&mut self) -> Option<News> {
        if self.more_reports {
            return Some(News { children: true, ..News::default() });
        }
        let Self { listener, outside, watches, watchman, stays, nameless, .. } = self;
        let looks = watches.fd().is_some() || nameless.wait().is_some();
        if looks || stays.some() || watchman.is_asked_first() {
            return self.ask();
        }
        let watched = || {
            let mut watched = outside.watched()?;
            watched.push(listener.watched()?);
            Ok(watched)
        };
        let call = watchman.receive(watched, || listener.receive()).ok();
        Some(News { call, ..News::default() })
    }

    fn ask(&mut self) -> Option<News> {
        let Self { listener, outside, watches, stays, nameless, .. } = self;
        let [children, orders, above] = outside.fds();
        let hears = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let (calls, contents) = (hears(listener.fd()), watches.fd());
        let other = |fd: Option<_>| hears(fd.unwrap_or_else(|| listener.fd()));
        let count = if contents.is_some() { 6 } else { 5 };
        let mut fds = [calls, children, orders, above, other(stays.alarm()), other(contents)];
        let most = watches.wait().into_iter().chain(nameless.wait()).min().map(timespec);
        match poll(&mut fds[..count], most.as_ref()) {
            Ok(_) => {}
            Err(io::Errno::INTR) => return Some(News::default()),
            // Somebody took away what it takes to hear anything, as by prlimit(2).
            Err(_) => {
                self.leave_all();
                return None;
            }
        }
        let [calls, children, orders, above, alarm, _] = fds.map(|fd| fd.revents());
        let call = match calls.contains(PollFlags::IN) {
            true => listener.receive().ok(),
            false if calls.intersects(PollFlags::HUP | PollFlags::ERR) => return None,
            false => None,
        };
        let (children, orders) = (!children.is_empty(), !orders.is_empty() || !above.is_empty());
        if children || orders {
            self.watchman.had_news();
        }
        if alarm.contains(PollFlags::IN) && self.stays.some() {
            self.moment_is_over();
        }
        Some(News { call, children, orders })
    }

    /// Says of a program that it is of another kind than those that are run, once; returns with what it is refused.
    ///
    /// Who runs the first one would run a shell for what is `ENOEXEC`.
    pub(crate) fn refuses(&mut self, name: &[u8], kind: &str) -> Errno {
        if !std::mem::replace(&mut self.told, true) {
            let name = name.escape_ascii();
            // Standard error may be closed.
            let _ = writeln!(
                std::io::stderr(),
                "pathwalk: {name} is {kind}: only x86-64 programs are run"
            );
        }
        let mut open = [PollFd::new(&self.failure, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let runs = !matches!(poll(&mut open, Some(&now)), Ok(0));
        self.refused = !runs;
        if runs { Errno::ENOEXEC } else { Errno::ELIBBAD }
    }

    /// Passes on what is to be; where nobody is left who could say more, all end.
    fn hear(&mut self) {
        match self.outside.ordered() {
            Some(signals) => signals.into_iter().for_each(|signal| self.pass_on(&signal)),
            None => self.end_all(),
        }
        // That one reported may have been heard by that.
        self.more_reports = true;
    }

    /// Sends the program a signal that this process, or another one in its place, was sent; where it was asked to end before, or has
    /// ended, all that came of it end. Who asks a process and its group asks once. What is sent to the group is the program's own, unless
    /// that has left it, as `timeout` and `setsid` do.
    fn pass_on(&mut self, &Ordered { signal, to_group }: &Ordered) {
        if to_group && self.have_heard() {
            return;
        }
        if self.ended.is_some() {
            if [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT].contains(&signal) {
                self.end_all();
            }
            return;
        }
        if signal == libc::SIGTERM
            && let Some(since) = self.asked.replace(self.asked.unwrap_or_else(Instant::now))
        {
            if since.elapsed() >= ONCE {
                self.end_all();
            }
            return;
        }
        process::kill(self.program, signal);
    }

    /// Whether what this process's group was sent came to the program; when that has ended, and not just now by that, to anybody who
    /// came of it.
    fn have_heard(&self) -> bool {
        let are_of_group = |process: &u32| {
            let process = Pid::from_raw(process.cast_signed());
            getpgid(process) == Ok(getpgrp())
        };
        match self.gone {
            None => are_of_group(&self.program),
            Some(since) if since.elapsed() < ONCE => true,
            Some(_) => kin::descendants().is_ok_and(|all| all.iter().any(are_of_group)),
        }
    }

    fn end_all(&mut self) {
        guard::end_all();
        self.ended.get_or_insert(Ended::Killed(libc::SIGKILL));
    }

    /// All end, and this process does. Where it cannot even look who they are, the guard does, when this one has ended.
    fn leave_all(&mut self) {
        let _ = guard::try_end_all();
        self.ended.get_or_insert(Ended::Killed(libc::SIGKILL));
    }

    /// Hears of all who ended or stopped.
    fn reap(&mut self) {
        self.outside.look_at_children();
        while let Ok(Some((tid, report))) = ptrace::wait(None, false) {
            self.on_report(tid, report);
        }
        self.more_reports = false;
    }

    /// Waits until somebody reports, for so long at most, and passes signals on meanwhile.
    ///
    /// # Errors
    ///
    /// - `ECHILD`: nobody is left.
    pub(crate) fn next_report(&mut self, most: Option<Duration>) -> Result<Option<(u32, Report)>> {
        loop {
            self.outside.look_at_children();
            let report = ptrace::wait(None, false)?;
            self.more_reports = report.is_some();
            if report.is_some() {
                return Ok(report);
            }
            let most = most.map(timespec);
            let mut fds = self.outside.fds();
            let [_, orders, above] = match poll(&mut fds, most.as_ref()) {
                Ok(0) => return Ok(None),
                Ok(_) => fds.map(|fd| fd.revents()),
                Err(io::Errno::INTR) => continue,
                // Somebody took away what it takes to hear anything, as by prlimit(2).
                Err(_) => {
                    self.leave_all();
                    return Err(Errno::ECHILD);
                }
            };
            if !orders.is_empty() || !above.is_empty() {
                self.hear();
            }
        }
    }

    /// What becomes of a thread that reports when nobody waited for it.
    pub(crate) fn on_report(&mut self, tid: u32, report: Report) {
        if self.hear_of_errand(tid, report) || self.hear_of_patch(tid, report) {
            return;
        }
        match report {
            Report::Gone(status) => {
                if tid == self.program {
                    self.gone = Some(Instant::now());
                    self.ended.get_or_insert(how(status));
                }
            }
            Report::Signal(signal) => {
                let _ = ptrace::cont(tid, signal);
            }
            Report::Stopped | Report::Execed | Report::Call => {
                let _ = ptrace::cont(tid, 0);
            }
        }
    }

    fn answer(&mut self, call: &Notification) {
        self.take_set_ids();
        if self.patches.has_to_wait(call.tid, call.nr) {
            self.postponed.push((*call, None));
            return;
        }
        self.hears_who_stays(call);
        let caller = Caller {
            id: call.id,
            tid: call.tid,
            args: call.args,
            paths: RefCell::default(),
            attribute: RefCell::default(),
            walked: RefCell::default(),
            resolve: Cell::default(),
            base: RefCell::default(),
            written: RefCell::default(),
            keeps: self.inside.is_some(),
            silent: Cell::new(false),
            listener: Arc::clone(&self.listener),
            looks: Cell::new(false),
        };
        if self.continue_patch(&caller, call.nr) {
            return;
        }
        if self.misses(call) {
            let _ = self.listener.send(call.id, Ok(0));
            return;
        }
        let Some(entry) = table::call_of(call.nr) else {
            let _ = self.listener.send(call.id, Err(Errno::ENOSYS));
            return;
        };
        let identity = if self.people.is_some() { Identity::Virtual } else { Identity::Own };
        let handler = match entry.handling(identity) {
            Handling::Answer(handler) | Handling::AnswerIf(_, handler) => handler,
            Handling::Pass => {
                let _ = self.listener.pass(call.id);
                return;
            }
            Handling::Refuse(errno) => {
                let _ = self.listener.send(call.id, Err(errno));
                return;
            }
            // The filter refuses them; here nobody comes.
            Handling::RefuseIf(_) => {
                let _ = self.listener.send(call.id, Err(Errno::ENOSYS));
                return;
            }
        };
        if self.room.is_needed(self.listener.fd()) {
            self.sweep();
        }
        let Self { cookies, watches, task, .. } = self;
        if cookies.make_room(|cookies| watches.hear(cookies, task)) {
            watches.forget_unused(cookies);
            self.forget_set_ids();
        }
        self.let_go();
        self.handles.tidy_up();
        self.asker.set(call.tid);
        if let Some(people) = &mut self.people {
            let person = match people.who(call.tid) {
                Ok(person) => person,
                // Also who is nobody may end.
                Err(_) if entry.ends() => {
                    let _ = self.listener.pass(call.id);
                    return;
                }
                Err(errno) => {
                    let _ = self.listener.send(call.id, Err(errno));
                    return;
                }
            };
            self.asker.set_task(person.task.number());
            self.task = Arc::clone(&person.task);
        }
        if self.enters(&caller, call) {
            return;
        }
        let before = self.before(entry);
        let began = self.trace.begin();
        let reply = self.retry_estale(handler, &caller);
        if let Ok(Reply::AfterExec(process)) = reply {
            self.postponed.push((*call, Some(process)));
            self.after();
            return;
        }
        self.changed(entry, &caller);
        self.tell_of_call();
        self.trace.end(&self.task, began, entry, &caller, &reply);
        if let Err(Errno::EMFILE | Errno::ENFILE) = reply {
            self.room.missed();
        }
        let answered = match &reply {
            Ok(Reply::Value(value)) => Some(*value),
            Err(errno) => Some(-i64::from(errno.raw())),
            Ok(_) => None,
        };
        match (before, answered) {
            (Some(before), Some(answered)) => {
                self.lay_down(before, (call, handler), &caller, answered);
            }
            (Some(before), None) => self.opens_ahead(&before, call, &caller, &reply),
            (None, _) => {}
        }
        self.after();
        match self.asker.memory().and_then(|tid| self.patches.with_new_memory(tid)) {
            // Nobody has it before.
            Some(process) => self.held.push((*call, process, reply)),
            None => self.reply(call, reply),
        }
    }

    /// Answers a call anew as long as others move or remove what it is about between two looks at it: in Linux a file is held from its lookup
    /// on, and by who has it open. So who has it open needs to search no directory above, either.
    fn retry_estale(&mut self, handler: Handler, caller: &Caller) -> Result<Reply> {
        let mut reply = handler(self, caller);
        let mut tried = 0;
        while tried < TRIES
            && match reply {
                Err(Errno::ESTALE) => true,
                Err(Errno::EACCES) => {
                    tried == 0 && (caller.was_given_a_file() || self.asker.is_linked())
                }
                _ => false,
            }
        {
            caller.begins_again();
            self.asker.set(caller.tid);
            self.asker.ask_anew();
            reply = handler(self, caller);
            tried += 1;
        }
        if tried > 0 {
            self.asker.take_back();
        }
        reply
    }

    /// Answers what waited, where it need not any more.
    fn answer_waiting(&mut self) {
        for (call, waits) in std::mem::take(&mut self.postponed) {
            if waits.is_some_and(|process| self.patches.is_in_exec(process)) {
                self.postponed.push((call, waits));
            } else if self.listener.is_valid(call.id) {
                self.tell_of_contents();
                self.answer(&call);
            }
        }
        for (call, process, reply) in std::mem::take(&mut self.held) {
            if !self.listener.is_valid(call.id) {
                continue;
            }
            if self.patches.is_in_exec(process) {
                self.held.push((call, process, reply));
            } else {
                self.reply(&call, reply);
            }
        }
    }

    /// Closes what is open for what nobody has any more.
    fn sweep(&mut self) {
        let since = Instant::now();
        self.forget_unused();
        self.pidfds.clear();
        if let Some(inside) = &mut self.inside {
            inside.lets_go();
        }
        if let Some(people) = &mut self.people {
            people.sweep();
        }
        kin::keep_spare();
        self.room.swept(since);
    }

    /// Forgets the places that no process has any more, in whichever way it had them.
    pub(crate) fn forget_unused(&mut self) {
        self.forget(|_| true);
    }

    /// The same of those of which it is said that they may go.
    pub(crate) fn forget(&mut self, may_go: impl Fn(&HostId) -> bool) {
        self.cwds.moved();
        self.asker.images().sweep();
        self.loads.forget_ended();
        self.sockets.forget_unused(&self.cookies);
        let Self { cookies, watches, task, .. } = self;
        cookies.sweep(may_go, |cookies| watches.hear(cookies, task));
        watches.forget_unused(cookies);
        self.forget_set_ids();
    }

    /// Who does not wait any more needs no answer.
    fn reply(&mut self, call: &Notification, reply: Result<Reply>) {
        let id = call.id;
        let _ = match reply {
            Ok(Reply::Value(value)) => self.listener.send(id, Ok(value)),
            Ok(Reply::Install(fd, cloexec)) => self.give(call, fd.as_fd(), cloexec),
            Ok(Reply::InstallFile(file, cloexec)) => match file.host_fd() {
                Some(fd) => self.give(call, fd, cloexec),
                None => self.listener.send(id, Err(Errno::EIO)),
            },
            Ok(Reply::Pass) => self.listener.pass(id),
            Ok(Reply::Later | Reply::AfterExec(_)) => Ok(()),
            Err(errno) => self.listener.send(id, Err(errno)),
        };
    }

    /// Gives a thread a descriptor as the answer of its call, if it does not take it by itself: on this CPU where it can be kept there. It
    /// may run anywhere again before it sees the answer.
    ///
    /// # Errors
    ///
    /// As [`install`].
    fn give(&mut self, call: &Notification, fd: BorrowedFd<'_>, cloexec: Cloexec) -> Result<()> {
        if let Some(handed) = self.hand(call, fd, cloexec) {
            return self.listener.send(call.id, Ok(handed));
        }
        let listener = &self.listener;
        if self.stays.begins(call.tid) {
            return install(listener, call.id, fd, cloexec);
        }
        let Some(kept) = listener.wakes_here().then(|| Kept::here(call.tid)).flatten() else {
            return install(listener, call.id, fd, cloexec);
        };
        let number = listener.add_fd(call.id, fd, cloexec == Cloexec::Yes, false);
        drop(kept);
        listener.send(call.id, number)
    }

    /// Whether the thread still waits: what was read of it is its own. Of one that only looks it is not asked yet.
    ///
    /// # Errors
    ///
    /// - `ESRCH`: it does not; no answer reaches it.
    pub(crate) fn still_waits(&self, caller: &Caller) -> Result<()> {
        if caller.looks.get() || self.listener.is_valid(caller.id) {
            Ok(())
        } else {
            Err(Errno::ESRCH)
        }
    }

    /// Makes the library's umask the thread's, for a call that makes something.
    ///
    /// # Errors
    ///
    /// - `ESRCH`: the thread is gone.
    /// - `EMFILE`: no descriptor is left to ask with.
    pub(crate) fn take_umask(&mut self, caller: &Caller) -> Result<()> {
        let status = crate::sys::read_record(format!("/proc/{}/status", caller.tid));
        let status = status.map_err(|error| match crate::sys::errno_of(&error) {
            Errno::ENOENT => Errno::ESRCH,
            errno => errno,
        })?;
        let mut lines = status.split(|&byte| byte == b'\n');
        let line = lines.find_map(|line| line.strip_prefix(b"Umask:"));
        let text = line.and_then(|line| std::str::from_utf8(line).ok());
        let umask = text.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
        let umask = umask.ok_or(Errno::ESRCH)?;
        self.task.umask(umask);
        Ok(())
    }
}

/// Gives a thread a descriptor as the answer of its call.
///
/// # Errors
///
/// - `ENOENT`: it does not wait any more.
pub(crate) fn install(
    listener: &Listener,
    id: u64,
    fd: BorrowedFd<'_>,
    cloexec: Cloexec,
) -> Result<()> {
    match listener.add_fd(id, fd, cloexec == Cloexec::Yes, true) {
        Ok(_) => Ok(()),
        // A kernel before 5.14, or no room for one more.
        Err(errno) => listener.send(id, Err(errno)),
    }
}

pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

fn how(status: i32) -> Ended {
    if libc::WIFSIGNALED(status) {
        Ended::Killed(libc::WTERMSIG(status))
    } else {
        Ended::Exited(libc::WEXITSTATUS(status))
    }
}

/// Starts answering a program that was launched.
pub(crate) fn serve(
    launched: Launched,
    task: Task,
    virtual_: Option<Virtual>,
    cookies: Cookies,
    asker: crate::procfs::Asker,
    told: (Trace, Option<Inside>),
    outside: Outside,
) -> (Ended, Trace) {
    let mut engine = Engine::new(launched, task, virtual_, cookies, asker, told, outside);
    // Without one it is said of what cannot be looked at that it cannot.
    kin::keep_spare();
    // Where the kernel does not know how, it is no loss.
    let _ = process::run_for_short_times(AT_ONCE);
    for number in 0..3 {
        // The program has the same, where they are open.
        if let Ok(stat) = fs::stat(format!("/proc/self/fd/{number}")) {
            engine.adopt(std::process::id(), number, &stat);
        }
    }
    let ended = engine.serve();
    engine.trace.handed = engine.handed();
    engine.trace.ready = engine.ready();
    engine.trace.ahead = engine.inside.as_ref().and_then(Inside::ahead);
    // They are not taken apart: this process is about to end.
    std::mem::forget(engine.inside.take());
    std::mem::forget(std::mem::take(&mut engine.pidfds));
    (ended, engine.trace)
}
