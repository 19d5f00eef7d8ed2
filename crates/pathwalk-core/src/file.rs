//! Open files: a place, what it was opened for, and a position.
//!
//! Linux: `struct file`; an open file description in open(2)'s words.

use crate::{
    cred::Subject,
    dcache::DentryId,
    fs::OpenHandle,
    inode::{InodeId, InodeRef},
    mount::{MountId, remount::Writing},
    ops::exec::WriteAccess,
    security::{Hooks, PathRef},
    task::Anchor,
    vfs::Vfs,
    walk::{HeldPath, MountCount},
};
use parking_lot::Mutex;
use pathwalk_abi::{Errno, OpenFlags, Result};
use std::{
    cell::Cell,
    mem::ManuallyDrop,
    ops::Deref,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

/// An open file. Its clones are the same open file: they share the position. The last one that goes closes it.
// None while it is dropped: the room is taken out then.
#[derive(Clone)]
pub struct File(Option<Room>);

/// Where an open file lies; nothing does where the room is a thread's spare one.
type Room = triomphe::Arc<Option<OpenFile>>;

thread_local! {
    /// The room of the file that this thread closed last: who opens and closes one after the other allocates nothing.
    static SPARE: Cell<Option<Room>> = const { Cell::new(None) };
}

pub(crate) struct OpenFile {
    anchor: Arc<Anchor>,
    mnt: MountId,
    dentry: DentryId,
    flags: OpenFlags,
    goes_with: GoesWith,
    /// The security module's word.
    security: u64,
    /// What the file system keeps for this opening.
    handle: Option<Box<dyn OpenHandle>>,
    position: Mutex<Position>,
}

/// What an open file gives back, beside its place, when it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoesWith {
    Nothing,
    /// It counts as a writer of its inode and of its mount.
    WriteAccess,
    /// It is the root of a tree that hangs nowhere.
    Tree,
}

/// Which files of a file system a mount of it leads to for who names none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those at or below its root.
    Mount,
    /// All.
    FileSystem,
}

/// Where the next read, write or listing begins.
#[derive(Debug, Default)]
pub(crate) struct Position {
    pub(crate) offset: u64,
    /// Of a listing: the child that was listed last, to go on from without a search.
    pub(crate) hint: DentryId,
}

impl File {
    /// Opens a place; takes over its counts.
    ///
    /// In line: a place that was just counted is still in registers.
    #[inline(always)]
    pub(crate) fn new(anchor: &Arc<Anchor>, path: HeldPath<'_>, flags: OpenFlags) -> Self {
        Self::with_goes_with(anchor, path, flags, GoesWith::Nothing)
    }

    /// Opens the root of a tree that hangs nowhere; it is dropped when the last of the file's clones goes.
    pub(crate) fn new_tree(anchor: &Arc<Anchor>, path: HeldPath<'_>) -> Self {
        Self::with_goes_with(anchor, path, OpenFlags::PATH, GoesWith::Tree)
    }

    #[inline(always)]
    fn with_goes_with(
        anchor: &Arc<Anchor>,
        path: HeldPath<'_>,
        flags: OpenFlags,
        goes_with: GoesWith,
    ) -> Self {
        let (mnt, dentry) = path.into_raw();
        let open = OpenFile {
            anchor: Arc::clone(anchor),
            mnt,
            dentry,
            flags,
            goes_with,
            security: 0,
            handle: None,
            position: Mutex::default(),
        };
        // A thread that ends has none.
        let mut spare = SPARE.try_with(Cell::take).ok().flatten();
        match spare.as_mut().and_then(triomphe::Arc::get_mut) {
            Some(room) => *room = Some(open),
            None => return Self(Some(triomphe::Arc::new(Some(open)))),
        }
        Self(spare)
    }

    fn opened(&self) -> &OpenFile {
        self.0.as_deref().and_then(Option::as_ref).expect("it is there until it is dropped")
    }

    /// The same, of a file that nobody else has yet.
    fn opened_mut(&mut self) -> &mut OpenFile {
        let room = self.0.as_mut().and_then(triomphe::Arc::get_mut);
        room.and_then(Option::as_mut).expect("nobody else has it yet")
    }

    /// The same file, which has not been shared yet, with the right to write to it, and through its mount, until it is closed.
    pub(crate) fn with_write_access(
        mut self,
        (access, writing): (WriteAccess<'_>, Writing<'_>),
    ) -> Self {
        self.opened_mut().goes_with = GoesWith::WriteAccess;
        std::mem::forget((access, writing));
        self
    }

    /// The same with the security module's word; nobody else has the file yet.
    pub(crate) fn with_security(mut self, word: u64) -> Self {
        if word != 0 {
            self.opened_mut().security = word;
        }
        self
    }

    /// The same with what its file system keeps for it; nobody else has the file yet.
    pub(crate) fn with_handle(mut self, handle: Option<Box<dyn OpenHandle>>) -> Self {
        if handle.is_some() {
            self.opened_mut().handle = handle;
        }
        self
    }

