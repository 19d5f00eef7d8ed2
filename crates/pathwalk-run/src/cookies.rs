//! Which file of the tree a descriptor of the host stands for.
//!
//! ```text
//!   the target's descriptor ── fstat ──► (device, inode) ──► Known: a place in the tree
//!     a host file, a memfd        the file itself
//!     a directory, `O_PATH`       a cookie: a private directory or file, one for each place
//!     a directory to be listed    of the host: itself, mostly
//! ```
//!
//! Nothing is kept per descriptor. So dup, fork, exec and close need no attention: the kernel keeps them, and with a cookie the position
//! of a listing and the current directory too. Of descriptors that are sent it is kept which they are (`sent`).
//!
//! What is known is forgotten when no process has it any more: that is looked for when there is much of it.

use crate::{
    inside::InFlight,
    kin::{self, descendants, threads_of},
    mapped,
    sent::AllSent,
    sys::{answer, errno_of},
    unseen::Unseen,
};
use parking_lot::Mutex;
use pathwalk::{Errno, File, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::{
    fs::{self, AtFlags, Mode, OFlags},
    io,
    path::Arg,
};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A file of the host, as long as it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HostId {
    dev: u64,
    ino: u64,
}

impl HostId {
    /// By the numbers that stat(2) tells.
    pub(crate) fn new(dev: u64, ino: u64) -> Self {
        Self { dev, ino }
    }

    pub(crate) fn of(stat: &fs::Stat) -> Self {
        Self { dev: stat.st_dev, ino: stat.st_ino }
    }

    pub(crate) fn dev(self) -> u64 {
        self.dev
    }

    pub(crate) fn ino(self) -> u64 {
        self.ino
    }

    /// Of an open file.
    ///
    /// # Errors
    ///
    /// None that fstat(2) has for an open file.
    pub(crate) fn of_fd(fd: impl AsFd) -> Result<Self> {
        answer(fs::fstat(fd)).map(|stat| Self::of(&stat))
    }
}

/// A place that some process has a descriptor of, or stands in, or executes, or has in its memory.
#[derive(Debug)]
pub(crate) struct Known {
    /// What stands for it on the host.
    pub(crate) id: HostId,
    /// The place alone; but a directory as it was opened, to be listed.
    pub(crate) file: File,
    /// The descriptor stands for one that was opened with `O_PATH`: only the place may be used.
    pub(crate) path: bool,
    /// It is a directory that is given as the host has it. Nobody stands there: who enters it stands in a cookie.
    pub(crate) given: bool,
}

/// What is known, shared with the file system that shows processes.
pub(crate) type Knowns = Arc<Mutex<FxHashMap<HostId, Arc<Known>>>>;

/// A private directory or file that stands for a place.
#[derive(Debug)]
struct Cookie {
    id: HostId,
    name: String,
}

/// What a cookie stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A directory that is open.
    Directory,
    /// A directory that was opened with `O_PATH`, or is somebody's current one: who enters it need not be one who may list it.
    DirectoryPath,
    /// Any other file that was opened with `O_PATH`.
    Path,
}

impl Kind {
    fn is_directory(self) -> bool {
        self != Self::Path
    }

    /// How the cookie is opened. No descriptor with `O_PATH` can be given to another process: so that of a directory is an open
    /// one, and that of a file one that can neither read nor write.
    fn flags(self) -> OFlags {
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
        flags
            | if self.is_directory() { OFlags::RDONLY | OFlags::DIRECTORY } else { OFlags::RWMODE }
    }
}

/// All that is known.
#[derive(Debug)]
pub(crate) struct Cookies {
    /// The private directory, its path, and the lock that says that somebody has it.
    room: OwnedFd,
    path: PathBuf,
    lock: OwnedFd,
    known: Knowns,
    /// What is known, by the inode numbers of the files in the tree.
    numbers: FxHashMap<u64, Vec<HostId>>,
    places: FxHashMap<(u64, Kind), Cookie>,
    /// Where the program begins, until it is known which place that is.
    beginning: Option<Cookie>,
    next: u64,
    /// How often something was forgotten, or stands for something else since.
    forgotten: u64,
    /// How many may be known before it is looked what can be forgotten.
    enough: usize,
    /// What is on its way to a process, and in no list of it yet: from here, and from others.
    in_flight: InFlight,
    pub(crate) sent: AllSent,
}

