//! The inode table: what a name stands for.
//!
//! ```text
//!   line 0  seq flags mode uid gid nlink ino size blocks special sb node      permission and type
//!   line 1  atime mtime ctime btime, link, acl, lockref                          the rest of stat
//! ```
//!
//! Invariant: the attributes are written under the inode's lock, or while nobody else knows it, and between two increments of `seq`, so a
//! reader that holds nothing gets all of one moment or asks again.
//!
//! Linux: `struct inode`; `generic_fillattr`.

use crate::{
    cred::Subject,
    fs::{Access, Found, Managed},
    lock,
    name::fold,
    vfs::Vfs,
};
use pathwalk_abi::{
    Dev, Errno, FileType, InodeFlags, Result, Timespec,
    mode::{S_IFDIR, S_IFMT, S_IRWXUGO},
};
use pathwalk_sync::{Blob, Cell32, Cell64, Link, Linked, Lockref, Returned, Seq, Spin, blob, slot};

/// The name of an inode slot; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InodeId(pub(crate) u32);

impl InodeId {
    pub(crate) const NONE: Self = Self(0);
}

/// The file system's own permission method must be asked.
pub(crate) const I_PERMISSION: u32 = 1 << 0;
/// … but not for search in a directory that everyone may search.
pub(crate) const I_MAY_EXEC: u32 = 1 << 1;
/// The inode is in the table of (file system, node).
pub(crate) const I_HASHED: u32 = 1 << 2;
/// A symlink that the file system wants to be asked about at each use.
pub(crate) const I_MAGIC_LINK: u32 = 1 << 3;
/// A directory on which its file system mounts something when a walk comes by.
pub(crate) const I_AUTOMOUNT: u32 = 1 << 4;
/// A directory whose file system is asked before it is crossed.
pub(crate) const I_TRANSIT: u32 = 1 << 5;
/// Somebody watches the inode; written under its lock, by who has the marks' lock too.
pub(crate) const I_WATCHED: u32 = 1 << 7;
/// The file system is not asked when it is opened.
pub(crate) const I_NO_OPEN: u32 = 1 << 6;
/// The inode has an access ACL: the mode alone does not decide.
pub(crate) const I_ACL: u32 = 1 << 8;
/// The inode's ACLs are not known: the file system was not asked for them yet, or has said that they may be others.
pub(crate) const I_ACL_UNKNOWN: u32 = 1 << 9;
/// The file has no capabilities for sure: a write takes none away.
pub(crate) const I_NOSEC: u32 = 1 << 10;

/// Somebody changes the attributes; set and cleared under the lock, and of no meaning to readers. See `setattr`.
pub(crate) const I_CHANGING: u32 = 1 << 12;
/// Somebody waits for the end of that.
pub(crate) const I_CHANGE_AWAITED: u32 = 1 << 14;
/// The attributes are not those any more with which the file system gave it.
pub(crate) const I_WRITTEN: u32 = 1 << 15;
/// The file system wants to be asked for the attributes before somebody is told them.
pub(crate) const I_GETATTR: u32 = 1 << 13;
/// It was made without a name, and may get one.
pub(crate) const I_LINKABLE: u32 = 1 << 11;
/// From this bit on lie the [`InodeFlags`], beginning with `IMMUTABLE`.
const ATTR_SHIFT: u32 = 28 - InodeFlags::IMMUTABLE.bits().trailing_zeros();
/// `FS_IMMUTABLE_FL`: nobody changes it.
pub(crate) const I_IMMUTABLE: u32 = InodeFlags::IMMUTABLE.bits() << ATTR_SHIFT;
/// `FS_APPEND_FL`: it only grows.
pub(crate) const I_APPEND: u32 = InodeFlags::APPEND.bits() << ATTR_SHIFT;
/// All [`InodeFlags`].
const I_ATTR: u32 = InodeFlags::all().bits() << ATTR_SHIFT;

const _: () = assert!(I_ATTR >> ATTR_SHIFT == InodeFlags::all().bits(), "the flags fit");

const _: () = assert!(
    (I_PERMISSION | I_MAY_EXEC | I_HASHED | I_LINKABLE | I_WATCHED).count_ones() == 5,
    "each flag has a bit of its own"
);

/// A time in a slot: seconds, and nanoseconds in a word of their own.
#[derive(Debug)]
struct TimeCells<'a>(&'a Cell64, &'a Cell32);

impl TimeCells<'_> {
    fn get(&self) -> Timespec {
        Timespec { sec: self.0.get() as i64, nsec: self.1.get() }
    }

    fn set(&self, time: Timespec) {
        self.0.set(time.sec as u64);
        self.1.set(time.nsec);
    }
}

