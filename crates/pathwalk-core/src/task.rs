//! A task: what the kernel keeps per task of what path calls look at. Its root, its current directory, its umask and its
//! credentials.
//!
//! Linux: `struct fs_struct`, `current_cred`.

use crate::{
    cred::{Asker, Cred, CredVersion, TaskCred},
    dcache::DentryId,
    fdtable::FdTable,
    file::File,
    mount::{
        MountId,
        namespace::{CopyFor, MountNamespace},
    },
    ops,
    tasks::{Kind, Registered, TaskInfo},
    vfs::Vfs,
    walk::{HeldPath, Lookup, Place, Request, road},
};
use parking_lot::Mutex;
use pathwalk_abi::{CapSet, Errno, PATH_MAX, ResolveFlags, Result};
use pathwalk_sync::{Cell32, Cell64, Seq, Spin};
use std::sync::Arc;

/// Where a relative path begins, and within what bounds it is resolved.
///
/// Linux has bounds (`RESOLVE_*`) for openat2(2) alone. Here every call that takes a directory takes them with it: the
/// answer is that of openat2, with these bounds, on the path, or on the directory that holds the last name where the call
/// is about the name, and then of the call itself at what was opened.
///
/// ```
/// use pathwalk_core::{At, Task};
/// use pathwalk_abi::{AtFlags, Errno, OpenFlags, ResolveFlags};
///
/// /// Removes what a guest names, and nothing outside its directory.
/// fn remove(task: &Task, guest: &str, path: &str) -> Result<(), Errno> {
///     let directory = task.open(guest, OpenFlags::PATH | OpenFlags::DIRECTORY, 0)?;
///     let inside = At::from(&directory).resolve(ResolveFlags::IN_ROOT);
///     task.unlinkat(inside, path, AtFlags::empty())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    /// At the current directory: `AT_FDCWD`.
    Cwd,
    /// At an open directory.
    Dir(&'a File),
    /// At an open directory or the current one, within bounds: made by [`At::resolve`].
    Within(Option<&'a File>, ResolveFlags),
    /// The same, asking anew: made by [`At::anew`].
    Anew(Option<&'a File>, ResolveFlags),
    /// Nowhere: a call is told this when it comes to the path. For who answers the calls of others, who gave a descriptor or a path that is
    /// none: what is wrong with flags is said before, and of two paths the first is followed before.
    Nowhere(Errno),
}

impl<'a> At<'a> {
    /// The same place, with these bounds in addition.
    ///
    /// A call that gets them answers, before all else about the path:
    ///
    /// - `EINVAL`: an unknown bound, or `RESOLVE_BENEATH` with `RESOLVE_IN_ROOT`.
    ///
    /// and where openat2 would: `EXDEV` and `ELOOP` where the walk would leave its bounds, `EAGAIN` where that cannot be
    /// told because a directory or mount moved, or with `RESOLVE_CACHED` where the answer is not cached.
    #[must_use]
    pub fn resolve(self, bounds: ResolveFlags) -> Self {
        let bounds = self.bounds() | bounds;
        match self {
            Self::Anew(file, _) => Self::Anew(file, bounds),
            Self::Nowhere(_) => self,
            _ => Self::Within(self.dir(), bounds),
        }
    }

    /// The same place within the same bounds, from where file systems are asked about each name whatever the cache believes of it, and keep at hand
    /// what they find. So a call asks by itself that got `ESTALE`; this is for who makes several of them, of which a later one got it.
    ///
    /// Linux: `LOOKUP_REVAL`.
    #[must_use]
    pub fn anew(self) -> Self {
        match self {
            Self::Nowhere(_) => self,
            _ => Self::Anew(self.dir(), self.bounds()),
        }
    }

    /// The open directory.
    pub(crate) fn dir(self) -> Option<&'a File> {
        match self {
            Self::Cwd | Self::Nowhere(_) => None,
            Self::Dir(file) => Some(file),
            Self::Within(file, _) | Self::Anew(file, _) => file,
        }
    }

    /// The bounds.
    pub(crate) fn bounds(self) -> ResolveFlags {
        match self {
            Self::Cwd | Self::Dir(_) | Self::Nowhere(_) => ResolveFlags::empty(),
            Self::Within(_, bounds) | Self::Anew(_, bounds) => bounds,
        }
    }
}

impl<'a> From<&'a File> for At<'a> {
    fn from(file: &'a File) -> Self {
        Self::Dir(file)
    }
}

