//! What stands on the host for a file of the tree that is watched, so that the kernel itself tells of it.
//!
//! ```text
//!   the program's inotify ── watches ──► w5          a private directory or file: the shadow
//!                                        w5/name     one for each name in a directory that is watched
//!
//!   the library tells        here it is repeated by    and the kernel tells whoever watches w5
//!   CREATE name              mknodat(w5/name)          CREATE name
//!   MOVED_FROM, MOVED_TO     renameat                  MOVED_FROM, MOVED_TO, by one cookie
//!   MODIFY name              utimensat, one time       MODIFY name
//! ```
//!
//! Each event is repeated by a call that makes the kernel tell that one and no other, of what is watched. So what is queued, merged,
//! lost, told once or not at all is the kernel's to say, by the mask that the program gave it.
//!
//! Invariants:
//! - A name in the shadow of a directory is there as long as it is in the directory: those that were there before are made
//!   before the first watch.
//! - A shadow has a name as long as its file has. Then a descriptor with `O_PATH`, which nobody is told of, keeps it until the file
//!   goes.
//! - What the program has open is open here too, where both its opening and its closing are to be told.
//! - A program may be given the directory that the private one lies in, and put something else in the place of what is here. So
//!   nothing is done by a path of two names, and no symlink followed: what is opened with `O_PATH` must be what was made here, and it
//!   is gone on from that.
//!
//! Manual: inotify(7).

use crate::{
    cookies::{HostId, empty},
    sys::{answer, process::by_number},
};
use pathwalk::{Errno, InotifyMask, Result};
use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT},
    io,
    process::geteuid,
};
use std::{collections::HashMap, os::fd::OwnedFd};

/// So much is kept open, of all and by one name. What more is opened is closed at once, for who watches.
const OPEN: usize = 256;
const OPEN_BY_NAME: usize = 16;

/// What is told of a closing.
pub(crate) const CLOSE: InotifyMask = InotifyMask::CLOSE_WRITE.union(InotifyMask::CLOSE_NOWRITE);

/// An event of the library's, to be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The library's watch.
    pub(crate) wd: i32,
    pub(crate) mask: InotifyMask,
    pub(crate) cookie: u32,
    /// The name in the directory that is watched; empty where the event is about what is watched itself.
    pub(crate) name: Box<[u8]>,
    pub(crate) by: By,
}

/// What an event leaves unsaid of the open file by which something was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct By {
    /// It was opened for writing.
    pub(crate) writes: bool,
    /// It has no name any more.
    pub(crate) unlinked: bool,
}

/// A file in the tree: its device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InTree {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) directory: bool,
}

/// A name in a directory of the tree, and what it is the name of.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) name: Box<[u8]>,
    pub(crate) ino: u64,
    pub(crate) directory: bool,
}

#[derive(Debug)]
struct Shadow {
    of: InTree,
    id: HostId,
    /// Its name in the private directory, as long as it has one.
    name: String,
    /// Keeps it when it has none.
    kept: Option<OwnedFd>,
    /// Its file is about to lose its last name, which is told as a change of attributes.
    loses_name: bool,
    /// All that was ever asked for here.
    wanted: InotifyMask,
    /// Nobody wants to know of files without a name.
    only_linked: bool,
    /// By name.
    open: HashMap<Box<[u8]>, Vec<Open>>,
}

/// What somebody has open.
#[derive(Debug)]
struct Open {
    fd: OwnedFd,
    by: By,
}

/// All shadows, by the library's watches.
#[derive(Debug)]
pub(crate) struct Shadows {
    room: OwnedFd,
    shadows: HashMap<i32, Shadow>,
    next: u64,
    open: usize,
    /// What is open of the file that gets a name by the call that is being answered.
    coming: Vec<By>,
    /// What the call that is being answered moves leaves a whiteout behind, of which nobody is told.
    whiteout: bool,
}

