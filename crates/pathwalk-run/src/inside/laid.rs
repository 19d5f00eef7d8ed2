//! What is laid down of a call that was answered.

use super::{
    Before, Inside, KNOWN, MEMORY, NUMBER, Part,
    ahead::Question,
    told::{is_of_xattr, with_name},
};
use crate::{
    answer,
    cookies::Known,
    engine::{Base, Caller, Engine, Reply},
    sys::{ptrace, seccomp::Notification},
    table::Handler,
};
use pathwalk::{
    At, AtFlags, Errno, FileType, HostFs, OpenFlags, Stat, StatxMask, Task,
    explain::{ExplainHow, Explanation},
};
use pathwalk_inside::{
    AS_THE_HOST, Answer, FSTAT, GETCWD, Key, LSTAT, Laid, MOST_PARTS, MOST_TEXT, NEWFSTATAT, OPEN,
    OPENAT, READLINK, READLINKAT, STAT, STATX, Table, shape_of,
};
use rustix::{
    fs,
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
    pipe::{PipeFlags, pipe_with},
};
use std::os::fd::{AsFd, OwnedFd};

/// Errors that a path is the cause of.
const OF_PATHS: [Errno; 5] =
    [Errno::ENOENT, Errno::ENOTDIR, Errno::ELOOP, Errno::EACCES, Errno::EINVAL];

/// Attributes of so many writable files are laid down, and by so many keys each.
const MOST_LAID: usize = 1 << 15;
const MOST_NAMES: usize = 8;

/// A key that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnKey {
    nr: u32,
    args: [u64; 2],
    base: [u64; 2],
    text: Box<[u8]>,
}

impl OwnKey {
    pub(super) fn of(key: &Key<'_>) -> Self {
        Self { nr: key.nr, args: key.args, base: key.base, text: key.text.into() }
    }

    pub(super) fn key(&self) -> Key<'_> {
        Key { nr: self.nr, args: self.args, base: self.base, text: &self.text }
    }

    /// Its path.
    pub(super) fn path(&self) -> Box<[u8]> {
        self.text.clone()
    }
}

/// The number and the mode of the file whose attributes a call wrote.
pub(super) fn ino_and_mode_in(nr: u32, written: &[u8]) -> Option<(u64, u32)> {
    let (ino, mode) = match nr {
        STATX => (32, 28),
        STAT | LSTAT | NEWFSTATAT => (8, 24),
        _ => return None,
    };
    let ino = u64::from_ne_bytes(written.get(ino..ino + 8)?.try_into().ok()?);
    // What is behind the sixteen bits of statx(2) is none of it.
    let mode = u16::from_ne_bytes(written.get(mode..mode + 2)?.try_into().ok()?);
    Some((ino, mode.into()))
}

/// Whether it is the mode of a regular file.
fn is_file(mode: u32) -> bool {
    FileType::from_mode(mode) == Some(FileType::Regular)
}

/// What is written of a file's attributes.
pub(super) fn attributes_of(stat: &Stat) -> Vec<u8> {
    answer::layout::stat(stat)
}

impl Inside {
    /// Lays down that a file is what the host says of it but for the device, if it is: as long as what descriptors stand for is what it was.
    pub(super) fn lay_as_the_host(
        &mut self,
        host: &rustix::fs::Stat,
        ours: &[u8],
        known_before: (usize, u64),
    ) -> bool {
        let same = answer::as_bytes(host)[8..] == ours[8..];
        if same {
            let device = u64::from_ne_bytes(ours[..8].try_into().unwrap_or_default());
            self.lay_device([host.st_dev, host.st_ino], device, known_before);
        }
        same
    }

    /// Lays down which device a file is shown to be on that else is what the host says of it.
    fn lay_device(&mut self, host: [u64; 2], device: u64, known_before: (usize, u64)) {
        let key = Key { nr: FSTAT, args: [AS_THE_HOST, 0], base: host, text: b"" };
        if !self.table.has(&key) {
            let result = device.cast_signed();
            self.table.put(&key, &Answer { result, written: b"", parts: &[known_before] });
        }
    }