/// A file in each private directory, that says what it is.
const MARKER: &str = "made-by-pathwalk-run";
/// So many names are tried for one.
const ATTEMPTS: u32 = 16;
/// A private directory that nobody has is younger only where somebody is about to lock it.
const NEW: Duration = Duration::from_secs(10);
/// So many are kept without a look at what is still in use.
const ENOUGH: usize = 512;
/// So often it is looked for processes that are new.
const LOOKS: usize = 100;

impl Cookies {
    /// Makes the private directory.
    ///
    /// # Errors
    ///
    /// Those of making a directory in memory.
    pub(crate) fn new() -> Result<Self> {
        let mut last = Err(Errno::EEXIST);
        for base in bases() {
            tidy_up(&base);
            for _ in 0..ATTEMPTS {
                // Nobody else makes them all before.
                let number = RandomState::new().build_hasher().finish();
                let path = base.join(name_of(std::process::id(), number));
                match Self::new_in(path) {
                    // Somebody else's, or somebody tidied it up.
                    Err(Errno::EEXIST | Errno::EAGAIN | Errno::ENOENT) => {}
                    Err(errno) => {
                        last = Err(errno);
                        break;
                    }
                    made => return made,
                }
            }
        }
        last
    }

    fn new_in(path: PathBuf) -> Result<Self> {
        answer(fs::mkdir(&path, Mode::RWXU))?;
        let made = (|| {
            let lock = lock(&path)?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let room = answer(fs::open(&path, flags, Mode::empty()))?;
            let new = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            answer(fs::openat(&room, MARKER, new, Mode::RUSR))?;
            Ok((room, lock))
        })();
        // Without the marker nobody would ever tidy it up.
        let (room, lock) = made.inspect_err(|_| {
            let _ = fs::rmdir(&path);
        })?;
        let (known, numbers, places) = (Arc::default(), FxHashMap::default(), FxHashMap::default());
        Ok(Self {
            room,
            lock,
            path,
            known,
            numbers,
            places,
            beginning: None,
            next: 0,
            forgotten: 0,
            enough: ENOUGH,
            in_flight: InFlight::default(),
            sent: AllSent::default(),
        })
    }

    /// How often something was forgotten, or stands for something else since.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// What is known, to be shared.
    pub(crate) fn knowns(&self) -> Knowns {
        Arc::clone(&self.known)
    }