impl Shadows {
    pub(crate) fn new(room: OwnedFd) -> Self {
        Self {
            room,
            shadows: HashMap::new(),
            next: 0,
            open: 0,
            coming: Vec::new(),
            whiteout: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.shadows.len()
    }

    pub(crate) fn has(&self, wd: i32) -> bool {
        self.shadows.contains_key(&wd)
    }

    /// Which watch is on a file.
    pub(crate) fn watch_of(&self, file: InTree) -> Option<i32> {
        self.shadows.iter().find(|(_, shadow)| shadow.of == file).map(|(&wd, _)| wd)
    }

    /// The shadows, and what they are on the host.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (i32, HostId)> {
        self.shadows.iter().map(|(&wd, shadow)| (wd, shadow.id))
    }

    /// What was asked for.
    pub(crate) fn wanted(&self, wd: i32) -> InotifyMask {
        self.shadows.get(&wd).map_or(InotifyMask::empty(), |shadow| shadow.wanted)
    }

    /// Whether one has lost its last name and is kept, as its file is.
    pub(crate) fn has_nameless(&self) -> bool {
        self.shadows.values().any(|shadow| shadow.kept.is_some())
    }

    pub(crate) fn is_nameless(&self, wd: i32) -> bool {
        self.shadows.get(&wd).is_some_and(|shadow| shadow.kept.is_some())
    }

    /// Makes the shadow of a file, with these names in it.
    ///
    /// # Errors
    ///
    /// Those of making files in the private directory.
    pub(crate) fn make(&mut self, wd: i32, of: InTree, names: &[Name]) -> Result<()> {
        let name = self.new_name();
        put(&self.room, name.as_bytes(), of.directory)?;
        let (made, id) = found_in(&self.room, name.as_bytes()).ok_or(Errno::ENOSPC)?;
        let filled = names.iter().try_for_each(|child| put(&made, &child.name, child.directory));
        let shadow = Shadow {
            of,
            id,
            name,
            kept: None,
            loses_name: false,
            wanted: InotifyMask::empty(),
            only_linked: true,
            open: HashMap::new(),
        };
        match filled {
            Ok(()) => {
                self.shadows.insert(wd, shadow);
                Ok(())
            }
            Err(errno) => {
                self.clear_away(shadow);
                Err(errno)
            }
        }
    }

    /// A shadow, if nobody has put something else in its place.
    fn itself(&self, shadow: &Shadow) -> Option<OwnedFd> {
        if let Some(kept) = &shadow.kept {
            return kept.try_clone().ok();
        }
        let (found, id) = found_in(&self.room, shadow.name.as_bytes())?;
        (id == shadow.id).then_some(found)
    }

    /// The shadow of a directory that has a name.
    fn directory(&self, wd: i32) -> Option<OwnedFd> {
        let shadow = self.shadows.get(&wd)?;
        let has_names = shadow.of.directory && shadow.kept.is_none();
        has_names.then(|| self.itself(shadow)).flatten()
    }

    /// Where an event is about a file: its shadow, or the name in one. It is opened with `O_PATH`.
    pub(crate) fn place(&self, wd: i32, name: &[u8]) -> Option<OwnedFd> {
        if name.is_empty() {
            return self.itself(self.shadows.get(&wd)?);
        }
        Some(found_in(&self.directory(wd)?, name)?.0)
    }

    /// This is watched for from now on.
    pub(crate) fn is_wanted(&mut self, wd: i32, mask: InotifyMask) {
        if let Some(shadow) = self.shadows.get_mut(&wd) {
            shadow.wanted |= mask;
            shadow.only_linked &= mask.contains(InotifyMask::EXCL_UNLINK);
        }
    }

    /// What nobody watches any more goes, and nobody hears of it.
    pub(crate) fn remove(&mut self, wd: i32) {
        if let Some(shadow) = self.shadows.remove(&wd) {
            self.clear_away(shadow);
        }
    }

    fn clear_away(&mut self, shadow: Shadow) {
        self.open -= shadow.open.values().map(Vec::len).sum::<usize>();
        if shadow.kept.is_some() {
            return;
        }
        let Some(itself) = self.itself(&shadow) else { return };
        if shadow.of.directory {
            empty(&itself, ".");
        }
        take(&self.room, shadow.name.as_bytes(), shadow.of.directory);
    }

