//! The few calls that are asked in small worlds, of the kernel and of pathwalk, each made by the calling thread.
//!
//! An answer is one number: the errno, or what is there. That makes hundreds of thousands of comparisons a second.

use crate::{
    idmaps::{Idmap, NOT_THE_STRANGER},
    kernel::{
        make_maps, root_of_ones_own,
        sys::{self, Arg},
        with_map,
    },
};
use pathwalk::{
    AccessMode, AtFlags, Cred, File, MemFs, MountAttr, MountAttrFlags, MountFlags, MoveMountFlags,
    OpenFlags, OpenTreeFlags, RenameFlags, Result, Stat, Task, UmountFlags, Vfs, abi::AT_FDCWD,
};
use std::{ffi::CStr, os::fd::AsRawFd, sync::Arc};

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum As {
    /// User 0, who builds.
    Root,
    /// User 1000, to whom all belongs.
    Owner,
    /// User 1001.
    Stranger,
}

/// Calls by one who stays the same until [`Hands::become_user`].
pub(super) trait Hands {
    /// Goes on as another.
    fn become_user(&mut self, who: As);
    /// Makes a call.
    fn call(&mut self, call: Ask<'_>) -> Result<u64>;
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask<'p> {
    /// fstatat(2)
    Stat(&'p CStr, AtFlags),
    /// faccessat2(2) for reading and writing, by the effective user.
    Access(&'p CStr, AtFlags),
    /// openat(2) for reading and writing, `O_CREAT`; and what was opened.
    Open(&'p CStr, OpenFlags),
    /// mkdirat(2), 0755
    Mkdir(&'p CStr),
    /// unlinkat(2)
    Unlink(&'p CStr, AtFlags),
    /// renameat2(2)
    Rename(&'p CStr, &'p CStr),
    /// symlinkat(2): body, path
    Symlink(&'p CStr, &'p CStr),
    /// fchownat(2) to the owner and a group, of a symlink itself.
    Chown(&'p CStr, u32),
    /// fchmodat2(2)
    Chmod(&'p CStr, u32),
    /// mount(2) of an empty tmpfs with mode 0755
    Mount(&'p CStr),
    /// umount2(2), `MNT_DETACH`
    Umount(&'p CStr),
    /// What is mounted there gets a map in which the stranger is nobody: a copy of it takes its place.
    Idmap(&'p CStr),
}

/// The flags of [`Ask::Open`], beside those that it has.
pub(super) const OPEN: OpenFlags = OpenFlags::RDWR.union(OpenFlags::CREAT);

/// Reading and writing.
const BOTH: AccessMode = AccessMode::R_OK.union(AccessMode::W_OK);

/// What is there: whose, what, how many names and bytes. Each node has a group of its own. What small trees do not have,
/// more names and bytes than these bits can say, is the most that they can.
fn identity(stat: &Stat) -> u64 {
    let size = (stat.st_size as u64).min(0xfff);
    u64::from(stat.st_gid) << 48
        | u64::from(stat.st_uid.min(0xfff)) << 36
        | u64::from(stat.st_mode & 0xffff) << 20
        | stat.st_nlink.min(0xff) << 12
        | size
}

/// The running kernel, whose root is the thread's.
pub(super) struct Kernel {
    _made: (),
}

impl Kernel {
    /// Gives the calling thread a root of its own, for good.
    pub(super) fn new() -> Self {
        make_maps();
        root_of_ones_own().expect("a root of one's own");
        sys::syscall(libc::SYS_umask, [Arg::Int(0)]).expect("umask cannot fail");
        let none = [Arg::Int(0), Arg::Ids(&[])];
        sys::syscall(libc::SYS_setgroups, none).expect("root leaves its groups");
        Self { _made: () }
    }
}

impl Hands for Kernel {
    fn become_user(&mut self, who: As) {
        let id = who.id();
        // With another user than 0 go the capabilities that are about files.
        for call in [libc::SYS_setfsgid, libc::SYS_setfsuid] {
            sys::syscall(call, [Arg::Int(id.into())]).expect("it cannot fail");
        }
    }

    fn call(&mut self, call: Ask<'_>) -> Result<u64> {
        let cwd = || Arg::Int(AT_FDCWD.into());
        let int = |bits: u32| Arg::Int(bits.into());
        let text = Arg::Str;
        let done = |_| 0;
        match call {
            Ask::Stat(path, flags) => {
                let mut stat = Stat::default();
                let args = [cwd(), text(path), Arg::Stat(&mut stat), int(flags.bits())];
                sys::syscall(libc::SYS_newfstatat, args)?;
                Ok(identity(&stat))
            }
            Ask::Access(path, flags) => {
                let flags = flags | AtFlags::EACCESS;
                let args = [cwd(), text(path), int(BOTH.bits()), int(flags.bits())];
                sys::syscall(libc::SYS_faccessat2, args).map(done)
            }
            Ask::Open(path, flags) => {
                let flags = (OPEN | flags).bits() as i64;
                let args = [cwd(), text(path), Arg::Int(flags), Arg::Int(0o644)];
                let file = sys::own(sys::syscall(libc::SYS_openat, args)?);
                Ok(identity(&sys::fstat(file.as_raw_fd())?))
            }
            Ask::Mkdir(path) => {
                sys::syscall(libc::SYS_mkdirat, [cwd(), text(path), int(0o755)]).map(done)
            }
            Ask::Unlink(path, flags) => {
                sys::syscall(libc::SYS_unlinkat, [cwd(), text(path), int(flags.bits())]).map(done)
            }
            Ask::Rename(old, new) => {
                let args = [cwd(), text(old), cwd(), text(new), int(0)];
                sys::syscall(libc::SYS_renameat2, args).map(done)
            }
            Ask::Symlink(body, path) => {
                sys::syscall(libc::SYS_symlinkat, [text(body), cwd(), text(path)]).map(done)
            }
            Ask::Chown(path, gid) => {
                let nofollow = int(AtFlags::SYMLINK_NOFOLLOW.bits());
                let args = [cwd(), text(path), int(As::Owner.id()), int(gid), nofollow];
                sys::syscall(libc::SYS_fchownat, args).map(done)
            }
            Ask::Chmod(path, mode) => {
                sys::syscall(libc::SYS_fchmodat, [cwd(), text(path), int(mode)]).map(done)
            }
            Ask::Mount(path) => {
                let (none, kind) = (text(c"none"), text(c"tmpfs"));
                let args = [none, text(path), kind, Arg::Int(0), text(c"mode=755")];
                sys::syscall(libc::SYS_mount, args).map(done)
            }
            Ask::Umount(path) => {
                let flags = int(UmountFlags::DETACH.bits());
                sys::syscall(libc::SYS_umount2, [text(path), flags]).map(done)
            }
            Ask::Idmap(path) => {
                let clone = int(OpenTreeFlags::CLONE.bits());
                let tree = sys::own(sys::syscall(libc::SYS_open_tree, [cwd(), text(path), clone])?);
                let tree = || Arg::Int(tree.as_raw_fd().into());
                let map = with_map(Idmap::named(NOT_THE_STRANGER)).expect("maps can be made");
                // struct mount_attr: attr_set, attr_clr, propagation, userns_fd.
                let mut attr = [MountAttrFlags::IDMAP.bits(), 0, 0, map as u64];
                let empty = int(OpenTreeFlags::EMPTY_PATH.bits());
                let args = [tree(), text(c""), empty, Arg::Words(&mut attr), Arg::Int(32)];
                sys::syscall(libc::SYS_mount_setattr, args)?;
                self.call(Ask::Umount(path))?;
                let empty = int(MoveMountFlags::F_EMPTY_PATH.bits());
                let args = [tree(), text(c""), cwd(), text(path), empty];
                sys::syscall(libc::SYS_move_mount, args).map(done)
            }
        }
    }
}

/// pathwalk.
pub(super) struct Ours {
    tasks: [Task; 3],
    who: As,
}

impl Ours {
    /// Tasks of a machine.
    pub(super) fn new(vfs: &Arc<Vfs>) -> Self {
        let user = |who: As| match who.id() {
            0 => Cred::root(),
            id => Cred::user(id, id),
        };
        let tasks = [As::Root, As::Owner, As::Stranger].map(|who| vfs.task(user(who)));
        for task in &tasks {
            task.umask(0);
        }
        Self { tasks, who: As::Root }
    }
}

impl Hands for Ours {
    fn become_user(&mut self, who: As) {
        self.who = who;
    }

    fn call(&mut self, call: Ask<'_>) -> Result<u64> {
        let task = &self.tasks[self.who as usize];
        let done = |()| 0;
        let cwd = pathwalk::At::Cwd;
        match call {
            Ask::Stat(path, flags) => {
                task.fstatat(cwd, path.to_bytes(), flags).map(|stat| identity(&stat))
            }
            Ask::Access(path, flags) => {
                task.faccessat2(cwd, path.to_bytes(), BOTH, flags | AtFlags::EACCESS).map(done)
            }
            Ask::Open(path, flags) => {
                let file: File = task.openat(cwd, path.to_bytes(), OPEN | flags, 0o644)?;
                task.fstat(&file).map(|stat| identity(&stat))
            }
            Ask::Mkdir(path) => task.mkdirat(cwd, path.to_bytes(), 0o755).map(done),
            Ask::Unlink(path, flags) => task.unlinkat(cwd, path.to_bytes(), flags).map(done),
            Ask::Rename(old, new) => {
                let none = RenameFlags::empty();
                task.renameat2(cwd, old.to_bytes(), cwd, new.to_bytes(), none).map(done)
            }
            Ask::Symlink(body, path) => {
                task.symlinkat(body.to_bytes(), cwd, path.to_bytes()).map(done)
            }
            Ask::Chown(path, gid) => {
                let (uid, nofollow) = (As::Owner.id(), AtFlags::SYMLINK_NOFOLLOW);
                task.fchownat(cwd, path.to_bytes(), Some(uid), Some(gid), nofollow).map(done)
            }
            Ask::Chmod(path, mode) => {
                task.fchmodat2(cwd, path.to_bytes(), mode, AtFlags::empty()).map(done)
            }
            Ask::Mount(path) => {
                let flags = MountFlags::empty();
                task.mount(MemFs::new(), path.to_bytes(), flags)?;
                task.fchmodat2(cwd, path.to_bytes(), 0o755, AtFlags::empty()).map(done)
            }
            Ask::Umount(path) => task.umount2(path.to_bytes(), UmountFlags::DETACH).map(done),
            Ask::Idmap(path) => {
                let path = path.to_bytes();
                let tree = task.open_tree(cwd, path, OpenTreeFlags::CLONE)?;
                let idmap = Some(Idmap::named(NOT_THE_STRANGER).map());
                let attr_set = MountAttrFlags::IDMAP;
                let attr = MountAttr { attr_set, idmap, ..MountAttr::default() };
                task.mount_setattr(&tree, b"", OpenTreeFlags::EMPTY_PATH, &attr)?;
                task.umount2(path, UmountFlags::DETACH)?;
                let empty = MoveMountFlags::F_EMPTY_PATH;
                task.move_mount(&tree, b"", cwd, path, empty).map(done)
            }
        }
    }
}

impl As {
    /// The number of the user.
    pub(super) fn id(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::Owner => 1000,
            Self::Stranger => 1001,
        }
    }

    /// The name in scenarios.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Owner => "u",
            Self::Stranger => "v",
        }
    }
}

/// An answer for people.
pub(super) fn shown(answer: Result<u64>) -> String {
    match answer {
        Err(errno) => errno.name().to_owned(),
        Ok(0) => "ok".to_owned(),
        Ok(what) => format!(
            "ok: group {} mode {:o} links {} size {}",
            what >> 48,
            what >> 20 & 0xffff,
            what >> 12 & 0xff,
            what & 0xfff
        ),
    }
}
