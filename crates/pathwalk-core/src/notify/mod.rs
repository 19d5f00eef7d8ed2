//! Change notification: what happened, told to who watches.
//!
//! ```text
//!   call ── fsnotify_*  here            what happened, to which inode, by which name
//!             │  nobody watches anything: one load, and back
//!             │  I_WATCHED in the inode's flags, or in those of its parent: nobody watches this one, and back
//!           Marks       marks           who watches which inode for what
//!           Group       group           a queue of events, and who waits for it
//!           Inotify     inotify         what the user holds
//! ```
//!
//! Rules:
//! 1. A watch is on an inode, not on a name. What happens to a child is told to who watches the directory by the name and
//!    parent of the dentry that it was reached by, also where that was unlinked since.
//! 2. One call's events are in each queue in the order in which Linux puts them there: they are told by the calls, in the
//!    place where Linux tells them, after the change is done.
//! 3. Of one event who watches the parent hears first, then who watches the inode itself.
//! 4. A mark holds its inode, so that what is watched is found again after its name was evicted. It goes with the last
//!    name of the inode that is freed, or with the file system.
//! 5. Nobody is called while a lock is held, but names may be reserved: a waker must not call the machine.
//!
//! Linux: `fs/notify/fsnotify.c`, `include/linux/fsnotify.h`; inotify(7).

mod inotify;

mod marks;

mod group;

pub use inotify::{Event, Inotify, InotifyLimits};

pub(crate) use marks::Notify;

use crate::{
    dcache::{DentryId, HASHED, IS_ROOT},
    file::File,
    inode::{I_WATCHED, InodeId},
    setattr::Iattr,
    vfs::{SuperBlock, Vfs},
};
use marks::Told;
use pathwalk_abi::{FileType, InotifyMask, OpenFlags};
use pathwalk_sync::Spin;

/// The file is to be run: no reader is told, but such an event is not the same as one without it.
const OPEN_EXEC: InotifyMask = InotifyMask::from_bits_retain(1 << 12);

/// What is done with open files.
const BY_OPEN_FILES: InotifyMask = InotifyMask::OPEN
    .union(InotifyMask::ACCESS)
    .union(InotifyMask::MODIFY)
    .union(InotifyMask::CLOSE_WRITE)
    .union(InotifyMask::CLOSE_NOWRITE);

/// By what an event's inode was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A name.
    Dentry,
    /// An open file: `IN_EXCL_UNLINK` looks whether it still has its name.
    File,
}

/// What a change of attributes is told as.
///
/// Linux: `fsnotify_change`.
fn change_mask(change: &Iattr) -> InotifyMask {
    let owner_or_mode = change.mode.or(change.uid).or(change.gid).is_some();
    let (atime, mtime) = (change.atime.is_some(), change.mtime.is_some());
    let mut mask = InotifyMask::empty();
    mask.set(InotifyMask::ATTRIB, owner_or_mode || atime && mtime);
    mask.set(InotifyMask::MODIFY, change.size.is_some() || mtime && !atime);
    mask.set(InotifyMask::ACCESS, atime && !mtime);
    mask
}

impl Vfs {
    /// A name was made in a directory.
    ///
    /// Linux: `fsnotify_create`, `fsnotify_mkdir`.
    pub(crate) fn fsnotify_create(&self, dir: InodeId, name: &[u8], made: FileType) {
        let mut mask = InotifyMask::CREATE;
        mask.set(InotifyMask::ISDIR, made == FileType::Directory);
        self.fsnotify_entry(dir, name, 0, || mask);
    }

    /// A file got one more name.
    pub(crate) fn fsnotify_link(&self, inode: InodeId, dir: InodeId, name: &[u8]) {
        self.fsnotify_inode(inode, InotifyMask::ATTRIB);
        self.fsnotify_name(InotifyMask::CREATE, dir, name, inode, 0);
    }

    /// A name was taken from what is no directory; the name is still reserved, by `id`.
    ///
    /// Linux: `fsnotify_link_count`, `d_delete_notify`.
    pub(crate) fn fsnotify_unlink(&self, dir: InodeId, name: &[u8], id: DentryId) {
        if self.notify.is_idle() {
            return;
        }
        let inode = InodeId(self.dentry(id).inode.get());
        self.fsnotify_inode(inode, InotifyMask::ATTRIB);
        self.fsnotify_delete(dir, name, id);
    }

    /// A directory was removed; its name is still reserved, by `id`.
    pub(crate) fn fsnotify_rmdir(&self, dir: InodeId, name: &[u8], id: DentryId) {
        if !self.notify.is_idle() {
            self.fsnotify_delete(dir, name, id);
        }
    }

