//! The calls to the host: all of them, each counted.
//!
//! Invariant: no call is given a path that the host walks on its own account. A path is one name below a directory that
//! is held by its descriptor and is not followed where it is a symlink; or a run of names, or a path, that [`Host::open_below`] walks,
//! which leaves nothing; or the number of a descriptor of our own, or the list of mounts, or the status of this thread, in /proc.
//!
//! Linux: openat2(2), statx(2), and the calls whose names end in `at`.

mod news;

pub(crate) use news::{Ear, Event, Kind, News, What};

use crate::options::Keeper;
use pathwalk_abi::{Errno, FileType, Result, SetTime};
use pathwalk_sync::Striped;
use rustix::{
    event::Timespec,
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{self, AtFlags, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags},
    io,
    path::DecInt,
    thread::{NanosleepRelativeResult, Pid, gettid, nanosleep},
};
use std::{
    cell::Cell,
    io::Read,
    mem::MaybeUninit,
    os::fd::AsRawFd,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

pub(crate) use rustix::fs::{IFlags, RenameFlags, StatFs, Statx, XattrFlags};

/// A place that is held and was not opened: it can be the start of calls, and be opened by its number.
const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What a run of names must not do on its way.
const BELOW: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_SYMLINKS);

/// Longer runs of names are walked in pieces: the host takes 4095 bytes at a time.
const LONGEST: usize = 4000;

/// So often a walk is begun of which the host cannot tell whether it led out: one with `..`, if anything was moved meanwhile. Where a
/// process did nothing but that it was one of eleven, and of a million three in a row at most.
const MOST_TRIES: u32 = 64;

/// The file systems that tell by inotify(7) of all that happens to names, whoever does it: nothing else changes what is on them.
/// Their `f_type` of statfs(2): ext2, ext3 and ext4, XFS, Btrfs, F2FS, tmpfs.
const TELLS_ALL: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// The mounts of this process.
const MOUNTS: &str = "/proc/self/mountinfo";
/// Room for most; the kernel gives a page at once.
const MOUNTS_LEN: usize = 16 << 10;

thread_local! {
    /// Calls of this thread that asked about files.
    static QUESTIONS: Cell<u64> = const { Cell::new(0) };
    /// The same, whether or not it is believed what they answered.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// How many calls this thread made, of all hosts, that asked about files and not only whether anything had happened; but for those of
/// which all is believed that they answered.
pub(crate) fn questions() -> u64 {
    QUESTIONS.get()
}

/// How many calls this thread made, of all hosts, that asked about files.
pub(crate) fn asked() -> u64 {
    ASKED.get()
}

/// What was answered since there were so many questions is believed from now on.
pub(crate) fn is_believed(before: u64) {
    QUESTIONS.set(before);
}

/// How the host is asked.
#[derive(Debug)]
pub(crate) struct Host {
    /// Whether it has openat2; where not, runs of names are walked name by name.
    openat2: bool,
    /// Calls that asked about files.
    questions: AtomicU64,
    /// Calls that only asked whether anything had happened.
    looks: Striped,
    keeper: Option<Arc<dyn Keeper>>,
    /// Where a thread finds its descriptors by their numbers, and which thread.
    numbers: OnceLock<(Pid, OwnedFd)>,
    /// The file system of the root, which is held and stays, and whether it tells of all that happens there.
    root: OnceLock<(u64, bool)>,
}

/// Takes one entry of a listing: see [`Host::list`].
pub(crate) type EmitEntry<'a> = dyn FnMut(u64, u64, Option<FileType>, &[u8]) -> Result<bool> + 'a;

/// The answer of a call to the host.
fn answer<T>(answer: io::Result<T>) -> Result<T> {
    answer.map_err(|errno| Errno::from_raw(errno.raw_os_error()).unwrap_or(Errno::EIO))
}

/// The path by which a descriptor of our own leads to what it stands for, a symlink too.
fn by_number(fd: BorrowedFd<'_>) -> String {
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd())
}

/// The path of a name in a directory of which this is a descriptor.
fn below_number(fd: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    [by_number(fd).as_bytes(), b"/", name].concat()
}

