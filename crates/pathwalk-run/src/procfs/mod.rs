//! `/proc` as the program is to see it: the host's, but of processes only its own, and what leads to files leads into the tree.
//!
//! ```text
//!   self, thread-self            who asks
//!   PID/                         the program's processes; no others are there
//!     cwd, exe, fd/N             the place in the tree that they stand for
//!     root                       the tree's root
//!     mountinfo, mounts,
//!     mountstats                 the tree's mounts
//!     maps, smaps, numa_maps     the host's, with the tree's paths
//!     map_files/FROM-TO          the place in the tree
//!     all else                   the host's file, opened there
//! ```
//!
//! A descriptor that is no file of the tree, as a pipe or a terminal, has no place there: its link leads to a file at the top
//! that is not listed, `.fd-PID-N`, which is opened as the host opens `/proc/PID/fd/N`. So it is with a namespace, `ns/NAME`:
//! `.ns-PID-NAME`. What is opened so stays no file of the tree.

mod asker;

mod permission;

mod change;

mod behind;

pub(crate) use asker::Asker;

use self::{change::Changed, permission::is_immutable};
use crate::{
    cookies::{HostId, Knowns},
    hidden::{self, Hidden, number},
    inside, kin, mapped,
    proc_text::{mount_stats, stat_for_others, status_of},
    sys::{answer, errno_of, process},
    unseen::{self, Unseen},
};
use parking_lot::Mutex;
use pathwalk::{
    Attr, Dev, Errno, FileType, InodeFlags, InodeRef, MountFormat, OpenFlags, Result, Subject,
    Timespec, Vfs, XattrFlags,
    fs::{
        Access, Emit, Features, FileSystem, Found, FsStat, Iattr, LinkTarget, NewInode, OpenHandle,
        Rename,
    },
};
use rustix::{
    fs::{self, AtFlags, MemfdFlags, Mode, OFlags, ResolveFlags, SealFlags},
    io,
    process::geteuid,
};
use std::{
    collections::HashMap,
    convert::Infallible,
    ffi::CString,
    io::Read as _,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, LazyLock, atomic::Ordering::Relaxed},
};

/// `PROC_SUPER_MAGIC`
pub(crate) const MAGIC: u64 = 0x9fa0;
/// `PIPEFS_MAGIC`
const PIPES: i64 = 0x5049_5045;
/// The files of a process that say what is mounted; and one more, that is made of the second.
const MOUNTS: [(&str, MountFormat); 2] =
    [("mountinfo", MountFormat::MountInfo), ("mounts", MountFormat::Mounts)];
const MOUNT_STATS: &str = "mountstats";
/// Behind all names in a directory come the numbers, each at a position of its own: who comes and goes moves no other.
const FIRST_NUMBER: u64 = 1 << 16;

/// The files of a process that say what it has in its memory.
const MAPS: [&str; 2] = ["maps", "smaps"];
const NUMA_MAPS: &str = "numa_maps";
/// The directory that has a link for each file in it.
const MAP_FILES: &str = "map_files";
/// The links, files and directories of a process that are for those alone who may trace it, whatever their modes say; and `fd/N`.
pub(crate) const PRIVATE: [&str; 17] = [
    "cwd",
    "exe",
    "root",
    "maps",
    "smaps",
    "smaps_rollup",
    NUMA_MAPS,
    MAP_FILES,
    "environ",
    "auxv",
    "mem",
    "pagemap",
    "syscall",
    "stack",
    "personality",
    "io",
    "fdinfo",
];

/// The flags of an opening that the host is told.
const TOLD: OpenFlags = OpenFlags::ACCMODE
    .union(OpenFlags::APPEND)
    .union(OpenFlags::NOFOLLOW)
    .union(OpenFlags::NOATIME)
    .union(OpenFlags::ASYNC)
    .union(OpenFlags::DSYNC)
    .union(OpenFlags::SYNC);