    fn new_name(&mut self) -> String {
        self.next += 1;
        format!("w{:x}", self.next)
    }

    /// The file has lost its last name, or is about to: that of a directory nobody is told of.
    pub(crate) fn loses_name(&mut self, wd: i32) {
        let Some(shadow) = self.shadows.get_mut(&wd) else { return };
        if shadow.of.directory {
            self.unname(wd);
        } else {
            shadow.loses_name = true;
        }
    }

    /// The file that gets a name by this call is open.
    pub(crate) fn comes_open(&mut self, by: By) {
        self.coming.push(by);
    }

    /// A whiteout takes the name that is lost by this call.
    pub(crate) fn leaves_whiteout(&mut self) {
        self.whiteout = true;
    }

    /// All that was to be told of a call was told; by it this one was to lose its name.
    pub(crate) fn call_is_over(&mut self, wd: Option<i32>) {
        self.coming.clear();
        self.whiteout = false;
        if let Some(shadow) = wd.and_then(|wd| self.shadows.get_mut(&wd)) {
            shadow.loses_name = false;
        }
    }

    /// Takes a shadow's name, and keeps it by a descriptor.
    fn unname(&mut self, wd: i32) {
        let has_name = |shadow: &&Shadow| shadow.kept.is_none();
        let Some(itself) =
            self.shadows.get(&wd).filter(has_name).and_then(|shadow| self.itself(shadow))
        else {
            return;
        };
        if let Some(shadow) = self.shadows.get_mut(&wd) {
            shadow.kept = Some(itself);
            take(&self.room, shadow.name.as_bytes(), shadow.of.directory);
        }
    }

    /// Opens what somebody has open who opened it before it was to be told, which nobody watches yet.
    pub(crate) fn open_before(&mut self, wd: i32, name: &[u8], by: By) {
        let _ = self.open(wd, name, by);
    }

    /// Repeats events, in their order.
    pub(crate) fn repeat(&mut self, told: &[Told]) {
        let mut rest = told;
        while let Some((first, others)) = rest.split_first() {
            let done = self.repeat_first(first, others);
            rest = &rest[done..];
        }
    }

    /// Repeats the first event, and as many of the others as are the same call's; returns how many that were. What cannot be repeated, as
    /// the host has no room, is not told.
    fn repeat_first(&mut self, first: &Told, others: &[Told]) -> usize {
        let Some(shadow) = self.shadows.get_mut(&first.wd) else { return 1 };
        let what = first.mask - InotifyMask::ISDIR;
        let directory = first.mask.contains(InotifyMask::ISDIR);
        match what {
            InotifyMask::CREATE => {
                if let Some(dir) = self.directory(first.wd) {
                    let _ = put(&dir, &first.name, directory);
                }
            }
            InotifyMask::DELETE => {
                self.lost(first.wd, &first.name);
                if let Some(dir) = self.directory(first.wd) {
                    take(&dir, &first.name, directory);
                }
            }
            InotifyMask::MOVED_FROM => return self.moved(first, others),
            InotifyMask::MOVED_TO => return self.came(first, others),
            InotifyMask::MOVE_SELF => self.moved_itself(first.wd),
            InotifyMask::DELETE_SELF => {
                self.unname(first.wd);
                // Whoever watches hears of it as the last descriptor goes.
                self.remove(first.wd);
            }
            InotifyMask::ATTRIB if shadow.loses_name && first.name.is_empty() => {
                shadow.loses_name = false;
                self.unname(first.wd);
            }
            _ if !shadow.wanted.intersects(what) => self.unheard(first),
            InotifyMask::OPEN => self.opened(first),
            InotifyMask::CLOSE_WRITE | InotifyMask::CLOSE_NOWRITE => self.closed(first),
            InotifyMask::ACCESS | InotifyMask::MODIFY | InotifyMask::ATTRIB => self.changed(first),
            _ => {}
        }
        1
    }

