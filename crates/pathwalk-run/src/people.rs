//! Who the threads of the program are, where they have virtual credentials.
//!
//! ```text
//!   thread ──► Person: credentials, and a task of the library that has them and a root
//!                equal ones are one, so that what the library remembers for a task serves all of them
//! ```
//!
//! The kernel tells nobody of a new thread, but the call that makes one comes by here:
//!
//! 1. Who makes one is noted, with what he has.
//! 2. A thread that was never heard of has what its maker had: its parent's, or that of the process that it is a thread of.
//! 3. Before a maker's next call is answered, all that it made is looked for. So nobody changes before what he made is known.
//!
//! A thread is known by its number and when it began, which the kernel is asked for again if it was silent for so long that
//! its number may be another's.
//!
//! What cannot be told: whose child an orphan is, where several makers ended before they or their children made a call; of
//! which of several makers in a process a new thread is; and that of a maker who has his parent adopt what he makes
//! (`CLONE_PARENT`). The latest maker, and the parent, are believed.

use crate::{
    credentials::Credentials,
    procfs::status,
    sys::process::{self, Shares},
};
use parking_lot::Mutex;
use pathwalk::Task;
use rustix::time::{ClockId, clock_gettime};
use std::{
    collections::HashMap,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

/// No number of a thread comes back so soon.
const LONGEST: Duration = Duration::from_millis(100);
/// So many ticks after its maker was let go a thread begins at the latest.
const LATE: u64 = 300;
/// So many makers are kept of whose work nothing was seen.
const MOST_MAKERS: usize = 1024;
/// So many threads are kept without a look at which of them live.
const ENOUGH: usize = 256;

/// Somebody.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) credentials: Credentials,
    /// Asks the library as this one, from the root of this one.
    pub(crate) task: Arc<Task>,
    /// Those that have the same have the same root.
    root: u64,
}

/// A thread that is known.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) person: Arc<Person>,
    process: u32,
    /// When it began, in the kernel's ticks.
    begun: u64,
    heard: Instant,
}

/// A thread that makes another one, which was not seen yet.
#[derive(Debug)]
struct Maker {
    tid: u32,
    process: u32,
    person: Arc<Person>,
    /// When, in the kernel's ticks; and where its program's stack began, as that of what it makes does.
    at: u64,
    stack: u64,
}

/// The threads that are known, shared with the file system that shows processes.
pub(crate) type Threads = Arc<Mutex<HashMap<u32, Thread>>>;

/// All of them.
#[derive(Debug)]
pub(crate) struct People {
    threads: Threads,
    /// Who the program was at first.
    first: Arc<Person>,
    /// The latest last.
    makers: Vec<Maker>,
    roots: u64,
    enough: usize,
}

impl People {
    /// The program's process, which begins with these.
    pub(crate) fn new(
        threads: Threads,
        program: u32,
        credentials: Credentials,
        task: Arc<Task>,
    ) -> Self {
        let first = Arc::new(Person { credentials, task, root: 0 });
        let people = Self { threads, first, makers: Vec::new(), roots: 0, enough: ENOUGH };
        people.note(program, program, &people.first);
        people
    }

    /// Who the program was at first.
    pub(crate) fn first(&self) -> &Arc<Person> {
        &self.first
    }

    /// Who a thread is that makes a call.
    pub(crate) fn who(&mut self, tid: u32) -> Arc<Person> {
        if let Some(index) = self.makers.iter().position(|maker| maker.tid == tid) {
            let maker = self.makers.remove(index);
            self.look_for_work_of(&maker);
        }
        let now = Instant::now();
        if let Some(thread) = self.threads.lock().get_mut(&tid)
            && (now - thread.heard < LONGEST || begun(tid) == Some(thread.begun))
        {
            thread.heard = now;
            return Arc::clone(&thread.person);
        }
        self.make_room();
        self.first_sight(tid)
    }

    /// The thread is about to make another one.
    pub(crate) fn makes(&mut self, tid: u32) {
        let Some(Thread { process, person, .. }) = self.known(tid) else { return };
        if self.makers.len() == MOST_MAKERS {
            self.makers.remove(0);
        }
        let stack = facts(tid).map_or(0, |facts| facts.stack);
        self.makers.push(Maker { tid, process, person, at: ticks(), stack });
    }