/// What is asked at each reading who may know it. The kernel would ask it of whom it knows: so where somebody has virtual credentials
/// what is read is what there was when it was opened.
const ASKED_AGAIN: [&str; 5] = ["syscall", "stack", "personality", "io", "stat"];

/// The file system.
#[derive(Debug)]
pub(crate) struct ProcView {
    asker: Asker,
    knowns: Knowns,
    nodes: Mutex<Nodes>,
    /// What was changed of files that are no process's, by path.
    changed: Mutex<HashMap<String, Changed>>,
}

/// Paths below `/proc` by number, as long as the cache has them.
#[derive(Debug, Default)]
struct Nodes {
    numbers: HashMap<String, u64>,
    paths: HashMap<u64, (String, u64)>,
    next: u64,
}

impl Nodes {
    fn answer(&mut self, path: &str) -> u64 {
        let number = *self.numbers.entry(path.to_owned()).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.paths.entry(number).or_insert_with(|| (path.to_owned(), 0)).1 += 1;
        number
    }

    fn take_back(&mut self, number: u64) {
        let Some((path, count)) = self.paths.get_mut(&number) else { return };
        *count -= 1;
        if *count == 0 {
            self.numbers.remove(path);
            self.paths.remove(&number);
        }
    }
}

impl ProcView {
    pub(crate) fn new(asker: Asker, knowns: Knowns) -> Arc<Self> {
        Arc::new(Self { asker, knowns, nodes: Mutex::default(), changed: Mutex::default() })
    }

    fn path(&self, inode: InodeRef<'_>) -> Result<String> {
        let nodes = self.nodes.lock();
        nodes.paths.get(&inode.node()).map(|(path, _)| path.clone()).ok_or(Errno::ESTALE)
    }

    fn found(&self, path: &str, attr: Attr) -> Found {
        Found { node: self.nodes.lock().answer(path), attr, body: None }
    }

    /// What the file of a path is: a process's belongs to who it is in the tree.
    fn look(&self, path: &str) -> Option<Attr> {
        let hidden = Hidden::of(path);
        let mut attr = match &hidden {
            Some(hidden) => self.look_behind(hidden)?,
            None => self.as_changed(path, look(path)?),
        };
        // A pipe that it made itself belongs to who started this, for the host.
        let made = hidden::is_nameless(attr.mode, attr.nlink.into());
        let hidden = hidden.filter(|_| made && attr.uid == geteuid().as_raw());
        let tid = hidden.map_or_else(|| thread_of(path), |hidden| Some(hidden.tid()));
        if let Some(person) = tid.and_then(|tid| self.asker.credentials(tid)) {
            attr.uid = person.credentials.user.effective;
            attr.gid = person.credentials.group.effective;
        }
        attr.flags.set(InodeFlags::IMMUTABLE, is_immutable(path));
        Some(attr)
    }

    /// What a hidden file is, for who may read the link that leads to it.
    fn look_behind(&self, hidden: &Hidden) -> Option<Attr> {
        let link = hidden.link();
        let on_host = OnHost::new(&link).ok()?;
        self.asker.may_access(hidden.tid()).ok()?;
        let stat = on_host.stat(AtFlags::empty()).ok()?;
        let attr = attr(&stat);
        // A directory of the host that was handed in is closed by this way too; and to a file of the tree another link leads.
        let closed = attr.file_type() == FileType::Directory
            || self.knowns.lock().contains_key(&HostId::of(&stat));
        (!closed).then_some(attr)
    }

    /// The process of who asks.
    fn process(&self) -> Result<(u32, u32)> {
        let tid = self.asker.0.tid.load(Relaxed);
        status(tid, "Tgid:").map(|tgid| (tgid, tid)).ok_or(Errno::ENOENT)
    }

    /// The place that a link of a process stands for.
    fn place<'v>(&self, inode: InodeRef<'v>, on_host: &OnHost<'_>) -> Option<LinkTarget<'v>> {
        let id = HostId::of(&on_host.stat(AtFlags::empty()).ok()?);
        let known = self.knowns.lock().get(&id).cloned()?;
        self.asker.links_to(&known.file, || on_host.open_behind(OFlags::PATH).ok());
        known.file.held_place(inode.vfs()).map(LinkTarget::Place)
    }
}

