//! statx, stat, lstat, fstat, fstatat, statfs.
//!
//! Linux: `fs/stat.c`; the struct is zeroed once and filled in one piece.

use super::{lookup_flags, only};
use crate::{
    dcache::{AUTOMOUNT, DentryId},
    file::File,
    inode::{Attr, InodeId},
    mount::{COARSE_TIMES, FLAGLESS, IDMAPPED, MntFlags, Mount, MountId, NO_SIZE},
    security::{Hooks, PathRef},
    task::{At, Task},
    vfs::Vfs,
    walk::{
        Lookup, Stop,
        end::End,
        job::Terminal,
        lookup::{keep, lookup},
        observe::Left,
    },
};
use pathwalk_abi::{
    AtFlags, Dev, Errno, InodeFlags, MountFlags, Result, Stat, Statfs, StatfsFlags, Statx,
    StatxAttributes, StatxMask,
};
use pathwalk_sync::lock_order;

/// What a mount adds to an inode's attributes.
#[derive(Clone, Copy)]
pub(super) struct MountStat {
    id: u64,
    mnt_id: u32,
    dev: Dev,
    blksize: u32,
    coarse: bool,
    pub(super) idmapped: bool,
    flagless: bool,
    is_root: bool,
    automount: bool,
}

impl MountStat {
    #[inline]
    pub(super) fn of(mount: &Mount, dentry: DentryId, flags: u32) -> Self {
        let blksize = mount.blksize.get();
        Self {
            id: mount.unique_id.get(),
            mnt_id: mount.mnt_id.get(),
            dev: Dev::from_u32(mount.dev.get()),
            blksize: blksize & !NO_SIZE,
            coarse: blksize & COARSE_TIMES != 0,
            idmapped: blksize & IDMAPPED != 0,
            flagless: blksize & FLAGLESS != 0,
            is_root: mount.root.get() == dentry.0,
            automount: flags & AUTOMOUNT != 0,
        }
    }

    /// The owners as the mount shows them.
    #[inline(always)]
    fn show(&self, vfs: &Vfs, mnt: MountId, attr: &mut Attr) {
        if self.idmapped {
            (attr.uid, attr.gid) = vfs.shown_through(mnt, attr.uid, attr.gid);
        }
    }
}

/// What a call that asks for attributes reads.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) attr: Attr,
    pub(super) mount: MountStat,
}

impl Seen {
    /// As stat tells it.
    #[inline(always)]
    pub(super) fn stat(&self) -> Stat {
        let mut stat = Stat::default();
        self.fill(&mut stat);
        stat
    }

    /// The same, filled where it is.
    #[inline(always)]
    pub(super) fn fill(&self, stat: &mut Stat) {
        fill_stat(stat, &self.attr, &self.mount);
    }

    /// As statx tells it.
    #[inline(always)]
    pub(super) fn statx(&self, mask: StatxMask) -> Statx {
        fill_statx(&self.attr, &self.mount, mask)
    }
}

/// Of who was answered.
pub(super) const SEEN: &str = "a walk that ends well has read them";

/// Reads attributes where a walk ends. They are put where they are taken from: what a walk answers is copied from hand to hand, and each copy
/// waits for what was just written, as it reads that in larger pieces.
pub(super) struct GetAttr<'s>(pub(super) &'s mut Option<Seen>);

impl<'a> Terminal<'a> for GetAttr<'_> {
    type Out = ();

    #[inline(always)]
    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<(), Stop> {
        if !RCU {
            let vfs = end.vfs;
            vfs.ask(Hooks::INODE_GETATTR, |module| {
                let held = end.hold().map_err(|_| Errno::ESTALE)?;
                module.inode_getattr(&end.who(), &PathRef::of(vfs, &held))
            })?;
        }
        let inode = end.vfs.inode(end.inode());
        if inode.wants_getattr() && !end.fresh {
            if RCU {
                return Err(Stop::Leave(Left::Attributes));
            }
            end.vfs.vfs_getattr(end.inode())?;
        }
        let attr = if RCU { inode.try_attr() } else { Some(inode.attr()) };
        let mut attr = attr.ok_or(Stop::Leave(Left::Changed))?;
        let mount = MountStat::of(end.mount(), end.at.dentry, end.at.flags);
        mount.show(end.vfs, end.at.mnt, &mut attr);
        end.check()?;
        *self.0 = Some(Seen { attr, mount });
        Ok(())
    }
}