/// A task: root, current directory, umask and credentials, with one method per system call.
///
/// It may be used by several threads at once; each call is as one system call. Threads that share nothing have a task
/// each: see [`Task::fork`].
pub struct Task {
    pub(crate) anchor: Arc<Anchor>,
    pub(crate) fs: Arc<FsStruct>,
    pub(crate) cred: TaskCred,
    pub(crate) registered: Registered,
    ns: MountNamespace,
}

/// What a task's files hold of it: the machine, and by which credentials they were opened. One per task, so that tasks do
/// not meet at its counter, and a new one when its credentials change.
pub(crate) struct Anchor {
    pub(crate) vfs: Arc<Vfs>,
    /// No other credentials of the process have it, be they equal. Threads have the same until they change theirs.
    ///
    /// Linux: which `struct cred` it is, of which threads have a reference each and who forks a copy.
    whose: u64,
}

impl Anchor {
    /// Of credentials that are nobody else's.
    fn new(vfs: &Arc<Vfs>) -> Arc<Self> {
        static LAST: Cell64 = Cell64::new(0);
        Arc::new(Self { vfs: Arc::clone(vfs), whose: LAST.add(1) + 1 })
    }

    /// Another of the same credentials.
    fn of_thread(&self) -> Arc<Self> {
        Arc::new(Self { vfs: Arc::clone(&self.vfs), whose: self.whose })
    }
}

impl Task {
    pub(crate) fn new(vfs: &Arc<Vfs>, cred: Cred) -> Self {
        let ns = MountNamespace::initial(vfs);
        let root = vfs.hold_ns_root(ns.ns());
        let fs = Arc::new(FsStruct::new(vfs, root, root, 0o022));
        drop(HeldPath::new(vfs, root.0, root.1));
        let registered = Registered::first(vfs, &fs, &cred, ns.ns());
        let cred = TaskCred { version: CredVersion::new(&cred), cred, task: 0 };
        Self::of(registered, Anchor::new(vfs), fs, cred, ns)
    }