impl ProcView {
    /// What a thread has open by this number, which may be another one's by the next look at it: all is asked of what was fetched.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: there is no such descriptor.
    /// - `EACCES`: the process is closed to who asks.
    /// - `ESTALE`: it is a file of the tree by now, to which the link leads.
    fn fetched(&self, tid: u32, number: u32) -> Result<(OwnedFd, fs::Stat)> {
        let thread = process::thread(tid).map_err(|_| Errno::ENOENT)?;
        if !is_of_the_program(tid) {
            return Err(Errno::ENOENT);
        }
        self.asker.may_access(tid)?;
        let number = i32::try_from(number).map_err(|_| Errno::ENOENT)?;
        let pinned = process::descriptor(&thread, number).map_err(|errno| match errno {
            Errno::EBADF | Errno::ESRCH => Errno::ENOENT,
            errno => errno,
        })?;
        let stat = answer(fs::fstat(&pinned))?;
        let known = self.knowns.lock().contains_key(&HostId::of(&stat));
        if known { Err(Errno::ESTALE) } else { Ok((pinned, stat)) }
    }

    /// Opens anew what a thread has open by this number, for no more than it is open for.
    ///
    /// # Errors
    ///
    /// - those of [`ProcView::fetched`].
    /// - `EACCES`: it is a directory of the host, or not open for that, or for nothing (`O_PATH`), or one that a procfs has for who may trace a process.
    fn reopened(&self, tid: u32, number: u32, access: OFlags) -> Result<OwnedFd> {
        let (pinned, stat) = self.fetched(tid, number)?;
        let kind = fs::FileType::from_raw_mode(stat.st_mode);
        let flags = answer(fs::fcntl_getfl(&pinned))?;
        let is_for = flags & OFlags::RWMODE;
        let fifo = kind == fs::FileType::Fifo;
        // It has two ends, and each is opened for all.
        let pipe = fifo && answer(fs::fstatfs(&pinned))?.f_type == PIPES;
        let may = pipe || is_for == OFlags::RDWR || is_for == access & OFlags::RWMODE;
        let may = may && !hidden::is_private(&pinned)?;
        if kind == fs::FileType::Directory || flags.contains(OFlags::PATH) || !may {
            return Err(Errno::EACCES);
        }
        // That of a fifo waits for the other end, which is somebody else's to do; a device may.
        let waits =
            fifo || matches!(kind, fs::FileType::CharacterDevice | fs::FileType::BlockDevice);
        let flags = if waits { OFlags::PATH } else { access };
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        answer(fs::open(process::by_number(&pinned), flags, Mode::empty()))
    }

    /// Opens what is behind a hidden file.
    ///
    /// # Errors
    ///
    /// - those of [`ProcView::reopened`]; `EACCES`: the process is closed to who asks.
    fn open_hidden(&self, hidden: &Hidden, access: OFlags) -> Result<OwnedFd> {
        match hidden {
            Hidden::Descriptor(tid, number) => self.reopened(*tid, *number, access),
            Hidden::Namespace(tid, _) => {
                let link = hidden.link();
                let on_host = OnHost::new(&link)?;
                self.asker.may_access(*tid)?;
                on_host.open_behind(access)
            }
        }
    }