impl Task {
    /// `statx(dir, path, flags, mask)`: tells about a file, with one consistent set of attributes.
    ///
    /// With an empty path and `AT_EMPTY_PATH` it tells about `dir` itself. The basic attributes, the birth time and the
    /// mount's number are always filled in, asked for or not. statx(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag that statx does not know, both sync flags, or the reserved bit of the mask.
    /// - `ENOENT`: the path is empty and `AT_EMPTY_PATH` is not given.
    /// - `ENAMETOOLONG`, `EBADF`, `ENOTDIR`, `EACCES`, `ELOOP`, `ENOENT`: of the lookup, component by component.
    pub fn statx<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: AtFlags,
        mask: StatxMask,
    ) -> Result<Statx> {
        const SYNC: AtFlags = AtFlags::STATX_FORCE_SYNC.union(AtFlags::STATX_DONT_SYNC);
        if mask.bits() & StatxMask::RESERVED.bits() != 0 || flags.contains(SYNC) {
            return Err(Errno::EINVAL);
        }
        let (dir, path) = (dir.into(), path.as_ref());
        if path.is_empty()
            && self.is_by_handle(flags)
            && let At::Dir(file) = dir
        {
            return self.fgetattr(file, |attr, mount| fill_statx(attr, mount, mask));
        }
        const KNOWN: AtFlags = SYNC
            .union(AtFlags::SYMLINK_NOFOLLOW)
            .union(AtFlags::EMPTY_PATH)
            .union(AtFlags::NO_AUTOMOUNT);
        only(flags, KNOWN)?;
        let mut lookup = lookup_flags(flags);
        lookup.set(Lookup::AUTOMOUNT, !flags.contains(AtFlags::NO_AUTOMOUNT));
        let mut seen = None;
        self.getattr(dir, path, lookup, &mut seen)?;
        Ok(seen.as_ref().expect(SEEN).statx(mask))
    }

    /// `fstatat(dir, path, flags)`: tells about a file. fstatat(2)
    ///
    /// # Errors
    ///
    /// As [`Task::statx`].
    pub fn fstatat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: AtFlags,
    ) -> Result<Stat> {
        let (dir, path) = (dir.into(), path.as_ref());
        if path.is_empty()
            && self.is_by_handle(flags)
            && let At::Dir(file) = dir
        {
            return self.fstat(file);
        }
        const KNOWN: AtFlags = AtFlags::STATX_FORCE_SYNC
            .union(AtFlags::STATX_DONT_SYNC)
            .union(AtFlags::SYMLINK_NOFOLLOW)
            .union(AtFlags::EMPTY_PATH)
            .union(AtFlags::NO_AUTOMOUNT);
        only(flags, KNOWN)?;
        self.stat_of(dir, path, lookup_flags(flags))
    }

    /// `stat(path)`: tells about what the path leads to, symlinks followed. stat(2)
    ///
    /// # Errors
    ///
    /// As [`Task::statx`].
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.stat_of(At::Cwd, path.as_ref(), Lookup::FOLLOW)
    }

    /// `lstat(path)`: tells about what the path names, be it a symlink. lstat(2)
    ///
    /// # Errors
    ///
    /// As [`Task::statx`].
    pub fn lstat(&self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.stat_of(At::Cwd, path.as_ref(), Lookup::empty())
    }

    /// `fstat(file)`: tells about an open file. fstat(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: the file is of another machine.
    pub fn fstat(&self, file: &File) -> Result<Stat> {
        let mut stat = Stat::default();
        self.fgetattr(file, |attr, mount| fill_stat(&mut stat, attr, mount))?;
        Ok(stat)
    }

    /// Whether an empty path makes the call one about an open file, of which no flag says more.
    #[inline]
    fn is_by_handle(&self, flags: AtFlags) -> bool {
        let hides = self.vfs().config.profile.empty_path_hides_flags;
        flags == AtFlags::EMPTY_PATH || hides && flags.contains(AtFlags::EMPTY_PATH)
    }

    /// The attributes of an open file: the security module is asked about it, and then the file system for what it is
    /// like now.
    #[inline]
    fn fgetattr<R>(&self, file: &File, f: impl FnOnce(&Attr, &MountStat) -> R) -> Result<R> {
        let (mnt, dentry) = self.place_of(file)?;
        let vfs = self.vfs();
        vfs.ask(Hooks::INODE_GETATTR, |module| {
            module.inode_getattr(&self.cred.subject(), &PathRef::of(vfs, &file.hold()))
        })?;
        let dentry_slot = vfs.dentry(dentry);
        let id = InodeId(dentry_slot.inode.get());
        let inode = vfs.inode(id);
        vfs.getattr_if_wanted(id)?;
        let mut attr = inode.attr();
        let mount = MountStat::of(vfs.mount_slot(mnt), dentry, dentry_slot.flags.get());
        mount.show(vfs, mnt, &mut attr);
        Ok(f(&attr, &mount))
    }

    /// `statfs(path)`: tells about the file system that the path leads into. statfs(2)
    ///
    /// # Errors
    ///
    /// Those of the lookup, and whatever the file system answers.
    pub fn statfs(&self, path: impl AsRef<[u8]>) -> Result<Statfs> {
        self.statfsat(At::Cwd, path)
    }

    /// `statfsat(dir, path)`: tells about the file system that the path leads into. Linux has no such call: it is
    /// [`Task::statfs`] from a directory, or within bounds.
    ///
    /// # Errors
    ///
    /// As [`Task::statfs`].
    pub fn statfsat<'a>(&self, dir: impl Into<At<'a>>, path: impl AsRef<[u8]>) -> Result<Statfs> {
        let request =
            self.request(dir.into(), path.as_ref(), Lookup::FOLLOW | Lookup::AUTOMOUNT)?;
        let held = keep(&request)?;
        let vfs = self.vfs();
        vfs.statfs_of(held.mnt(), held.dentry())
    }

    /// `fstatfs(file)`: tells about the file system that an open file lies in. fstatfs(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: the file is of another machine.
    /// - whatever the file system answers.
    pub fn fstatfs(&self, file: &File) -> Result<Statfs> {
        let (mnt, dentry) = self.place_of(file)?;
        self.vfs().statfs_of(mnt, dentry)
    }

    #[inline(always)]
    fn stat_of(&self, dir: At<'_>, path: &[u8], flags: Lookup) -> Result<Stat> {
        let mut seen = None;
        self.getattr(dir, path, flags, &mut seen)?;
        Ok(seen.as_ref().expect(SEEN).stat())
    }

    #[inline(never)]
    fn getattr(
        &self,
        dir: At<'_>,
        path: &[u8],
        flags: Lookup,
        seen: &mut Option<Seen>,
    ) -> Result<()> {
        let request = self.request(dir, path, flags)?;
        lookup(request, GetAttr(seen))
    }
}