    /// Lays down the attributes of a file, if they may be; it is noted where they have to be taken away again.
    pub(super) fn lay_attributes(
        &mut self,
        (part, ino): (Part, u64),
        key: &Key<'_>,
        answer: &Answer<'_>,
    ) -> bool {
        let Part::Host { writable, .. } = part else { return false };
        if !writable {
            self.table.put(key, answer);
            return true;
        }
        if self.touched.as_ref().is_none_or(|touched| touched.contains(&ino)) {
            return false;
        }
        if self.laid.len() >= MOST_LAID {
            self.take_attributes_away();
        }
        let Self { laid, table, .. } = self;
        let laid = laid.entry(ino).or_default();
        laid.drop_gone(table);
        let room = laid.more.len() < MOST_NAMES;
        if room && let Some(new) = table.put(key, answer) {
            laid.more.extend(laid.last.replace(new));
        }
        room
    }
}

/// The attributes of a writable file, as they are laid down by its names, and by each call that asks about them.
#[derive(Debug, Default)]
pub(super) struct LaidOf {
    last: Option<Laid>,
    more: Vec<Laid>,
}

impl LaidOf {
    /// Forgets those that are not there any more, when there are many.
    fn drop_gone(&mut self, table: &Table) {
        if self.more.len() >= MOST_NAMES {
            self.more.retain(|&laid| table.is_there(laid));
        }
    }

    /// Takes them away.
    pub(super) fn take_away(self, table: &mut Table) {
        self.more.into_iter().chain(self.last).for_each(|laid| table.take_away(laid));
    }
}

impl Engine {
    /// Lays down what a call was answered: a value, or an error as a negative one.
    ///
    /// What the host was asked about is believed from then on, mostly: so it is asked again, where the process would find it.
    pub(crate) fn lay_down(
        &mut self,
        mut before: Before,
        (call, handler): (&Notification, Handler),
        caller: &Caller,
        mut answered: i64,
    ) {
        let asked = HostFs::questions() != before.questions;
        let again = || {
            let written = caller.written.borrow();
            // Who enters a directory asks about it once. What becomes of it is told by its own watch, which it has not yet.
            ino_and_mode_in(call.nr, &written).is_none_or(|(_, mode)| is_file(mode))
        };
        if asked && Inside::is_in(call) && only_looks(call, caller, answered) && again() {
            before = match &self.inside {
                Some(inside) => inside.before(),
                None => return,
            };
            // The thread is told what was answered first.
            caller.is_not_told();
            answered = match handler(self, caller) {
                Ok(Reply::Value(value)) => value,
                Err(errno) => -i64::from(errno.raw()),
                Ok(_) => return,
            };
        }
        let before = &before;
        let Some(mut inside) = self.inside.take() else { return };
        inside.lay_down_ahead();
        if by_descriptor(call, caller) {
            self.lay_down_descriptor(&mut inside, before, call, caller, answered);
        } else if call.nr == GETCWD {
            self.lay_down_cwd(&mut inside, before, call, caller, answered);
        } else if let Some(key) = key_of(call, caller) {
            if answered == 0 && !is_of_xattr(call.nr) {
                inside.goes(caller, &key.key());
                inside.askers.asked(call.tid, &key);
                inside.listers.asked(call.tid, &key);
            }
            if inside.table.has(&key.key()) {
                self.give_news_again(&mut inside, call, caller);
            } else if is_of_xattr(call.nr) {
                inside.askers.asked_about_xattr(call.tid, &key);
            } else if HostFs::questions() == before.questions && stays(call, caller, answered) {
                self.lay_down_path(&mut inside, before, &key, caller, answered);
            }
        }
        self.inside = Some(inside);
    }

    /// The process could have found it: it may have closed what it has to ask before.
    fn give_news_again(&self, inside: &mut Inside, call: &Notification, caller: &Caller) {
        let path = format!("/proc/{}/fd/{}", call.tid, NUMBER);
        if Inside::is_in(call)
            && std::fs::symlink_metadata(path).is_err()
            && inside.alone.has_no_other(call.tid)
        {
            let _ = self.listener.add_fd_at(caller.id, inside.news.as_fd(), NUMBER);
        }
    }