    /// What a file tells where that is not what the host's does.
    fn text(&self, vfs: &Vfs, path: &str, on_host: &OnHost<'_>) -> Result<Option<Vec<u8>>> {
        if process_of(path).is_none() {
            return Ok(None);
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        if let Some((_, format)) = MOUNTS.iter().find(|(file, _)| *file == name) {
            return self.mounts(vfs, *format).map(Some);
        }
        if name == MOUNT_STATS {
            return Ok(Some(mount_stats(&self.mounts(vfs, MountFormat::Mounts)?)));
        }
        let host = || on_host.open(OFlags::RDONLY);
        if MAPS.contains(&name) || name == NUMA_MAPS {
            let maps = match path.strip_suffix(NUMA_MAPS) {
                Some(dir) => Some(OnHost::new(&format!("{dir}maps"))?.open(OFlags::RDONLY)?),
                None => None,
            };
            return self.maps(host()?, maps, vfs).map(Some);
        }
        if name == "stat"
            && let Some(tid) = thread_of(path)
            && self.asker.may_access(tid).is_err()
        {
            return stat_for_others(host()?).map(Some);
        }
        let people = !self.asker.0.threads.lock().is_empty();
        if people && ASKED_AGAIN.contains(&name) {
            return all_of(host()?).map(Some);
        }
        let person = thread_of(path).filter(|_| name == "status");
        match person.and_then(|tid| self.asker.credentials(tid)) {
            Some(person) => status_of(host()?, &person.credentials).map(Some),
            None => Ok(None),
        }
    }

    /// What is mounted, as who asks sees it.
    fn mounts(&self, vfs: &Vfs, format: MountFormat) -> Result<Vec<u8>> {
        let task = vfs.task_info(self.asker.0.task.load(Relaxed));
        task.and_then(|task| task.mounts(vfs, format)).ok_or(Errno::ENOENT)
    }

    /// What a process has in its memory, by the paths that who asks sees; where this is `numa_maps`, `maps` says which files.
    fn maps(&self, host: OwnedFd, maps: Option<OwnedFd>, vfs: &Vfs) -> Result<Vec<u8>> {
        let text = all_of(host)?;
        let asker = vfs.task_info(self.asker.0.task.load(Relaxed)).ok_or(Errno::ENOENT)?;
        let path = |id| {
            let known = self.knowns.lock().get(&id).cloned()?;
            asker.d_path(&known.file)
        };
        let mut shown = match maps {
            None => mapped::by_paths_of_the_tree(&text, path),
            Some(maps) => mapped::numa_by_paths_of_the_tree(&text, &all_of(maps)?, path),
        };
        if self.asker.0.finds.load(Relaxed) {
            shown = mapped::without(&shown, inside::has);
        }
        Ok(shown)
    }

    /// The place of a file that a process has in its memory in this range.
    fn place_of_map<'v>(&self, inode: InodeRef<'v>, path: &str) -> Option<LinkTarget<'v>> {
        let (process, range) = (process_of(path)?, path.rsplit('/').next()?);
        let maps = format!("{process}/maps");
        let maps = OnHost::new(&maps).and_then(|maps| maps.open(OFlags::RDONLY)).ok()?;
        let maps = std::io::read_to_string(std::fs::File::from(maps)).ok()?;
        let known = self.knowns.lock().get(&mapped::in_range(&maps, range)?).cloned()?;
        known.file.held_place(inode.vfs()).map(LinkTarget::Place)
    }
}