/// The number of a file's device.
fn device_of(stat: &Statx) -> u64 {
    fs::makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

/// Whether the kernel has openat2, and lets this process call it.
static HAS_OPENAT2: LazyLock<bool> = LazyLock::new(|| {
    let opened = fs::openat2(fs::CWD, ".", PATH, Mode::empty(), BELOW);
    // These are of the moment.
    matches!(opened, Ok(_) | Err(io::Errno::MFILE | io::Errno::NFILE | io::Errno::NOMEM))
});

impl Host {
    /// A host that is asked by openat2 if it has that, and if it is wanted.
    pub(crate) fn new(openat2: bool, keeper: Option<Arc<dyn Keeper>>) -> Self {
        let (questions, looks) = (AtomicU64::new(0), Striped::default());
        let (numbers, root) = (OnceLock::new(), OnceLock::new());
        let openat2 = openat2 && *HAS_OPENAT2;
        Self { openat2, questions, looks, keeper, numbers, root }
    }

    /// Whether `..` may be among names that are walked: only where the host itself stays below.
    pub(crate) fn goes_up(&self) -> bool {
        self.openat2
    }

    /// How many calls were made.
    pub(crate) fn calls(&self) -> u64 {
        self.questions.load(Relaxed) + self.looks.sum()
    }

    /// Says that something that was known need not be so any more, before it is noted.
    pub(crate) fn say_news(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.news();
        }
    }

    /// Makes a call that only asks whether anything happened.
    fn look<T>(&self, call: impl FnOnce() -> io::Result<T>) -> Result<T> {
        self.looks.get();
        answer(call())
    }

    /// Makes a call.
    fn call<T>(&self, call: impl FnOnce() -> io::Result<T>) -> Result<T> {
        self.asks();
        answer(call())
    }

    /// A call is made that asks about files.
    fn asks(&self) {
        self.questions.fetch_add(1, Relaxed);
        QUESTIONS.set(QUESTIONS.get() + 1);
        ASKED.set(ASKED.get() + 1);
    }

    /// Opens the directory that everything lies below: the only path that is the user's own.
    pub(crate) fn open_root(&self, path: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.call(|| fs::open(path, flags, Mode::empty()))
    }

    /// Holds what a run of names leads to, none of which may be a symlink but the last; `..`, and paths among the names, only if
    /// [`Host::goes_up`].
    ///
    /// # Errors
    ///
    /// - `ENOENT`, `ENOTDIR`, `ELOOP`, `EXDEV`: it leads nowhere, or would lead out.
    /// - `EAGAIN`: whether it led out was not to be told, however often it was tried.
    pub(crate) fn open_below(&self, dir: BorrowedFd<'_>, names: &[&[u8]]) -> Result<OwnedFd> {
        debug_assert!(!names.is_empty(), "the directory itself is at hand");
        let mut at: Option<OwnedFd> = None;
        let mut rest = names;
        while !rest.is_empty() {
            let from = at.as_ref().map_or(dir, AsFd::as_fd);
            let (piece, left) =
                if self.openat2 { first_piece(rest) } else { (rest[0].to_vec(), &rest[1..]) };
            let last = left.is_empty();
            at = Some(self.open_piece(from, &piece, last)?);
            rest = left;
        }
        at.ok_or(Errno::ENOENT)
    }

    fn open_piece(&self, dir: BorrowedFd<'_>, piece: &[u8], last: bool) -> Result<OwnedFd> {
        let flags = if last { PATH } else { PATH | OFlags::DIRECTORY };
        if !self.openat2 {
            return self.call(|| fs::openat(dir, piece, flags, Mode::empty()));
        }
        for _ in 1..MOST_TRIES {
            match self.call(|| fs::openat2(dir, piece, flags, Mode::empty(), BELOW)) {
                // The host could not tell that it stayed below, for something was moved meanwhile.
                Err(Errno::EAGAIN) => {}
                answer => return answer,
            }
        }
        self.call(|| fs::openat2(dir, piece, flags, Mode::empty(), BELOW))
    }

    /// Holds what a name stands for.
    pub(crate) fn open_path(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
        self.call(|| fs::openat(dir, name, PATH, Mode::empty()))
    }

    /// Takes a descriptor, for who wants to have one later.
    pub(crate) fn reserve(&self, any: BorrowedFd<'_>) -> Result<OwnedFd> {
        answer(io::fcntl_dupfd_cloexec(any, 0))
    }

    /// Opens what is held. It must be known not to be a fifo, which is waited for; a device is for who asked for one.
    pub(crate) fn reopen(&self, held: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        self.call(|| {
            // To walk there anew takes a third of the time. Another thread may have other descriptors, as a child has.
            if let Some(numbers) = self.numbers() {
                let number = DecInt::from_fd(held);
                match fs::openat(numbers, number, flags, Mode::empty()) {
                    // The thread is gone, and another one has its number.
                    Err(io::Errno::NOENT | io::Errno::SRCH) => {}
                    opened => return opened,
                }
            }
            fs::open(by_number(held), flags, Mode::empty())
        })
    }

    /// Where this thread finds its descriptors by their numbers: the first that asks.
    fn numbers(&self) -> Option<BorrowedFd<'_>> {
        let own = gettid();
        if self.numbers.get().is_none() {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = fs::open("/proc/thread-self/fd", flags, Mode::empty()).ok()?;
            // Of two that began at once one is kept.
            _ = self.numbers.set((own, opened));
        }
        self.numbers.get().filter(|(thread, _)| *thread == own).map(|(_, fd)| fd.as_fd())
    }

    /// Whether to open a device that is held may take as long as somebody else likes.
    pub(crate) fn may_wait(&self, held: BorrowedFd<'_>) -> Result<bool> {
        /// `MEM_MAJOR`, `TTYAUX_MAJOR` without consoles, `UNIX98_PTY_SLAVE_MAJOR` and those behind it.
        const MEMORY: u32 = 1;
        const AUXILIARY: u32 = 5;
        const PTS: std::ops::RangeInclusive<u32> = 136..=143;
        let stat = self.statx(held, b"")?;
        let character = FileType::from_mode(stat.stx_mode.into()) == Some(FileType::CharDevice);
        let at_once = match (stat.stx_rdev_major, stat.stx_rdev_minor) {
            (MEMORY, _) | (AUXILIARY, 0 | 2) => true,
            (major, _) => PTS.contains(&major),
        };
        Ok(!(character && at_once))
    }

    /// Opens a directory that is held, to list it.
    pub(crate) fn open_dir(&self, dir: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
        let with = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        match self.call(|| fs::openat(dir, ".", with, Mode::empty())) {
            // By that name it must be searched, too; by its number, which is a symlink, not.
            Err(Errno::EACCES) => match self.reopen(dir, flags.difference(OFlags::NOFOLLOW)) {
                // There are no numbers where there is no /proc.
                Err(Errno::ENOENT) => Err(Errno::EACCES),
                answer => answer,
            },
            answer => answer,
        }
    }

    /// Makes a regular file and opens it.
    pub(crate) fn create(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        mode: u32,
        flags: OFlags,
    ) -> Result<OwnedFd> {
        // No link is followed by that; `O_NOFOLLOW` would be shown by `F_GETFL`.
        let makes = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        self.call(|| fs::openat(dir, name, flags | makes, permissions(mode)))
    }

    /// The flags of an open file.
    pub(crate) fn status(&self, file: BorrowedFd<'_>) -> Result<OFlags> {
        self.call(|| fs::fcntl_getfl(file))
    }

    /// Sets those of an open file's flags that can be set.
    pub(crate) fn set_status(&self, file: BorrowedFd<'_>, flags: OFlags) -> Result<()> {
        self.call(|| fs::fcntl_setfl(file, flags))
    }

    /// Waits so long, or until a signal comes.
    ///
    /// # Errors
    ///
    /// - `EINTR`: one came.
    pub(crate) fn sleep(&self, time: Duration) -> Result<()> {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        self.look(|| match nanosleep(&time) {
            NanosleepRelativeResult::Ok => Ok(()),
            NanosleepRelativeResult::Interrupted(_) => Err(io::Errno::INTR),
            NanosleepRelativeResult::Err(errno) => Err(errno),
        })
    }

    /// Makes a regular file without a name, which may get one.
    pub(crate) fn tmpfile(&self, dir: BorrowedFd<'_>, mode: u32) -> Result<OwnedFd> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        self.call(|| fs::openat(dir, ".", flags, permissions(mode)))
    }

    pub(crate) fn mkdir(&self, dir: BorrowedFd<'_>, name: &[u8], mode: u32) -> Result<()> {
        self.call(|| fs::mkdirat(dir, name, permissions(mode)))
    }

    pub(crate) fn mknod(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        kind: FileType,
        mode: u32,
        rdev: u64,
    ) -> Result<()> {
        let kind = fs::FileType::from_raw_mode(kind.to_mode());
        self.call(|| fs::mknodat(dir, name, kind, permissions(mode), rdev))
    }

    pub(crate) fn symlink(&self, body: &[u8], dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        self.call(|| fs::symlinkat(body, dir, name))
    }

    /// Gives what is held one more name.
    pub(crate) fn link(
        &self,
        held: BorrowedFd<'_>,
        dir: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<()> {
        self.call(|| fs::linkat(fs::CWD, by_number(held), dir, name, AtFlags::SYMLINK_FOLLOW))
    }

    pub(crate) fn unlink(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        self.call(|| fs::unlinkat(dir, name, AtFlags::empty()))
    }

    pub(crate) fn rmdir(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        self.call(|| fs::unlinkat(dir, name, AtFlags::REMOVEDIR))
    }

    pub(crate) fn rename(
        &self,
        (old_dir, old): (BorrowedFd<'_>, &[u8]),
        (new_dir, new): (BorrowedFd<'_>, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.call(|| fs::renameat_with(old_dir, old, new_dir, new, flags))
    }

    /// What is held, or with a name what that stands for in the directory that is held.
    pub(crate) fn statx(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<Statx> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        self.call(|| fs::statx(dir, name, flags, mask))
    }

    /// The bits that are left out of the mode of what this thread makes; none where that is not told.
    pub(crate) fn umask(&self) -> Option<u32> {
        let status = self.call(|| {
            let read = std::fs::read_to_string("/proc/thread-self/status");
            read.map_err(|error| io::Errno::from_io_error(&error).unwrap_or(io::Errno::IO))
        });
        let status = status.ok()?;
        let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
        u32::from_str_radix(umask.trim(), 8).ok()
    }

    /// The body of a symlink that is held.
    pub(crate) fn readlink(&self, held: BorrowedFd<'_>) -> Result<Vec<u8>> {
        self.call(|| fs::readlinkat(held, "", Vec::new())).map(std::ffi::CString::into_bytes)
    }

    pub(crate) fn chmod(&self, held: BorrowedFd<'_>, mode: u32) -> Result<()> {
        self.call(|| fs::chmod(by_number(held), permissions(mode)))
    }

    pub(crate) fn chown(
        &self,
        held: BorrowedFd<'_>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<()> {
        let (uid, gid) = (uid.map(fs::Uid::from_raw), gid.map(fs::Gid::from_raw));
        let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
        self.call(|| fs::chownat(held, "", uid, gid, flags))
    }

    pub(crate) fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<()> {
        self.call(|| fs::ftruncate(file, size))
    }

    /// The same of what is held and need not be open.
    pub(crate) fn truncate_held(&self, held: BorrowedFd<'_>, size: u64) -> Result<()> {
        let size = size.try_into().map_err(|_| Errno::EFBIG)?;
        let set = || nix::unistd::truncate(by_number(held).as_str(), size);
        self.call(|| set().map_err(|errno| io::Errno::from_raw_os_error(errno as i32)))
    }

    /// Sets the times that are given.
    pub(crate) fn utimens(
        &self,
        held: BorrowedFd<'_>,
        atime: SetTime,
        mtime: SetTime,
    ) -> Result<()> {
        let time = |time: SetTime| match time {
            SetTime::At(time) => fs::Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() },
            SetTime::Now => fs::Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW },
            SetTime::Omit => fs::Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT },
        };
        let times = fs::Timestamps { last_access: time(atime), last_modification: time(mtime) };
        self.call(|| fs::utimensat(held, "", &times, AtFlags::EMPTY_PATH))
    }

    pub(crate) fn getflags(&self, file: BorrowedFd<'_>) -> Result<IFlags> {
        self.call(|| fs::ioctl_getflags(file))
    }

    pub(crate) fn setflags(&self, file: BorrowedFd<'_>, flags: IFlags) -> Result<()> {
        self.call(|| fs::ioctl_setflags(file, flags))
    }

    pub(crate) fn getxattr(&self, held: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>> {
        self.until_it_fits(|buf| fs::getxattr(by_number(held), name, buf))
    }

    /// Whether what is open has an attribute.
    ///
    /// # Errors
    ///
    /// - `ENODATA`: it has none.
    /// - `EOPNOTSUPP`: nothing has there.
    pub(crate) fn has_xattr(&self, open: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        self.call(|| fs::fgetxattr(open, name, &mut [0; 0])).map(drop)
    }

    /// The same of what a name stands for in a directory that is held.
    ///
    /// # Errors
    ///
    /// As [`Host::has_xattr`].
    pub(crate) fn has_xattr_at(
        &self,
        held: BorrowedFd<'_>,
        name: &[u8],
        attribute: &[u8],
    ) -> Result<()> {
        let path = below_number(held, name);
        self.call(|| fs::lgetxattr(&path[..], attribute, &mut [0; 0])).map(drop)
    }

    /// An attribute of what is held, or with a name of what that stands for in the directory that is held.
    pub(crate) fn lgetxattr(
        &self,
        held: BorrowedFd<'_>,
        name: &[u8],
        attribute: &[u8],
    ) -> Result<Vec<u8>> {
        if name.is_empty() {
            return self.getxattr(held, attribute);
        }
        let path = below_number(held, name);
        self.until_it_fits(|buf| fs::lgetxattr(&path[..], attribute, buf))
    }

    pub(crate) fn listxattr(&self, held: BorrowedFd<'_>) -> Result<Vec<u8>> {
        self.until_it_fits(|buf| fs::listxattr(by_number(held), buf))
    }

    pub(crate) fn setxattr(
        &self,
        held: BorrowedFd<'_>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        self.call(|| fs::setxattr(by_number(held), name, value, flags))
    }

    pub(crate) fn removexattr(&self, held: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        self.call(|| fs::removexattr(by_number(held), name))
    }

    /// Reads something whose length is not known before: 256 bytes are enough for most, 64 KiB for all.
    fn until_it_fits(&self, read: impl Fn(&mut [u8]) -> io::Result<usize>) -> Result<Vec<u8>> {
        for size in [256, 64 << 10] {
            let mut buf = vec![0; size];
            match self.call(|| read(&mut buf)) {
                Ok(len) => {
                    buf.truncate(len);
                    return Ok(buf);
                }
                Err(Errno::ERANGE) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::E2BIG)
    }

    pub(crate) fn pread(&self, file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.call(|| io::pread(file, buf, offset))
    }

    pub(crate) fn pwrite(&self, file: BorrowedFd<'_>, data: &[u8], offset: u64) -> Result<usize> {
        self.call(|| io::pwrite(file, data, offset))
    }

    /// Writes at the end of a file that was opened for that; where the writing ended, and how much that was.
    pub(crate) fn append(&self, file: BorrowedFd<'_>, data: &[u8]) -> Result<(u64, usize)> {
        let written = self.call(|| io::write(file, data))?;
        Ok((self.call(|| fs::tell(file))?, written))
    }

    /// Lists an open directory from a position: calls `emit` with the position behind an entry, its inode number, type and
    /// name, until it says `false`. A type that the host does not tell is `None`.
    pub(crate) fn list(
        &self,
        dir: BorrowedFd<'_>,
        from: u64,
        emit: &mut EmitEntry<'_>,
    ) -> Result<()> {
        let begins = self.call(|| fs::seek(dir, fs::SeekFrom::Start(from)));
        let mut buf = [MaybeUninit::uninit(); 8192];
        let mut entries = fs::RawDir::new(dir, &mut buf);
        if let Err(errno) = begins {
            // A removed directory may have no positions any more: that it is removed comes first.
            return entries.next().map_or(Err(errno), |entry| answer(entry).and(Err(errno)));
        }
        loop {
            if entries.is_buffer_empty() {
                self.asks();
            }
            let Some(entry) = entries.next() else { return Ok(()) };
            let entry = answer(entry)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = FileType::from_mode(entry.file_type().as_raw_mode());
            if !emit(entry.next_entry_cookie(), entry.ino(), kind, name)? {
                return Ok(());
            }
        }
    }

    /// The position that lies so far from the end of an open directory.
    pub(crate) fn seek_end(&self, dir: BorrowedFd<'_>, by: i64) -> Result<u64> {
        self.call(|| fs::seek(dir, fs::SeekFrom::End(by)))
    }

    /// Whether the mount that is held is one of this process's mounts, of which [`Host::news`] tells.
    pub(crate) fn is_mounted_here(&self, held: BorrowedFd<'_>) -> Result<bool> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
        let stat = self.call(|| fs::statx(held, "", flags, StatxFlags::MNT_ID))?;
        if !StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID) {
            return Ok(false);
        }
        let mounts = self.call(|| {
            // A file that does not say how long it is would be read by few bytes first, and a limit keeps it from being asked.
            let mut text = Vec::with_capacity(MOUNTS_LEN);
            std::fs::File::open(MOUNTS)
                .and_then(|file| file.take(u64::MAX).read_to_end(&mut text))
                .map_err(|error| io::Errno::from_io_error(&error).unwrap_or(io::Errno::IO))?;
            Ok(text)
        })?;
        let own = format!("{} ", stat.stx_mnt_id);
        Ok(mounts.split(|&byte| byte == b'\n').any(|line| line.starts_with(own.as_bytes())))
    }

    /// Whether inotify tells of all that happens to the names in a directory that is held. What is encrypted changes its names where
    /// a key is given or taken away.
    pub(crate) fn tells_all(&self, stat: &Statx, dir: BorrowedFd<'_>) -> Result<bool> {
        let encrypted = stat.stx_attributes.contains(StatxAttributes::ENCRYPTED);
        Ok(!encrypted
            && match self.root.get() {
                Some(&(device, tells)) if device == device_of(stat) => tells,
                _ => TELLS_ALL.contains(&(self.statfs(dir)?.f_type as u64)),
            })
    }

    /// The same of the root, which is kept in mind.
    pub(crate) fn root_tells_all(&self, stat: &Statx, root: BorrowedFd<'_>) -> bool {
        let tells = self.tells_all(stat, root).unwrap_or(false);
        self.root.get_or_init(|| (device_of(stat), tells));
        tells
    }

    /// The directory that a held one lies in.
    pub(crate) fn above(&self, held: BorrowedFd<'_>) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.call(|| fs::openat(held, "..", flags, Mode::empty()))
    }

    pub(crate) fn statfs(&self, file: BorrowedFd<'_>) -> Result<StatFs> {
        self.call(|| fs::fstatfs(file))
    }
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode)
}