    /// Who says what is on its way to processes.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.clone()
    }

    /// By these sockets nothing is sent but from here.
    pub(crate) fn only_hands(&mut self, sockets: Unseen) {
        self.sent = AllSent::new(sockets);
    }

    /// What a file of the host stands for.
    pub(crate) fn get(&self, id: HostId) -> Option<Arc<Known>> {
        self.known.lock().get(&id).cloned()
    }

    /// What somebody stands in whose current directory is that one of the host.
    pub(crate) fn stands_for(&self, id: HostId) -> Option<Arc<Known>> {
        self.get(id).filter(|known| !known.given)
    }

    /// Notes what an open file of the host stands for.
    pub(crate) fn know(&mut self, id: HostId, file: &File) -> Arc<Known> {
        // It is mostly known already, by the same place.
        let before = self.get(id).filter(|known| known.file.place_id() == file.place_id());
        before.unwrap_or_else(|| {
            self.put(Known { id, file: file.place_alone(), path: false, given: false })
        })
    }

    /// Notes that a directory of the host is given as it is; whether it may be: not where that stands for another place, or for one that is
    /// not listed.
    pub(crate) fn give(&mut self, id: HostId, file: &File) -> bool {
        if let Some(known) = self.get(id) {
            return known.given && known.file.place_id() == file.place_id();
        }
        self.put(Known { id, file: file.place_alone(), path: false, given: true });
        true
    }

    /// From here on a file of the host stands for this, whatever it stood for: the host may have given its number to another one.
    fn put(&mut self, new: Known) -> Arc<Known> {
        note(&mut self.numbers, new.id, &new.file);
        let new = Arc::new(new);
        let before = self.known.lock().insert(new.id, Arc::clone(&new));
        let same = |before: Arc<Known>| {
            before.given == new.given && before.file.place_id() == new.file.place_id()
        };
        self.forgotten += u64::from(before.is_some_and(|before| !same(before)));
        new
    }

    /// Opens the cookie of a place anew, with these flags that are shown besides.
    ///
    /// # Errors
    ///
    /// - those of making files in the private directory.
    /// - `ENOENT`: somebody took it away, or put something in its place.
    pub(crate) fn open(&mut self, file: &File, kind: Kind, shown: OFlags) -> Result<OwnedFd> {
        let fd = match self.places.get(&(file.place_id(), kind)) {
            Some(cookie) => {
                let fd = self.open_by_name(&cookie.name, kind, shown)?;
                if HostId::of_fd(&fd)? != cookie.id {
                    return Err(Errno::ENOENT);
                }
                fd
            }
            None => self.make(file, kind, shown)?,
        };
        let id = self.places[&(file.place_id(), kind)].id;
        let is_path = |file: &File| file.flags().contains(pathwalk::OpenFlags::PATH);
        let path = kind != Kind::Directory;
        // To be listed it must have been opened for that.
        let is_enough = |known: &Known| {
            !known.given
                && known.file.place_id() == file.place_id()
                && (!is_path(&known.file) || is_path(file))
        };
        if self.get(id).is_none_or(|known| !is_enough(&known)) {
            self.put(Known { id, file: file.clone(), path, given: false });
        }
        Ok(fd)
    }

    /// The cookie of a directory that somebody is to stand in.
    ///
    /// # Errors
    ///
    /// As [`Cookies::open`].
    pub(crate) fn directory(&mut self, file: &File) -> Result<(OwnedFd, HostId, Arc<Known>)> {
        let place = file.place_alone();
        let cookie = self.open(&place, Kind::DirectoryPath, OFlags::empty())?;
        let id = self.places[&(place.place_id(), Kind::DirectoryPath)].id;
        Ok((cookie, id, self.get(id).ok_or(Errno::ENOENT)?))
    }

    /// A directory for who begins somewhere, before it is known where: see [`Cookies::begins_in`].
    ///
    /// # Errors
    ///
    /// As [`Cookies::open`].
    pub(crate) fn beginning(&mut self) -> Result<OwnedFd> {
        let (fd, cookie) = self.make_for_nobody(Kind::DirectoryPath, OFlags::empty())?;
        self.beginning = Some(cookie);
        Ok(fd)
    }

    /// That one stands for this directory from here on.
    ///
    /// # Errors
    ///
    /// As [`Cookies::open`].
    pub(crate) fn begins_in(&mut self, file: &File) -> Result<Arc<Known>> {
        let place = file.place_alone();
        if let Some(cookie) = self.beginning.take() {
            self.places.insert((place.place_id(), Kind::DirectoryPath), cookie);
        }
        self.directory(file).map(|(_, _, known)| known)
    }

    /// A fifo that stands for one of the tree that has none of the host's behind it: by its device and number, as it may have many names.
    ///
    /// # Errors
    ///
    /// As [`Cookies::open`].
    pub(crate) fn fifo(&mut self, dev: u64, ino: u64) -> Result<OwnedFd> {
        let name = format!("p{:x}", u128::from(dev) << 64 | u128::from(ino));
        let mode = Mode::RUSR | Mode::WUSR;
        match answer(fs::mknodat(&self.room, &name, fs::FileType::Fifo, mode, 0)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        answer(fs::openat(&self.room, &name, flags, Mode::empty()))
    }

    /// The private directory, for what stands there for more than a place.
    ///
    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left.
    pub(crate) fn room(&self) -> Result<OwnedFd> {
        answer(io::fcntl_dupfd_cloexec(&self.room, 0))
    }

    /// A path on the host for a socket, which no other supervisor has, and by which those outside who may look at this process find it
    /// too: by the descriptor of the private directory, as what has that one's name may be another's by now.
    pub(crate) fn socket(&self, number: u64) -> Vec<u8> {
        let (process, room) = (std::process::id(), self.room.as_raw_fd());
        format!("/proc/{process}/fd/{room}/{}", socket_name(number)).into_bytes()
    }

    /// Which file the socket is that was just made at its path.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: somebody took it away.
    pub(crate) fn socket_id(&self, number: u64) -> Result<HostId> {
        let stat = fs::statat(&self.room, socket_name(number), AtFlags::SYMLINK_NOFOLLOW);
        answer(stat).map(|stat| HostId::of(&stat))
    }

    /// Holds a socket, if it is the file that it was.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: somebody took it away, or put something in its place.
    pub(crate) fn hold_socket(&self, number: u64, id: HostId) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = answer(fs::openat(&self.room, socket_name(number), flags, Mode::empty()))?;
        if HostId::of_fd(&fd)? == id { Ok(fd) } else { Err(Errno::ENOENT) }
    }

    /// Removes a socket that nobody finds any more.
    pub(crate) fn remove_socket(&self, number: u64) {
        // It is in nobody's way.
        let _ = fs::unlinkat(&self.room, socket_name(number), AtFlags::empty());
    }

    fn open_by_name(&self, name: &str, kind: Kind, shown: OFlags) -> Result<OwnedFd> {
        answer(fs::openat(&self.room, name, kind.flags() | shown, Mode::empty()))
    }

    fn make(&mut self, file: &File, kind: Kind, shown: OFlags) -> Result<OwnedFd> {
        let (fd, cookie) = self.make_for_nobody(kind, shown)?;
        self.places.insert((file.place_id(), kind), cookie);
        Ok(fd)
    }

    fn make_for_nobody(&mut self, kind: Kind, shown: OFlags) -> Result<(OwnedFd, Cookie)> {
        self.next += 1;
        let name = format!("{:x}", self.next);
        if kind.is_directory() {
            answer(fs::mkdirat(&self.room, &name, Mode::RWXU))?;
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            answer(fs::openat(&self.room, &name, flags, Mode::RUSR | Mode::WUSR))?;
        }
        let fd = self.open_by_name(&name, kind, shown)?;
        let id = HostId::of_fd(&fd)?;
        Ok((fd, Cookie { id, name }))
    }

    /// The files of the host that some process has open for writing.
    ///
    /// # Errors
    ///
    /// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
    pub(crate) fn written(&self) -> Result<FxHashSet<HostId>> {
        let mut written = FxHashSet::default();
        for process in descendants()? {
            for thread in threads_of(process)? {
                let task = task_of(process, thread);
                for number in kin::names(task.join("fdinfo"))? {
                    if is_written(&task.join("fdinfo").join(&number))?
                        && let Ok(stat) = fs::stat(task.join("fd").join(&number))
                    {
                        written.insert(HostId::of(&stat));
                    }
                }
            }
        }
        Ok(written)
    }

    /// The files that are known and have this inode number.
    pub(crate) fn with_number(&self, ino: u64) -> Vec<HostId> {
        let ids = self.numbers.get(&ino);
        ids.into_iter()
            .flatten()
            .copied()
            .filter(|&id| self.has_number(id, ino).is_some())
            .collect()
    }

    /// The files themselves.
    pub(crate) fn files_with_number(&self, ino: u64) -> Vec<File> {
        let ids = self.numbers.get(&ino).into_iter().flatten();
        ids.filter_map(|&id| self.has_number(id, ino)).map(|known| known.file.clone()).collect()
    }

    /// What is known of a file, if that has this number: the host may have given its own to another one.
    fn has_number(&self, id: HostId, ino: u64) -> Option<Arc<Known>> {
        self.get(id).filter(|known| known.file.ino() == ino)
    }

    /// Forgets what no process has, where there is much; whether it was looked for. What a call is about that is being answered may be
    /// forgotten too, unless somebody here holds it. `before` is as for [`sweep`](Self::sweep).
    pub(crate) fn make_room(&mut self, before: impl FnOnce(&Self)) -> bool {
        if self.known.lock().len() < self.enough {
            return false;
        }
        self.sweep(|_| true, before);
        self.enough = (2 * self.known.lock().len()).max(ENOUGH);
        true
    }

    /// Forgets what no process has, nor is sent to one, and may go. `before` is done while it is still known what that was, and is closed by now.
    pub(crate) fn sweep(&mut self, may_go: impl Fn(&HostId) -> bool, before: impl FnOnce(&Self)) {
        let (in_flight, empty) = (self.in_flight.ids(), self.sent.look());
        let Ok(Some(mut used)) = used() else { return };
        if let Some(empty) = empty {
            self.sent.looked(empty, &used);
        }
        used.extend(in_flight.into_iter().chain(self.sent.ids()));
        before(self);
        let mut known = self.known.lock();
        known.retain(|id, known| used.contains(id) || Arc::strong_count(known) > 1 || !may_go(id));
        let (kept, gone): (FxHashMap<_, _>, FxHashMap<_, _>) =
            self.places.drain().partition(|(_, cookie)| known.contains_key(&cookie.id));
        self.numbers.retain(|_, ids| {
            ids.retain(|id| known.contains_key(id));
            !ids.is_empty()
        });
        drop(known);
        self.forgotten += 1;
        self.places = kept;
        for ((_, kind), cookie) in gone {
            let flags = if kind.is_directory() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            // What is left goes with the private directory.
            let _ = fs::unlinkat(&self.room, &cookie.name, flags);
        }
    }
}

