//! name_to_handle_at, open_by_handle_at.

use super::{open, open_file, place};
use crate::{
    engine::{Caller, Descriptor, Engine, Reply},
    handles::LEN,
    sys::{memory, process::has_handles},
};
use pathwalk::{
    At, AtFlags, CapSet, Errno, File, OpenFlags, Reach, Result, StatxMask,
    abi::{
        AT_FDCWD,
        mode::{S_IFDIR, S_IFMT},
    },
};

/// `AT_HANDLE_FID`: it need not be one that a file can be opened by.
const FID: u32 = 0x200;
/// `AT_HANDLE_MNT_ID_UNIQUE`
const MNT_ID_UNIQUE: u32 = 1;
/// `AT_HANDLE_CONNECTABLE`: where the file lies in the tree can be told by it.
const CONNECTABLE: u32 = 2;
const FOLLOW: u32 = AtFlags::SYMLINK_FOLLOW.bits();
const EMPTY_PATH: u32 = AtFlags::EMPTY_PATH.bits();
/// `MAX_HANDLE_SZ`
const MOST: u32 = 128;

/// `FILEID_INO32_GEN`, the type of all handles here; `FILEID_INO64_GEN`, of those that only name; `FILEID_INVALID`.
const TYPE: u32 = 1;
const NAMES: u32 = 0x81;
const NONE: u32 = 0xff;
/// What is said in a type beside it: `FILEID_IS_CONNECTABLE`, `FILEID_IS_DIR`.
const IS_CONNECTABLE: u32 = 1 << 16;
const IS_DIRECTORY: u32 = 1 << 17;
const OF_THE_FILE_SYSTEM: u32 = 0xffff;

/// `FD_PIDFS_ROOT` and `FD_NSFS_ROOT`: file systems of the kernel's, of which the tree has no handles.
const KERNEL_ROOTS: [i32; 2] = [-10002, -10003];

/// `PROC_SUPER_MAGIC`
const PROC: i64 = 0x9fa0;