    fn lay_down_path(
        &self,
        inside: &mut Inside,
        before: &Before,
        key: &OwnKey,
        caller: &Caller,
        answered: i64,
    ) {
        let base = caller.base.borrow();
        let Some((base, _)) = &*base else { return };
        let attributes = answered == 0 && matches!(key.nr, STAT | LSTAT | NEWFSTATAT | STATX);
        let explanation = explain(&self.task, base, key);
        let Some(explanation) = explanation else { return };
        let Some(parts) = parts(inside, before, base, &explanation) else { return };
        if HostFs::questions() != before.questions {
            return;
        }
        let written = caller.written.take();
        let answer = Answer { result: answered, written: &written, parts: &parts };
        let mut question = None;
        if attributes {
            let Some((ino, mode)) = ino_and_mode_in(key.nr, &written) else { return };
            let Some(part) = place_of(inside, &explanation) else { return };
            if !inside.lay_attributes((part, ino), &key.key(), &answer) {
                return;
            }
            let looks = explanation.links == 0 && is_file(mode);
            let xattrs = inside.askers.of(caller.tid);
            question = looks.then_some(Question { base, key, part, parts: &parts, xattrs });
        } else {
            inside.table.put(&key.key(), &answer);
        }
        if let Some(question) = question {
            self.look_ahead(inside, &question);
        }
    }

    /// The path of the current directory, where it was asked what that path leads to, and is believed, and it is this directory: it stays
    /// so as long as that does. Nothing is asked here: what somebody else moved would be lost by that.
    fn lay_down_cwd(
        &self,
        inside: &mut Inside,
        before: &Before,
        call: &Notification,
        caller: &Caller,
        answered: i64,
    ) {
        let base = caller.base.borrow();
        let Some((Base::Dir(known), _)) = &*base else { return };
        let written = caller.written.take();
        let Some(path) = written.strip_suffix(b"\0").filter(|path| path.starts_with(b"/")) else {
            return;
        };
        let base = [known.id.dev(), known.id.ino()];
        let key = Key { nr: GETCWD, args: [0, 0], base, text: b"" };
        if inside.table.has(&key) {
            return self.give_news_again(inside, call, caller);
        }
        let asked = |nr| Key { nr, args: [0, 0], base: [0, 0], text: path };
        let there = [NEWFSTATAT, STAT].into_iter().find_map(|nr| inside.table.get(&asked(nr)));
        let Some((stat, mut parts)) = there else { return };
        let Ok(here) = self.task.fstat(&known.file) else { return };
        if HostFs::questions() == before.questions
            && stat.get(..16) == Some(&attributes_of(&here)[..16])
        {
            parts.push((KNOWN, before.counts[KNOWN]));
            inside.table.put(&key, &Answer { result: answered, written: &written, parts: &parts });
        }
    }

    /// A file that is open: what the host says of it but for the device, if that is so; or all that was answered.
    fn lay_down_descriptor(
        &self,
        inside: &mut Inside,
        before: &Before,
        call: &Notification,
        caller: &Caller,
        answered: i64,
    ) {
        let base = caller.base.borrow();
        let written = caller.written.take();
        if answered != 0 || written.len() != size_of::<pathwalk::Stat>() {
            return;
        }
        let known_before = (KNOWN, before.counts[KNOWN]);
        let (known, host) = match &*base {
            Some((Base::Dir(known), Some(host))) => (known, host),
            Some(_) => return,
            // It is no file of the tree, and was told as the host has it.
            None => {
                if let Some((device, ino)) = device_and_ino(&written)
                    && inside.strangers.contains(&device)
                {
                    inside.lay_device([device, ino], device, known_before);
                }
                return;
            }
        };
        let part = part_of(&self.task, inside, known);
        let plain = matches!(part, Some(Part::Host { plain: true, .. } | Part::Untold));
        if plain && inside.lay_as_the_host(host, &written, known_before) {
            return;
        }
        let (Some(Part::Host { count, writable: false, .. }), true) =
            (part, HostFs::questions() == before.questions)
        else {
            return;
        };
        let key = Key { nr: FSTAT, args: [0, 0], base: [host.st_dev, host.st_ino], text: b"" };
        if inside.table.has(&key) {
            return self.give_news_again(inside, call, caller);
        }
        let parts = [known_before, (count, before.counts[count])];
        inside.table.put(&key, &Answer { result: 0, written: &written, parts: &parts });
    }
}