slot! {
    /// An inode slot: two cache lines.
    #[repr(align(64))]
    pub(crate) struct Inode: Words {
        pub(crate) seq: Seq,
        /// `I_*`.
        pub(crate) flags: Cell32,
        mode: Cell32,
        uid: Cell32,
        gid: Cell32,
        pub(crate) nlink: Cell32,
        ino: Cell64,
        size: Cell64,
        blocks: Cell64,
        /// The device's number, the symlink's body, the directory's only dentry, or who writes to the regular file: by type.
        special: Cell32,
        pub(crate) sb: Cell32,
        /// The file system's own word.
        pub(crate) node: Cell64,

        atime: Cell64,
        mtime: Cell64,
        ctime: Cell64,
        btime: Cell64,
        nsec: [Cell32; 4],
        link: Link,
        /// The blobs with the ACLs; 0 if there are none. See `acl::store`.
        pub(crate) acl: Cell32,
        /// The inode's lock, and a count per dentry that stands for it.
        pub(crate) lockref: Lockref,
    }
}

const _: () = assert!(size_of::<Inode>() == 128);

impl Linked for Inode {
    fn link(&self) -> &Link {
        &self.link
    }

    fn chain_hash(&self) -> u64 {
        node_hash(self.sb.get(), self.node.get())
    }
}

impl Returned for Inode {
    fn lockref(&self) -> &Lockref {
        &self.lockref
    }

    fn seqs(&self) -> impl Iterator<Item = &Seq> {
        std::iter::once(&self.seq)
    }
}

/// The hash of (file system, node).
pub(crate) fn node_hash(sb: u32, node: u64) -> u64 {
    fold(node ^ 0x2545_f491_4f6c_dd1d, u64::from(sb) << 32 | 0x9e37_79b9)
}

/// The attributes of an inode at one moment.
///
/// The owner lies apart from mode, group and links, and size from inode number and blocks: in what stat and statx tell they lie beside each
/// other, and would be read two at once, which waits for what was just written one by one. The layout is no promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Attr {
    /// The owner.
    pub uid: u32,
    /// What else is said about it: immutable, append-only ….
    pub flags: InodeFlags,
    /// The inode number that stat shows.
    pub ino: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// The group.
    pub gid: u32,
    /// The number of names.
    pub nlink: u32,
    /// Of a device: its number.
    pub rdev: Dev,
    /// Last read.
    pub atime: Timespec,
    /// The size in bytes.
    pub size: u64,
    /// Last change of the contents.
    pub mtime: Timespec,
    /// The room taken, in units of 512 bytes.
    pub blocks: u64,
    /// Last change of the contents or the attributes.
    pub ctime: Timespec,
    /// Birth.
    pub btime: Timespec,
}

const _: () = {
    /// A piece of 16 bytes has not both.
    const fn apart(a: usize, b: usize, size: usize) -> bool {
        a.abs_diff(b) + size > 16
    }
    let [uid, mode, gid, nlink] = [
        std::mem::offset_of!(Attr, uid),
        std::mem::offset_of!(Attr, mode),
        std::mem::offset_of!(Attr, gid),
        std::mem::offset_of!(Attr, nlink),
    ];
    assert!(apart(uid, mode, 4) && apart(uid, gid, 4) && apart(uid, nlink, 4));
    let [ino, size, blocks] = [
        std::mem::offset_of!(Attr, ino),
        std::mem::offset_of!(Attr, size),
        std::mem::offset_of!(Attr, blocks),
    ];
    assert!(apart(ino, size, 8) && apart(size, blocks, 8));
};

impl Attr {
    /// Mode, owner and group.
    pub(crate) fn owner(&self) -> Owner {
        Owner { mode: self.mode, uid: self.uid, gid: self.gid }
    }

    /// The type of file.
    pub fn file_type(&self) -> FileType {
        FileType::from_mode(self.mode).unwrap_or(FileType::Regular)
    }
}

impl Inode {
    /// Everything at one moment, for a reader that holds nothing; none where it changed meanwhile.
    ///
    /// In line: who asks wants some of it, or has it put elsewhere.
    #[inline(always)]
    pub(crate) fn try_attr(&self) -> Option<Attr> {
        let sample = self.seq.sample();
        let attr = self.attr_cells();
        self.seq.unchanged(sample).then_some(attr)
    }

    /// Everything at one moment; asks again while writers are at it.
    #[inline]
    pub(crate) fn attr(&self) -> Attr {
        let mut spin = Spin::default();
        loop {
            if let Some(attr) = self.try_attr() {
                return attr;
            }
            spin.turn();
        }
    }

