//! The file system: what it is asked, and what it asks the host.

use crate::{
    attr::attr_of,
    clock::Clock,
    coherence::Keep,
    handle::{HostFile, Opened},
    host::{Host, asked, is_believed, questions},
    identity::{Identities, Kept, OWN_PREFIX},
    node::{Ident, Node, Nodes, ROOT},
    options::{Coherence, HostOptions},
    watch::{Asked, Believed, Watches},
};
use parking_lot::Mutex;
use pathwalk_abi::{
    Errno, FileType, InodeFlags, OpenFlags, PATH_MAX, Result, Timespec, XattrFlags,
    mode::{S_IALLUGO, S_IRUSR, S_ISGID, S_IWUSR},
    xattr::{XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT},
};
use pathwalk_core::{
    AclEntry, AclKind, Acls, Attr, InodeRef, Subject, acl_from_xattr,
    fs::{
        CachedName, Emit, Features, FileSystem, Found, FsStat, Iattr, NewInode, OpenHandle, Peeked,
        Rename,
    },
};
use rustix::{
    fs::{OFlags, Statx, StatxAttributes},
    process::{Resource, getegid, geteuid, getgroups, getrlimit},
};
use std::{
    cell::Cell,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

/// The names by which ACLs are kept.
const ACLS: [&[u8]; 2] = [XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT];

/// How long it is waited before it is looked again whether somebody still has a file leased, and how often: longer than the kernel lets him,
/// mostly (`fs.lease-break-time`).
const LOOK: Duration = Duration::from_millis(10);
const LOOKS: u32 = 6000;

/// Whether this process is of a group of the host.
pub(crate) fn is_of_group(gid: u32) -> bool {
    getegid().as_raw() == gid
        || getgroups().is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == gid))
}

/// A directory of the host as a file system.
///
/// After fork(2) one of the two processes may go on with it: what the host tells of others' changes, one of them hears.
#[derive(Debug)]
pub struct HostFs(pub(crate) Arc<Shared>);

/// What the file system shares with its open files.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Host,
    pub(crate) root: Arc<OwnedFd>,
    pub(crate) nodes: Nodes,
    /// Descriptors by which inodes are asked about without walking to them again.
    pub(crate) pool: Mutex<Clock<Arc<OwnedFd>>>,
    /// The file that is [held](HostOptions::holds) all the time.
    pub(crate) holds: Option<(Ident, Arc<OwnedFd>)>,
    pub(crate) options: HostOptions,
    /// Held by who gives an own file another mode for a moment.
    opening_up: Mutex<()>,
    /// Who tells what others do, where that is wanted and can be had; from when it is worth it.
    pub(crate) watches: OnceLock<Watches>,
    /// How often it was asked for that before there was any.
    pub(crate) tries: AtomicU32,
    pub(crate) asked: Asked,
    source: Vec<u8>,
    features: Features,
    blksize: u32,
    /// The flags that can be set of a file, if there are any.
    flags: Option<InodeFlags>,
    /// The host notes whatever is read of other users' files: it refused `O_NOATIME` for one.
    notes_others: AtomicBool,
}

impl HostFs {
    /// The directory at this path of the host, which nobody else changes.
    ///
    /// # Errors
    ///
    /// Those of opening it: `ENOENT`, `ENOTDIR`, `EACCES`.
    pub fn new(path: impl AsRef<[u8]>) -> Result<Arc<Self>> {
        Self::with_options(path, HostOptions::default())
    }