impl Vfs {
    /// Has the file system bring the attributes of an inode that is held up to date, where it wants to be asked for them.
    ///
    /// # Errors
    ///
    /// Whatever it answers.
    #[inline]
    pub(crate) fn getattr_if_wanted(&self, inode: InodeId) -> Result<()> {
        if self.inode(inode).wants_getattr() { self.vfs_getattr(inode) } else { Ok(()) }
    }

    /// Has the file system say whose it is now what a call is given by a handle, or by a magic link: no lookup asks about that. What others
    /// removed stays what it was to who holds it, and of what is to be unmounted nothing is asked.
    ///
    /// # Errors
    ///
    /// Whatever it answers, but `ESTALE`.
    ///
    /// Linux: `d_weak_revalidate`.
    pub(crate) fn ask_about_held(&self, inode: InodeId, flags: Lookup) -> Result<()> {
        if flags.contains(Lookup::MOUNTPOINT) {
            return Ok(());
        }
        match self.getattr_if_wanted(inode) {
            Err(Errno::ESTALE) => Ok(()),
            answer => answer,
        }
    }

    /// As [`Vfs::getattr_if_wanted`], of which it is known that it is.
    ///
    /// # Errors
    ///
    /// Whatever it answers.
    #[cold]
    pub(crate) fn vfs_getattr(&self, inode: InodeId) -> Result<()> {
        let sb = self.superblock(self.inode(inode).sb.get()).ok_or(Errno::ESTALE)?;
        lock_order::assert_none_held();
        sb.fs.getattr(self.inode_ref(inode))
    }