    /// What the cells say now: of one moment only to a holder of the inode's lock and to who checks the count.
    #[inline(always)]
    pub(crate) fn attr_cells(&self) -> Attr {
        let mode = self.mode.get();
        Attr {
            mode,
            uid: self.uid.get(),
            gid: self.gid.get(),
            nlink: self.nlink.get(),
            ino: self.ino.get(),
            size: self.size.get(),
            blocks: self.blocks.get(),
            rdev: if is_device(mode) { Dev::from_u32(self.special.get()) } else { Dev::default() },
            atime: self.time(0).get(),
            mtime: self.time(1).get(),
            ctime: self.time(2).get(),
            btime: self.time(3).get(),
            flags: InodeFlags::from_bits_truncate(self.flags.get() >> ATTR_SHIFT),
        }
    }

    /// Fills a fresh slot with what a file system said; `body` is the symlink's, where there is one. Nobody else knows the
    /// slot, so it needs no lock.
    pub(crate) fn begin(&self, sb: u32, found: &Found, flags: u32, body: Blob) {
        let _change = self.seq.change();
        self.flags.set(flags);
        self.sb.set(sb);
        self.node.set(found.node);
        self.special.set(body);
        self.write(&found.attr);
    }

    /// Writes everything but what the type alone decides, within a change of the caller's, who holds the lock.
    pub(crate) fn write(&self, attr: &Attr) {
        self.mode.set(attr.mode);
        self.uid.set(attr.uid);
        self.gid.set(attr.gid);
        self.nlink.set(attr.nlink);
        self.ino.set(attr.ino);
        self.size.set(attr.size);
        self.blocks.set(attr.blocks);
        if is_device(attr.mode) {
            self.special.set(attr.rdev.to_u32());
        }
        self.time(0).set(attr.atime);
        self.time(1).set(attr.mtime);
        self.time(2).set(attr.ctime);
        self.time(3).set(attr.btime);
        self.flags.set(self.flags.get() & !I_ATTR | attr.flags.bits() << ATTR_SHIFT);
    }

    /// As [`Inode::write`], of an inode that others know.
    pub(crate) fn rewrite(&self, attr: &Attr) {
        self.write(attr);
        self.flags.set(self.flags.get() | I_WRITTEN);
    }

    fn time(&self, which: usize) -> TimeCells<'_> {
        let sec = [&self.atime, &self.mtime, &self.ctime, &self.btime][which];
        TimeCells(sec, &self.nsec[which])
    }

    /// What the cells say now of mode, owner and group.
    #[inline(always)]
    pub(crate) fn owner_cells(&self) -> Owner {
        Owner { mode: self.mode.get(), uid: self.uid.get(), gid: self.gid.get() }
    }

    /// Mode, owner and group at one moment: what permission is about. None where they changed meanwhile.
    #[inline(always)]
    pub(crate) fn try_owner(&self) -> Option<(Owner, u32)> {
        let sample = self.seq.sample();
        let owner = self.owner_cells();
        let flags = self.flags.get();
        self.seq.unchanged(sample).then_some((owner, flags))
    }

    /// Mode, owner and group at one moment, with the `I_*` flags.
    #[inline]
    pub(crate) fn owner(&self) -> (Owner, u32) {
        let mut spin = Spin::default();
        loop {
            if let Some(owner) = self.try_owner() {
                return owner;
            }
            spin.turn();
        }
    }

    /// Of a regular file: how many write to it, or below 0 how many run it. Under the inode's lock.
    pub(crate) fn writers(&self) -> &Cell32 {
        debug_assert_eq!(FileType::from_mode(self.mode.get()), Some(FileType::Regular));
        &self.special
    }

    /// Whether the file system wants to be asked for the attributes.
    #[inline(always)]
    pub(crate) fn wants_getattr(&self) -> bool {
        self.flags.get() & I_GETATTR != 0
    }

    /// Whether the slot is that of something without a name, which its superblock counts.
    pub(crate) fn is_unlinked(&self) -> bool {
        self.mode.get() != 0 && self.nlink.get() == 0
    }

    /// The blob of the symlink's body; none where it was never read. It ends with a zero: the size is the file system's
    /// business.
    pub(crate) fn body(&self) -> Option<Blob> {
        let blob = self.special.get();
        (blob != 0).then_some(blob)
    }

    /// Makes the slot that of nothing; returns the body and the ACLs that it had. The caller holds the lock of a dead slot.
    pub(crate) fn clear_locked(&self) -> (Blob, Blob) {
        let symlink = FileType::from_mode(self.mode.get()) == Some(FileType::Symlink);
        let blobs = (if symlink { self.special.get() } else { 0 }, self.acl.get());
        let _change = self.seq.change();
        self.flags.set(0);
        self.mode.set(0);
        self.special.set(0);
        self.acl.set(0);
        blobs
    }

    /// Of a directory: its only dentry, 0 if there is none.
    pub(crate) fn alias(&self) -> u32 {
        self.special.get()
    }

    /// Notes a directory's only dentry; the caller holds the lock.
    pub(crate) fn set_alias(&self, dentry: u32) {
        self.special.set(dentry);
    }

    /// What a listing tells of it.
    #[inline]
    pub(crate) fn number_and_type(&self) -> (u64, FileType) {
        (self.ino.get(), self.file_type().unwrap_or(FileType::Regular))
    }

    /// The type, which never changes.
    pub(crate) fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode.get())
    }

    /// Notes a symlink's body, if it has none; the caller holds the lock.
    fn set_body_locked(&self, blob: Blob) -> bool {
        let first = self.special.get() == 0;
        if first {
            let _change = self.seq.change();
            self.special.set(blob);
        }
        first
    }
}

