//! Each call as the kernel wants it.

use super::{
    rights,
    sys::{Arg, own, syscall},
    tasks::Tasks,
    userns, world,
};
use crate::{
    answer::Raw,
    call::{Call, QUEUES, SLOTS},
    field::{Slot, Text, When, Where},
    listing::listed,
    normal::spared::{times, without_waiting},
    ours::{parse_dirents, parse_events},
};
use pathwalk::{
    AtFlags, Errno, InotifyFlags, MountAttrFlags, OpenHow, Result, SetTime, Stat, Statfs, Statx,
    StatxMask,
    abi::{AT_FDCWD, PATH_MAX, UTIME_NOW, UTIME_OMIT},
};
use std::{
    ffi::CString,
    os::fd::{AsRawFd, OwnedFd},
};

/// ioctl_iflags(2); the argument is a `long *`, of which an `int` is looked at.
const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;

/// execveat(2): only asks whether the file could be run; kernels before 6.14 refuse it.
const AT_EXECVE_CHECK: u32 = 0x1_0000;

/// Not in the C library's list yet.
const SYS_OPEN_TREE_ATTR: std::ffi::c_long = 467;

/// The descriptors in the slots.
pub(crate) type Fds = [i32; SLOTS + QUEUES];

/// Makes calls with these descriptors in the slots.
pub(crate) struct Caller<'t> {
    pub(crate) fds: Fds,
    pub(crate) tasks: &'t Tasks,
}