    fn statfs_of(&self, mnt: MountId, dentry: DentryId) -> Result<Statfs> {
        let sb = self.superblock(self.dentry(dentry).sb.get()).ok_or(Errno::ESTALE)?;
        let stat = sb.fs.statfs()?;
        let mount = self.mount_slot(mnt).flags();
        let mut flags = StatfsFlags::VALID;
        for (flag, shown) in [
            (MntFlags::RDONLY, StatfsFlags::RDONLY),
            (MntFlags::SB_RDONLY, StatfsFlags::RDONLY),
            (MntFlags::NOSUID, StatfsFlags::NOSUID),
            (MntFlags::NODEV, StatfsFlags::NODEV),
            (MntFlags::NOEXEC, StatfsFlags::NOEXEC),
            (MntFlags::NOATIME, StatfsFlags::NOATIME),
            (MntFlags::NODIRATIME, StatfsFlags::NODIRATIME),
            (MntFlags::RELATIME, StatfsFlags::RELATIME),
            (MntFlags::NOSYMFOLLOW, StatfsFlags::NOSYMFOLLOW),
        ] {
            if mount.contains(flag) {
                flags |= shown;
            }
        }
        let sb_flags = sb.flags();
        flags.set(StatfsFlags::SYNCHRONOUS, sb_flags.contains(MountFlags::SYNCHRONOUS));
        flags.set(StatfsFlags::MANDLOCK, sb_flags.contains(MountFlags::MANDLOCK));
        Ok(Statfs {
            f_type: stat.magic as i64,
            f_bsize: stat.bsize as i64,
            f_blocks: stat.blocks,
            f_bfree: stat.bfree,
            f_bavail: stat.bfree,
            f_files: stat.files,
            f_ffree: stat.ffree,
            // As Linux has it of a file system that has no number of its own: its device.
            f_fsid: [sb.dev.to_stat() as i32, 0],
            f_namelen: 255,
            f_frsize: stat.bsize as i64,
            f_flags: flags.bits() as i64,
            ..Statfs::default()
        })
    }
}

/// Fills the zeroed struct in one piece, where it is wanted.
#[cfg(not(pathwalk_ablate = "statx"))]
#[inline(always)]
fn fill_statx(attr: &Attr, mount: &MountStat, mask: StatxMask) -> Statx {
    statx_of(attr, mount, mask)
}

/// Fills field by field through memory, as it was done before: each store is a copy of its own.
#[cfg(pathwalk_ablate = "statx")]
#[inline(never)]
fn fill_statx(attr: &Attr, mount: &MountStat, mask: StatxMask) -> Statx {
    let (from, mut buf) = (statx_of(attr, mount, mask), Statx::ZERO);
    macro_rules! put {
        ($($field:ident)*) => {$(
            *std::hint::black_box(&mut buf.$field) = *std::hint::black_box(&from.$field);
        )*};
    }
    put!(stx_mask stx_blksize stx_attributes stx_nlink stx_uid stx_gid stx_mode stx_ino stx_size stx_blocks
        stx_attributes_mask stx_atime stx_btime stx_ctime stx_mtime stx_rdev_major stx_rdev_minor stx_dev_major
        stx_dev_minor stx_mnt_id);
    buf
}