/// Mode, owner and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Owner {
    /// Whether it is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.mode & S_IFMT == S_IFDIR
    }
}

/// Refuses what no symlink can have as its body, whatever a file system says.
///
/// # Errors
///
/// - `ENAMETOOLONG`: it has more than 4095 bytes.
/// - `EIO`: it is empty, or one of its bytes is NUL.
pub(crate) fn must_be_a_body(body: &[u8]) -> Result<()> {
    if body.len() > blob::MAX_LEN {
        return Err(Errno::ENAMETOOLONG);
    }
    if body.is_empty() || body.contains(&0) { Err(Errno::EIO) } else { Ok(()) }
}

fn is_device(mode: u32) -> bool {
    matches!(FileType::from_mode(mode), Some(FileType::CharDevice | FileType::BlockDevice))
}

/// An inode as its file system sees it: held for the length of a call.
#[derive(Clone, Copy, Debug)]
pub struct InodeRef<'a> {
    pub(crate) vfs: &'a Vfs,
    pub(crate) id: InodeId,
}

impl<'a> InodeRef<'a> {
    pub(crate) fn slot(&self) -> &'a Inode {
        self.vfs.inode(self.id)
    }

    /// The file system's own word for the inode.
    pub fn node(&self) -> u64 {
        self.slot().node.get()
    }

    /// Replaces the file system's own word.
    ///
    /// Only for file systems whose inodes are not found by it: those whose directories are complete.
    pub fn set_node(&self, node: u64) {
        debug_assert!(self.slot().flags.get() & I_HASHED == 0, "a hashed inode keeps its node");
        self.slot().node.set(node);
    }

    /// The machine that the file system is mounted in.
    pub fn vfs(&self) -> &'a Vfs {
        self.vfs
    }

    /// The attributes at one moment.
    pub fn attr(&self) -> Attr {
        self.slot().attr()
    }

    /// The type, which never changes.
    pub fn file_type(&self) -> FileType {
        self.slot().file_type().unwrap_or(FileType::Regular)
    }

    /// Whether both are one inode.
    pub fn is(&self, other: InodeRef<'_>) -> bool {
        std::ptr::eq(self.vfs, other.vfs) && self.id == other.id
    }

    /// Says that its attributes may change without the cache being told: from now on, while it is in the cache,
    /// [`FileSystem::getattr`](crate::fs::FileSystem::getattr) is asked before somebody is told them.
    pub fn ask_for_attributes(&self) {
        let slot = self.slot();
        let _guard = slot.lockref.lock(lock::INODE);
        slot.flags.set(slot.flags.get() | I_GETATTR);
    }

    /// Says what the file system wants to do from now on when a walk comes to the directory.
    ///
    /// Walks that are under way may still do as before. Linux: `__managed_dentry_set_transit`,
    /// `__managed_dentry_clear_managed`.
    pub fn set_managed(&self, managed: Managed) {
        let slot = self.slot();
        let _guard = slot.lockref.lock(lock::INODE);
        let _change = slot.seq.change();
        slot.flags.set(slot.flags.get() & !(I_AUTOMOUNT | I_TRANSIT) | managed.inode_flags());
        self.vfs.update_search_all(self.id);
    }

    /// Whether it never had a name and may get one: made by `O_TMPFILE` without `O_EXCL`. Its first link ends that.
    pub fn is_linkable(&self) -> bool {
        self.slot().flags.get() & I_LINKABLE != 0
    }

    /// Says that it may get a first name.
    pub(crate) fn set_linkable(&self) {
        let slot = self.slot();
        let _guard = slot.lockref.lock(lock::INODE);
        slot.flags.set(slot.flags.get() | I_LINKABLE);
    }

    /// Decides about access by mode bits, ACL and capabilities.
    ///
    /// # Errors
    ///
    /// - `EACCES`: see [`generic_permission`](crate::generic_permission).
    /// - whatever the file system answers about ACLs.
    pub fn generic_permission(&self, access: Access, who: &Subject<'_>) -> Result<()> {
        self.vfs.generic_permission(self.id, access, who).map(|_| ())
    }

    /// Changes the attributes in one piece: nobody sees half of it, and `f` sees nobody else's half.
    ///
    /// `f` is short: it runs under the inode's lock and asks nobody. Where it fails nothing is changed.
    ///
    /// # Errors
    ///
    /// Whatever `f` answers.
    pub fn update<R, E>(
        &self,
        f: impl FnOnce(&mut Attr) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let slot = self.slot();
        let _guard = slot.lockref.lock(lock::INODE);
        let before = slot.attr_cells();
        let mut attr = before;
        let result = f(&mut attr)?;
        debug_assert_eq!(before.mode & !0o7777, attr.mode & !0o7777, "a file keeps its type");
        if attr != before {
            {
                let _change = slot.seq.change();
                slot.rewrite(&attr);
                if (attr.mode ^ before.mode) & S_IRWXUGO != 0 && slot.flags.get() & I_ACL != 0 {
                    self.vfs.acl_chmod_locked(slot, attr.mode);
                }
                // Who may search the directory, and who may follow symlinks in it, is known by its dentry's count: who
                // reads the new mode walks by it.
                if (attr.mode, attr.uid) != (before.mode, before.uid) {
                    self.vfs.update_search_all(self.id);
                }
            }
            if attr.nlink > before.nlink {
                slot.flags.set(slot.flags.get() & !I_LINKABLE);
            }
            if (attr.nlink == 0) != (before.nlink == 0) {
                let unlinked = self.vfs.unlinked(slot.sb.get());
                if attr.nlink == 0 { unlinked.get() } else { unlinked.put() }
            }
        }
        Ok(result)
    }

    /// Sets the times of the last changes, of the contents if there is one: as [`InodeRef::update`], in fewer steps.
    pub fn set_changed(&self, mtime: Option<Timespec>, ctime: Timespec) {
        let slot = self.slot();
        let _guard = slot.lockref.lock(lock::INODE);
        let (m, c) = (slot.time(1), slot.time(2));
        let mtime = mtime.unwrap_or_else(|| m.get());
        if (m.get(), c.get()) != (mtime, ctime) {
            let _change = slot.seq.change();
            m.set(mtime);
            c.set(ctime);
            slot.flags.set(slot.flags.get() | I_WRITTEN);
        }
    }
}