    /// What was open by a name has none any more.
    fn lost(&mut self, wd: i32, name: &[u8]) {
        let open = self.shadows.get_mut(&wd).and_then(|shadow| shadow.open.get_mut(name));
        open.into_iter().flatten().for_each(|open| open.by.unlinked = true);
    }

    /// A name left one directory, and came into the same or another one, or into one that nobody watches.
    fn moved(&mut self, from: &Told, others: &[Told]) -> usize {
        let Some(old) = self.directory(from.wd) else { return 1 };
        let is_other_side = |to: &&Told| {
            to.mask.contains(InotifyMask::MOVED_TO)
                && to.cookie == from.cookie
                && self.shadows.contains_key(&to.wd)
        };
        let Some(to) = others.first().filter(is_other_side) else {
            self.left(from, &old);
            return 1;
        };
        let Some(new) = self.directory(to.wd) else { return 2 };
        // Two names that take each other's place are moved by one call. What was moved first may have been told of that in between.
        let between = between(&others[1..]);
        if let [back, back_to, ..] = &others[1 + between..]
            && back.mask.contains(InotifyMask::MOVED_FROM)
            && back_to.mask.contains(InotifyMask::MOVED_TO)
            && (back.wd, &back.name) == (to.wd, &to.name)
            && (back_to.wd, &back_to.name) == (from.wd, &from.name)
        {
            let _ = fs::renameat_with(&old, &*from.name, &new, &*to.name, RenameFlags::EXCHANGE);
            let (one, other) = (self.open_by(from), self.open_by(to));
            self.is_open_by(to, one);
            self.is_open_by(from, other);
            self.repeat(&others[1..1 + between]);
            return 4 + between;
        }
        self.lost(to.wd, &to.name);
        let mut open = self.open_by(from);
        if open.is_empty() && !self.wanted(from.wd).contains(InotifyMask::OPEN) {
            open = self.opened_anew(&old, &from.name);
            self.open += open.len();
        }
        self.move_away((&old, &from.name), (&new, &to.name));
        self.is_open_by(to, open);
        2
    }

    /// Moves a name, as the call that is being answered did; whether it is there. Where the host makes no whiteouts the name is gone.
    fn move_away(&self, (old, from): (&OwnedFd, &[u8]), (new, to): (&OwnedFd, &[u8])) -> bool {
        let leaves =
            self.whiteout && fs::renameat_with(old, from, new, to, RenameFlags::WHITEOUT).is_ok();
        leaves || fs::renameat(old, from, new, to).is_ok()
    }

    /// Takes out what is open by a name, and has it.
    fn open_by(&mut self, of: &Told) -> Vec<Open> {
        let Some(shadow) = self.shadows.get_mut(&of.wd) else { return Vec::new() };
        let Some(open) = shadow.open.get_mut(&of.name) else { return Vec::new() };
        let taken = open.extract_if(.., |open| !open.by.unlinked).collect();
        if open.is_empty() {
            shadow.open.remove(&of.name);
        }
        taken
    }

    fn is_open_by(&mut self, of: &Told, open: Vec<Open>) {
        if let Some(shadow) = self.shadows.get_mut(&of.wd)
            && !open.is_empty()
        {
            shadow.open.entry(of.name.clone()).or_default().extend(open);
        }
    }

    /// A name left for where nobody watches: it is moved out, and then removed.
    fn left(&mut self, from: &Told, dir: &OwnedFd) {
        let name = self.new_name();
        if self.move_away((dir, &from.name), (&self.room, name.as_bytes())) {
            take(&self.room, name.as_bytes(), from.mask.contains(InotifyMask::ISDIR));
        }
        let open = self.open_by(from);
        self.open -= open.len();
    }