/// What kind there is comes before where it is to be put.
///
/// # Errors
///
/// - `EINVAL`: there are no such flags, or not together.
/// - those of the lookup.
/// - `EOPNOTSUPP`: the file system has none, or not of that kind.
/// - `EFAULT`; `EINVAL`: it says that there is more room than any handle takes.
/// - `EOVERFLOW`: there is less than it takes; how much that is is told, and the mount.
///
/// Linux: `do_sys_name_to_handle`.
pub(crate) fn name_to_handle_at(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let flags = caller.word(4);
    let known = FOLLOW | EMPTY_PATH | FID | MNT_ID_UNIQUE | CONNECTABLE;
    if flags & !known != 0 || flags & CONNECTABLE != 0 && flags & (FID | EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    if caller.args[1] == 0 {
        return Err(Errno::EFAULT);
    }
    let file = named(engine, caller, flags)?;
    let file_type = type_of(engine, &file, flags)?;
    let [room, _] = head(caller, 2)?;
    if room > MOST {
        return Err(Errno::EINVAL);
    }
    let bytes = match room as usize {
        0..LEN => None,
        _ if file_type == NAMES => Some(engine.handles.bytes_alone(&engine.task, &file)?),
        _ => Some(engine.handles.name(&engine.task, &file)?),
    };
    if flags & MNT_ID_UNIQUE != 0 {
        let mask = StatxMask::MNT_ID_UNIQUE;
        let stat = engine.task.statx(At::Dir(&file), b"", AtFlags::EMPTY_PATH, mask)?;
        caller.put(3, &stat.stx_mnt_id.to_ne_bytes())?;
    } else {
        caller.put(3, &(file.mount_id() as u32).to_ne_bytes())?;
    }
    let told = if bytes.is_some() { file_type } else { NONE };
    let mut out = [LEN as u32, told].map(u32::to_ne_bytes).as_flattened().to_vec();
    out.extend(bytes.iter().flatten());
    caller.put(2, &out)?;
    if bytes.is_some() { Ok(Reply::Value(0)) } else { Err(Errno::EOVERFLOW) }
}

/// The file that a handle is asked of.
fn named(engine: &mut Engine, caller: &Caller, flags: u32) -> Result<File> {
    let at = AtFlags::from_bits_retain(flags & EMPTY_PATH);
    let dir = caller.fd(0);
    if !at.is_empty() && caller.path(1)?.is_empty() {
        if dir == AT_FDCWD {
            return engine.cwd(caller).map(|known| known.file.clone());
        }
        return match engine.descriptor(caller, dir)? {
            Descriptor::Ours(known, _) => Ok(known.file.clone()),
            Descriptor::Foreign(_) => Err(Errno::EOPNOTSUPP),
        };
    }
    let (base, path) = place(engine, caller, dir, 1, at);
    let mut open = OpenFlags::PATH;
    open.set(OpenFlags::NOFOLLOW, flags & FOLLOW == 0);
    engine.task.openat(base.at(), &path, open, 0)
}

/// The type of a file's handle: a tmpfs has it here as on the host, and what is the host's has what it has there.
fn type_of(engine: &Engine, file: &File, flags: u32) -> Result<u32> {
    let kind = flags & (FID | CONNECTABLE);
    match file.host_place()? {
        Some(host) => has_handles(&host, kind)?,
        None if engine.task.fstatfs(file)?.f_type == PROC => {
            return if kind == FID { Ok(NAMES) } else { Err(Errno::EOPNOTSUPP) };
        }
        None if kind == CONNECTABLE => return Err(Errno::EOPNOTSUPP),
        None => {}
    }
    Ok(match kind {
        CONNECTABLE if is_directory(engine, file)? => TYPE | IS_CONNECTABLE | IS_DIRECTORY,
        CONNECTABLE => TYPE | IS_CONNECTABLE,
        _ => TYPE,
    })
}

/// # Errors
///
/// - `EFAULT`; `EINVAL`: it is too long, or empty, or of a type that there is not.
/// - `EBADF`: there is no such descriptor of a mount, or it was opened with `O_PATH`.
/// - `EPERM`: without `CAP_DAC_READ_SEARCH`.
/// - `ESTALE`: it leads to no file, or to one of another file system.
/// - those of opening the file.
///
/// Linux: `do_handle_open`.
pub(crate) fn open_by_handle_at(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let [len, file_type] = head(caller, 1)?;
    let said = file_type & !OF_THE_FILE_SYSTEM;
    if len == 0 || len > MOST || said & !(IS_CONNECTABLE | IS_DIRECTORY) != 0 {
        return Err(Errno::EINVAL);
    }
    let mount = match caller.fd(0) {
        AT_FDCWD => Some(engine.cwd(caller)?),
        fd if KERNEL_ROOTS.contains(&fd) => return Err(Errno::ESTALE),
        _ => match open_file(engine, caller, 0)? {
            Descriptor::Ours(known, _) => Some(known),
            Descriptor::Foreign(_) => None,
        },
    };
    if !engine.task.cred().caps.contains(CapSet::DAC_READ_SEARCH) {
        return Err(Errno::EPERM);
    }
    let mut bytes = vec![0; len as usize];
    let at = caller.args[1] + 2 * size_of::<u32>() as u64;
    if memory::read(caller.tid, at, &mut bytes)? != bytes.len() {
        return Err(Errno::EFAULT);
    }
    let stale = Errno::ESTALE;
    let bytes = bytes.first_chunk().ok_or(stale)?;
    let mount = mount.ok_or(stale)?;
    let Engine { handles, task, cookies, watches, .. } = engine;
    let file = handles.find(task, *bytes, (cookies, watches))?;
    if said & IS_DIRECTORY != 0 && !is_directory(engine, &file)? {
        return Err(stale);
    }
    // Where mounts hide something, one that shows a part of a file system leads to that part alone.
    let all = engine.given.as_ref().is_some_and(|given| !given.hides_something());
    let reach = if all { Reach::FileSystem } else { Reach::Mount };
    let place = file.in_mount_of(&mount.file, reach).map_err(|_| stale)?;
    let flags = OpenFlags::from_bits_retain(caller.word(2).into());
    let opened = engine.task.reopen(&place, flags).map_err(|errno| match errno {
        // Somebody else removed it from the host.
        Errno::ENOENT if !flags.contains(OpenFlags::TMPFILE) => stale,
        errno => errno,
    });
    open::opened(engine, caller, opened?, flags)
}

fn is_directory(engine: &Engine, file: &File) -> Result<bool> {
    engine.task.fstat(file).map(|stat| stat.st_mode & S_IFMT == S_IFDIR)
}

/// How many bytes a handle has, or has room for, and its type.
fn head(caller: &Caller, index: usize) -> Result<[u32; 2]> {
    let bytes: [u8; 8] = memory::read_exact(caller.tid, caller.args[index])?;
    let word =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Ok([word(0), word(4)])
}