impl Drop for Cookies {
    fn drop(&mut self) {
        // The file system that shows processes has them too, and is in the tree that they are files of: none of them would ever go.
        let known = std::mem::take(&mut *self.known.lock());
        drop(known);
        // Nobody is left to be told.
        let _ = remove(&self.lock, &self.path);
    }
}

fn note(numbers: &mut FxHashMap<u64, Vec<HostId>>, id: HostId, file: &File) {
    let ids = numbers.entry(file.ino()).or_default();
    if !ids.contains(&id) {
        ids.push(id);
    }
}

fn socket_name(number: u64) -> String {
    format!("s{number:x}")
}

/// The name of a private directory, and whose it is by that.
fn name_of(process: u32, number: u64) -> String {
    format!("pathwalk-{process}-{number:x}")
}

fn process_of(name: &str) -> Option<u32> {
    let (process, number) = name.strip_prefix("pathwalk-")?.split_once('-')?;
    let (process, number) = (process.parse().ok()?, u64::from_str_radix(number, 16).ok()?);
    (name == name_of(process, number)).then_some(process)
}

/// Takes the lock of a private directory, unless somebody has it.
fn lock(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = answer(fs::open(path, flags, Mode::empty()))?;
    answer(fs::flock(&fd, fs::FlockOperation::NonBlockingLockExclusive))?;
    Ok(fd)
}