    /// A name came from where nobody watches: it is made elsewhere, and moved in. What it takes the place of may go there.
    fn came(&mut self, to: &Told, others: &[Told]) -> usize {
        let directory = to.mask.contains(InotifyMask::ISDIR);
        let Some(dir) = self.directory(to.wd) else { return 1 };
        let name = self.new_name();
        if put(&self.room, name.as_bytes(), directory).is_err() {
            return 1;
        }
        let comes = self.opened_anew(&self.room, name.as_bytes());
        self.open += comes.len();
        let between = between(others);
        let left = others.get(between).filter(|from| {
            from.mask.contains(InotifyMask::MOVED_FROM)
                && (from.wd, &from.name) == (to.wd, &to.name)
        });
        let flags = if left.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::empty() };
        let moved = fs::renameat_with(&self.room, &name, &dir, &*to.name, flags);
        let other = left.map_or(directory, |left| left.mask.contains(InotifyMask::ISDIR));
        if moved.is_err() || left.is_some() {
            take(&self.room, name.as_bytes(), if moved.is_err() { directory } else { other });
        }
        match left {
            Some(left) => self.open -= self.open_by(left).len(),
            None => self.lost(to.wd, &to.name),
        }
        self.is_open_by(to, comes);
        if left.is_some() {
            self.repeat(&others[..between]);
            return 2 + between;
        }
        1
    }

    fn moved_itself(&mut self, wd: i32) {
        let name = self.new_name();
        if let Some(shadow) = self.shadows.get_mut(&wd)
            && shadow.kept.is_none()
            && fs::renameat(&self.room, &shadow.name, &self.room, &name).is_ok()
        {
            shadow.name = name;
        }
    }

    /// Opens what gets a name, as often as that is open.
    fn opened_anew(&self, dir: &OwnedFd, name: &[u8]) -> Vec<Open> {
        let room = OPEN.saturating_sub(self.open);
        let coming = self.coming.iter().take(room);
        if coming.len() == 0 {
            return Vec::new();
        }
        let Some((place, _)) = found_in(dir, name) else { return Vec::new() };
        coming.filter_map(|&by| Some(Open { fd: opened_as(&place, by)?, by })).collect()
    }

    /// Opens a name, and keeps it open, if there is room.
    fn open(&mut self, wd: i32, name: &[u8], by: By) -> Option<OwnedFd> {
        let fd = opened_as(&self.place(wd, name)?, by)?;
        let names = &mut self.shadows.get_mut(&wd)?.open;
        let by_name = names.get(name).map_or(0, Vec::len);
        if self.open >= OPEN || by_name >= OPEN_BY_NAME {
            return Some(fd);
        }
        self.open += 1;
        names.entry(name.into()).or_default().push(Open { fd, by });
        None
    }

    fn opened(&mut self, told: &Told) {
        let closes = self.wanted(told.wd).intersects(CLOSE);
        let open = self.open(told.wd, &told.name, told.by);
        if !closes && open.is_none() {
            let _ = self.close(told);
        }
    }

    /// Closes what is open by a name and is most like this: first that which has its name or not, as this has.
    fn close(&mut self, told: &Told) -> Option<Open> {
        let names = &mut self.shadows.get_mut(&told.wd)?.open;
        let open = names.get_mut(&told.name)?;
        let writes = match told.mask - InotifyMask::ISDIR {
            InotifyMask::CLOSE_WRITE => true,
            InotifyMask::CLOSE_NOWRITE => false,
            _ => told.by.writes,
        };
        let same = |open: &Open| open.by.writes == writes;
        let exactly = |open: &Open| same(open) && open.by.unlinked == told.by.unlinked;
        let at = open.iter().position(exactly).or_else(|| open.iter().position(same))?;
        self.open -= 1;
        let closed = open.swap_remove(at);
        if open.is_empty() {
            names.remove(&told.name);
        }
        Some(closed)
    }

    /// Nobody wants to know; but what is closed is closed here too.
    fn unheard(&mut self, told: &Told) {
        if told.mask.intersects(CLOSE) {
            let _ = self.close(told);
        }
    }

    /// What is not open here, as it was opened before it was watched or by the kernel to be run, is opened to be closed; but where
    /// openings are told too, only if it was written.
    fn closed(&mut self, told: &Told) {
        if self.close(told).is_some() || told.by.unlinked && !told.name.is_empty() {
            return;
        }
        let writes = told.mask.contains(InotifyMask::CLOSE_WRITE);
        if !writes && self.wanted(told.wd).contains(InotifyMask::OPEN) {
            return;
        }
        if self.open(told.wd, &told.name, By { writes, ..told.by }).is_none() {
            let _ = self.close(told);
        }
    }

    /// The kernel tells by the times that are set what somebody did: the first alone by reading, the second by writing.
    fn changed(&mut self, told: &Told) {
        let what = told.mask - InotifyMask::ISDIR;
        let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let set = Timespec { tv_sec: 0, tv_nsec: 0 };
        let times = Timestamps {
            last_access: if what == InotifyMask::MODIFY { omit } else { set },
            last_modification: if what == InotifyMask::ACCESS { omit } else { set },
        };
        let Some(shadow) = self.shadows.get(&told.wd) else { return };
        let itself = told.name.is_empty();
        let nameless = told.by.unlinked || itself && shadow.kept.is_some();
        if what == InotifyMask::ATTRIB || !nameless {
            self.set_times(told, &times);
            return;
        }
        let open = shadow.open.get(&told.name).into_iter().flatten();
        let mut open = open.filter(|open| itself || open.by.unlinked).collect::<Vec<_>>();
        // Who does not want to know of files without a name is told of none by writing, but by setting times.
        open.sort_by_key(|open| !open.by.writes);
        match open.first() {
            Some(open) if open.by.writes && what == InotifyMask::MODIFY => {
                write(&open.fd);
            }
            _ if shadow.only_linked => {}
            Some(open) => {
                let _ = fs::futimens(&open.fd, &times);
            }
            None if itself => self.set_times(told, &times),
            None => {}
        }
    }

    fn set_times(&self, told: &Told, times: &Timestamps) {
        if let Some(place) = self.place(told.wd, &told.name) {
            let _ = fs::utimensat(fs::CWD, by_number(&place), times, AtFlags::empty());
        }
    }
}

