//! What a program is expected to open next lies ready before it asks for it.
//!
//! ```text
//!   a program opens A, then B, then C ──► noted: behind A comes B, behind B comes C
//!   another process of it opens A ──► B and C are opened too, and put behind A (hands)
//!   it opens B ──► image: the table says that B lies there ──► recvmsg ──► the descriptor
//! ```
//!
//! Who runs a program again opens the same files in the same order: its libraries, its modules, its headers. To be asked for each takes two
//! switches between processes; to open some more while one is asked for takes a third of that.
//!
//! Rules:
//!
//! 1. What lies ready is what the call would open: it holds as long as any other answer that the process finds by itself, and hangs on the
//!    same counts. So it is of directories of the host alone of which that tells, and where the program may not write.
//! 2. It is opened to read, and is a regular file, which is known before: nothing is made by that. Who leased it hears of it, and is not
//!    waited for. Or it is opened as a directory, and would be given as the host has it (`directory`); not for programs that ask about what is in
//!    directories that they opened, for whom that is laid down when they are (`lister`).
//! 3. It is the thread's that has the socket, and is taken in the order in which it lies there. What is opened in another order is
//!    asked for, and what lay there is taken back; but for `..`, by which one goes up again, and on from there. Who asks for the first, as
//!    something had happened elsewhere when he looked, takes that one, and the rest stays.
//! 4. It is expected what came next the last time; what did not come is expected no more until it came twice, and what a thread did itself
//!    once is expected of others alone. For each process few lie ready at first, and more as it takes them.
//! 5. Nothing lies ready from when somebody watches what is done: he would be told of what nobody opened, and not of what is opened. What
//!    lay there is taken back before.
//! 6. It lies in a socket that the process has, and who came of it since: with the last of them it ends, or when another process gets a
//!    socket after it ended. In all of them there are no more than some.

use super::{
    Before, Inside, KNOWN, MOST_COUNTED, Part, beside,
    directory::{Opening, is_up},
    hands::{Opens, Other, can_be_made_again},
    laid::{End, No, OwnKey, end_of, key_of},
};
use crate::{
    cookies::HostId,
    engine::{Base, Caller, Engine, Reply},
    sys::{answer, seccomp::Notification},
};
use pathwalk::{At, Errno, File, FileType, OpenFlags};
use pathwalk_inside::{Key, MOST_PARTS, OPEN};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs;
use std::collections::HashMap;

/// Of so many openings it is kept in mind what came next.
const MOST_FOLLOWS: usize = 1 << 14;
/// Flags of what lies ready.
const PLAIN: OpenFlags = OpenFlags::CLOEXEC
    .union(OpenFlags::NOCTTY)
    .union(OpenFlags::LARGEFILE)
    .union(OpenFlags::NOFOLLOW);

/// What is opened behind what, by programs.
#[derive(Debug, Default)]
pub(super) struct Follows {
    by_program: FxHashMap<HostId, HashMap<Box<[u8]>, Next>>,
    count: usize,
    /// Programs that ask about what is in directories.
    asking: FxHashSet<HostId>,
}

/// What came next.
#[derive(Debug)]
struct Next {
    key: OwnKey,
    expected: By,
    /// It may not lie ready.
    never: bool,
    /// The parts of the tree that it hangs on, and how often something had been changed there when that was found.
    parts: Vec<(usize, u64)>,
}

/// By whom it is expected to come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Nobody,
    /// By all but the thread with this socket, who alone opened it so, and once.
    Others(u64),
    All,
}

/// A file that was opened before somebody asked for it.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) key: OwnKey,
    pub(super) file: File,
    pub(super) id: HostId,
    pub(super) parts: Vec<(usize, u64)>,
}

impl Follows {
    /// A program opened this behind that, by the thread with this socket.
    pub(super) fn note(&mut self, (program, ino): (HostId, u64), last: Box<[u8]>, key: &OwnKey) {
        if self.count >= MOST_FOLLOWS {
            (self.by_program, self.count) = Default::default();
        }
        let next = self.by_program.entry(program).or_default();
        match next.get_mut(&last) {
            Some(next) if next.key == *key => next.expected = By::All,
            Some(next) => *next = Next::new(key, By::Nobody),
            None => {
                self.count += 1;
                next.insert(last, Next::new(key, By::Others(ino)));
            }
        }
    }

    /// Whether a process of a program took what it opened by itself, one thing behind another.
    pub(super) fn knows(&self, program: HostId) -> bool {
        self.by_program.contains_key(&program)
    }