    /// The same, as the options say.
    ///
    /// # Errors
    ///
    /// - those of [`HostFs::new`], and of opening the file that is to be held.
    /// - `EMFILE`, `ENFILE`, `ENOENT`, where it is to be watched and its file system tells of all: the user has as many queues as one
    ///   may have; there is no /proc.
    pub fn with_options(path: impl AsRef<[u8]>, mut options: HostOptions) -> Result<Arc<Self>> {
        let source = path.as_ref().to_vec();
        let host = Host::new(options.openat2, options.keeper.clone());
        let root = host.open_root(&source)?;
        let stat = host.statx(root.as_fd(), b"")?;
        let mut features = Features::IDMAP | Features::ATOMIC_OPEN;
        features.set(Features::SPECIAL, options.special);
        let opened = host.open_dir(root.as_fd(), OFlags::empty());
        let has_acl = || {
            // By what is open the host finds it sooner.
            let asked = match &opened {
                Ok(root) => host.has_xattr(root.as_fd(), XATTR_NAME_POSIX_ACL_ACCESS),
                Err(_) => host.getxattr(root.as_fd(), XATTR_NAME_POSIX_ACL_ACCESS).map(drop),
            };
            asked != Err(Errno::EOPNOTSUPP)
        };
        features.set(Features::POSIX_ACL, options.identities == Identities::Host && has_acl());
        let has_flags = opened.is_ok_and(|root| host.getflags(root.as_fd()).is_ok());
        let tells_all = || host.root_tells_all(&stat, root.as_fd());
        if options.coherence == Coherence::Watched && !tells_all() {
            options.coherence = Coherence::Strict;
        }
        if options.coherence != Coherence::Exclusive {
            features |= Features::REVALIDATE | Features::LOOKUP_MANY | Features::GETATTR;
            features.set(Features::EACH_NAME, options.coherence == Coherence::Watched);
        }
        let watched = options.coherence == Coherence::Watched;
        // A host without openat2 is asked name by name.
        let at_once = options.coherence == Coherence::Strict && host.goes_up();
        features.set(Features::REVALIDATE_PATH, at_once || watched);
        let watches = OnceLock::new();
        if watched {
            _ = watches.set(Watches::new(&host, Believed::All, options.watches)?);
        }
        let holds = match &options.holds {
            Some(name) => {
                let file = host.open_below(root.as_fd(), &[name])?;
                Some((Ident::of(&host.statx(file.as_fd(), b"")?), Arc::new(file)))
            }
            None => None,
        };
        let nodes = Nodes::new();
        // Answered once more than the cache will say: it stays.
        nodes.answer(Ident::of(&stat));
        let spare =
            getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize / 4);
        let shared = Shared {
            host,
            root: Arc::new(root),
            nodes,
            pool: Mutex::new(Clock::new(options.handles.min(spare))),
            holds,
            options,
            opening_up: Mutex::default(),
            watches,
            tries: AtomicU32::new(0),
            asked: Asked::new(),
            source,
            features,
            blksize: stat.stx_blksize,
            flags: has_flags.then(InodeFlags::all),
            notes_others: AtomicBool::new(false),
        };
        Ok(Arc::new(Self(Arc::new(shared))))
    }

    /// How many calls to the host were made.
    pub fn host_calls(&self) -> u64 {
        self.0.host.calls()
    }

    /// How many calls to the host this thread made, for all mounts, that asked about files. If none did while a call was answered, all of
    /// it was cached.
    pub fn asked() -> u64 {
        asked()
    }

    /// How many calls to the host this thread made, for all mounts, that asked about files, and not only whether anything had happened; but
    /// for those by which a name was looked up of which the host tells from then on. If none did while a call was answered, the answer is
    /// of what is cached and believed, and stays the same until there is news or the tree is changed here.
    pub fn questions() -> u64 {
        questions()
    }

    /// A descriptor that is ready (`POLLIN`) when others did something in a watched directory that was not noted yet; none where nobody is
    /// to tell of that, or the file system that this is on does not tell by inotify(7) of all that happens. Of what is mounted and unmounted `/proc/self/mountinfo` tells.
    pub fn news(&self) -> Option<BorrowedFd<'_>> {
        self.0.watches().map(Watches::news)
    }

    /// Does something, and has a directory watched when that asks about it or about anything in it, in this thread, and not only when
    /// something in it is asked about for the second time: then its attributes are believed from then on. For who is about to ask
    /// about directories that somebody enters next; where nobody is to tell what others do, it only does it.
    pub fn watching_found<T>(&self, does: impl FnOnce() -> T) -> T {
        let _before = Watching(WATCHING.replace(self.0.number()));
        does()
    }

    /// Notes what others did, if it was told.
    pub fn hear(&self) {
        if let Some(watches) = self.0.watches() {
            watches.drain(&self.0.host);
        }
    }

    /// This process is about to end. Who closes a queue of inotify(7) waits some 10 ms: it is left to a worker of the kernel. For who
    /// does not drop the file system, which would take what is cached apart.
    pub fn ends(&self) {
        if let Some(watches) = self.0.watches() {
            watches.ends();
        }
    }

    /// How many descriptors are held, beside those of open files and of files without a name.
    pub fn held_handles(&self) -> usize {
        self.0.pool.lock().len()
    }

    /// How many files of the host the cache knows.
    pub fn known_files(&self) -> usize {
        self.0.nodes.len()
    }
}