impl Drop for Shadows {
    fn drop(&mut self) {
        for shadow in std::mem::take(&mut self.shadows).into_values() {
            self.clear_away(shadow);
        }
    }
}

/// Makes a name in a directory.
fn put(dir: &OwnedFd, name: &[u8], directory: bool) -> Result<()> {
    answer(if directory {
        fs::mkdirat(dir, name, Mode::RWXU)
    } else {
        fs::mknodat(dir, name, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0)
    })
}

/// What is left goes with the private directory.
fn take(dir: &OwnedFd, name: &[u8], directory: bool) {
    let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    let _ = fs::unlinkat(dir, name, flags);
}

/// What is in a directory, if it can have been made here: a directory, a file with no other name, or a whiteout. It is opened with
/// `O_PATH`.
fn found_in(dir: &OwnedFd, name: &[u8]) -> Option<(OwnedFd, HostId)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = fs::openat(dir, name, flags, Mode::empty()).ok()?;
    let stat = fs::fstat(&fd).ok()?;
    let known = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => true,
        FileType::RegularFile => stat.st_nlink <= 1,
        FileType::CharacterDevice => stat.st_rdev == 0,
        _ => false,
    };
    (known && stat.st_uid == geteuid().as_raw()).then(|| (fd, HostId::of(&stat)))
}

/// Writes to a file, unless somebody else did.
fn write(file: &OwnedFd) {
    if fs::fstat(file).is_ok_and(|stat| stat.st_nlink <= 1 && stat.st_size <= 1) {
        let _ = io::pwrite(file, b"w", 0);
    }
}

/// Opens what was found, as it was opened elsewhere.
fn opened_as(place: &OwnedFd, by: By) -> Option<OwnedFd> {
    let access = if by.writes { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
    fs::open(by_number(place), flags, Mode::empty()).ok()
}

/// How often it is told that something itself moved, before anything else.
fn between(told: &[Told]) -> usize {
    told.iter().take_while(|told| told.mask == InotifyMask::MOVE_SELF).count()
}