/// What stands first in attributes.
fn device_and_ino(written: &[u8]) -> Option<(u64, u64)> {
    let (words, _) = written.as_chunks();
    let &[device, ino, ..] = words else { return None };
    Some((u64::from_ne_bytes(device), u64::from_ne_bytes(ino)))
}

/// The devices of pipes and of sockets: no file of the tree is on them. 0 where one cannot be made.
pub(super) fn strangers() -> [u64; 2] {
    let of = |fd: OwnedFd| fs::fstat(fd).map_or(0, |stat| stat.st_dev);
    let pipe = pipe_with(PipeFlags::CLOEXEC).map_or(0, |(end, _)| of(end));
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_or(0, of);
    [pipe, socket]
}

/// Whether a call is about a descriptor that it names, and no path.
fn by_descriptor(call: &Notification, caller: &Caller) -> bool {
    let empty = || caller.paths.borrow().iter().all(|(_, path)| path.is_empty());
    match call.nr {
        FSTAT => true,
        NEWFSTATAT => {
            call.args[3] == u64::from(AtFlags::EMPTY_PATH.bits()) && caller.fd(0) >= 0 && empty()
        }
        _ => false,
    }
}

/// Whether a call can be answered again, and nobody sees that: it looks, or failed to open.
fn only_looks(call: &Notification, caller: &Caller, answered: i64) -> bool {
    let opens = [OPEN, OPENAT].contains(&call.nr);
    shape_of(call.nr).is_some()
        && !is_of_xattr(call.nr)
        && !by_descriptor(call, caller)
        && (!opens || stays(call, caller, answered))
}

/// By what the answer of a call is found, if it can be.
pub(super) fn key_of(call: &Notification, caller: &Caller) -> Option<OwnKey> {
    let shape = shape_of(call.nr)?;
    let paths = caller.paths.borrow();
    let (_, text) = paths.iter().find(|(index, _)| *index == shape.path)?;
    if text.is_empty() || text.len() >= MOST_TEXT {
        return None;
    }
    let base = match &*caller.base.borrow() {
        _ if text[0] == b'/' => [0, 0],
        Some((Base::Dir(known), _)) => [known.id.dev(), known.id.ino()],
        _ => return None,
    };
    let args = shape.keys.map(|key| key.map_or(0, |key| call.args[key]));
    let text = match shape.name {
        Some(_) => with_name(text, &caller.attribute.borrow()),
        None => text.clone(),
    };
    Some(OwnKey { nr: call.nr, args, base, text: text.into() })
}

/// Whether an answer is of a kind that stays: an opening that gives a descriptor is none.
fn stays(call: &Notification, caller: &Caller, answered: i64) -> bool {
    let errno = ptrace::errno_in(answered);
    let of_path = errno.is_some_and(|errno| OF_PATHS.contains(&errno));
    let flags = match call.nr {
        OPEN => caller.word(1),
        OPENAT => caller.word(2),
        READLINK | READLINKAT => return answered > 0 || of_path,
        _ => return answered == 0 || of_path,
    };
    let flags = OpenFlags::from_bits_retain(flags.into());
    let makes =
        flags.intersects(OpenFlags::CREAT | OpenFlags::TRUNC) || flags.contains(OpenFlags::TMPFILE);
    of_path && !makes && errno != Some(Errno::EINVAL)
}

/// Whether a call follows a symlink at its end, as flags.
fn follows(key: &OwnKey) -> AtFlags {
    const NOFOLLOW: u64 = AtFlags::SYMLINK_NOFOLLOW.bits() as u64;
    let nofollow = match key.nr {
        LSTAT | READLINK | READLINKAT => true,
        OPEN | OPENAT => key.args[0] & OpenFlags::NOFOLLOW.bits() != 0,
        NEWFSTATAT | STATX => key.args[0] & NOFOLLOW != 0,
        _ => key.args[1] & NOFOLLOW != 0,
    };
    if nofollow { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() }
}