    /// The machine.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.anchor.vfs
    }

    fn of(
        registered: Registered,
        anchor: Arc<Anchor>,
        fs: Arc<FsStruct>,
        cred: TaskCred,
        ns: MountNamespace,
    ) -> Self {
        let cred = TaskCred { task: registered.info.number(), ..cred };
        Self { anchor, fs, cred, registered, ns }
    }

    fn child(&self, fs: Arc<FsStruct>, kind: Kind) -> Self {
        let anchor = match kind {
            Kind::Process => Anchor::new(self.vfs()),
            Kind::Thread => self.anchor.of_thread(),
        };
        Self::of(self.registered.child(&fs, kind), anchor, fs, self.cred.clone(), self.ns.clone())
    }

    /// A process with the same root, current directory, umask and credentials, all its own: fork(2).
    #[must_use]
    pub fn fork(&self) -> Self {
        self.child(self.fs.copy(), Kind::Process)
    }

    /// A process that shares root, current directory and umask with this one: clone(2) with `CLONE_FS`.
    #[must_use]
    pub fn clone_fs(&self) -> Self {
        self.child(Arc::clone(&self.fs), Kind::Process)
    }

    /// One more thread of this process, which shares root, current directory and umask with this one: clone(2) as threads
    /// are made.
    #[must_use]
    pub fn thread(&self) -> Self {
        self.child(Arc::clone(&self.fs), Kind::Thread)
    }

    /// Makes root, current directory and umask this task's own: unshare(2) with `CLONE_FS`.
    pub fn unshare_fs(&mut self) {
        self.fs = self.fs.copy();
        self.registered.set_fs(&self.fs);
    }

    /// The task's number, from 1 on: gettid(2).
    pub fn number(&self) -> u32 {
        self.cred.task
    }

    /// What others can see of this task.
    pub fn info(&self) -> &Arc<TaskInfo> {
        &self.registered.info
    }

    /// Says what the process executes: where `/proc/self/exe` leads. No call looks at it.
    pub fn set_exe(&self, exe: Option<File>) {
        self.registered.set_exe(exe);
    }

    /// Says in which table the process keeps its open files: what `/proc/self/fd` shows. No call looks at it; `fork`
    /// copies it.
    pub fn set_files(&self, files: Option<Arc<FdTable>>) {
        self.registered.set_files(files);
    }

    /// Gives the task a name, of which 15 bytes are kept: prctl(2) with `PR_SET_NAME`.
    pub fn set_comm(&self, comm: impl AsRef<[u8]>) {
        self.registered.set_comm(comm.as_ref());
    }

    /// The mount namespace that the task is in.
    pub fn mount_namespace(&self) -> &MountNamespace {
        &self.ns
    }

    /// `unshare(CLONE_NEWNS)`: copies the task's mount namespace and goes into the copy. Root and current directory are then
    /// those of the copy, and the task's own. unshare(2)
    ///
    /// # Errors
    ///
    /// - `EPERM`: without `CAP_SYS_ADMIN`.
    /// - `ENOSPC`: there are as many mounts as there may be.
    pub fn unshare_mounts(&mut self) -> Result<()> {
        self.must_have(CapSet::SYS_ADMIN)?;
        self.copy_mounts(|_| CopyFor::SameRights)
    }

    /// `unshare(CLONE_NEWUSER | CLONE_NEWNS)`, as far as it is about mounts: goes into a copy of the task's mount namespace that may
    /// less: what the original hides, forbids and sends stays as it is, whatever capabilities the task has.
    /// mount_namespaces(7), "Restrictions on mount namespaces"
    ///
    /// - What is mounted in the original comes to the copy too where it is shared there, but not the other way round: mounts
    ///   of the copy are slaves.
    /// - The mounts of the copy are *locked* where they hang: none is unmounted or moved, and none is left out where what it
    ///   hangs in is bound or opened as a tree. What comes later from the original is locked below its topmost mount.
    /// - `MS_RDONLY`, `MS_NOSUID`, `MS_NODEV` and `MS_NOEXEC` stay set, and what is said about times of last access stays said,
    ///   here and wherever the mounts are bound.
    ///
    /// Linux gives the task a user namespace with it, and all capabilities in there. Here it keeps the credentials that it has, and
    /// needs none. Namespaces that [`Task::unshare_mounts`] makes of the copy may as much as the copy.
    ///
    /// ```
    /// use pathwalk_abi::{Errno, MountFlags, UmountFlags};
    /// use pathwalk_core::Task;
    ///
    /// /// Hands a task to a guest that cannot look below `secret`, nor write there, though it may mount.
    /// fn hand_over(task: &mut Task) -> Result<(), Errno> {
    ///     let read_only = MountFlags::REMOUNT | MountFlags::BIND | MountFlags::RDONLY;
    ///     task.mount_tree("", "secret", read_only)?;
    ///     task.unshare_mounts_less_privileged()?;
    ///     assert_eq!(task.umount2("secret", UmountFlags::DETACH), Err(Errno::EINVAL));
    ///     let writable = MountFlags::REMOUNT | MountFlags::BIND;
    ///     assert_eq!(task.mount_tree("", "secret", writable), Err(Errno::EPERM));
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// - `EPERM`: the task's root is not that of its namespace: chroot(2).
    /// - `ENOSPC`: there are as many mounts as there may be.
    pub fn unshare_mounts_less_privileged(&mut self) -> Result<()> {
        self.copy_mounts(|root| CopyFor::FewerRights { root })
    }

    fn copy_mounts(&mut self, kind: impl FnOnce((MountId, DentryId)) -> CopyFor) -> Result<()> {
        let vfs = Arc::clone(self.vfs());
        let _work = vfs.task_work();
        let root = self.fs.sample_root(&vfs);
        let (ns, copies) = self.ns.copy(kind((root.mnt, root.dentry)))?;
        let held = self.fs.hold_root_and_cwd(&vfs);
        let [root, cwd] = held.map(|(mnt, dentry)| (*copies.get(&mnt).unwrap_or(&mnt), dentry));
        self.fs = Arc::new(FsStruct::new(&vfs, root, cwd, self.fs.umask()));
        self.registered.set_fs(&self.fs);
        self.registered.set_ns(ns.ns());
        for (mnt, dentry) in held {
            drop(HeldPath::new(&vfs, mnt, dentry));
        }
        self.ns = ns;
        Ok(())
    }

    /// `setns(ns, CLONE_NEWNS)`: goes into a mount namespace; its root becomes the task's root and current directory. setns(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: it is of another machine.
    /// - `EPERM`: without `CAP_SYS_ADMIN` and `CAP_SYS_CHROOT`.
    /// - `EINVAL`: the task shares root and current directory with another.
    pub fn setns(&mut self, ns: &MountNamespace) -> Result<()> {
        if !Arc::ptr_eq(ns.vfs(), self.vfs()) {
            return Err(Errno::EBADF);
        }
        self.must_have(CapSet::SYS_ADMIN | CapSet::SYS_CHROOT)?;
        if self.vfs().shares_fs(&self.fs) {
            return Err(Errno::EINVAL);
        }
        let vfs = Arc::clone(self.vfs());
        let _work = vfs.task_work();
        self.registered.set_ns(ns.ns());
        let hold = || {
            let (mnt, dentry) = vfs.hold_ns_root(ns.ns());
            HeldPath::new(&vfs, mnt, dentry)
        };
        self.fs.set_cwd(hold());
        self.fs.set_root(hold());
        // What nobody is in any more goes last.
        self.ns = ns.clone();
        Ok(())
    }

    /// # Errors
    ///
    /// `EPERM`: the task lacks one of the capabilities.
    pub(crate) fn must_have(&self, caps: CapSet) -> Result<()> {
        if self.cred.subject().capable(caps) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// The credentials.
    pub fn cred(&self) -> &Cred {
        &self.cred
    }

    /// Changes the credentials.
    pub fn set_cred(&mut self, cred: Cred) {
        if self.cred.cred != cred {
            self.anchor = Anchor::new(&self.anchor.vfs);
            self.registered.set_cred(&cred);
            self.cred.version = CredVersion::new(&cred);
            self.cred.cred = cred;
        }
    }

    /// Whether the file was opened by the very credentials that this task has: by itself or another thread of the process,
    /// neither of which has changed its own since they were made.
    pub(crate) fn is_opener_of(&self, file: &File) -> bool {
        file.anchor().whose == self.anchor.whose
    }

    /// `umask(mask)`: sets the permission bits that new files do not get, and returns those of before. umask(2)
    pub fn umask(&self, mask: u32) -> u32 {
        self.fs.set_umask(mask & 0o777)
    }

    /// Has the file system say what an empty path leads to.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: it may not be empty.
    /// - `EBADF`: the directory handle is of another machine.
    /// - those of [`Vfs::ask_about_held`].
    #[cold]
    fn ask_about_start(&self, at: At<'_>, flags: Lookup) -> Result<()> {
        if !flags.contains(Lookup::EMPTY) {
            return Err(Errno::ENOENT);
        }
        let Some(file) = at.dir() else { return Ok(()) };
        self.place_of(file)?;
        self.vfs().ask_about_held(file.inode(), flags)
    }

    /// What a lookup is told.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the bounds are unknown, or contradict each other.
    /// - what [`At::Nowhere`] says.
    /// - `ENOENT`: the path is empty, and may not be.
    /// - `ENAMETOOLONG`: it has more than 4095 bytes.
    /// - `EBADF`: the directory handle is of another machine.
    ///
    /// Linux: `getname`, `path_init`.
    #[inline(always)]
    pub(crate) fn request<'a>(
        &'a self,
        at: At<'a>,
        path: &'a [u8],
        mut flags: Lookup,
    ) -> Result<Request<'a>> {
        match at {
            At::Within(_, bounds) => flags |= ops::within(bounds)?,
            At::Anew(_, bounds) => flags |= ops::within(bounds)? | Lookup::REVAL,
            At::Cwd | At::Dir(_) => {}
            At::Nowhere(errno) => return Err(errno),
        }
        if path.is_empty() {
            self.ask_about_start(at, flags)?;
        }
        if path.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let absolute = path.first() == Some(&b'/') && !flags.is_scoped();
        let dir = match at.dir() {
            Some(file) if !absolute => Some(self.place_of(file)?),
            _ => None,
        };
        Ok(Request {
            vfs: &self.anchor.vfs,
            fs: &self.fs,
            asker: Asker::Effective(&self.cred),
            dir,
            path,
            flags: road::flags(flags),
        })
    }

    /// The place of a handle.
    ///
    /// # Errors
    ///
    /// `EBADF`: it is of another machine.
    #[inline]
    pub(crate) fn place_of(&self, file: &File) -> Result<(MountId, DentryId)> {
        if !std::ptr::eq(file.vfs(), &raw const *self.anchor.vfs) {
            return Err(Errno::EBADF);
        }
        Ok(file.place())
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("cred", self.cred()).finish_non_exhaustive()
    }
}

