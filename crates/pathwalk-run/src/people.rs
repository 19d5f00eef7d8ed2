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
//! 3. Before a maker's next call is answered, all that it made is looked for. So nobody changes before what he made is known,
//!    and nobody ends before: exit is a call.
//! 4. What a process made before it runs another program has nothing of what it becomes by that.
//!
//! A thread is known by its number as long as a descriptor of it says that it lives. Where there is none, as of other threads than
//! a process's first before Linux 6.9, the kernel is asked at each call when it began, which it counts in hundredths of a second.
//!
//! What cannot be told: whose child an orphan is, where several makers were killed before they or their children made a call.
//! Who may have made it is known, and where those are different people the orphan is nobody: all its calls are refused, so that
//! nobody ever has what his maker had not. For the same reason nobody has another one adopt what he makes (`CLONE_PARENT`).
//! Of which of several makers in a process a new thread is cannot be told either: the latest is believed, as they share memory.

use crate::{
    credentials::{By, Credentials},
    kin::{Facts, begun, children, facts, has_ended, is_ending, threads_of, ticks},
    procfs::{process_of_thread, status},
    sys::process::{self, Shares},
};
use parking_lot::Mutex;
use pathwalk::{CapSet, Errno, Result, Task};
use rustc_hash::{FxHashMap, FxHashSet};
use std::{io::Write as _, os::fd::OwnedFd, sync::Arc};

/// After so many ticks it is looked again which makers ended.
const LOOK: u64 = 10;
/// So many makers are kept of whose work nothing was seen, before those who ended become one where they are the same person.
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
    pidfd: Option<Arc<OwnedFd>>,
    /// Of a process: who it is when one of its threads, which is in the middle of exec, runs the program.
    becomes: Vec<(u32, Credentials)>,
}

impl Thread {
    /// Whether somebody may look into it, who it is and who it is about to be: what is looked at may be the one or the other.
    pub(crate) fn is_open_to(&self, who: &Credentials, by: By) -> bool {
        let becomes = self.becomes.iter().map(|(_, becomes)| becomes);
        std::iter::once(&self.person.credentials).chain(becomes).all(|is| who.may_access(is, by))
    }

    /// Whether the number is still its own.
    pub(crate) fn is_there(&self, tid: u32) -> bool {
        match &self.pidfd {
            Some(pidfd) => process::is_there(pidfd),
            None => begun(tid) == Ok(Some(self.begun)),
        }
    }
}

/// A thread that makes another one, which was not seen yet.
#[derive(Clone, Debug)]
struct Maker {
    tid: u32,
    process: u32,
    person: Arc<Person>,
    /// When it began itself, in the kernel's ticks.
    begun: u64,
    /// When it was let go, and when it had ended, if that was seen: what it made began between them.
    at: u64,
    ended: Option<u64>,
    /// Where its program's stack began, as that of what it makes does; 0 where nobody knows.
    stack: u64,
    /// Whether it stands for several, each of whom made one.
    several: bool,
}

impl Maker {
    /// Sees whether it ended.
    fn look(&mut self, now: u64) {
        if self.ended.is_none() && has_ended(self.tid, self.begun) {
            self.ended = Some(now);
        }
    }

    /// Whether it can have made a process whose parent this is not any more.
    fn may_have_made(&self, orphan: Facts) -> bool {
        let latest = self.ended.map_or(u64::MAX, |ended| ended + 1);
        let same_program = self.stack == orphan.stack || self.stack == 0 || orphan.stack == 0;
        (self.at.saturating_sub(1)..=latest).contains(&orphan.begun) && same_program
    }
}

/// The threads that are known, shared with the file system that shows processes.
pub(crate) type Threads = Arc<Mutex<FxHashMap<u32, Thread>>>;

/// All of them.
#[derive(Debug)]
pub(crate) struct People {
    threads: Threads,
    /// Who the program was at first.
    first: Arc<Person>,
    /// The latest last.
    makers: Vec<Maker>,
    looked: u64,
    /// Processes that take orphans.
    reapers: FxHashSet<u32>,
    /// Orphans that are nobody, and when they began.
    nobody: FxHashMap<u32, u64>,
    roots: u64,
    enough: usize,
    /// The effective capabilities that all had, who there are and who there were.
    all_had: CapSet,
}