    /// What its file system keeps for it; where it keeps nothing it is asked by inode.
    pub(crate) fn handle(&self) -> Option<&dyn OpenHandle> {
        self.opened().handle.as_deref()
    }

    /// The descriptor of the host that this open file is, where its file system has files of the host. See
    /// [`OpenHandle::host_fd`].
    pub fn host_fd(&self) -> Option<BorrowedFd<'_>> {
        self.handle()?.host_fd(self.inode_ref())
    }

    /// Asks the security module whether the size may be set by this file.
    ///
    /// # Errors
    ///
    /// What it answers.
    pub(crate) fn may_truncate(&self, who: &Subject<'_>) -> Result<()> {
        let vfs = self.vfs();
        vfs.ask(Hooks::FILE_TRUNCATE, |module| {
            module.file_truncate(who, &PathRef::of(vfs, &self.hold()), self.opened().security)
        })
    }

    /// A descriptor with `O_PATH` of the host's file that it is, if it is one, however it was opened. See
    /// [`FileSystem::host_place`](crate::fs::FileSystem::host_place).
    ///
    /// # Errors
    ///
    /// Whatever the file system answers.
    pub fn host_place(&self) -> Result<Option<OwnedFd>> {
        let inode = self.inode_ref();
        let sb = self.vfs().superblock(inode.slot().sb.get()).ok_or(Errno::ESTALE)?;
        sb.fs.host_place(inode)
    }

    /// The same file as somebody has it open by a descriptor of the host; none if that is of another one. See
    /// [`FileSystem::opened_as`](crate::fs::FileSystem::opened_as).
    pub fn opened_as(&self, fd: OwnedFd) -> Option<Self> {
        let inode = self.inode_ref();
        let sb = self.vfs().superblock(inode.slot().sb.get())?;
        let handle = sb.fs.opened_as(inode, fd)?;
        Some(self.place_alone().with_handle(Some(handle)))
    }

    /// The same place with the same flags and a position of its own, but with nothing of what goes with this opening: what its
    /// file system keeps for it, and that nobody runs the file meanwhile. It is for who wants to know which file it was.
    #[must_use]
    pub fn place_alone(&self) -> Self {
        self.place_as(self.opened().flags)
    }

    /// The same with other flags, as somebody else has the file open.
    #[must_use]
    pub fn place_as(&self, flags: OpenFlags) -> Self {
        Self::new(&self.opened().anchor, self.hold(), flags)
    }

    /// The same file as a place in the mount of another one, as if it had been opened there with `O_PATH`. No path need lead
    /// there: open_by_handle_at(2) does so with a file handle. See [`Task::reopen`](crate::Task::reopen).
    ///
    /// # Errors
    ///
    /// - `EXDEV`: the other one is of another file system.
    /// - `ESTALE`: the file does not lie below the mount's root, and the mount is to show no other.
    ///
    /// Linux: `handle_to_path`, `vfs_dentry_acceptable`.
    pub fn in_mount_of(&self, other: &Self, reach: Reach) -> Result<Self> {
        let vfs = self.vfs();
        let OpenFile { anchor, mnt: own, dentry, .. } = self.opened();
        let (mnt, own, dentry) = (other.opened().mnt, *own, *dentry);
        let mount = |id| vfs.mount_slot(id);
        if !std::ptr::eq(vfs, other.vfs()) || mount(mnt).sb.get() != mount(own).sb.get() {
            return Err(Errno::EXDEV);
        }
        let shows = || vfs.mount_shows(mnt, dentry);
        if reach == Reach::Mount && !shows() {
            return Err(Errno::ESTALE);
        }
        vfs.hold_both((mnt, dentry));
        Ok(Self::new(anchor, HeldPath::new(vfs, mnt, dentry), OpenFlags::PATH))
    }

    /// The root of the file's file system in a mount of its own, which hangs nowhere and goes with the last file in it. Who is to
    /// hold a file, and to keep no mount of it from being unmounted, holds it in there: [`File::in_mount_of`]. Nothing can be
    /// written, run or opened as a device by it, and it notes no reading.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: there are as many mounts as there may be.
    pub fn apart(&self) -> Result<Self> {
        let vfs = self.vfs();
        let root = vfs.mount_apart(vfs.mount_slot(self.opened().mnt).sb.get())?;
        Ok(Self::new_tree(&self.opened().anchor, root))
    }

    /// How many mounts there are of its file system, wherever they hang.
    pub fn mounts(&self) -> u32 {
        self.vfs().mounts_of(self.opened().mnt)
    }

    /// The place as a number, mount and name: no other has it while a file is open there.
    pub fn place_id(&self) -> u64 {
        let (mnt, dentry) = self.place();
        u64::from(mnt.0) << 32 | u64::from(dentry.0)
    }

    /// The flags it was opened with, without those that only the opening itself looked at.
    pub fn flags(&self) -> OpenFlags {
        self.opened().flags
    }

    /// The position: where the next read, write or listing begins.
    pub fn offset(&self) -> u64 {
        self.opened().position.lock().offset
    }

    /// The number of the mount that it was opened in, as statx(2) gives it with `STATX_MNT_ID`.
    pub fn mount_id(&self) -> u64 {
        self.vfs().mount_slot(self.opened().mnt).mnt_id.get().into()
    }

    /// Whether nothing may be changed through the mount that it was opened in, or of its file system.
    pub fn is_read_only(&self) -> bool {
        self.vfs().mount_slot(self.opened().mnt).flags().read_only()
    }

    /// The inode number.
    pub fn ino(&self) -> u64 {
        self.inode_ref().attr().ino
    }

    /// The machine it belongs to.
    pub fn vfs(&self) -> &Vfs {
        &self.opened().anchor.vfs
    }

    pub(crate) fn anchor(&self) -> &Anchor {
        &self.opened().anchor
    }

    pub(crate) fn place(&self) -> (MountId, DentryId) {
        let OpenFile { mnt, dentry, .. } = self.opened();
        (*mnt, *dentry)
    }

    /// The place, counted once more.
    pub(crate) fn hold(&self) -> HeldPath<'_> {
        let (vfs, (mnt, dentry)) = (self.vfs(), self.place());
        vfs.mntget(mnt);
        vfs.dget(dentry);
        HeldPath::new(vfs, mnt, dentry)
    }

    /// The place, by the counts that the open file has: no further ones are taken.
    pub(crate) fn borrow(&self) -> Borrowed<'_> {
        let (mnt, dentry) = self.place();
        Borrowed(ManuallyDrop::new(HeldPath::new(self.vfs(), mnt, dentry)))
    }

    pub(crate) fn inode(&self) -> InodeId {
        InodeId(self.vfs().dentry(self.opened().dentry).inode.get())
    }

    pub(crate) fn inode_ref(&self) -> InodeRef<'_> {
        self.vfs().inode_ref(self.inode())
    }

    pub(crate) fn position(&self) -> &Mutex<Position> {
        &self.opened().position
    }

    /// Whether it was opened with `O_PATH`: a place, nothing more.
    pub(crate) fn is_path(&self) -> bool {
        self.opened().flags.contains(OpenFlags::PATH)
    }

    /// Whether it was opened for reading (`RDONLY`) or writing (`WRONLY`). Access mode 3 is for neither.
    pub(crate) fn is_open_for(&self, access: OpenFlags) -> bool {
        let mode =
            OpenFlags::from_bits_retain(self.opened().flags.bits() & OpenFlags::ACCMODE.bits());
        !self.is_path() && (mode == access || mode == OpenFlags::RDWR)
    }

    /// Asks whether it is a file to read from or write to.
    ///
    /// # Errors
    ///
    /// `EBADF`: it was opened with `O_PATH`, or not for that.
    pub(crate) fn must_be_open_for(&self, access: OpenFlags) -> Result<()> {
        if self.is_open_for(access) { Ok(()) } else { Err(Errno::EBADF) }
    }
}