    /// What a maker made, and was not heard of yet, has what he has.
    fn look_for_work_of(&self, maker: &Maker) {
        for child in children(maker.process, maker.tid) {
            if !self.is_known(child) {
                self.note(child, child, &maker.person);
            }
        }
        for thread in threads_of(maker.process) {
            if !self.is_known(thread) {
                self.note(thread, maker.process, &maker.person);
            }
        }
    }

    /// Gives a thread other credentials.
    pub(crate) fn become_(&mut self, tid: u32, credentials: Credentials) {
        let Some(thread) = self.known(tid) else { return };
        if thread.person.credentials == credentials {
            return;
        }
        let person = self.person(credentials, &thread.person);
        if let Some(thread) = self.threads.lock().get_mut(&tid) {
            thread.person = person;
        }
    }

    /// The process of this number, of which a thread ran another program, is that thread alone.
    pub(crate) fn ran(&mut self, tid: u32, process: u32, credentials: Credentials) {
        let Some(thread) = self.known(tid) else { return };
        let person = self.person(credentials, &thread.person);
        self.threads.lock().retain(|_, thread| thread.process != process);
        self.note(process, process, &person);
    }

    /// Gives a thread, and all that share root and current directory with it, the root that a task has.
    pub(crate) fn change_root(&mut self, tid: u32, rooted: Task) {
        let Some(thread) = self.known(tid) else { return };
        self.roots += 1;
        let rooted = Arc::new(rooted);
        let credentials = thread.person.credentials.clone();
        let example = Arc::new(Person { credentials, task: rooted, root: self.roots });
        let sharing: Vec<(u32, Arc<Person>)> = {
            let threads = self.threads.lock();
            let shares = |other: u32, process: u32| match process::shares_place(tid, other) {
                Shares::Yes => true,
                Shares::No => false,
                Shares::Unknown => process == thread.process,
            };
            let found = threads.iter().filter(|(other, found)| shares(**other, found.process));
            found.map(|(other, found)| (*other, Arc::clone(&found.person))).collect()
        };
        for (other, person) in sharing {
            let person = self.person(person.credentials.clone(), &example);
            if let Some(thread) = self.threads.lock().get_mut(&other) {
                thread.person = person;
            }
        }
    }

    /// Somebody with these credentials and the root of another: one that there is, or a new one.
    fn person(&self, credentials: Credentials, other: &Arc<Person>) -> Arc<Person> {
        let same =
            |person: &Arc<Person>| person.root == other.root && person.credentials == credentials;
        if same(other) {
            return Arc::clone(other);
        }
        let found = self.threads.lock().values().find(|thread| same(&thread.person)).cloned();
        if let Some(found) = found {
            return found.person;
        }
        let mut task = other.task.fork();
        task.set_cred(credentials.cred());
        Arc::new(Person { credentials, task: Arc::new(task), root: other.root })
    }

    fn known(&self, tid: u32) -> Option<Thread> {
        self.threads.lock().get(&tid).cloned()
    }

    fn is_known(&self, tid: u32) -> bool {
        self.known(tid).is_some_and(|thread| begun(tid) == Some(thread.begun))
    }

    fn note(&self, tid: u32, process: u32, person: &Arc<Person>) {
        // Who is gone calls no more.
        let Some(begun) = begun(tid) else { return };
        let person = Arc::clone(person);
        let thread = Thread { person, process, begun, heard: Instant::now() };
        self.threads.lock().insert(tid, thread);
    }

    /// Who a thread is of which nothing was heard yet: who made it.
    fn first_sight(&mut self, tid: u32) -> Arc<Person> {
        let process = status(tid, "Tgid:").unwrap_or(tid);
        let made_by = if process == tid { status(tid, "PPid:") } else { Some(process) };
        let made_by = made_by.unwrap_or_default();
        let maker = if made_by == std::process::id() {
            self.maker_of_orphan(tid)
        } else {
            self.maker_in(made_by, tid)
        };
        let person = match maker {
            Some(index) => self.makers.remove(index).person,
            None => self.anyone_of(made_by).unwrap_or_else(|| Arc::clone(&self.first)),
        };
        self.note(tid, process, &person);
        person
    }