    /// If the reservation alone holds what had the name, it goes before the directory hears of it, as in Linux.
    fn fsnotify_delete(&self, dir: InodeId, name: &[u8], id: DentryId) {
        let dentry = self.dentry(id);
        let inode = InodeId(dentry.inode.get());
        if dentry.lockref.count() == 1 {
            self.fsnotify_inoderemove(inode);
        }
        self.fsnotify_name(InotifyMask::DELETE, dir, name, inode, 0);
    }

    /// `moved` has its new name; `replaced` had it before.
    ///
    /// Linux: `fsnotify_move`.
    pub(crate) fn fsnotify_move(
        &self,
        (old_dir, old_name): (InodeId, &[u8]),
        (new_dir, new_name): (InodeId, &[u8]),
        moved: InodeId,
        replaced: Option<InodeId>,
    ) {
        if self.notify.is_idle() {
            return;
        }
        let cookie = self.notify.cookie();
        self.fsnotify_name(InotifyMask::MOVED_FROM, old_dir, old_name, moved, cookie);
        self.fsnotify_name(InotifyMask::MOVED_TO, new_dir, new_name, moved, cookie);
        if let Some(replaced) = replaced {
            self.fsnotify_inode(replaced, InotifyMask::ATTRIB);
        }
        self.fsnotify_inode(moved, InotifyMask::MOVE_SELF);
    }

    /// Attributes were changed by a call.
    #[inline]
    pub(crate) fn fsnotify_change(&self, id: DentryId, change: &Iattr) {
        if !self.notify.is_idle() {
            self.fsnotify_dentry(id, change_mask(change));
        }
    }

    /// Linux: `fsnotify_xattr`, and whatever else changes what stat does not show.
    pub(crate) fn fsnotify_dentry(&self, id: DentryId, mask: InotifyMask) {
        if !self.notify.is_idle() && !mask.is_empty() {
            self.fsnotify_parent(id, mask, By::Dentry);
        }
    }

    /// The last count of a dentry goes, and with it one name of the inode.
    #[inline]
    pub(crate) fn fsnotify_inoderemove(&self, inode: InodeId) {
        let slot = self.inode(inode);
        if slot.flags.get() & I_WATCHED != 0 && slot.attr().nlink == 0 {
            self.fsnotify_inode(inode, InotifyMask::DELETE_SELF);
            self.fsnotify_inode_delete(inode);
        }
    }

    /// The file system goes, and with it all watches on it; newest inodes first. When it returns, no watch holds an inode of
    /// it any more, nor does anybody who was taking one away.
    ///
    /// Linux: `fsnotify_sb_delete`.
    pub(crate) fn fsnotify_sb_delete(&self, sb: &SuperBlock) {
        if !sb.was_watched() {
            return;
        }
        // Held: a watch that is taken away meanwhile may have been all that kept the inode.
        let mut inodes = self.hold_watched(sb.id());
        let born = |&inode: &InodeId| {
            let attr = self.inode(inode).attr();
            // Where the clock does not tell, the numbers do, which go up at least where one thread makes them.
            std::cmp::Reverse((attr.btime.sec, attr.btime.nsec, attr.ino))
        };
        inodes.sort_by_key(born);
        for inode in inodes {
            self.fsnotify_inode(inode, InotifyMask::UNMOUNT);
            self.fsnotify_inode_delete(inode);
            self.iput(inode);
        }
        let mut spin = Spin::default();
        while self.notify.holds_of(sb.id()) {
            debug_assert!(!self.goes, "a count was never given back");
            if self.goes {
                return;
            }
            spin.turn();
        }
    }

    /// Something happened to a name in a directory.
    fn fsnotify_name(
        &self,
        mask: InotifyMask,
        dir: InodeId,
        name: &[u8],
        what: InodeId,
        cookie: u32,
    ) {
        self.fsnotify_entry(dir, name, cookie, || mask | self.is_dir(what));
    }

    /// The same; the mask is asked for if somebody watches the directory.
    fn fsnotify_entry(
        &self,
        dir: InodeId,
        name: &[u8],
        cookie: u32,
        mask: impl FnOnce() -> InotifyMask,
    ) {
        if !self.notify.is_idle() && self.is_watched(dir) {
            let mask = mask();
            self.fsnotify(&[Told { inode: dir, mask, name, cookie, unlinked: false }]);
        }
    }