/// The path of a name in a directory.
fn below(dir: &str, name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    Some(if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") })
}

/// The process that a path is about.
fn process_of(path: &str) -> Option<u32> {
    number(path.split('/').next().unwrap_or(path))
}

/// The thread that a path is about: the process's first, if it does not say which.
fn thread_of(path: &str) -> Option<u32> {
    let mut parts = path.split('/');
    let process = number(parts.next()?)?;
    match (parts.next(), parts.next()) {
        (Some("task"), Some(thread)) => number(thread),
        _ => Some(process),
    }
}

/// A line of a thread's status.
pub(crate) fn status(tid: u32, name: &str) -> Option<u32> {
    let text =
        String::from_utf8_lossy(&kin::record(format!("/proc/{tid}/status")).ok()??).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// Whether a file is one of the host's `/proc`.
pub(crate) fn has(stat: &fs::Stat) -> bool {
    static DEVICE: LazyLock<Option<u64>> =
        LazyLock::new(|| fs::stat("/proc").ok().map(|proc| proc.st_dev));
    *DEVICE == Some(stat.st_dev)
}

/// The process that a thread is of.
pub(crate) fn process_of_thread(tid: u32) -> Option<u32> {
    if process::is_first(tid) { Some(tid) } else { status(tid, "Tgid:") }
}

/// Whether two threads are of the same process; not where nobody tells.
pub(crate) fn are_one_process(one: u32, other: u32) -> bool {
    let process = process_of_thread(one);
    process.is_some() && process == process_of_thread(other)
}

/// Whether a process or thread comes of this process. All orphans do: this process takes them.
pub(crate) fn is_of_the_program(pid: u32) -> bool {
    let own = std::process::id();
    pid != own && comes_of(pid, own)
}

/// Whether a process or thread is this one, or comes of it.
pub(crate) fn comes_of(pid: u32, above: u32) -> bool {
    let mut at = pid;
    // Nobody is so deep.
    for _ in 0..100_000 {
        if at == above {
            return true;
        }
        match status(at, "PPid:") {
            Some(above) if above > 0 => at = above,
            _ => return false,
        }
    }
    false
}

/// A file below the host's `/proc`, as a name in a directory there.
///
/// Where it is about a process, that is the process's: it stays that one's when it is gone, and its number another's. What is asked by
/// the number after this was made, is asked of this process, or nothing is found.
pub(crate) struct OnHost<'p> {
    dir: OwnedFd,
    name: &'p str,
}

impl<'p> OnHost<'p> {
    /// # Errors
    ///
    /// - `ENOENT`: there is no such process, or it is not the program's.
    pub(crate) fn new(path: &'p str) -> Result<Self> {
        let (top, rest) = path.split_once('/').unwrap_or((path, ""));
        let process = number(top);
        let (dir, name) = match process {
            Some(pid) => (format!("/proc/{pid}"), rest),
            None => ("/proc".to_owned(), path),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = answer(fs::open(dir, flags, Mode::empty()))?;
        if process.is_some_and(|pid| !is_of_the_program(pid)) {
            return Err(Errno::ENOENT);
        }
        Ok(Self { dir, name: if name.is_empty() { "." } else { name } })
    }

    fn stat(&self, flags: AtFlags) -> Result<fs::Stat> {
        answer(fs::statat(&self.dir, self.name, flags))
    }

    fn link(&self) -> Result<Vec<u8>> {
        answer(fs::readlinkat(&self.dir, self.name, Vec::new())).map(CString::into_bytes)
    }

    /// Opens it; a link it is not by then, of which `O_NOFOLLOW` would be seen by `F_GETFL`.
    pub(crate) fn open(&self, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let open = |flags| {
            let resolve = ResolveFlags::NO_SYMLINKS;
            answer(fs::openat2(&self.dir, self.name, flags, Mode::empty(), resolve))
        };
        match open(flags) {
            // Who asks may be its owner in the tree alone.
            Err(Errno::EPERM) if flags.contains(OFlags::NOATIME) => {
                open(flags.difference(OFlags::NOATIME))
            }
            opened => opened,
        }
    }

    /// Opens what the link leads to.
    fn open_behind(&self, access: OFlags) -> Result<OwnedFd> {
        answer(fs::openat(&self.dir, self.name, access | OFlags::CLOEXEC, Mode::empty()))
    }
}

/// What the file of a path is; none where it is not there for the program.
fn look(path: &str) -> Option<Attr> {
    if path.starts_with('.') {
        return None;
    }
    OnHost::new(path).ok()?.stat(AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| attr(&stat))
}

fn attr(stat: &fs::Stat) -> Attr {
    let time = |sec: i64, nsec: u64| Timespec { sec, nsec: nsec as u32 };
    Attr {
        mode: stat.st_mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        nlink: stat.st_nlink as u32,
        ino: stat.st_ino,
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        rdev: Dev::from_stat(stat.st_rdev),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        btime: time(stat.st_ctime, stat.st_ctime_nsec),
        ..Attr::default()
    }
}

impl FileSystem for ProcView {
    fn kind(&self) -> &str {
        "proc"
    }

    fn source(&self) -> &[u8] {
        b"proc"
    }

    fn features(&self) -> Features {
        Features::REVALIDATE
            | Features::PERMISSION
            | Features::MAGIC_LINKS
            | Features::COARSE_TIMES
            | Features::NODIRATIME
            | Features::SPECIAL
    }

    fn blksize(&self) -> u32 {
        1024
    }

    fn long_name(&self) -> Errno {
        Errno::ENOENT
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        let stat = answer(fs::stat("/proc"))?;
        Ok(self.found("", self.as_changed("", attr(&stat))))
    }

    fn permission(&self, inode: InodeRef<'_>, access: Access, who: &Subject<'_>) -> Result<()> {
        self.may(inode, access, who)
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let path = below(&self.path(dir)?, name).ok_or(Errno::ENOENT)?;
        let attr = self.look(&path).ok_or(Errno::ENOENT)?;
        Ok(Some(self.found(&path, attr)))
    }

    fn revalidate(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        let Some(cached) = cached else { return Ok(false) };
        let Some(path) = below(&self.path(dir)?, name) else { return Ok(false) };
        let Some(attr) = self.look(&path) else { return Ok(false) };
        if self.path(cached)? != path || attr.file_type() != cached.attr().file_type() {
            return Ok(false);
        }
        let Ok(()) = cached.update(|old| {
            *old = attr;
            Ok::<_, Infallible>(())
        });
        Ok(true)
    }

    fn get_link<'v>(&self, inode: InodeRef<'v>, _: &Subject<'_>) -> Result<LinkTarget<'v>> {
        let path = self.path(inode)?;
        let body = |text: String| Ok(LinkTarget::Body(text.into_bytes()));
        match &*path {
            "self" => return body(self.process()?.0.to_string()),
            "thread-self" => {
                let (process, thread) = self.process()?;
                return body(format!("{process}/task/{thread}"));
            }
            _ => {}
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        let on_host = OnHost::new(&path)?;
        if process_of(&path).is_some() {
            let hidden = Hidden::by_link(&path);
            if (path.split('/').any(|name| PRIVATE.contains(&name)) || hidden.is_some())
                && let Some(tid) = thread_of(&path)
            {
                self.asker.may_access(tid)?;
            }
            if name == "root" {
                return Ok(LinkTarget::Jump(b"/".to_vec()));
            }
            if let Some(hidden) = hidden {
                if let Some(place) = self.place(inode, &on_host) {
                    return Ok(place);
                }
                let up = "../".repeat(path.matches('/').count());
                let leads = format!("{up}{}", hidden.name()).into_bytes();
                self.asker.0.links.lock().push((leads.clone(), hidden));
                return Ok(LinkTarget::Jump(leads));
            }
            if name == "exe"
                && let Some(program) =
                    thread_of(&path).and_then(|tid| self.asker.0.images.program(tid))
                && let Some(place) = program.held_place(inode.vfs())
            {
                return Ok(LinkTarget::Place(place));
            }
            if name == "cwd" || name == "exe" {
                return self.place(inode, &on_host).ok_or(Errno::ENOENT);
            }
            if path.split('/').nth(1) == Some(MAP_FILES) {
                return self.place_of_map(inode, &path).ok_or(Errno::ENOENT);
            }
        }
        on_host.link().map(LinkTarget::Body)
    }

    fn open(&self, inode: InodeRef<'_>, flags: OpenFlags) -> Result<Option<Box<dyn OpenHandle>>> {
        let path = self.path(inode)?;
        let told = OFlags::from_bits_retain((flags & TOLD).bits() as u32);
        let access = told & OFlags::ACCMODE;
        if let Some(hidden) = Hidden::of(&path) {
            let fd =
                self.open_hidden(&hidden, told.difference(OFlags::NOFOLLOW | OFlags::NOATIME))?;
            self.asker.0.strangers.lock().push(HostId::of_fd(&fd)?);
            return Ok(Some(Box::new(Opened::file(fd))));
        }
        let on_host = OnHost::new(&path)?;
        if path.split('/').any(|name| PRIVATE.contains(&name))
            && let Some(tid) = thread_of(&path)
        {
            self.asker.may_access(tid)?;
        }
        if inode.attr().file_type() == FileType::Directory {
            let fd = on_host.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
            let unseen = self.asker.0.finds.load(Relaxed).then(|| self.asker.unseen());
            return Ok(Some(Box::new(Opened::directory(fd, path.is_empty(), unseen))));
        }
        let process = process_of(&path);
        // What is no process's is the machine's.
        if process.is_none() && access != OFlags::RDONLY {
            return Err(Errno::EACCES);
        }
        let fd = match self.text(inode.vfs(), &path, &on_host)? {
            Some(_) if flags.contains(OpenFlags::DIRECT) => return Err(Errno::EINVAL),
            Some(text) => text_file(&text, told)?,
            None => on_host.open(told)?,
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        if process.is_some() && name == "mem" && access != OFlags::RDONLY {
            self.asker.0.memory.store(thread_of(&path).unwrap_or(0), Relaxed);
        }
        Ok(Some(Box::new(Opened::file(fd))))
    }

    /// A file is read by its own opening.
    fn read(&self, _: InodeRef<'_>, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(Errno::EIO)
    }

    fn rename_whiteout(&self, _: &Rename<'_>, _: &NewInode<'_>) -> Result<Option<Found>> {
        Err(Errno::EPERM)
    }

    fn exchange(&self, _: &Rename<'_>) -> Result<()> {
        Err(Errno::EPERM)
    }

    fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        self.change(inode, change)
    }

    fn getxattr(&self, inode: InodeRef<'_>, name: &[u8]) -> Result<Vec<u8>> {
        self.behind(inode)?.ok_or(Errno::EOPNOTSUPP)?.xattr(name)
    }

    fn setxattr(
        &self,
        inode: InodeRef<'_>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        _: Timespec,
    ) -> Result<()> {
        self.changed_behind(inode, name)?.set_xattr(name, value, flags)
    }

    fn removexattr(&self, inode: InodeRef<'_>, name: &[u8], _: Timespec) -> Result<()> {
        self.changed_behind(inode, name)?.remove_xattr(name)
    }

    fn listxattr(&self, inode: InodeRef<'_>) -> Result<Vec<Vec<u8>>> {
        self.behind(inode)?.map_or_else(|| Ok(Vec::new()), |behind| behind.xattrs())
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat { magic: MAGIC, bsize: 4096, ..FsStat::default() })
    }

    fn evict(&self, node: u64, _unlinked: bool) {
        self.nodes.lock().take_back(node);
    }
}

/// What is in a file.
fn all_of(file: OwnedFd) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = std::fs::File::from(file).read_to_end(&mut text);
    read.map(|_| text).map_err(|error| errno_of(&error))
}

/// A file that has this text, and stays so, opened.
fn text_file(text: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let made = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = answer(fs::memfd_create(c"proc", made))?;
    let mut written = 0;
    while written < text.len() {
        written += answer(io::pwrite(&fd, &text[written..], written as u64))?;
    }
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    answer(fs::fcntl_add_seals(&fd, all))?;
    let flags = flags.difference(OFlags::NOFOLLOW) | OFlags::CLOEXEC;
    answer(fs::open(process::by_number(&fd), flags, Mode::empty()))
}

/// A name in a directory, and where it stands there.
struct Entry {
    position: u64,
    ino: u64,
    kind: FileType,
    name: Vec<u8>,
}

/// The names in a directory, by position; at the top no other processes'.
fn entries(dir: &OwnedFd, top: bool, unseen: Option<&Unseen>) -> Result<Vec<Entry>> {
    let (mut found, mut names) = (Vec::new(), 0);
    for entry in answer(fs::Dir::read_from(dir))?.flatten() {
        let name = entry.file_name().to_bytes();
        let number = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u32>().ok());
        if [&b"."[..], b".."].contains(&name)
            || top && number.is_some_and(|pid| !is_of_the_program(pid))
            || unseen.is_some_and(|unseen| unseen::is_inside(dir, name, unseen))
        {
            continue;
        }
        let position = match number {
            Some(number) => FIRST_NUMBER + u64::from(number),
            None => {
                names += 1;
                names
            }
        };
        let kind = match entry.file_type() {
            fs::FileType::Directory => FileType::Directory,
            fs::FileType::Symlink => FileType::Symlink,
            _ => FileType::Regular,
        };
        found.push(Entry { position, ino: entry.ino(), kind, name: name.to_vec() });
    }
    found.sort_by_key(|entry| entry.position);
    Ok(found)
}