/// Where private directories are made, the first that can be.
fn bases() -> [PathBuf; 2] {
    ["/dev/shm".into(), std::env::temp_dir()]
}

/// Removes the private directories of a supervisor that was killed.
pub(crate) fn tidy_up_after(process: u32) {
    for path in bases().iter().flat_map(|base| entries(base)) {
        let name = path.file_name().and_then(|name| name.to_str());
        if name.and_then(process_of) == Some(process) {
            let _ = lock(&path).and_then(|room| remove(&room, &path));
        }
    }
}

/// Removes the private directories of those who could not, as they were killed.
fn tidy_up(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(process_of) else { continue };
        let there = Path::new("/proc").join(process.to_string()).exists();
        let Ok(stat) = entry.metadata() else { continue };
        // Somebody whose processes have other numbers may have made it, and lock it next.
        let old =
            stat.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age > NEW);
        if old && !there {
            // Who is here at the same time removes it too.
            let _ = lock(&entry.path()).and_then(|room| remove(&room, &entry.path()));
        }
    }
}

/// Removes a private directory, and in it what was made here, which is all empty: something else stays, and the directory then.
///
/// # Errors
///
/// - `EPERM`: nobody of this user made it here.
/// - `ENOTEMPTY`: something else is in it.
/// - Those of removing.
fn remove(room: &OwnedFd, path: &Path) -> Result<()> {
    let stat = answer(fs::fstat(room))?;
    let marker = answer(fs::statat(room, MARKER, AtFlags::SYMLINK_NOFOLLOW))?;
    let own = rustix::process::geteuid().as_raw();
    if [stat.st_uid, marker.st_uid] != [own; 2] {
        return Err(Errno::EPERM);
    }
    for entry in answer(fs::Dir::read_from(room))?.flatten() {
        let name = entry.file_name();
        if !name.to_str().is_ok_and(made_here) {
            continue;
        }
        // Most are cookies, and empty.
        let removed = fs::unlinkat(room, name, AtFlags::REMOVEDIR);
        if removed == Err(io::Errno::NOTEMPTY) {
            empty(room, name);
            // Only where it is empty.
            let _ = fs::unlinkat(room, name, AtFlags::REMOVEDIR);
        } else if removed == Err(io::Errno::NOTDIR)
            && fs::statat(room, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_size == 0)
        {
            let _ = fs::unlinkat(room, name, AtFlags::empty());
        }
    }
    let left = |name: &[u8]| ![&b"."[..], b"..", MARKER.as_bytes()].contains(&name);
    let mut entries = answer(fs::Dir::read_from(room))?.flatten();
    if entries.any(|entry| left(entry.file_name().to_bytes())) {
        return Err(Errno::ENOTEMPTY);
    }
    answer(fs::unlinkat(room, MARKER, AtFlags::empty()))?;
    answer(fs::rmdir(path))
}