thread_local! {
    /// The mount in which this thread has directories watched when it asks about them; 0 is none.
    static WATCHING: Cell<usize> = const { Cell::new(0) };
}

/// The mount that it was before.
struct Watching(usize);

impl Drop for Watching {
    fn drop(&mut self) {
        WATCHING.set(self.0);
    }
}

impl Shared {
    /// What no other mount has, as long as it is there.
    fn number(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// See [`HostFs::watching_found`].
    pub(crate) fn watches_found(&self) -> bool {
        WATCHING.get() == self.number()
    }

    /// Refuses a change of what is only to be read.
    ///
    /// # Errors
    ///
    /// - `EROFS`: it is.
    pub(crate) fn may_change(&self) -> Result<()> {
        if self.options.read_only { Err(Errno::EROFS) } else { Ok(()) }
    }

    /// The attributes of a file that is held, as the cache is told them.
    pub(crate) fn attr(&self, stat: &Statx, held: BorrowedFd<'_>) -> Result<Attr> {
        self.attr_at(stat, held, b"")
    }

    /// The attributes of what a name stands for in a directory that is held.
    pub(crate) fn attr_at(&self, stat: &Statx, dir: BorrowedFd<'_>, name: &[u8]) -> Result<Attr> {
        let mut attr = attr_of(stat);
        self.options.identities.apply(&mut attr, || Kept::read(&self.host, dir, name))?;
        Ok(attr)
    }

    /// Opens what is held, as [`Shared::unnoted`].
    pub(crate) fn reopen(&self, held: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
        self.unnoted(flags, |flags| self.host.reopen(held, flags))
    }

    /// Opens something. `O_NOATIME` is for its owner on the host; for others it is left out.
    pub(crate) fn unnoted(
        &self,
        flags: OFlags,
        open: impl Fn(OFlags) -> Result<OwnedFd>,
    ) -> Result<OwnedFd> {
        match open(flags) {
            Err(Errno::EPERM) if flags.contains(OFlags::NOATIME) => {
                let fd = open(flags.difference(OFlags::NOATIME))?;
                self.notes_others.store(true, Relaxed);
                Ok(fd)
            }
            answer => answer,
        }
    }

    /// The flags without an `O_NOATIME` that the host is known to refuse: most files of a read-only mount are such.
    fn asked(&self, inode: InodeRef<'_>, flags: OpenFlags) -> OpenFlags {
        if !flags.contains(OpenFlags::NOATIME) || !self.notes_others.load(Relaxed) {
            return flags;
        }
        let identities = &self.options.identities;
        let Attr { uid, gid, .. } = inode.attr();
        let owner = identities.to_host(uid, gid).map(|(uid, _)| uid);
        let own = owner == Some(geteuid().as_raw());
        // Whose a file is on the host, is not told where owners are kept beside the files.
        if own || identities.is_kept() { flags } else { flags.difference(OpenFlags::NOATIME) }
    }

    /// Opens a file that may be opened, but not on the host: who makes a file may write to it by that call whatever mode it gets,
    /// and one without a name is made before it is opened; and whom no mode binds in the tree may be bound by one on the host. So its owner
    /// may, for that moment; who is killed in it leaves it so. Who gives it another mode meanwhile has the last word.
    ///
    /// # Errors
    ///
    /// - `EACCES`: it is somebody else's; or it would lose its set-group-ID bit, as who opens it is not of its group.
    /// - `EAGAIN`: somebody has leased it, who is not to be waited for; `EINTR`: a signal came meanwhile.
    pub(crate) fn reopen_own(
        &self,
        inode: InodeRef<'_>,
        held: BorrowedFd<'_>,
        flags: OFlags,
    ) -> Result<OwnedFd> {
        let most = if flags.contains(OFlags::NONBLOCK) { 0 } else { LOOKS };
        for _ in 0..most {
            match self.try_reopen_own(inode, held, flags | OFlags::NONBLOCK) {
                // Who leased it was told, and is waited for while it has the mode that it is to have.
                Err(Errno::EAGAIN) => self.host.sleep(LOOK)?,
                Err(errno) => return Err(errno),
                Ok(fd) => {
                    self.host.set_status(fd.as_fd(), flags)?;
                    return Ok(fd);
                }
            }
        }
        self.try_reopen_own(inode, held, flags)
    }

    fn try_reopen_own(
        &self,
        inode: InodeRef<'_>,
        held: BorrowedFd<'_>,
        flags: OFlags,
    ) -> Result<OwnedFd> {
        let of = |stat: &Statx| u32::from(stat.stx_mode) & S_IALLUGO;
        // One after the other: else one would find, and leave, the mode that another has set for a moment.
        let _one = self.opening_up.lock();
        let stat = self.host.statx(held, b"")?;
        let mode = of(&stat);
        let is_own = stat.stx_uid == geteuid().as_raw();
        if !is_own || mode & S_ISGID != 0 && !is_of_group(stat.stx_gid) {
            return Err(Errno::EACCES);
        }
        // Another process does the same, and finds it opened up enough.
        let opened_up = mode | S_IRUSR | S_IWUSR;
        if opened_up == mode {
            return self.reopen(held, flags);
        }
        self.host.chmod(held, opened_up)?;
        let opened = self.reopen(held, flags);
        if self.host.statx(held, b"").map_or(true, |stat| of(&stat) == opened_up) {
            self.host.chmod(held, mode)?;
        }
        self.refresh_after(inode, held);
        opened
    }

    /// The type of what a listing of a directory names.
    pub(crate) fn kind_of(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        kind: Option<FileType>,
    ) -> Result<FileType> {
        if let Some(kind) = kind
            && (kind != FileType::Regular || !self.options.identities.is_kept())
        {
            return Ok(kind);
        }
        match self.host.statx(dir, name).and_then(|stat| self.attr_at(&stat, dir, name)) {
            Ok(attr) => Ok(attr.file_type()),
            // It is gone since.
            Err(Errno::ENOENT) => Ok(FileType::Regular),
            Err(errno) => Err(errno),
        }
    }

    /// Answers a file that has this name in a directory.
    pub(crate) fn found(
        &self,
        dir: u64,
        name: &[u8],
        stat: &Statx,
        attr: Attr,
    ) -> (Arc<Node>, Found) {
        let (node, found, _) = self.found_first(dir, name, stat, attr);
        (node, found)
    }

    /// The same, and whether nobody was told of it before.
    fn found_first(
        &self,
        dir: u64,
        name: &[u8],
        stat: &Statx,
        attr: Attr,
    ) -> (Arc<Node>, Found, bool) {
        let (node, first) = self.nodes.answer(Ident::of(stat));
        node.add_name(dir, name);
        if node.note_links(attr.nlink) {
            self.note_linked();
        }
        let found = Found { node: node.id, attr, body: None };
        (node, found, first)
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8], keep: Keep) -> Result<Option<Found>> {
        let asked = questions();
        let held = self.reach(dir)?;
        let seen = self.before_lookup(dir)?;
        let (stat, kept) = match self.look(held.as_fd(), name, keep) {
            Ok(seen) => seen,
            Err(Errno::ENOENT) => {
                if self.believe(dir, name, None, seen) {
                    is_believed(asked);
                }
                return Ok(None);
            }
            Err(errno) => return Err(errno),
        };
        let attr = self.attr_at(&stat, held.as_fd(), name)?;
        let told = self.is_told_of(&stat, &attr);
        let (node, mut found, first) = self.found_first(dir.node(), name, &stat, attr);
        if let Some(kept) = kept {
            self.keep_at_hand(&node, &Arc::new(kept));
        }
        if first && told && self.believe(dir, name, Some(&node), seen) {
            if !node.is_directory() {
                // What has several names is asked about until it is watched itself.
                if !node.is_linked() {
                    is_believed(asked);
                }
            } else if let Some(fresh) = self.told_from_now_on(&node) {
                is_believed(asked);
                found.attr = fresh;
            }
        }
        Ok(Some(found))
    }