/// An opening: a descriptor of the host; and of a directory the listing, made anew whenever it is read from its begin.
struct Opened {
    fd: OwnedFd,
    top: bool,
    /// What is not shown, where processes find answers by themselves.
    unseen: Option<Unseen>,
    entries: Mutex<Vec<Entry>>,
}

impl Opened {
    fn file(fd: OwnedFd) -> Self {
        Self::directory(fd, false, None)
    }

    fn directory(fd: OwnedFd, top: bool, unseen: Option<Unseen>) -> Self {
        Self { fd, top, unseen, entries: Mutex::default() }
    }
}

impl OpenHandle for Opened {
    fn read(&self, _: InodeRef<'_>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        answer(io::pread(&self.fd, buf, offset))
    }

    fn write(
        &self,
        _: InodeRef<'_>,
        _: Option<u64>,
        data: &[u8],
        _: Timespec,
    ) -> Result<(u64, usize)> {
        answer(io::write(&self.fd, data)).map(|written| (written as u64, written))
    }

    fn readdir(&self, _: InodeRef<'_>, offset: u64, emit: &mut Emit<'_>) -> Result<()> {
        let mut entries = self.entries.lock();
        if offset == 0 {
            *entries = crate::procfs::entries(&self.fd, self.top, self.unseen.as_ref())?;
        }
        let rest = entries.iter().skip_while(|entry| entry.position <= offset);
        for Entry { position, ino, kind, name } in rest {
            if !emit(*position, *ino, *kind, name) {
                break;
            }
        }
        Ok(())
    }