    /// Something happened to an inode, whatever its names.
    fn fsnotify_inode(&self, inode: InodeId, mask: InotifyMask) {
        if !self.notify.is_idle() && self.is_watched(inode) {
            let mask = mask | self.is_dir(inode);
            self.fsnotify(&[Told { inode, mask, name: b"", cookie: 0, unlinked: false }]);
        }
    }

    /// Something happened to what was reached by a name: who watches its parent hears first.
    #[cold]
    fn fsnotify_parent(&self, id: DentryId, mask: InotifyMask, by: By) {
        let dentry = self.dentry(id);
        let inode = InodeId(dentry.inode.get());
        let mask = mask | self.is_dir(inode);
        let mut name = Vec::new();
        let mut spin = Spin::default();
        // Held until it is told: nobody else's inode takes its slot meanwhile.
        let (parent, tells) = loop {
            let parent = self.dget_parent(id);
            let seq = dentry.seq.sample();
            let tells = !dentry.is(IS_ROOT) && self.is_watched(self.inode_of(parent));
            if tells {
                name.clear();
                self.copy_name(dentry, &mut name);
            }
            if dentry.parent.get() == parent.0 && dentry.seq.unchanged(seq) {
                break (parent, tells);
            }
            self.dput(parent);
            spin.turn();
        };
        let unlinked = by == By::File && !dentry.is(HASHED | IS_ROOT);
        let child = Told { inode, mask, name: b"", cookie: 0, unlinked };
        if tells {
            self.fsnotify(&[Told { inode: self.inode_of(parent), name: &name, ..child }, child]);
        } else if self.is_watched(inode) {
            self.fsnotify(&[child]);
        }
        self.dput(parent);
    }

    fn inode_of(&self, id: DentryId) -> InodeId {
        InodeId(self.dentry(id).inode.get())
    }

    /// Whether somebody watches the inode.
    fn is_watched(&self, inode: InodeId) -> bool {
        self.inode(inode).flags.get() & I_WATCHED != 0
    }

    fn is_dir(&self, inode: InodeId) -> InotifyMask {
        match self.inode(inode).attr().file_type() {
            FileType::Directory => InotifyMask::ISDIR,
            _ => InotifyMask::empty(),
        }
    }
}

impl File {
    /// Tells who watches what was done by somebody else, of whom nobody here knows, with an open file at this place: by the
    /// descriptor of the host that [`File::host_fd`] is.
    ///
    /// Of the mask count `OPEN`, `ACCESS`, `MODIFY`, `CLOSE_WRITE` and `CLOSE_NOWRITE`; each is an event. inotify(7)
    pub fn notify(&self, mask: InotifyMask) {
        let dentry = self.place().1;
        for what in (mask & BY_OPEN_FILES).iter() {
            self.vfs().fsnotify_file(dentry, OpenFlags::empty(), what);
        }
    }

    /// The file was opened.
    pub(crate) fn fsnotify_open(&self) {
        self.fsnotify(InotifyMask::OPEN);
    }

    /// The file was opened to be run.
    pub(crate) fn fsnotify_open_exec(&self) {
        self.fsnotify(InotifyMask::OPEN | OPEN_EXEC);
    }

    /// The file was read, or listed.
    pub(crate) fn fsnotify_access(&self) {
        self.fsnotify(InotifyMask::ACCESS);
    }

    /// The file was written.
    pub(crate) fn fsnotify_modify(&self) {
        self.fsnotify(InotifyMask::MODIFY);
    }

    #[inline]
    fn fsnotify(&self, mask: InotifyMask) {
        self.vfs().fsnotify_file(self.place().1, self.flags(), mask);
    }
}

impl Vfs {
    /// The last handle of an open file goes; it still holds its place.
    #[inline]
    pub(crate) fn fsnotify_close(&self, id: DentryId, flags: OpenFlags) {
        let mode = flags.bits() & OpenFlags::ACCMODE.bits();
        let wrote = [OpenFlags::WRONLY, OpenFlags::RDWR].iter().any(|flag| flag.bits() == mode);
        let mask = if wrote { InotifyMask::CLOSE_WRITE } else { InotifyMask::CLOSE_NOWRITE };
        self.fsnotify_file(id, flags, mask);
    }

    /// Something was done with an open file. One opened with `O_PATH` is none.
    #[inline]
    fn fsnotify_file(&self, id: DentryId, flags: OpenFlags, mask: InotifyMask) {
        if !self.notify.is_idle() && !flags.contains(OpenFlags::PATH) {
            self.fsnotify_parent(id, mask, By::File);
        }
    }
}