/// How the walk of a call goes.
fn explain(task: &Task, base: &Base, key: &OwnKey) -> Option<Explanation> {
    let how = ExplainHow { flags: follows(key), ..ExplainHow::default() };
    Some(match base.dir() {
        None => task.explain(&key.text, how),
        Some(known) => {
            let there = task.fork();
            there.fchdir(&known.file).ok()?;
            there.explain(&key.text, how)
        }
    })
}

/// What a call leads to, as is believed.
pub(super) struct End {
    pub(super) part: Part,
    pub(super) stat: Stat,
    /// What it hangs on.
    pub(super) parts: Vec<(usize, u64)>,
}

/// Since when something may not lie where it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum No {
    /// Now it may not.
    Now,
    /// Mostly it never may: nobody tells what others do there, or it is nothing that lies ready. Should another way lead there later, it is
    /// answered all the same.
    Ever,
}

/// What a call leads to, where that is believed, if not what a directory there is like.
pub(super) fn end_of(
    task: &Task,
    inside: &Inside,
    before: &Before,
    (base, key): (&Base, &OwnKey),
) -> Result<End, No> {
    // Where the host had to be asked for a name, it is seen by asking again whether that is believed from then on.
    let mut asked = HostFs::questions();
    let mut explanation = explain(task, base, key).ok_or(No::Now)?;
    if mounts(&explanation).any(|mount| matches!(inside.parts.get(mount), Some(Part::Untold))) {
        return Err(No::Ever);
    }
    if HostFs::questions() != asked {
        asked = HostFs::questions();
        explanation = explain(task, base, key).ok_or(No::Now)?;
    }
    if HostFs::questions() != asked {
        return Err(No::Now);
    }
    let leads = explanation.outcome.is_ok();
    let part = place_of(inside, &explanation);
    let part = part.ok_or(if leads { No::Ever } else { No::Now })?;
    let parts = parts(inside, before, base, &explanation).ok_or(No::Now)?;
    let stat = task.fstatat(base.at(), &key.text, follows(key)).map_err(|_| No::Now)?;
    let is_directory = FileType::from_mode(stat.st_mode) == Some(FileType::Directory);
    let is_believed = is_directory || HostFs::questions() == asked;
    if is_believed { Ok(End { part, stat, parts }) } else { Err(No::Now) }
}

/// The parts of the tree that a walk goes through, and how often something had been changed there before; none where not all of them
/// are such of which one hears.
fn parts(
    inside: &Inside,
    before: &Before,
    base: &Base,
    explanation: &Explanation,
) -> Option<Vec<(usize, u64)>> {
    let mut counts = Vec::with_capacity(MOST_PARTS);
    for mount in mounts(explanation) {
        let count = match inside.parts.get(mount)? {
            Part::Memory => MEMORY,
            Part::Host { count, .. } => *count,
            Part::Untold => return None,
        };
        if !counts.contains(&count) {
            counts.push(count);
        }
    }
    if counts.is_empty() {
        return None;
    }
    if matches!(base, Base::Dir(_)) {
        counts.push(KNOWN);
    }
    (counts.len() <= MOST_PARTS)
        .then(|| counts.into_iter().map(|count| (count, before.counts[count])).collect())
}

/// The mounts in which a walk stands, one after the other.
fn mounts(explanation: &Explanation) -> impl Iterator<Item = &u64> {
    explanation.steps.iter().filter_map(|step| Some(&step.stand.as_ref()?.mount))
}

/// The part of the tree in which a walk ended.
fn place_of(inside: &Inside, explanation: &Explanation) -> Option<Part> {
    let arrival = explanation.outcome.as_ref().ok()?;
    let stand = explanation.steps.get(arrival.step)?.stand.as_ref()?;
    inside.parts.get(&stand.mount).copied()
}

/// The part of the tree that an open file is in.
fn part_of(task: &Task, inside: &Inside, known: &Known) -> Option<Part> {
    let mask = StatxMask::MNT_ID;
    let stat = task.statx(At::Dir(&known.file), b"", AtFlags::EMPTY_PATH, mask).ok()?;
    inside.parts.get(&stat.stx_mnt_id).copied()
}