    /// A program asks about what is in a directory that it opened.
    fn asks(&mut self, program: HostId) {
        if self.asking.len() >= MOST_COUNTED {
            self.asking.clear();
        }
        self.asking.insert(program);
    }

    /// What a program is expected to open behind this, by the thread with this socket.
    fn next(&mut self, (program, ino): (HostId, u64), path: &[u8]) -> Option<&mut Next> {
        let asks = self.asking.contains(&program);
        let next = self.by_program.get_mut(&program)?.get_mut(path)?;
        let expected = ![By::Nobody, By::Others(ino)].contains(&next.expected);
        let may = expected && !next.never && !(asks && opens_directory(&next.key));
        may.then_some(next)
    }
}

impl Next {
    fn new(key: &OwnKey, expected: By) -> Self {
        let flags = OpenFlags::from_bits_retain(key.key().args[0]);
        let plain = if opens_directory(key) { beside::PLAIN } else { PLAIN };
        let may = key.key().text.starts_with(b"/") && (flags - plain).is_empty();
        Self { key: key.clone(), expected, never: !may, parts: Vec::new() }
    }
}

/// Whether a call opens a directory, and nothing else.
fn opens_directory(key: &OwnKey) -> bool {
    OpenFlags::from_bits_retain(key.key().args[0]).contains(OpenFlags::DIRECTORY)
}

impl Engine {
    /// A call opened something: what the thread is expected to open next is opened, too.
    pub(crate) fn opens_ahead(
        &mut self,
        before: &Before,
        call: &Notification,
        caller: &Caller,
        reply: &pathwalk::Result<Reply>,
    ) {
        let opened = matches!(reply, Ok(Reply::Install(..) | Reply::InstallFile(..)));
        if !opened || !Inside::is_in(call) || !can_be_made_again(call) {
            return;
        }
        let Some(mut inside) = self.inside.take() else { return };
        inside.expected.clear();
        (inside.aside, inside.first) = (false, None);
        // Who watches is told of all that is opened, and nothing is looked at ahead from then on.
        let watched = inside.ahead.is_none();
        let key = key_of(call, caller).filter(|_| !watched);
        // Who goes up goes on where he was then.
        inside.aside = key.as_ref().is_some_and(|key| is_up(key.key().text));
        if let (Some(key), Ok(Reply::InstallFile(file, _)), Some((base, _))) =
            (&key, reply, &*caller.base.borrow())
        {
            self.lists(&mut inside, before, (call.tid, base, key), file);
        }
        let Inside { hands, table, aside, .. } = &mut inside;
        if let (Some(key), false) = (key, *aside) {
            let id = || match reply {
                Ok(Reply::InstallFile(file, _)) => HostId::of_fd(file.host_fd()?).ok(),
                _ => None,
            };
            match hands.opens(table, call.tid, &key, id) {
                Some(Opens::First(number)) => inside.first = Some(number),
                Some(Opens::Other(other)) => {
                    self.expect(&mut inside, before, (caller, other), (&key, reply));
                }
                None => {}
            }
        }
        self.inside = Some(inside);
    }

    /// A thread opened what did not lie ready: what it is expected to open next is opened.
    fn expect(
        &mut self,
        inside: &mut Inside,
        before: &Before,
        (caller, other): (&Caller, Other),
        (key, reply): (&OwnKey, &pathwalk::Result<Reply>),
    ) {
        let tid = caller.tid;
        let Other { program, ino, most, mut row, left } = other;
        if inside.listers.asks(tid) {
            inside.hands.follows.asks(program);
        }
        let who = (tid, (program, ino), most);
        let mut expected = self.expected(inside, before, who, key);
        let base = caller.base.borrow();
        if let (true, Ok(Reply::InstallFile(file, _)), Some((base, _))) =
            (expected.is_empty(), reply, &*base)
        {
            let at = (tid, row, left, most);
            (expected, row) = self.expected_beside(inside, before, (base, key), file, at);
        }
        inside.hands.is_at(tid, row);
        inside.expected = expected;
    }