/// Root, current directory and umask: what tasks may share.
///
/// Walks read it without storing: the two places are read between two looks at `seq`.
pub(crate) struct FsStruct {
    pub(crate) vfs: Arc<Vfs>,
    seq: Seq,
    root: PlaceCell,
    cwd: PlaceCell,
    umask: Cell32,
    change: Mutex<()>,
}

/// A mount and a dentry in one word, so that both are read at once.
#[derive(Default)]
struct PlaceCell(Cell64);

impl PlaceCell {
    #[inline(always)]
    fn get(&self) -> (MountId, DentryId) {
        let word = self.0.get();
        (MountId((word >> 32) as u32), DentryId(word as u32))
    }

    fn set(&self, (mnt, dentry): (MountId, DentryId)) {
        self.0.set(u64::from(mnt.0) << 32 | u64::from(dentry.0));
    }
}

impl FsStruct {
    /// The caller holds both places; the new value gets counts of its own.
    fn new(
        vfs: &Arc<Vfs>,
        root: (MountId, DentryId),
        cwd: (MountId, DentryId),
        umask: u32,
    ) -> Self {
        let fs = Self {
            vfs: Arc::clone(vfs),
            seq: Seq::default(),
            root: PlaceCell::default(),
            cwd: PlaceCell::default(),
            umask: Cell32::default(),
            change: Mutex::default(),
        };
        for (mnt, dentry) in [root, cwd] {
            vfs.mntget(mnt);
            vfs.dget(dentry);
        }
        fs.root.set(root);
        fs.cwd.set(cwd);
        fs.umask.set(umask);
        fs
    }