impl People {
    /// The program's process, which begins with these.
    pub(crate) fn new(
        threads: Threads,
        program: u32,
        credentials: Credentials,
        task: Arc<Task>,
    ) -> Self {
        let all_had = credentials.effective;
        let first = Arc::new(Person { credentials, task, root: 0 });
        let people = Self {
            threads,
            first,
            makers: Vec::new(),
            looked: 0,
            reapers: FxHashSet::from_iter([std::process::id()]),
            nobody: FxHashMap::default(),
            roots: 0,
            enough: ENOUGH,
            all_had,
        };
        // There are descriptors at the start.
        let _ = people.note(program, program, &people.first);
        people
    }

    /// Whether all who there are, and who there were, had these effective capabilities.
    pub(crate) fn all_had(&self, caps: CapSet) -> bool {
        self.all_had.contains(caps)
    }

    /// Who the program was at first.
    pub(crate) fn first(&self) -> &Arc<Person> {
        &self.first
    }

    /// Who a thread is that makes a call.
    ///
    /// # Errors
    ///
    /// - `EPERM`: it is nobody.
    /// - `EMFILE`: no descriptor is left to look with.
    pub(crate) fn who(&mut self, tid: u32) -> Result<Arc<Person>> {
        if let Some(index) = self.makers.iter().position(|maker| maker.tid == tid)
            // An earlier one's number may be another's.
            && !has_ended(tid, self.makers[index].begun)
        {
            let maker = self.makers[index].clone();
            self.look_for_work_of(&maker)?;
            self.makers.retain(|other| (other.tid, other.begun) != (tid, maker.begun));
        }
        self.is(tid)
    }

    /// Who a thread is. That it makes no call is the difference: what it is about to make is not there yet.
    ///
    /// # Errors
    ///
    /// - `EPERM`: it is nobody.
    /// - `EMFILE`: no descriptor is left to look with.
    pub(crate) fn is(&mut self, tid: u32) -> Result<Arc<Person>> {
        if let Some(thread) = self.threads.lock().get(&tid)
            && thread.is_there(tid)
        {
            return Ok(Arc::clone(&thread.person));
        }
        if self.is_nobody(tid) {
            return Err(Errno::EPERM);
        }
        self.make_room();
        self.first_sight(tid)?.ok_or(Errno::EPERM)
    }