    /// What a program is expected to open behind this, opened.
    fn expected(
        &mut self,
        inside: &mut Inside,
        before: &Before,
        (tid, who, most): (u32, (HostId, u64), usize),
        key: &OwnKey,
    ) -> Vec<Expected> {
        let mut all = Vec::new();
        let mut path = key.path();
        while all.len() < most
            && let Some(next) = inside.hands.follows.next(who, &path)
        {
            // By one call one lies there.
            if all.iter().any(|expected: &Expected| expected.key == next.key) {
                break;
            }
            let (key, known) = (next.key.clone(), next.parts.clone());
            let expected = self.open_expected(inside, before, tid, (key, known));
            if let Some(next) = inside.hands.follows.next(who, &path) {
                match &expected {
                    Ok(expected) => next.parts.clone_from(&expected.parts),
                    Err(no) => next.never = *no == No::Ever,
                }
            }
            let Ok(expected) = expected else { break };
            path = expected.key.path();
            all.push(expected);
        }
        all
    }

    /// Opens what a call would open, if it may lie ready. It is looked at before it is opened: somebody may
    /// see that of what is no regular file, or lies where the program may write.
    fn open_expected(
        &mut self,
        inside: &mut Inside,
        before: &Before,
        tid: u32,
        (key, known): (OwnKey, Vec<(usize, u64)>),
    ) -> Result<Expected, No> {
        let same = |&(part, count): &(usize, u64)| before.counts[part] == count;
        let parts = if !known.is_empty() && known.iter().all(same) {
            known
        } else {
            self.may_lie_ready(inside, before, &key)?
        };
        let flags = OpenFlags::from_bits_retain(key.key().args[0]);
        if opens_directory(&key) {
            return self.open_directory(inside, tid, key, parts);
        }
        // Who leased it is not waited for.
        let flags = flags | OpenFlags::NONBLOCK;
        let opened = self.task.openat(At::Cwd, key.key().text, flags, 0).and_then(|file| {
            let host = file.host_fd().ok_or(Errno::EBADF)?;
            let status = answer(fs::fcntl_getfl(host))?;
            answer(fs::fcntl_setfl(host, status - fs::OFlags::NONBLOCK))?;
            Ok((HostId::of_fd(host)?, file))
        });
        let (id, file) = opened.map_err(|_| No::Now)?;
        self.know(id, &file).ok_or(No::Ever)?;
        self.touched(id);
        Ok(Expected { key, file, id, parts })
    }

    /// The same of a directory, where it would be given as it is; it hangs on what descriptors stand for, too.
    fn open_directory(
        &mut self,
        inside: &mut Inside,
        tid: u32,
        key: OwnKey,
        mut parts: Vec<(usize, u64)>,
    ) -> Result<Expected, No> {
        let flags = OpenFlags::from_bits_retain(key.key().args[0]);
        let file = self.task.openat(At::Cwd, key.key().text, flags, 0).map_err(|_| No::Now)?;
        let id = file.host_fd().ok_or(Errno::EBADF).and_then(HostId::of_fd);
        let id = id.map_err(|_| No::Now)?;
        if !self.gives_to(inside, tid, &file, Opening::Expected) {
            return Err(No::Now);
        }
        parts.retain(|(part, _)| *part != KNOWN);
        parts.push((KNOWN, inside.counts.get(KNOWN)));
        if parts.len() <= MOST_PARTS {
            Ok(Expected { key, file, id, parts })
        } else {
            Err(No::Ever)
        }
    }

    /// What it hangs on that a path leads to a regular file of a directory of the host that is only read, and of which that tells; none where
    /// it does not, or that is not known.
    pub(crate) fn stays_by(&self, before: &Before, path: &[u8]) -> Option<Vec<(usize, u64)>> {
        let key = OwnKey::of(&Key { nr: OPEN, args: [0, 0], base: [0, 0], text: path });
        let inside = self.inside.as_ref().filter(|_| path.starts_with(b"/"))?;
        self.may_lie_ready(inside, before, &key).ok()
    }

    /// What it hangs on that a call opens a regular file of a directory of the host that is only read, and of which that tells; or a directory
    /// there that may be given as it is, if it opens that and nothing else.
    fn may_lie_ready(
        &self,
        inside: &Inside,
        before: &Before,
        key: &OwnKey,
    ) -> Result<Vec<(usize, u64)>, No> {
        let End { part, stat, parts } = end_of(&self.task, inside, before, (&Base::Root, key))?;
        let Part::Host { writable: false, plain, root, .. } = part else { return Err(No::Ever) };
        let may = match FileType::from_mode(stat.st_mode) {
            Some(FileType::Regular) => !opens_directory(key),
            Some(FileType::Directory) => opens_directory(key) && plain && stat.st_ino != root,
            _ => false,
        };
        if may { Ok(parts) } else { Err(No::Ever) }
    }
}