    /// The same places and umask, for a task of their own.
    fn copy(&self) -> Arc<Self> {
        let vfs = &self.vfs;
        let [root, cwd] = self.hold_root_and_cwd(vfs);
        let copy = Self::new(vfs, root, cwd, self.umask());
        for (mnt, dentry) in [root, cwd] {
            drop(HeldPath::new(vfs, mnt, dentry));
        }
        Arc::new(copy)
    }

    /// Moves who stands exactly at one place to another.
    fn replace(&self, old: &HeldPath<'_>, new: &HeldPath<'_>) {
        let (from, to) = ((old.mnt(), old.dentry()), (new.mnt(), new.dentry()));
        let moved = {
            let _change = self.change.lock();
            let stands = |cells: &&PlaceCell| cells.get() == from;
            let there = || [&self.root, &self.cwd].into_iter().filter(stands);
            let moved = there().count();
            if moved > 0 {
                let _seq = self.seq.change();
                there().for_each(|cells| {
                    self.vfs.hold_both(to);
                    cells.set(to);
                });
            }
            moved
        };
        // With no lock held: a mount that was detached meanwhile takes the tree's.
        for _ in 0..moved {
            self.vfs.dput(old.dentry());
            self.vfs.mntput(old.mnt());
        }
    }

    #[inline(always)]
    fn sample_cells(&self, vfs: &Vfs, cells: &PlaceCell) -> Place {
        let mut spin = Spin::default();
        loop {
            let seq = self.seq.sample();
            let (mnt, dentry) = cells.get();
            let place = vfs.sample(mnt, dentry);
            // What we hold was sampled while we held it, or we look again.
            if self.seq.unchanged(seq) {
                return place;
            }
            spin.turn();
        }
    }