    /// Whether a thread's process is open to somebody.
    ///
    /// # Errors
    ///
    /// - `EPERM`: it is not, or the thread is nobody.
    pub(crate) fn is_open(&mut self, tid: u32, to: &Credentials) -> Result<()> {
        self.is(tid)?;
        let open = self.known(tid).is_some_and(|thread| thread.is_open_to(to, By::Real));
        if open { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Whether somebody may set the limits of a thread's process.
    ///
    /// # Errors
    ///
    /// - `EPERM`: he may not, or the thread is nobody.
    pub(crate) fn limits_are_open(&mut self, tid: u32, to: &Credentials) -> Result<()> {
        self.is(tid)?;
        let open = self.known(tid).is_some_and(|thread| {
            let may = |is: &Credentials| to.may_limit(is);
            may(&thread.person.credentials) && thread.becomes.iter().all(|(_, is)| may(is))
        });
        if open { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// The kernel may run another program from now on, by which the process of a thread becomes somebody. The thread gets the number
    /// of the process then.
    pub(crate) fn runs(&mut self, tid: u32, process: u32, becomes: &Credentials) {
        // It has no credentials of its own where it is nobody, and nobody may look into it.
        let _ = self.is(process);
        if let Some(thread) = self.threads.lock().get_mut(&process) {
            thread.becomes.push((tid, becomes.clone()));
        }
    }

    /// It did, or it does not.
    pub(crate) fn runs_no_more(&mut self, tid: u32, process: u32) {
        if let Some(thread) = self.threads.lock().get_mut(&process) {
            thread.becomes.retain(|(other, _)| *other != tid);
        }
    }

    /// The thread is about to make another one.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: too many people made somebody of whom nothing was seen.
    pub(crate) fn makes(&mut self, tid: u32) -> Result<()> {
        let Some(Thread { process, person, begun, .. }) = self.known(tid) else {
            return Err(Errno::EPERM);
        };
        let at = ticks();
        if at - self.looked >= LOOK || self.makers.len() >= MOST_MAKERS {
            self.look_for_ended();
        }
        if self.makers.len() >= MOST_MAKERS {
            self.join_makers();
        }
        if self.makers.len() >= MOST_MAKERS {
            return Err(Errno::EAGAIN);
        }
        let stack = facts(tid).ok().flatten().map_or(0, |facts| facts.stack);
        let (ended, several) = (None, false);
        self.makers.push(Maker { tid, process, person, begun, at, ended, stack, several });
        Ok(())
    }

    /// The thread, or its process, is about to end: what its threads made is looked for before nobody knows who did.
    pub(crate) fn ends(&mut self, tid: u32) {
        let Some(thread) = self.known(tid) else { return };
        for maker in self.makers_in(thread.process) {
            // What is not seen now is an orphan's, whose maker is looked for then.
            let _ = self.look_for_work_of(&maker);
        }
    }

    /// The makers in a process, the latest first.
    fn makers_in(&self, process: u32) -> Vec<Maker> {
        let of_process = |maker: &&Maker| maker.process == process;
        self.makers.iter().rev().filter(of_process).cloned().collect()
    }

    /// The process takes orphans from now on (`PR_SET_CHILD_SUBREAPER`).
    pub(crate) fn reaps(&mut self, tid: u32) {
        self.reapers.extend(self.known(tid).map(|thread| thread.process));
    }

    fn look_for_ended(&mut self) {
        self.looked = ticks();
        for maker in &mut self.makers {
            maker.look(self.looked);
        }
    }

    /// Makes one of those who ended and are the same person, and looks what the others made.
    fn join_makers(&mut self) {
        let alive: Vec<_> = self.makers.iter().filter(|one| one.ended.is_none()).cloned().collect();
        for maker in alive {
            if self.look_for_work_of(&maker) == Ok(true) {
                self.makers.retain(|other| (other.tid, other.begun) != (maker.tid, maker.begun));
            }
        }
        let mut joined: Vec<Maker> = Vec::new();
        for maker in std::mem::take(&mut self.makers) {
            let same =
                |other: &&mut Maker| other.ended.is_some() && is_same(&other.person, &maker.person);
            match joined.iter_mut().find(same) {
                Some(other) if maker.ended.is_some() => {
                    other.at = other.at.min(maker.at);
                    other.ended = other.ended.max(maker.ended);
                    (other.stack, other.several) = (0, true);
                }
                _ => joined.push(maker),
            }
        }
        self.makers = joined;
    }

    /// What a maker made, and was not heard of yet, has what he has. Returns whether that was a process.
    ///
    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left to look with.
    fn look_for_work_of(&mut self, maker: &Maker) -> Result<bool> {
        let mut found = false;
        for child in children(maker.process, maker.tid)? {
            if self.is_known(child) || self.is_nobody(child) {
                continue;
            }
            if self.reapers.contains(&maker.process) {
                // It may be an orphan.
                self.first_sight(child)?;
            } else {
                self.note(child, child, &maker.person)?;
                found = true;
            }
        }
        for thread in threads_of(maker.process)? {
            if !self.is_known(thread) {
                self.note(thread, maker.process, &maker.person)?;
            }
        }
        Ok(found)
    }

    /// Gives a thread other credentials.
    pub(crate) fn become_(&mut self, tid: u32, credentials: Credentials) {
        let Some(thread) = self.known(tid) else { return };
        if thread.person.credentials == credentials {
            return;
        }
        self.all_had &= credentials.effective;
        let person = self.person(credentials, &thread.person);
        if let Some(thread) = self.threads.lock().get_mut(&tid) {
            thread.person = person;
        }
    }

    /// The process of this number, of which a thread ran another program, is that thread alone.
    ///
    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left to look with.
    pub(crate) fn ran(&mut self, tid: u32, process: u32, credentials: Credentials) -> Result<()> {
        let Some(thread) = self.known(tid) else { return Ok(()) };
        // All its other threads are gone, and what they made is this one's child.
        for maker in self.makers_in(process) {
            self.look_for_work_of(&Maker { tid: process, ..maker })?;
        }
        self.makers.retain(|maker| maker.process != process);
        self.all_had &= credentials.effective;
        let person = self.person(credentials, &thread.person);
        self.threads.lock().retain(|_, thread| thread.process != process);
        self.note(process, process, &person)
    }

    /// All threads of a process that have what one of them has: nothing new by what they run.
    ///
    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left to look with.
    pub(crate) fn none_new_privs(&mut self, tid: u32) -> Result<()> {
        let Some(process) = self.known(tid).map(|thread| thread.process) else { return Ok(()) };
        for thread in threads_of(process)? {
            if let Ok(person) = self.is(thread) {
                let credentials = person.credentials.clone();
                self.become_(thread, Credentials { no_new_privs: true, ..credentials });
            }
        }
        Ok(())
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
        self.known(tid).is_some_and(|thread| !has_ended(tid, thread.begun))
    }

    fn is_nobody(&self, tid: u32) -> bool {
        self.nobody.get(&tid).is_some_and(|since| !has_ended(tid, *since))
    }

    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left to look with.
    fn note(&self, tid: u32, process: u32, person: &Arc<Person>) -> Result<()> {
        let pidfd = process::thread(tid).ok().map(Arc::new);
        // Who is gone calls no more.
        let Some(begun) = begun(tid)? else { return Ok(()) };
        let person = Arc::clone(person);
        let thread = Thread { person, process, begun, pidfd, becomes: Vec::new() };
        self.threads.lock().insert(tid, thread);
        Ok(())
    }

    /// Who a thread is of which nothing was heard yet: who made it. None where that may be several; that is told.
    ///
    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left to look with.
    fn first_sight(&mut self, tid: u32) -> Result<Option<Arc<Person>>> {
        let Some(process) = process_of_thread(tid) else {
            return if is_ending(tid) { Ok(None) } else { Err(Errno::EMFILE) };
        };
        let made_by = if process == tid { status(tid, "PPid:") } else { Some(process) };
        let made_by = made_by.unwrap_or_default();
        let person = if process == tid && self.reapers.contains(&made_by) {
            self.maker_of_orphan(tid, made_by)?
        } else {
            match self.maker_in(made_by, tid)? {
                Some(index) => Some(self.makers.remove(index).person),
                None => self.anyone_of(made_by),
            }
        };
        let Some(person) = person else {
            if let Some(begun) = begun(tid)? {
                self.nobody.insert(tid, begun);
                // Standard error may be closed.
                let why =
                    "its maker ended, and who that was cannot be told: all its calls answer EPERM";
                let _ = writeln!(std::io::stderr(), "pathwalk: process {tid}: {why}");
            }
            return Ok(None);
        };
        self.note(tid, process, &person)?;
        Ok(Some(person))
    }

    /// The maker of a thread among those of a process.
    fn maker_in(&self, process: u32, tid: u32) -> Result<Option<usize>> {
        let of_process = |maker: &&Maker| maker.process == process;
        if self.makers.iter().filter(of_process).count() > 1 {
            for (index, maker) in self.makers.iter().enumerate().filter(|(_, one)| of_process(one))
            {
                if children(process, maker.tid)?.contains(&tid) {
                    return Ok(Some(index));
                }
            }
        }
        Ok(self.makers.iter().rposition(|maker| of_process(&maker)))
    }

    /// Who made a process whose parent took it when its maker ended, if it is not the parent's own. All who may have are looked
    /// at; None where they are not the same person.
    fn maker_of_orphan(&mut self, tid: u32, parent: u32) -> Result<Option<Arc<Person>>> {
        let Some(orphan) = facts(tid)? else { return Ok(None) };
        self.look_for_ended();
        let mut found = self.makers.iter().enumerate().filter(|(_, maker)| {
            (maker.ended.is_some() || maker.process == parent) && maker.may_have_made(orphan)
        });
        let Some((index, first)) = found.next() else { return Ok(None) };
        let mut alone = !first.several;
        for (_, other) in found {
            if !is_same(&other.person, &first.person) {
                return Ok(None);
            }
            alone = false;
        }
        let person = Arc::clone(&first.person);
        if alone {
            // Whose it is, is certain, and he made no other.
            self.makers.remove(index);
        }
        Ok(Some(person))
    }

    fn anyone_of(&self, process: u32) -> Option<Arc<Person>> {
        let threads = self.threads.lock();
        let found = threads.get(&process).filter(|thread| thread.process == process);
        let found = found.or_else(|| threads.values().find(|thread| thread.process == process));
        found.map(|thread| Arc::clone(&thread.person))
    }

    /// Forgets who is gone, where many are known.
    fn make_room(&mut self) {
        if self.threads.lock().len() < self.enough {
            return;
        }
        self.sweep();
        self.enough = (2 * self.threads.lock().len()).max(ENOUGH);
    }

    /// Forgets who is gone, each of whom may have a descriptor here.
    pub(crate) fn sweep(&mut self) {
        self.threads.lock().retain(|tid, thread| !has_ended(*tid, thread.begun));
        self.nobody.retain(|tid, since| !has_ended(*tid, *since));
        let own = std::process::id();
        self.reapers.retain(|&process| process == own || !is_ending(process));
    }
}

/// Whether two are the same, for all that is asked of them.
fn is_same(one: &Person, other: &Person) -> bool {
    one.root == other.root && one.credentials == other.credentials
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathwalk::{Config, MemFs, Vfs};
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().expect("sleep")
    }

    fn who(people: &mut People, tid: u32) -> Arc<Person> {
        people.who(tid).expect("it is somebody")
    }

    #[test]
    fn a_child_has_what_its_maker_had_when_it_was_made() {
        let vfs = Vfs::new(Config::default(), MemFs::new()).expect("a tree");
        let root = Credentials::new(0, 0, &[]);
        let own = std::process::id();
        let task = Arc::new(vfs.task(root.cred()));
        let mut people = People::new(Threads::default(), own, root, task);
        // Here it is the program, and takes no orphans.
        people.reapers.clear();
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let before = people.who(tid).expect("it is the program");
        assert!(Arc::ptr_eq(&before, people.first()));
        people.makes(tid).expect("it is known");
        let mut child = sleeper();
        // The next call.
        people.who(tid).expect("it is known");
        people.become_(tid, Credentials::new(33, 33, &[]));
        assert_eq!(who(&mut people, tid).credentials.user.real, 33);
        assert!(Arc::ptr_eq(&who(&mut people, child.id()), &before), "made before the change");
        assert_eq!(who(&mut people, tid).task.cred().uid, 33);
        // As many as are equal are one.
        people.become_(child.id(), Credentials::new(33, 33, &[]));
        let both = [child.id(), tid].map(|tid| who(&mut people, tid));
        assert!(Arc::ptr_eq(&both[0], &both[1]));
        let known = people.known(child.id()).expect("it called");
        assert!(known.is_there(child.id()));
        child.kill().expect("it runs");
        child.wait().expect("it runs");
        assert_eq!(begun(child.id()), Ok(None));
        // However short ago it was heard.
        assert!(!known.is_there(child.id()));
        // That somebody asks who it is, is no call of its own.
        people.become_(tid, Credentials::new(0, 0, &[]));
        people.makes(tid).expect("it is known");
        people.is(tid).expect("it is known");
        let mut child = sleeper();
        people.who(tid).expect("it is known");
        people.become_(tid, Credentials::new(33, 33, &[]));
        assert!(Arc::ptr_eq(&who(&mut people, child.id()), &before), "made before the change");
        child.kill().expect("it runs");
        child.wait().expect("it runs");
    }
}