/// What an inode's flags say: the bits are the same.
const OF_INODE: StatxAttributes =
    StatxAttributes::IMMUTABLE.union(StatxAttributes::APPEND).union(StatxAttributes::NODUMP);
const _: () = assert!(
    StatxAttributes::IMMUTABLE.bits() == InodeFlags::IMMUTABLE.bits() as u64
        && StatxAttributes::APPEND.bits() == InodeFlags::APPEND.bits() as u64
        && StatxAttributes::NODUMP.bits() == InodeFlags::NODUMP.bits() as u64
);

#[inline(always)]
fn statx_of(attr: &Attr, mount: &MountStat, mask: StatxMask) -> Statx {
    const SHOWN: StatxAttributes =
        StatxAttributes::AUTOMOUNT.union(StatxAttributes::MOUNT_ROOT).union(StatxAttributes::DAX);
    const WITH_FLAGS: StatxAttributes = SHOWN.union(OF_INODE);
    let mut filled = StatxMask::BASIC_STATS;
    // A file system that stamps finely says neither of these times where nobody asked for one of them.
    let tells_change = mount.coarse || mask.intersects(StatxMask::MTIME | StatxMask::CTIME);
    if !tells_change {
        filled = filled.difference(StatxMask::MTIME | StatxMask::CTIME);
    }
    if !mount.coarse {
        filled |= mask & StatxMask::BTIME;
    }
    let unique = mask.contains(StatxMask::MNT_ID_UNIQUE);
    filled |= if unique { StatxMask::MNT_ID_UNIQUE } else { StatxMask::MNT_ID };
    let mut attributes = StatxAttributes::empty();
    attributes.set(StatxAttributes::MOUNT_ROOT, mount.is_root);
    attributes.set(StatxAttributes::AUTOMOUNT, mount.automount);
    attributes |= OF_INODE & StatxAttributes::from_bits_retain(u64::from(attr.flags.bits()));
    let known = if mount.flagless { SHOWN } else { WITH_FLAGS };
    Statx {
        stx_mask: filled.bits(),
        stx_blksize: mount.blksize,
        stx_attributes: (attributes & known).bits(),
        stx_nlink: attr.nlink,
        stx_uid: attr.uid,
        stx_gid: attr.gid,
        stx_mode: attr.mode as u16,
        stx_ino: attr.ino,
        stx_size: attr.size,
        stx_blocks: attr.blocks,
        stx_attributes_mask: known.bits(),
        stx_atime: attr.atime.into(),
        stx_btime: if filled.contains(StatxMask::BTIME) {
            attr.btime.into()
        } else {
            Default::default()
        },
        stx_ctime: if tells_change { attr.ctime.into() } else { Default::default() },
        stx_mtime: if tells_change { attr.mtime.into() } else { Default::default() },
        stx_rdev_major: attr.rdev.major(),
        stx_rdev_minor: attr.rdev.minor(),
        stx_dev_major: mount.dev.major(),
        stx_dev_minor: mount.dev.minor(),
        stx_mnt_id: if unique { mount.id } else { u64::from(mount.mnt_id) },
        ..Statx::ZERO
    }
}

/// Fills one that is zeroed.
#[inline]
fn fill_stat(stat: &mut Stat, attr: &Attr, mount: &MountStat) {
    stat.st_dev = mount.dev.to_stat();
    stat.st_ino = attr.ino;
    stat.st_nlink = u64::from(attr.nlink);
    stat.st_mode = attr.mode;
    stat.st_uid = attr.uid;
    stat.st_gid = attr.gid;
    stat.st_rdev = attr.rdev.to_stat();
    stat.st_size = attr.size as i64;
    stat.st_blksize = i64::from(mount.blksize);
    stat.st_blocks = attr.blocks as i64;
    stat.st_atime = attr.atime.sec;
    stat.st_atime_nsec = u64::from(attr.atime.nsec);
    stat.st_mtime = attr.mtime.sec;
    stat.st_mtime_nsec = u64::from(attr.mtime.nsec);
    stat.st_ctime = attr.ctime.sec;
    stat.st_ctime_nsec = u64::from(attr.ctime.nsec);
}