/// Removes what is in a directory that was made here: files in a cookie are the kernel's, where somebody outside let who stands in it end with a core;
/// and what is watched has names in it, and whiteouts.
pub(crate) fn empty(room: &OwnedFd, name: impl Arg) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(dir) = fs::openat(room, name, flags, Mode::empty()) else { return };
    for entry in fs::Dir::read_from(&dir).into_iter().flatten().flatten() {
        let flags = match entry.file_type() {
            fs::FileType::RegularFile | fs::FileType::CharacterDevice => AtFlags::empty(),
            fs::FileType::Directory => AtFlags::REMOVEDIR,
            _ => continue,
        };
        let _ = fs::unlinkat(&dir, entry.file_name(), flags);
    }
}

/// Whether something is made by this name: a number, alone or behind a letter that no such number begins with.
fn made_here(name: &str) -> bool {
    let number = name.strip_prefix(['p', 's', 'w']).unwrap_or(name);
    u128::from_str_radix(number, 16).is_ok_and(|parsed| format!("{parsed:x}") == number)
}

fn task_of(process: u32, thread: u32) -> PathBuf {
    format!("/proc/{process}/task/{thread}").into()
}

/// What the processes have that come of this one; none where they are made as fast as they can be looked at.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
fn used() -> Result<Option<FxHashSet<HostId>>> {
    let mut used = FxHashSet::default();
    Ok(look_at_all(|process| in_use(process, &mut used))?.then_some(used))
}