    /// The root as it is now.
    #[inline(always)]
    pub(crate) fn sample_root(&self, vfs: &Vfs) -> Place {
        self.sample_cells(vfs, &self.root)
    }

    /// The root, without a look at it: it may be another one by now.
    #[inline(always)]
    pub(crate) fn peek_root(&self) -> (MountId, DentryId) {
        self.root.get()
    }

    /// The current directory as it is now.
    #[inline(always)]
    pub(crate) fn sample_cwd(&self, vfs: &Vfs) -> Place {
        self.sample_cells(vfs, &self.cwd)
    }

    /// The root, counted.
    pub(crate) fn hold_root(&self, vfs: &Vfs) -> (MountId, DentryId) {
        let _change = self.change.lock();
        hold(vfs, self.root.get())
    }

    /// The current directory, counted.
    pub(crate) fn hold_cwd(&self, vfs: &Vfs) -> (MountId, DentryId) {
        let _change = self.change.lock();
        hold(vfs, self.cwd.get())
    }

    /// Both as they are at one moment, counted.
    pub(crate) fn hold_root_and_cwd(&self, vfs: &Vfs) -> [(MountId, DentryId); 2] {
        let _change = self.change.lock();
        [hold(vfs, self.root.get()), hold(vfs, self.cwd.get())]
    }

    /// chroot(2): takes over the place's counts.
    pub(crate) fn set_root(&self, path: HeldPath<'_>) {
        self.set(&self.root, path);
    }

    /// chdir(2): takes over the place's counts.
    pub(crate) fn set_cwd(&self, path: HeldPath<'_>) {
        self.set(&self.cwd, path);
    }

    fn set(&self, cells: &PlaceCell, path: HeldPath<'_>) {
        let (mnt, dentry) = {
            let _change = self.change.lock();
            let old = cells.get();
            let _seq = self.seq.change();
            cells.set(path.into_raw());
            old
        };
        drop(HeldPath::new(&self.vfs, mnt, dentry));
    }

    pub(crate) fn umask(&self) -> u32 {
        self.umask.get()
    }

    fn set_umask(&self, mask: u32) -> u32 {
        let _change = self.change.lock();
        let old = self.umask.get();
        self.umask.set(mask);
        old
    }
}

impl Vfs {
    /// Moves all who have a place for their root or current directory to another.
    ///
    /// Linux: `chroot_fs_refs`.
    pub(crate) fn chroot_fs_refs(&self, old: &HeldPath<'_>, new: &HeldPath<'_>) {
        for fs in self.all_fs() {
            fs.replace(old, new);
        }
    }
}

fn hold(vfs: &Vfs, (mnt, dentry): (MountId, DentryId)) -> (MountId, DentryId) {
    vfs.mntget(mnt);
    vfs.dget(dentry);
    (mnt, dentry)
}

impl FsStruct {
    /// Gives both places back, the last thing that is done with it.
    fn leave(&mut self) {
        let _work = self.vfs.task_work();
        for cells in [&self.root, &self.cwd] {
            let (mnt, dentry) = cells.get();
            if mnt != MountId::NONE {
                cells.set((MountId::NONE, DentryId::NONE));
                drop(HeldPath::new(&self.vfs, mnt, dentry));
            }
        }
    }
}

impl Drop for FsStruct {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Drop for Task {
    /// What nobody holds any more goes when all was given back.
    ///
    /// Linux: `exit_fs`, `exit_task_namespaces`.
    fn drop(&mut self) {
        let _work = self.anchor.vfs.task_work();
        // Nobody comes to it by the table any more; who did, and who shares it, gives the places back when he is the last.
        self.registered.forget_fs();
        if let Some(fs) = Arc::get_mut(&mut self.fs) {
            fs.leave();
        }
        self.ns.leave();
    }
}
