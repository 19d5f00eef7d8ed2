//! System calls, one instruction each: arguments are passed as they are, wrong ones too.

use pathwalk::{Dev, Errno, OpenHow, Result, Stat, Statfs, Statx, abi::XattrArgs};
use std::{
    ffi::{CStr, CString, c_long},
    os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd},
    sync::OnceLock,
};

/// An argument.
pub(crate) enum Arg<'a> {
    Int(i64),
    Str(&'a CStr),
    In(&'a [u8]),
    Out(&'a mut [u8]),
    Stat(&'a mut Stat),
    Statx(&'a mut Statx),
    Statfs(&'a mut Statfs),
    How(&'a OpenHow),
    Times(&'a [[i64; 2]; 2]),
    Ids(&'a [u32]),
    Words(&'a mut [u64]),
    /// Where the value lies, or the room for one, and its size and flags; the address is put in here.
    Xattr(Box<Self>, &'a mut XattrArgs),
}

impl Arg<'_> {
    fn word(&mut self) -> c_long {
        let address = match self {
            Self::Int(int) => return *int,
            Self::Str(text) => text.as_ptr().addr(),
            Self::In(bytes) => bytes.as_ptr().expose_provenance(),
            Self::Out(bytes) => bytes.as_mut_ptr().expose_provenance(),
            Self::Stat(stat) => std::ptr::from_mut(*stat).expose_provenance(),
            Self::Statx(statx) => std::ptr::from_mut(*statx).expose_provenance(),
            Self::Statfs(stat) => std::ptr::from_mut(*stat).expose_provenance(),
            Self::How(how) => std::ptr::from_ref(*how).expose_provenance(),
            Self::Times(times) => std::ptr::from_ref(*times).expose_provenance(),
            Self::Ids(ids) => ids.as_ptr().expose_provenance(),
            Self::Words(words) => words.as_mut_ptr().expose_provenance(),
            Self::Xattr(value, args) => {
                args.value = value.word() as u64;
                std::ptr::from_mut(*args).expose_provenance()
            }
        };
        address as c_long
    }
}

/// Makes a system call; buffers are followed by their lengths, as the call wants it.
#[expect(unsafe_code, reason = "this is where system calls are made")]
pub(crate) fn syscall<const N: usize>(number: c_long, mut args: [Arg<'_>; N]) -> Result<i64> {
    let mut words = [0; 6];
    for (word, arg) in words.iter_mut().zip(&mut args) {
        *word = arg.word();
    }
    let [a, b, c, d, e, f] = words;
    // SAFETY: every pointer is that of a borrow that lasts until the call returns, and the callers, all in this directory,
    // pass the length of a buffer beside it.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        return Err(Errno::from_raw(errno).expect("the kernel's errors are errno values"));
    }
    Ok(result)
}

/// The descriptor that a call just returned.
#[expect(unsafe_code, reason = "a number becomes a descriptor")]
pub(crate) fn own(fd: i64) -> OwnedFd {
    // SAFETY: the kernel has just given it to the caller, who passes it here once.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// The same open file by another number, in the place of the one that had it.
pub(crate) fn moved_to(number: i32, fd: OwnedFd, old: Option<OwnedFd>) -> OwnedFd {
    debug_assert!(old.as_ref().is_none_or(|old| old.as_raw_fd() == number), "it has the number");
    if fd.as_raw_fd() == number {
        return fd;
    }
    // The call closes what had the number.
    let _ = old.map(IntoRawFd::into_raw_fd);
    let args = [Arg::Int(fd.as_raw_fd().into()), Arg::Int(number.into()), Arg::Int(0)];
    own(syscall(libc::SYS_dup3, args).expect("the number is one that there can be"))
}

/// The same open file by one more number.
pub(crate) fn dup(fd: i32) -> Result<OwnedFd> {
    syscall(libc::SYS_dup, [Arg::Int(fd.into())]).map(own)
}

/// fstat(2)
pub(crate) fn fstat(fd: i32) -> Result<Stat> {
    let mut stat = Stat::default();
    syscall(libc::SYS_fstat, [Arg::Int(fd.into()), Arg::Stat(&mut stat)])?;
    Ok(stat)
}

/// read(2)
pub(crate) fn read(fd: i32, buf: &mut [u8]) -> Result<usize> {
    let len = buf.len() as i64;
    let args = [Arg::Int(fd.into()), Arg::Out(buf), Arg::Int(len)];
    syscall(libc::SYS_read, args).map(|read| read as usize)
}

/// The device of the file system that was mounted last in a mount namespace, which is not the caller's.
///
/// Manual: listmount(2), statmount(2).
pub(crate) fn newest_device(namespace: &OwnedFd) -> Dev {
    const SYS_LISTMOUNT: c_long = 458;
    const LSMT_ROOT: u64 = u64::MAX;
    const LISTMOUNT_REVERSE: i64 = 1;
    const STATMOUNT_SB_BASIC: u64 = 1;
    let ns = number_of_namespace(namespace);
    // struct mnt_id_req: size and spare, mnt_id, param, mnt_ns_id.
    let mut request = [32, LSMT_ROOT, 0, ns];
    let mut id = [0];
    let reverse = Arg::Int(LISTMOUNT_REVERSE);
    let args = [Arg::Words(&mut request), Arg::Words(&mut id), Arg::Int(1), reverse];
    let got = syscall(SYS_LISTMOUNT, args).expect("the mounts can be listed");
    assert_eq!(got, 1, "there is a newest mount");
    let answer = statmount(id[0], STATMOUNT_SB_BASIC, ns).expect("a mount can be asked about");
    Dev::new(answer[2] as u32, (answer[2] >> 32) as u32)
}

/// The number of a mount namespace.
///
/// Manual: ioctl_nsfs(2).
pub(crate) fn number_of_namespace(namespace: &OwnedFd) -> u64 {
    const NS_GET_MNTNS_ID: i64 = 0x8008_b705;
    let mut ns = [0];
    let fd = Arg::Int(namespace.as_raw_fd().into());
    syscall(libc::SYS_ioctl, [fd, Arg::Int(NS_GET_MNTNS_ID), Arg::Words(&mut ns)])
        .expect("a mount namespace has a number");
    ns[0]
}

/// The mount that a mount hangs in.
pub(crate) fn parent_mount(id: u64) -> Result<u64> {
    const STATMOUNT_MNT_BASIC: u64 = 2;
    statmount(id, STATMOUNT_MNT_BASIC, 0).map(|answer| answer[6])
}

/// What statmount(2) tells; the caller's namespace is 0.
fn statmount(id: u64, mask: u64, ns: u64) -> Result<[u64; 64]> {
    const SYS_STATMOUNT: c_long = 457;
    let mut request = [32, id, mask, ns];
    // struct statmount: size and mnt_opts, mask, sb_dev_major and sb_dev_minor, sb_magic, sb_flags and fs_type, mnt_id,
    // mnt_parent_id, …
    let mut answer = [0; 64];
    let size = Arg::Int(8 * 64);
    let args = [Arg::Words(&mut request), Arg::Words(&mut answer), size, Arg::Int(0)];
    syscall(SYS_STATMOUNT, args)?;
    Ok(answer)
}

/// Finds procfs, so that threads that leave the host can open its files.
pub(crate) fn find_proc() {
    proc();
}

/// Opens a file of procfs, wherever the caller's root is.
pub(crate) fn open_proc(path: &str) -> OwnedFd {
    let path = CString::new(path).expect("a path has no NUL");
    openat(proc().as_raw_fd(), &path, libc::O_RDONLY).expect("a task has its files in procfs")
}

/// Makes procfs the calling thread's current directory, wherever its root is.
pub(crate) fn chdir_to_proc() -> Result<()> {
    syscall(libc::SYS_fchdir, [Arg::Int(proc().as_raw_fd().into())]).map(drop)
}

fn proc() -> &'static OwnedFd {
    static PROC: OnceLock<OwnedFd> = OnceLock::new();
    let open = || openat(libc::AT_FDCWD, c"/proc", libc::O_PATH | libc::O_DIRECTORY);
    PROC.get_or_init(|| open().expect("procfs is mounted on /proc"))
}

fn openat(dir: i32, path: &CStr, flags: i32) -> Result<OwnedFd> {
    let (dir, flags) = (Arg::Int(dir.into()), Arg::Int((flags | libc::O_CLOEXEC).into()));
    syscall(libc::SYS_openat, [dir, Arg::Str(path), flags, Arg::Int(0)]).map(own)
}

/// Reads a file to its end.
pub(crate) fn read_all(fd: &OwnedFd) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buf = vec![0; 1 << 16];
    loop {
        let size = Arg::Int(buf.len() as i64);
        let args = [Arg::Int(fd.as_raw_fd().into()), Arg::Out(&mut buf), size];
        match syscall(libc::SYS_read, args).expect("it can be read") {
            0 => return all,
            len => all.extend_from_slice(&buf[..len as usize]),
        }
    }
}