    /// What is asked about a file that the cache does not know stays so as what is looked up does: until its directory is heard of. So do extended
    /// attributes of each file that has one name, and of directories, with what [`Coherence::Watched`] leaves out.
    fn peek(&self, dir: InodeRef<'_>, name: &[u8], xattrs: &[&[u8]]) -> Result<Option<Peeked>> {
        let asked = questions();
        let held = self.reach(dir)?;
        let Some(seen) = self.before_lookup(dir)? else { return Ok(None) };
        let stat = match self.host.statx(held.as_fd(), name) {
            Err(Errno::ENOENT) => return Ok(None),
            stat => stat?,
        };
        let attr = self.attr_at(&stat, held.as_fd(), name)?;
        let directory = attr.file_type() == FileType::Directory;
        let mounted = stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
        let told = !mounted && (directory || attr.nlink == 1);
        let as_told = !directory && self.nodes.of_file(&Ident::of(&stat)).is_none();
        if !told || !as_told && xattrs.is_empty() {
            return Ok(None);
        }
        let lacks = |xattr: &&[u8]| self.lacks(held.as_fd(), name, xattr);
        let lacks = xattrs.iter().map(lacks).collect();
        if self.watches().and_then(|watches| watches.version(dir.node())) != Some(seen) {
            return Ok(None);
        }
        is_believed(asked);
        Ok(Some(Peeked { attr, as_told, lacks }))
    }