/// The place of an open file, for as long as the file is borrowed.
pub(crate) struct Borrowed<'f>(ManuallyDrop<HeldPath<'f>>);

impl<'f> Deref for Borrowed<'f> {
    type Target = HeldPath<'f>;

    fn deref(&self) -> &HeldPath<'f> {
        &self.0
    }
}

impl Drop for File {
    /// The last one closes the file. Who is alone with it needs no locked instruction to know that, and keeps the room.
    fn drop(&mut self) {
        let Some(mut room) = self.0.take() else { return };
        if let Some(open) = triomphe::Arc::get_mut(&mut room) {
            *open = None;
            // A thread that ends keeps none.
            let _ = SPARE.try_with(|spare| spare.set(Some(room)));
        }
    }
}

impl Drop for OpenFile {
    /// Linux: `__fput`.
    fn drop(&mut self) {
        let vfs = &self.anchor.vfs;
        let _closed = Closed { vfs, goes_with: self.goes_with, mnt: self.mnt, dentry: self.dentry };
        vfs.fsnotify_close(self.dentry, self.flags);
        // It may keep what the file system lies on.
        drop(self.handle.take());
    }
}

/// What an open file gives back, also where who is told of it panics.
struct Closed<'v> {
    vfs: &'v Vfs,
    goes_with: GoesWith,
    mnt: MountId,
    dentry: DentryId,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let vfs = self.vfs;
        // The mount keeps the file system until the count is kept.
        let _mnt = MountCount { vfs, id: self.mnt };
        match self.goes_with {
            GoesWith::Nothing => {}
            GoesWith::WriteAccess => {
                vfs.put_write_access(InodeId(vfs.dentry(self.dentry).inode.get()));
                vfs.mnt_put_write_access(self.mnt);
            }
            GoesWith::Tree => vfs.dissolve(self.mnt),
        }
        vfs.dput_keeping(self.dentry);
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("flags", &self.opened().flags).finish_non_exhaustive()
    }
}