/// Looks at the processes that come of this one; whether none was missed.
///
/// Who is missing in a list that has nobody new in it was made while that was read, by somebody who was there before: he was
/// looked at, and had then what the new one has.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at; and those of the look.
pub(crate) fn look_at_all(mut look: impl FnMut(u32) -> Result<()>) -> Result<bool> {
    let mut looked_at = FxHashSet::default();
    for _ in 0..LOOKS {
        let mut none_new = true;
        for pid in descendants()? {
            if looked_at.insert(pid) {
                look(pid)?;
                none_new = false;
            }
        }
        if none_new {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a descriptor is one to write by, as its file in a `fdinfo` says.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
pub(crate) fn is_written(info: &Path) -> Result<bool> {
    let access = flags_of(info)? & OFlags::RWMODE;
    Ok(access == OFlags::WRONLY || access == OFlags::RDWR)
}

/// The flags of a descriptor, as its file in a `fdinfo` says; none where it is not there.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
pub(crate) fn flags_of(info: &Path) -> Result<OFlags> {
    let text = String::from_utf8(kin::read(info)?.unwrap_or_default()).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = line.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    Ok(OFlags::from_bits_retain(flags))
}

/// What a thread has open, by its links in `/proc`.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
pub(crate) fn open_of(process: u32, thread: u32) -> Result<impl Iterator<Item = PathBuf>> {
    let dir = task_of(process, thread).join("fd");
    Ok(kin::names(&dir)?.into_iter().map(move |number| dir.join(number)))
}

/// What is in a directory, if it is there.
fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Notes what a process has open, stands in, executes and has in its memory; each of its threads may stand elsewhere.
fn in_use(process: u32, used: &mut FxHashSet<HostId>) -> Result<()> {
    let threads = threads_of(process)?;
    // The first may have ended, and have no memory.
    for &thread in &threads {
        let mapped = mapped::ids(&task_of(process, thread))?;
        used.extend(&mapped);
        if !mapped.is_empty() {
            break;
        }
    }
    let mut note = |path: &Path| {
        if let Ok(stat) = fs::stat(path) {
            used.insert(HostId::of(&stat));
        }
    };
    if let Some(exe) = threads
        .iter()
        .map(|&thread| task_of(process, thread).join("exe"))
        .find(|exe| fs::readlink(exe, Vec::new()).is_ok())
    {
        note(&exe);
    }
    for thread in threads {
        note(&task_of(process, thread).join("cwd"));
        open_of(process, thread)?.for_each(|fd| note(&fd));
    }
    Ok(())
}

/// The file that a thread stands in, or executes, or has open, as the host knows it.
///
/// # Errors
///
/// - `ESRCH`: the thread is gone, or has no such.
pub(crate) fn of_thread(tid: u32, what: &str) -> Result<HostId> {
    match fs::stat(format!("/proc/{tid}/{what}")) {
        Ok(stat) => Ok(HostId::of(&stat)),
        Err(io::Errno::NOENT) => Err(Errno::ESRCH),
        Err(errno) => Err(errno_of(&errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathwalk::{Config, Cred, MemFs, Vfs};

    #[test]
    fn only_names_that_are_made_here_are_known() {
        for (name, process) in [
            ("pathwalk-12-0", Some(12)),
            ("pathwalk-12-1f", Some(12)),
            ("pathwalk-12-ffffffffffffffff", Some(12)),
            ("pathwalk-12-10000000000000000", None),
            ("pathwalk-12-0f", None),
            ("pathwalk-012-0", None),
            ("pathwalk-12-0.bak", None),
            ("pathwalk-12", None),
            ("pathwalk-results", None),
        ] {
            assert_eq!(process_of(name), process, "{name}");
        }
        for (name, made) in [
            ("1f", true),
            ("p1f", true),
            ("s0", true),
            ("w2a", true),
            ("01", false),
            ("1F", false),
            ("notes", false),
            ("", false),
            (MARKER, false),
        ] {
            assert_eq!(made_here(name), made, "{name}");
        }
    }

    #[test]
    fn nobody_knows_the_name_before() {
        let (one, other) = (Cookies::new().expect("it can"), Cookies::new().expect("it can"));
        let own = std::process::id();
        let guessed: Vec<_> = (0..64).map(|number| name_of(own, number)).collect();
        for cookies in [&one, &other] {
            let name = cookies.path.file_name().and_then(|name| name.to_str()).expect("a name");
            assert!(process_of(name) == Some(own) && !guessed.iter().any(|guess| guess == name));
        }
        assert_ne!(one.path, other.path);
        let paths = [one.path.clone(), other.path.clone()];
        drop((one, other));
        assert!(!paths.iter().any(|path| path.exists()));
    }

    /// Who may write the host's `/dev/shm` may exchange what is there.
    #[test]
    fn what_was_put_in_the_place_of_a_directory_stands_for_nothing() {
        let vfs = Vfs::new(Config::default(), MemFs::new()).expect("a tree");
        let task = vfs.task(Cred::root());
        let made = |path: &str| {
            task.mkdir(path, 0o700).expect("it is new");
            task.open(path, pathwalk::OpenFlags::PATH, 0).expect("it is there")
        };
        let dirs = [made("/one"), made("/other")];
        let mut cookies = Cookies::new().expect("it can");
        let enter = |cookies: &mut Cookies, of: usize| {
            cookies.directory(&dirs[of]).map(|(fd, id, _)| HostId::of_fd(fd) == Ok(id))
        };
        assert_eq!([0, 1, 0].map(|of| enter(&mut cookies, of)), [Ok(true); 3]);
        let [one, other] = [0, 1].map(|of| {
            let place = (dirs[of].place_alone().place_id(), Kind::DirectoryPath);
            cookies.places[&place].name.clone()
        });
        let exchange = |cookies: &Cookies| {
            let (room, flags) = (&cookies.room, fs::RenameFlags::EXCHANGE);
            fs::renameat_with(room, &one, room, &other, flags).expect("both are there");
        };
        exchange(&cookies);
        assert_eq!([0, 1].map(|of| enter(&mut cookies, of)), [Err(Errno::ENOENT); 2]);
        exchange(&cookies);
        assert_eq!([0, 1].map(|of| enter(&mut cookies, of)), [Ok(true); 2]);
    }

    #[test]
    fn what_was_not_made_here_stays() {
        let base = tempfile::tempdir().expect("a directory");
        // No process has this number.
        let number = 1 << 30;
        let old = |path: &Path| {
            let dir = std::fs::File::open(path).expect("it is there");
            dir.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("it is ours");
        };
        let room = |attempt: u64, marked: bool, with: &[&str]| {
            let path = base.path().join(name_of(number, attempt));
            std::fs::create_dir(&path).expect("it is new");
            with.iter().for_each(|name| std::fs::write(path.join(name), "").expect("it is new"));
            if marked {
                std::fs::write(path.join(MARKER), "").expect("it is new");
            }
            old(&path);
            path
        };
        let plain = base.path().join("pathwalk-results");
        std::fs::create_dir(&plain).expect("it is new");
        old(&plain);
        let unmarked = room(0, false, &["1"]);
        let left = room(1, true, &["1", "p2", "s3"]);
        let other = room(2, true, &["1", "thesis"]);
        tidy_up(base.path());
        assert!(plain.exists() && unmarked.join("1").exists());
        assert!(!left.exists());
        assert!(other.join("thesis").exists() && other.join(MARKER).exists());
        let watched = room(5, true, &["w7"]);
        std::fs::create_dir_all(watched.join("w8/directory")).expect("it is new");
        std::fs::write(watched.join("w8/file"), "").expect("it is new");
        old(&watched);
        tidy_up(base.path());
        assert!(!watched.exists());
        let cores = room(4, true, &[]);
        std::fs::create_dir(cores.join("1")).expect("it is new");
        std::fs::write(cores.join("1/core"), "not empty").expect("it is new");
        old(&cores);
        tidy_up(base.path());
        assert!(!cores.exists());
        let full = room(3, true, &[]);
        std::fs::write(full.join("1"), "not empty").expect("it is new");
        old(&full);
        tidy_up(base.path());
        assert!(full.join("1").exists());
    }
}