    /// By which errno a name's file has no such extended attribute; none where it may have.
    fn lacks(&self, dir: BorrowedFd<'_>, name: &[u8], xattr: &[u8]) -> Option<Errno> {
        let is_acl = self.features.contains(Features::POSIX_ACL) && ACLS.contains(&xattr);
        let own = if is_acl { Ok(()) } else { self.must_not_be_own(xattr, Errno::ENODATA) };
        let errno = own.and_then(|()| self.host.has_xattr_at(dir, name, xattr)).err()?;
        [Errno::ENODATA, Errno::EOPNOTSUPP].contains(&errno).then_some(errno)
    }

    fn readlink(&self, inode: InodeRef<'_>) -> Result<Vec<u8>> {
        let node = self.node(inode)?;
        let held = self.reach_node(&node)?;
        if node.kind() == FileType::Symlink {
            return self.host.readlink(held.as_fd());
        }
        // A symlink that is a regular file there.
        let file = self.spare(|| self.host.reopen(held.as_fd(), OFlags::RDONLY))?;
        let mut body = vec![0; PATH_MAX];
        let len = self.host.pread(file.as_fd(), &mut body, 0)?;
        body.truncate(len);
        Ok(body)
    }

    /// Refuses a name that is not the files'.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: it is that of an ACL, of which there are none. Those that are there are asked for otherwise.
    /// - as said: it is one of this file system's own.
    fn must_not_be_own(&self, name: &[u8], errno: Errno) -> Result<()> {
        if ACLS.contains(&name) {
            return Err(Errno::EOPNOTSUPP);
        }
        let own = self.options.identities.is_kept() && name.starts_with(OWN_PREFIX);
        if own { Err(errno) } else { Ok(()) }
    }