impl Vfs {
    /// The inode slot of that id.
    #[inline(always)]
    pub(crate) fn inode(&self, id: InodeId) -> &Inode {
        self.inodes.get(id.0)
    }

    /// The body of a symlink that the caller holds; asks the file system once.
    ///
    /// # Errors
    ///
    /// - whatever the file system answers.
    /// - those of [`must_be_a_body`].
    pub(crate) fn link_body(&self, inode: InodeId) -> Result<Vec<u8>> {
        let slot = self.inode(inode);
        if let Some(blob) = slot.body() {
            let mut body = Vec::new();
            self.names.copy_str(blob, |piece| body.extend_from_slice(piece));
            return Ok(body);
        }
        let sb = self.superblock(slot.sb.get()).ok_or(Errno::ESTALE)?;
        let body = sb.fs.readlink(self.inode_ref(inode))?;
        must_be_a_body(&body)?;
        self.inode_set_body(inode, &body);
        Ok(body)
    }

    /// Keeps a symlink's body, if there is room and nobody did so meanwhile.
    fn inode_set_body(&self, inode: InodeId, body: &[u8]) {
        let Some(blob) = self.names.store(body) else { return };
        let slot = self.inode(inode);
        let guard = slot.lockref.lock(lock::INODE);
        let kept = slot.set_body_locked(blob);
        drop(guard);
        if !kept {
            self.names.free(blob);
        }
    }

    /// The inode as its file system sees it.
    pub(crate) fn inode_ref(&self, id: InodeId) -> InodeRef<'_> {
        InodeRef { vfs: self, id }
    }
}