impl Caller<'_> {
    pub(super) fn fd(&self, slot: Slot) -> Arg<'static> {
        Arg::Int(self.fds[slot.0].into())
    }

    pub(super) fn dir(&self, place: &Where) -> Arg<'static> {
        place.dir.map_or(Arg::Int(AT_FDCWD.into()), |slot| self.fd(slot))
    }

    pub(crate) fn statx(&self, place: &Where, flags: AtFlags, mask: StatxMask) -> Result<Statx> {
        let mut statx = Statx::ZERO;
        let (flags, mask) = (Arg::Int(flags.bits().into()), Arg::Int(mask.bits().into()));
        let args =
            [self.dir(place), Arg::Str(&text(&place.path)), flags, mask, Arg::Statx(&mut statx)];
        syscall(libc::SYS_statx, args)?;
        Ok(statx)
    }

    fn newfstatat(&self, dir: Arg<'_>, path: &[u8], flags: u32) -> Result<Raw<OwnedFd>> {
        let mut stat = Stat::default();
        let args = [dir, Arg::Str(&text(path)), Arg::Stat(&mut stat), Arg::Int(flags.into())];
        syscall(libc::SYS_newfstatat, args)?;
        Ok(Raw::Stat(Box::new(stat)))
    }

    /// Makes a call in the calling thread.
    pub(crate) fn call(&self, call: &Call) -> Result<Raw<OwnedFd>> {
        if let Some(answer) = self.xattr_call(call).or_else(|| listed(self, call)) {
            return answer;
        }
        let int = Arg::Int;
        let done = |_: i64| Raw::Done;
        let number = Raw::Number;
        let cwd = || Arg::Int(AT_FDCWD.into());
        match call {
            Call::Openat { path, flags, mode, .. } => {
                let flags = int((without_waiting(*flags)).bits() as i64);
                let (dir, path) = (self.dir(path), text(&path.path));
                let args = [dir, Arg::Str(&path), flags, int(mode.0.into())];
                syscall(libc::SYS_openat, args).map(|fd| Raw::File(own(fd)))
            }
            Call::Openat2 { path, flags, mode, resolve, .. } => {
                let flags = without_waiting(*flags).bits();
                let how = OpenHow { flags, mode: mode.0.into(), resolve: resolve.bits() };
                let (dir, path) = (self.dir(path), text(&path.path));
                let Arg::Int(dir) = dir else { unreachable!("directories are numbers") };
                let ask = || {
                    let size = int(size_of::<OpenHow>() as i64);
                    let args = [int(dir), Arg::Str(&path), Arg::How(&how), size];
                    syscall(libc::SYS_openat2, args)
                };
                let mut answer = ask();
                for _ in 0..times(*resolve) {
                    if answer != Err(Errno::EAGAIN) {
                        break;
                    }
                    answer = ask();
                }
                answer.map(|fd| Raw::File(own(fd)))
            }
            Call::Close { .. } => unreachable!("slots are emptied by who has them"),
            Call::Read { slot, len } => {
                let mut buf = vec![0; len.0];
                let read = syscall(
                    libc::SYS_read,
                    [self.fd(*slot), Arg::Out(&mut buf), int(len.0 as i64)],
                )?;
                Ok(bytes(buf, read))
            }
            Call::Pread { slot, len, offset } => {
                let mut buf = vec![0; len.0];
                let args = [self.fd(*slot), Arg::Out(&mut buf), int(len.0 as i64), int(offset.0)];
                let read = syscall(libc::SYS_pread64, args)?;
                Ok(bytes(buf, read))
            }
            Call::Write { slot, data: Text(data) } => {
                let args = [self.fd(*slot), Arg::In(data), int(data.len() as i64)];
                syscall(libc::SYS_write, args).map(number)
            }
            Call::Pwrite { slot, data: Text(data), offset } => {
                let args = [self.fd(*slot), Arg::In(data), int(data.len() as i64), int(offset.0)];
                syscall(libc::SYS_pwrite64, args).map(number)
            }
            Call::LseekSet { slot, to: by }
            | Call::LseekCur { slot, by }
            | Call::LseekEnd { slot, by } => {
                let whence = match call {
                    Call::LseekSet { .. } => libc::SEEK_SET,
                    Call::LseekCur { .. } => libc::SEEK_CUR,
                    _ => libc::SEEK_END,
                };
                syscall(libc::SYS_lseek, [self.fd(*slot), int(by.0), int(whence.into())])
                    .map(number)
            }
            Call::Stat { path } => self.newfstatat(cwd(), &path.0, 0),
            Call::Lstat { path } => {
                self.newfstatat(cwd(), &path.0, AtFlags::SYMLINK_NOFOLLOW.bits())
            }
            Call::Fstat { slot } => {
                let mut stat = Stat::default();
                syscall(libc::SYS_fstat, [self.fd(*slot), Arg::Stat(&mut stat)])?;
                Ok(Raw::Stat(Box::new(stat)))
            }
            Call::Fstatat { path, flags } => {
                self.newfstatat(self.dir(path), &path.path, flags.bits())
            }
            Call::Statx { path, flags, mask } => {
                self.statx(path, *flags, *mask).map(|statx| Raw::Statx(Box::new(statx)))
            }
            Call::Within { resolve, call } => self.within(*resolve, call),
            Call::Statfs { path } => {
                let mut stat = Statfs::default();
                syscall(libc::SYS_statfs, [Arg::Str(&text(&path.0)), Arg::Statfs(&mut stat)])?;
                Ok(Raw::Statfs(Box::new(stat)))
            }
            Call::Fstatfs { slot } => {
                let mut stat = Statfs::default();
                syscall(libc::SYS_fstatfs, [self.fd(*slot), Arg::Statfs(&mut stat)])?;
                Ok(Raw::Statfs(Box::new(stat)))
            }
            Call::StatxNull { slot, flags, mask } => {
                let mut statx = Statx::ZERO;
                let (flags, mask) = (int(flags.bits().into()), int(mask.bits().into()));
                let args = [self.fd(*slot), int(0), flags, mask, Arg::Statx(&mut statx)];
                syscall(libc::SYS_statx, args)?;
                Ok(Raw::Statx(Box::new(statx)))
            }
            Call::Access { path, mode } => {
                let args = [cwd(), Arg::Str(&text(&path.0)), int(mode.bits().into())];
                syscall(libc::SYS_faccessat, args).map(done)
            }
            Call::Faccessat2 { path, mode, flags } => {
                let name = text(&path.path);
                let (mode, flags) = (int(mode.bits().into()), int(flags.bits().into()));
                let args = [self.dir(path), Arg::Str(&name), mode, flags];
                syscall(libc::SYS_faccessat2, args).map(done)
            }
            Call::Mkdirat { path, mode } => {
                let args = [self.dir(path), Arg::Str(&text(&path.path)), int(mode.0.into())];
                syscall(libc::SYS_mkdirat, args).map(done)
            }
            Call::Mknodat { path, mode, dev } => {
                let name = text(&path.path);
                let args = [self.dir(path), Arg::Str(&name), int(mode.0.into()), int(dev.0)];
                syscall(libc::SYS_mknodat, args).map(done)
            }
            Call::Symlinkat { target, path } => {
                let (target, name) = (text(&target.0), text(&path.path));
                let args = [Arg::Str(&target), self.dir(path), Arg::Str(&name)];
                syscall(libc::SYS_symlinkat, args).map(done)
            }
            Call::Linkat { old, new, flags } => {
                let (from, to) = (text(&old.path), text(&new.path));
                let flags = int(flags.bits().into());
                let args = [self.dir(old), Arg::Str(&from), self.dir(new), Arg::Str(&to), flags];
                syscall(libc::SYS_linkat, args).map(done)
            }
            Call::Unlinkat { path, flags } => {
                let name = text(&path.path);
                let args = [self.dir(path), Arg::Str(&name), int(flags.bits().into())];
                syscall(libc::SYS_unlinkat, args).map(done)
            }
            Call::Rmdir { path } => syscall(libc::SYS_rmdir, [Arg::Str(&text(&path.0))]).map(done),
            Call::Renameat2 { old, new, flags } => {
                let (from, to) = (text(&old.path), text(&new.path));
                let flags = int(flags.bits().into());
                let args = [self.dir(old), Arg::Str(&from), self.dir(new), Arg::Str(&to), flags];
                syscall(libc::SYS_renameat2, args).map(done)
            }
            Call::Readlinkat { path, size } => {
                let mut buf = vec![0; size.0];
                let name = text(&path.path);
                let args =
                    [self.dir(path), Arg::Str(&name), Arg::Out(&mut buf), int(size.0 as i64)];
                let read = syscall(libc::SYS_readlinkat, args)?;
                Ok(bytes(buf, read))
            }
            Call::Fchmodat2 { path, mode, flags } => {
                let name = text(&path.path);
                let (mode, flags) = (int(mode.0.into()), int(flags.bits().into()));
                syscall(libc::SYS_fchmodat2, [self.dir(path), Arg::Str(&name), mode, flags])
                    .map(done)
            }
            Call::Fchmod { slot, mode } => {
                syscall(libc::SYS_fchmod, [self.fd(*slot), int(mode.0.into())]).map(done)
            }
            Call::Fchownat { path, uid, gid, flags } => {
                let name = text(&path.path);
                let flags = int(flags.bits().into());
                let args = [self.dir(path), Arg::Str(&name), int(uid.0), int(gid.0), flags];
                syscall(libc::SYS_fchownat, args).map(done)
            }
            Call::Fchown { slot, uid, gid } => {
                syscall(libc::SYS_fchown, [self.fd(*slot), int(uid.0), int(gid.0)]).map(done)
            }
            // Asked, not run.
            Call::OpenExec { path, flags } => {
                let (dir, name) = (self.dir(path), text(&path.path));
                let flags = int((flags.bits() | AT_EXECVE_CHECK).into());
                syscall(libc::SYS_execveat, [dir, Arg::Str(&name), int(0), int(0), flags]).map(done)
            }
            Call::Getflags { slot } => {
                let mut flags = [0];
                let request = int(FS_IOC_GETFLAGS.into());
                syscall(libc::SYS_ioctl, [self.fd(*slot), request, Arg::Words(&mut flags)])?;
                Ok(number(flags[0] as i64))
            }
            Call::Setflags { slot, flags } => {
                let mut flags = [flags.bits().into()];
                let request = int(FS_IOC_SETFLAGS.into());
                syscall(libc::SYS_ioctl, [self.fd(*slot), request, Arg::Words(&mut flags)])
                    .map(done)
            }
            Call::Utimensat { path, atime, mtime, flags } => {
                let name = text(&path.path);
                let times = [timespec(*atime), timespec(*mtime)];
                let flags = int(flags.bits().into());
                let args = [self.dir(path), Arg::Str(&name), Arg::Times(&times), flags];
                syscall(libc::SYS_utimensat, args).map(done)
            }
            Call::Futimens { slot, atime, mtime } => {
                let times = [timespec(*atime), timespec(*mtime)];
                let args = [self.fd(*slot), int(0), Arg::Times(&times), int(0)];
                syscall(libc::SYS_utimensat, args).map(done)
            }
            Call::Truncate { path, size } => {
                syscall(libc::SYS_truncate, [Arg::Str(&text(&path.0)), int(size.0)]).map(done)
            }
            Call::Ftruncate { slot, size } => {
                syscall(libc::SYS_ftruncate, [self.fd(*slot), int(size.0)]).map(done)
            }
            Call::Getdents64 { slot } => self.list(*slot, PATH_MAX),
            Call::Getdents64By { slot, size } => self.list(*slot, size.0),
            Call::Chdir { path } => syscall(libc::SYS_chdir, [Arg::Str(&text(&path.0))]).map(done),
            Call::Fchdir { slot } => syscall(libc::SYS_fchdir, [self.fd(*slot)]).map(done),
            Call::Chroot { path } => {
                syscall(libc::SYS_chroot, [Arg::Str(&text(&path.0))]).map(done)
            }
            Call::Getcwd {} => {
                let mut buf = vec![0; PATH_MAX];
                let size = int(buf.len() as i64);
                let len = syscall(libc::SYS_getcwd, [Arg::Out(&mut buf), size])?;
                // The kernel counts the NUL.
                Ok(bytes(buf, len - 1))
            }
            Call::Umask { mask } => syscall(libc::SYS_umask, [int(mask.0.into())]).map(number),
            Call::Mount { path, flags } => {
                let path = text(&path.0);
                let (what, kind) = (Arg::Str(c"none"), Arg::Str(c"tmpfs"));
                let args = [what, Arg::Str(&path), kind, int(flags.bits() as i64), int(0)];
                syscall(libc::SYS_mount, args).map(done)
            }
            Call::Mountproc { path, flags } => {
                let path = text(&path.0);
                let (what, kind) = (Arg::Str(c"none"), Arg::Str(c"proc"));
                let args = [what, Arg::Str(&path), kind, int(flags.bits() as i64), int(0)];
                syscall(libc::SYS_mount, args).map(done)
            }
            Call::Bind { source, path } => {
                let (source, path) = (text(&source.0), text(&path.0));
                let flags = int(libc::MS_BIND.cast_signed());
                let args = [Arg::Str(&source), Arg::Str(&path), int(0), flags, int(0)];
                syscall(libc::SYS_mount, args).map(done)
            }
            Call::MountTree { source, path, flags } => {
                let (source, path) = (text(&source.0), text(&path.0));
                let flags = int(flags.bits() as i64);
                let args = [Arg::Str(&source), Arg::Str(&path), int(0), flags, int(0)];
                syscall(libc::SYS_mount, args).map(done)
            }
            Call::PivotRoot { new_root, put_old } => {
                let (new_root, put_old) = (text(&new_root.0), text(&put_old.0));
                syscall(libc::SYS_pivot_root, [Arg::Str(&new_root), Arg::Str(&put_old)]).map(done)
            }
            Call::OpenTree { path, flags, .. } => {
                let args = [self.dir(path), Arg::Str(&text(&path.path)), int(flags.bits().into())];
                syscall(libc::SYS_open_tree, args).map(|fd| Raw::File(own(fd)))
            }
            Call::MoveMount { from, to, flags } => {
                let (source, target) = (text(&from.path), text(&to.path));
                let flags = int(flags.bits().into());
                let (from, to) = (self.dir(from), self.dir(to));
                let args = [from, Arg::Str(&source), to, Arg::Str(&target), flags];
                syscall(libc::SYS_move_mount, args).map(done)
            }
            Call::MountSetattr { path, flags, set, clear, propagation } => {
                let name = text(&path.path);
                // struct mount_attr: attr_set, attr_clr, propagation, userns_fd.
                let mut attr = [set.bits(), clear.bits(), propagation.bits(), 0];
                let flags = int(flags.bits().into());
                let (attr, size) = (Arg::Words(&mut attr), int(32));
                let args = [self.dir(path), Arg::Str(&name), flags, attr, size];
                syscall(libc::SYS_mount_setattr, args).map(done)
            }
            Call::OpenTreeAttr { path, flags, set, clear, propagation, map, .. } => {
                let name = text(&path.path);
                let namespace = userns::with_map(*map).expect("asked only where there are some");
                let mut attr = [set.bits(), clear.bits(), propagation.bits(), namespace as u64];
                let flags = int(flags.bits().into());
                let (attr, size) = (Arg::Words(&mut attr), int(32));
                let args = [self.dir(path), Arg::Str(&name), flags, attr, size];
                syscall(SYS_OPEN_TREE_ATTR, args).map(|fd| Raw::File(own(fd)))
            }
            Call::IdmapMount { path, flags, map } => {
                let name = text(&path.path);
                let set = MountAttrFlags::IDMAP.bits();
                let namespace = userns::with_map(*map).expect("asked only where there are some");
                let mut attr = [set, 0, 0, namespace as u64];
                let flags = int(flags.bits().into());
                let (attr, size) = (Arg::Words(&mut attr), int(32));
                let args = [self.dir(path), Arg::Str(&name), flags, attr, size];
                syscall(libc::SYS_mount_setattr, args).map(done)
            }
            Call::UnshareMounts {} => rights::unshare().map(|()| Raw::Done),
            Call::UnshareLess {} => rights::unshare_less().map(|()| Raw::Done),
            Call::Setns { of } => {
                let fd = self.tasks.namespace_of(*of);
                let args = [int(fd.as_raw_fd().into()), int(libc::CLONE_NEWNS.into())];
                syscall(libc::SYS_setns, args).map(done)
            }
            Call::Setcred { fsuid, fsgid, caps } => {
                world::set_cred(fsuid.0, fsgid.0, *caps).map(|()| Raw::Done)
            }
            Call::Setcaps { permitted, caps } => {
                world::set_caps(*permitted, *caps).map(|()| Raw::Done)
            }
            Call::Mounts {} => Ok(Raw::Mounts(self.tasks.mounts())),
            Call::Umount2 { path, flags } => {
                let args = [Arg::Str(&text(&path.0)), int(flags.bits().into())];
                syscall(libc::SYS_umount2, args).map(done)
            }
            Call::InotifyInit1 { flags, .. } => {
                let flags = int((*flags | InotifyFlags::NONBLOCK).bits().into());
                syscall(libc::SYS_inotify_init1, [flags]).map(|fd| Raw::File(own(fd)))
            }
            Call::InotifyAddWatch { queue, path, mask } => {
                let path = text(&path.0);
                let args = [self.fd(queue.slot()), Arg::Str(&path), int(mask.bits().into())];
                syscall(libc::SYS_inotify_add_watch, args).map(number)
            }
            Call::InotifyRmWatch { queue, wd } => {
                syscall(libc::SYS_inotify_rm_watch, [self.fd(queue.slot()), int(wd.0)]).map(done)
            }
            Call::InotifyRead { queue, len } => {
                let mut buf = vec![0; len.0];
                let read = syscall(
                    libc::SYS_read,
                    [self.fd(queue.slot()), Arg::Out(&mut buf), int(len.0 as i64)],
                )?;
                Ok(Raw::Events(parse_events(&buf[..read as usize])))
            }
            _ => unreachable!("the calls about extended attributes were made above"),
        }
    }

    /// The whole directory, from its beginning, as much at a time as a buffer of this size takes.
    fn list(&self, slot: Slot, size: usize) -> Result<Raw<OwnedFd>> {
        syscall(libc::SYS_lseek, [self.fd(slot), Arg::Int(0), Arg::Int(libc::SEEK_SET.into())])?;
        let mut names = Vec::new();
        let mut buf = vec![0; size];
        loop {
            let size = Arg::Int(buf.len() as i64);
            let args = [self.fd(slot), Arg::Out(&mut buf), size];
            match syscall(libc::SYS_getdents64, args)? {
                0 => return Ok(Raw::Names(names)),
                filled => parse_dirents(&buf[..filled as usize], &mut names),
            }
        }
    }
}

pub(super) fn text(path: &[u8]) -> CString {
    // As for any caller, the first NUL ends it.
    let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
    CString::new(&path[..end]).expect("it has no NUL")
}

fn bytes(mut buf: Vec<u8>, len: i64) -> Raw<OwnedFd> {
    buf.truncate(len as usize);
    Raw::Bytes(buf)
}

fn timespec(When(when): When) -> [i64; 2] {
    match when {
        SetTime::Omit => [0, UTIME_OMIT],
        SetTime::Now => [0, UTIME_NOW],
        SetTime::At(at) => [at.sec, at.nsec.into()],
    }
}