    fn update_time(&self, inode: InodeRef<'_>, atime: Timespec) -> Result<()> {
        let held = self.reach(inode)?;
        let before = inode.attr();
        if before.file_type() == FileType::Symlink && !self.options.read_only {
            // The host stamps who is read; all else was read before this.
            self.readlink(inode)?;
        }
        let node = self.node(inode)?;
        let turn = node.turn();
        let mut attr = self.attr(&self.host.statx(held.as_fd(), b"")?, held.as_fd())?;
        // The host notes no reading; the cache does, lest it ask each time.
        let noted = attr.atime != before.atime && Some(attr.atime) != node.unnoted();
        node.set_unnoted((!noted).then_some(attr.atime));
        if !noted {
            attr.atime = atime;
        }
        self.show(&node, inode, turn, &attr);
        Ok(())
    }
}

impl FileSystem for HostFs {
    fn kind(&self) -> &str {
        "hostfs"
    }

    fn source(&self) -> &[u8] {
        &self.0.source
    }

    fn features(&self) -> Features {
        self.0.features
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        let fs = &self.0;
        let stat = fs.host.statx(fs.root.as_fd(), b"")?;
        let attr = fs.attr(&stat, fs.root.as_fd())?;
        let node = fs.nodes.answer(Ident::of(&stat)).0;
        debug_assert_eq!(node.id, ROOT, "what is held stays what it is");
        Ok(Found { node: node.id, attr, body: None })
    }

    fn blksize(&self) -> u32 {
        self.0.blksize
    }

    fn inode_flags(&self) -> Option<InodeFlags> {
        self.0.flags
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        self.0.lookup(dir, name, Keep::Nothing)
    }

    fn lookup_anew(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        self.0.lookup(dir, name, Keep::Found)
    }

    fn peek(&self, dir: InodeRef<'_>, name: &[u8], xattrs: &[&[u8]]) -> Result<Option<Peeked>> {
        self.0.peek(dir, name, xattrs)
    }

    fn revalidate(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        self.0.revalidate(dir, name, cached, Keep::Nothing)
    }

    fn revalidate_anew(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        self.0.revalidate(dir, name, cached, Keep::Found)
    }