    /// The maker of a thread among those of a process.
    fn maker_in(&self, process: u32, tid: u32) -> Option<usize> {
        let of_process = |maker: &&Maker| maker.process == process;
        if self.makers.iter().filter(of_process).count() > 1 {
            let made = |maker: &Maker| children(process, maker.tid).contains(&tid);
            let found = self.makers.iter().position(|maker| of_process(&maker) && made(maker));
            if found.is_some() {
                return found;
            }
        }
        self.makers.iter().rposition(|maker| of_process(&maker))
    }

    /// The maker of a process whose maker is gone: the latest who was there when it began, of its own program if there is one.
    fn maker_of_orphan(&self, tid: u32) -> Option<usize> {
        let orphan = facts(tid)?;
        let times = |maker: &Maker| maker.at.saturating_sub(1)..=maker.at + LATE;
        let may_be =
            |maker: &Maker| times(maker).contains(&orphan.begun) && begun(maker.tid).is_none();
        let same = |maker: &Maker| maker.stack == orphan.stack;
        let own = self.makers.iter().rposition(|maker| same(maker) && may_be(maker));
        own.or_else(|| self.makers.iter().rposition(may_be))
    }

    fn anyone_of(&self, process: u32) -> Option<Arc<Person>> {
        let threads = self.threads.lock();
        let found = threads.get(&process).filter(|thread| thread.process == process);
        let found = found.or_else(|| threads.values().find(|thread| thread.process == process));
        found.map(|thread| Arc::clone(&thread.person))
    }

    /// Forgets who is gone, where many are known.
    fn make_room(&mut self) {
        let mut threads = self.threads.lock();
        if threads.len() < self.enough {
            return;
        }
        threads.retain(|tid, thread| begun(*tid) == Some(thread.begun));
        self.enough = (2 * threads.len()).max(ENOUGH);
    }
}

/// What the kernel tells of a thread.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// When it began.
    begun: u64,
    /// Where the stack of its program began.
    stack: u64,
}

/// What there is to tell; nothing where there is no such thread, or it ended and was not waited for.
fn facts(tid: u32) -> Option<Facts> {
    let text = fs::read(format!("/proc/{tid}/stat")).ok()?;
    // The name before it may have blanks and parentheses in it.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let mut words = rest.split_ascii_whitespace();
    if matches!(words.next()?, "Z" | "X") {
        return None;
    }
    let (begun, stack) = (words.nth(18)?.parse().ok()?, words.nth(5)?.parse().ok()?);
    Some(Facts { begun, stack })
}

fn begun(tid: u32) -> Option<u64> {
    facts(tid).map(|facts| facts.begun)
}

/// The time in the kernel's ticks, as it counts when threads begin.
fn ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let per_second = rustix::param::clock_ticks_per_second();
    now.tv_sec as u64 * per_second + now.tv_nsec as u64 * per_second / 1_000_000_000
}

/// The processes that a thread made and that are its children.
fn children(process: u32, tid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{tid}/children"));
    numbers(text.unwrap_or_default().split_ascii_whitespace())
}

fn threads_of(process: u32) -> Vec<u32> {
    let list = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let names: Vec<_> = list.map(|entry| entry.file_name()).collect();
    numbers(names.iter().filter_map(|name| name.to_str()))
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Vec<u32> {
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathwalk::{Config, MemFs, Vfs};
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().expect("sleep")
    }

    #[test]
    fn a_child_has_what_its_maker_had_when_it_was_made() {
        let vfs = Vfs::new(Config::default(), MemFs::new()).expect("a tree");
        let root = Credentials::new(0, 0, &[]);
        let own = std::process::id();
        let task = Arc::new(vfs.task(root.cred()));
        let mut people = People::new(Threads::default(), own, root, task);
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let before = people.who(tid);
        assert!(Arc::ptr_eq(&before, people.first()));
        people.makes(tid);
        let mut child = sleeper();
        // The next call.
        people.who(tid);
        people.become_(tid, Credentials::new(33, 33, &[]));
        assert_eq!(people.who(tid).credentials.user.real, 33);
        assert!(Arc::ptr_eq(&people.who(child.id()), &before), "made before the change");
        assert_eq!(people.who(tid).task.cred().uid, 33);
        // As many as are equal are one.
        people.become_(child.id(), Credentials::new(33, 33, &[]));
        assert!(Arc::ptr_eq(&people.who(child.id()), &people.who(tid)));
        child.kill().expect("it runs");
        child.wait().expect("it runs");
        assert_eq!(begun(child.id()), None);
    }
}