/// As many of the names as the host takes at a time, with slashes between, and the rest of them.
fn first_piece<'n, 'a>(names: &'n [&'a [u8]]) -> (Vec<u8>, &'n [&'a [u8]]) {
    let mut piece = names[0].to_vec();
    let mut taken = 1;
    while let Some(name) = names.get(taken)
        && piece.len() + 1 + name.len() <= LONGEST
    {
        piece.push(b'/');
        piece.extend_from_slice(name);
        taken += 1;
    }
    (piece, &names[taken..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::UnshareFlags;
    use std::{fs::File, io::Read, sync::mpsc::channel, thread};

    /// What two threads that do not share descriptors have by the same number are two files.
    #[test]
    #[expect(deprecated, reason = "this thread closes none but what it opens from then on")]
    fn a_thread_with_descriptors_of_its_own_reopens_those() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        for name in ["one", "other"] {
            std::fs::write(path(name), name).expect("room");
        }
        let host = Host::new(true, None);
        let reopened = |held: &File| {
            let fd = host.reopen(held.as_fd(), OFlags::RDONLY).expect("it is open");
            let mut text = String::new();
            File::from(fd).read_to_string(&mut text).expect("it can be read");
            text
        };
        let open = |name: &str| File::open(path(name)).expect("it is there");
        assert_eq!(reopened(&open("one")), "one");
        let (tell, hear) = channel();
        let (go, gone) = channel();
        thread::scope(|scope| {
            let (open, reopened) = (&open, &reopened);
            scope.spawn(move || {
                rustix::thread::unshare(UnshareFlags::FILES).expect("anybody may");
                let other = open("other");
                tell.send(other.as_raw_fd()).expect("it is heard");
                gone.recv().expect("it is told");
                assert_eq!(reopened(&other), "other");
            });
            let number = hear.recv().expect("it is told");
            let mut opened = Vec::new();
            while opened.last().is_none_or(|file: &File| file.as_raw_fd() < number) {
                opened.push(open("one"));
            }
            go.send(()).expect("it is heard");
        });
    }
}