    fn lookup_many(&self, dir: InodeRef<'_>, run: &[CachedName<'_>]) -> Result<usize> {
        self.0.lookup_many(dir, run)
    }

    fn revalidate_path(
        &self,
        dir: InodeRef<'_>,
        path: &[u8],
        cached: Option<InodeRef<'_>>,
        attributes: bool,
    ) -> Result<bool> {
        self.0.revalidate_path(dir, path, cached, attributes)
    }

    fn getattr(&self, inode: InodeRef<'_>) -> Result<()> {
        self.0.getattr(inode)
    }

    fn readlink(&self, inode: InodeRef<'_>) -> Result<Vec<u8>> {
        self.0.readlink(inode)
    }

    fn open(&self, inode: InodeRef<'_>, flags: OpenFlags) -> Result<Option<Box<dyn OpenHandle>>> {
        let kind = inode.attr().file_type();
        // What is written to a fifo or a device changes no file.
        let writes = flags.intersects(OpenFlags::WRONLY | OpenFlags::RDWR);
        if writes && kind == FileType::Regular {
            self.0.may_change()?;
        }
        let flags = self.0.asked(inode, flags);
        let file = HostFile::open(&self.0, inode, kind, flags)?;
        Ok(Some(Box::new(Opened::new(file))))
    }

    fn host_place(&self, inode: InodeRef<'_>) -> Result<Option<OwnedFd>> {
        let node = self.0.node(inode)?;
        let held = self.0.reach_node(&node)?;
        let place = self.0.spare(|| self.0.reopen(held.as_fd(), OFlags::PATH))?;
        if !node.is_directory() {
            // Who was given it may watch it, and is told that it is gone when nobody holds it.
            node.is_given();
            self.0.pool.lock().remove(node.id);
        }
        Ok(Some(place))
    }

    fn opened_as(&self, inode: InodeRef<'_>, fd: OwnedFd) -> Option<Box<dyn OpenHandle>> {
        let file = HostFile::opened_as(&self.0, inode, fd)?;
        Some(Box::new(Opened::new(file)))
    }

    fn read(&self, inode: InodeRef<'_>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        HostFile::open(&self.0, inode, inode.attr().file_type(), OpenFlags::RDONLY)?
            .read(offset, buf)
    }

    fn write(
        &self,
        inode: InodeRef<'_>,
        offset: Option<u64>,
        data: &[u8],
        _now: Timespec,
    ) -> Result<(u64, usize)> {
        self.0.may_change()?;
        let kind = inode.attr().file_type();
        let append = if offset.is_none() { OpenFlags::APPEND } else { OpenFlags::empty() };
        let file = HostFile::open(&self.0, inode, kind, OpenFlags::WRONLY | append)?;
        file.write(inode, offset, data)
    }

    fn readdir(&self, dir: InodeRef<'_>, offset: u64, emit: &mut Emit<'_>) -> Result<()> {
        HostFile::open(&self.0, dir, FileType::Directory, OpenFlags::RDONLY)?.list(offset, emit)
    }

    fn update_time(&self, inode: InodeRef<'_>, atime: Timespec) {
        // What was read was read.
        let _ = self.0.update_time(inode, atime);
    }

    fn create(&self, dir: InodeRef<'_>, name: &[u8], new: &NewInode<'_>) -> Result<Option<Found>> {
        self.0.may_change()?;
        self.0.create(dir, name, new)
    }

    fn atomic_open(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        new: &NewInode<'_>,
        flags: OpenFlags,
    ) -> Result<(Found, Option<Box<dyn OpenHandle>>)> {
        self.0.may_change()?;
        let (found, file) = HostFile::create(&self.0, dir, name, new, flags)?;
        Ok((found, Some(Box::new(Opened::new(file)))))
    }

    fn tmpfile(&self, dir: InodeRef<'_>, new: &NewInode<'_>) -> Result<Found> {
        self.0.may_change()?;
        self.0.tmpfile(dir, new)
    }

    fn link(
        &self,
        inode: InodeRef<'_>,
        dir: InodeRef<'_>,
        name: &[u8],
        _now: Timespec,
    ) -> Result<()> {
        self.0.may_change()?;
        self.0.link(inode, dir, name)
    }

    fn unlink(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        inode: InodeRef<'_>,
        _now: Timespec,
    ) -> Result<()> {
        self.0.may_change()?;
        self.0.remove(dir, name, inode, FileType::Regular)
    }

    fn rmdir(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        inode: InodeRef<'_>,
        _now: Timespec,
    ) -> Result<()> {
        self.0.may_change()?;
        self.0.remove(dir, name, inode, FileType::Directory)
    }

    fn rename(&self, rename: &Rename<'_>) -> Result<()> {
        self.0.may_change()?;
        self.0.rename(rename)
    }

    fn rename_whiteout(
        &self,
        rename: &Rename<'_>,
        whiteout: &NewInode<'_>,
    ) -> Result<Option<Found>> {
        self.0.may_change()?;
        self.0.rename_whiteout(rename, whiteout)
    }

    fn exchange(&self, rename: &Rename<'_>) -> Result<()> {
        self.0.may_change()?;
        self.0.exchange(rename)
    }

    fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        self.0.may_change()?;
        self.0.setattr(inode, change)
    }

    fn acls(&self, inode: InodeRef<'_>) -> Result<Acls> {
        let node = self.0.node(inode)?;
        self.0.asks_for_acls(&node, inode);
        let held = self.0.reach_node(&node)?;
        let directory = inode.attr().file_type() == FileType::Directory;
        // A directory may have two; most have none, and to be told that takes one call.
        let listed = if directory { self.0.host.listxattr(held.as_fd()).ok() } else { None };
        let may_have = |name: &[u8]| {
            listed.as_ref().is_none_or(|list| list.split(|&byte| byte == 0).any(|has| has == name))
        };
        let acl = |name: &[u8]| {
            if !may_have(name) {
                return Ok(Vec::new());
            }
            match self.0.host.getxattr(held.as_fd(), name) {
                Ok(value) => acl_from_xattr(&value),
                Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(Vec::new()),
                Err(errno) => Err(errno),
            }
        };
        Ok(Acls {
            access: acl(XATTR_NAME_POSIX_ACL_ACCESS)?,
            default: if directory { acl(XATTR_NAME_POSIX_ACL_DEFAULT)? } else { Vec::new() },
        })
    }

    fn set_acl(
        &self,
        inode: InodeRef<'_>,
        kind: AclKind,
        acl: &[AclEntry],
        change: &mut Iattr,
    ) -> Result<()> {
        self.0.may_change()?;
        self.0.set_acl(inode, kind, acl, change)
    }

    fn getxattr(&self, inode: InodeRef<'_>, name: &[u8]) -> Result<Vec<u8>> {
        self.0.must_not_be_own(name, Errno::ENODATA)?;
        self.0.host.getxattr(self.0.reach(inode)?.as_fd(), name)
    }

    fn setxattr(
        &self,
        inode: InodeRef<'_>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        _now: Timespec,
    ) -> Result<()> {
        self.0.may_change()?;
        self.0.must_not_be_own(name, Errno::EPERM)?;
        let held = self.0.reach(inode)?;
        let flags = crate::host::XattrFlags::from_bits_retain(flags.bits() as _);
        self.0.host.setxattr(held.as_fd(), name, value, flags)?;
        self.0.refresh_after(inode, held.as_fd());
        Ok(())
    }

    fn removexattr(&self, inode: InodeRef<'_>, name: &[u8], _now: Timespec) -> Result<()> {
        self.0.may_change()?;
        self.0.must_not_be_own(name, Errno::ENODATA)?;
        let held = self.0.reach(inode)?;
        self.0.host.removexattr(held.as_fd(), name)?;
        self.0.refresh_after(inode, held.as_fd());
        Ok(())
    }

    fn listxattr(&self, inode: InodeRef<'_>) -> Result<Vec<Vec<u8>>> {
        let list = self.0.host.listxattr(self.0.reach(inode)?.as_fd())?;
        let names = list.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        Ok(names
            .filter(|name| self.0.must_not_be_own(name, Errno::EPERM).is_ok())
            .map(Into::into)
            .collect())
    }

    fn statfs(&self) -> Result<FsStat> {
        let stat = self.0.host.statfs(self.0.root.as_fd())?;
        Ok(FsStat {
            magic: stat.f_type as u64,
            bsize: stat.f_bsize as u64,
            blocks: stat.f_blocks,
            bfree: stat.f_bfree,
            files: stat.f_files,
            ffree: stat.f_ffree,
        })
    }

    fn evict(&self, node: u64, _unlinked: bool) {
        if self.0.nodes.forget(node) {
            self.0.pool.lock().remove(node);
            if let Some(watches) = self.0.watches() {
                watches.forget(&self.0.host, node);
            }
        }
    }
}