    fn host_fd(&self, _: InodeRef<'_>) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart() {
        assert_eq!(process_of("12/exe"), Some(12));
        assert_eq!(process_of("self"), None);
        assert_eq!(process_of("012"), None);
        assert_eq!(thread_of("12/task/13/status"), Some(13));
        assert_eq!(thread_of("12/status"), Some(12));
        assert_eq!(thread_of("sys/kernel"), None);
    }

    #[test]
    fn what_was_a_process_s_stays_that_one_s() {
        use std::process::{Child, Command};
        let sleeper = || Command::new("sleep").arg("60").spawn().expect("sleep");
        let end = |mut child: Child| {
            child.kill().expect("it runs");
            child.wait().expect("it runs");
        };
        let first = sleeper();
        let number = first.id();
        let path = format!("{number}/environ");
        let file = OnHost::new(&path).expect("it is there");
        assert!(file.open(OFlags::RDONLY).is_ok());
        end(first);
        assert!(OnHost::new(&path).is_err() && file.open(OFlags::RDONLY).is_err());
        // Root says which number is next.
        for _ in 0..100 {
            let last = format!("{}", number - 1);
            if std::fs::write("/proc/sys/kernel/ns_last_pid", last).is_err() {
                crate::left_out::left_out("no number can be given again");
                return;
            }
            let next = sleeper();
            let same = next.id() == number;
            let found = OnHost::new(&path).is_ok();
            let opened = file.open(OFlags::RDONLY).is_ok();
            end(next);
            if same {
                assert!(found && !opened);
                return;
            }
        }
        panic!("another process always had the number first");
    }

    #[test]
    fn this_process_and_those_above_are_not_of_the_program() {
        assert!(!is_of_the_program(std::process::id()));
        assert!(!is_of_the_program(1));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        assert!(is_of_the_program(child.id()));
        child.kill().expect("it runs");
        child.wait().expect("it runs");
    }
}
