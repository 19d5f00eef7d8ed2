//! mount, umount2, pivot_root and chroot, of programs with virtual credentials that may: in the tree, and nowhere else.

use super::{done, place};
use crate::{
    cookies::Known,
    engine::{Caller, Engine, Reply},
    procfs::ProcView,
    sys::memory,
};
use pathwalk::{
    At, AtFlags, CapSet, Cred, Dev, Errno, File, Limits, MemFs, MountFlags, OpenFlags, Result,
    Statx, StatxMask, Task, UmountFlags,
    abi::{
        AT_FDCWD, PATH_MAX, StatxAttributes,
        mode::{S_IFMT, S_IFREG},
    },
    fs::FileSystem,
};
use std::sync::Arc;

/// Those that change what is there already.
const CHANGES: MountFlags =
    MountFlags::REMOUNT.union(MountFlags::BIND).union(MountFlags::MOVE).union(PROPAGATION);
/// Those that say who else gets or loses what is mounted.
const PROPAGATION: MountFlags = MountFlags::SHARED
    .union(MountFlags::SLAVE)
    .union(MountFlags::PRIVATE)
    .union(MountFlags::UNBINDABLE);
/// `MS_NOUSER` and beyond: the kernel's own.
const NOUSER: u64 = !0 << 31;
/// Options are a page at most.
const PAGE: usize = 4096;

/// mount: `tmpfs` and `proc` are mounted anew; what is there is bound, moved, remounted, and shared.
pub(crate) fn mount(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let kind = string(caller, 2)?;
    let source = string(caller, 0)?.unwrap_or_default();
    let options = options(caller)?;
    let path = caller.path(1)?;
    let flags = MountFlags::from_bits_retain(without_magic(caller.args[3]));
    let task = with_cwd(engine, caller, &[&path, &source])?;
    if !task.cred().caps.contains(CapSet::SYS_ADMIN) {
        // It says which errors come before that one.
        return done(task.mount_tree(b"", &path, flags));
    }
    if flags.bits() & NOUSER != 0 {
        // It is refused when the place was looked up, before anything else.
        task.open(&path, OpenFlags::PATH, 0)?;
        return Err(Errno::EINVAL);
    }
    if !flags.intersects(CHANGES) {
        return match kind.map(|kind| file_system(engine, &kind, &options)) {
            Some(Ok(fs)) => done(task.mount(fs, &path, flags)),
            other => match task.mount_tree(b"", &path, flags) {
                // What a new mount without a type answers.
                Err(Errno::EINVAL) => Err(other.and_then(Result::err).unwrap_or(Errno::EINVAL)),
                answer => done(answer),
            },
        };
    }
    if flags.contains(MountFlags::REMOUNT)
        && !flags.contains(MountFlags::BIND)
        && !options.is_empty()
    {
        // No file system here has options that can be changed.
        return Err(task.mount_tree(b"", &path, MountFlags::BIND).err().unwrap_or(Errno::EINVAL));
    }
    // Each is looked up once: what may be done with it is said of what it is done with.
    let open = |path: &[u8]| task.open(path, OpenFlags::PATH, 0);
    let target = open(&path)?;
    // A change of propagation goes before a move.
    let moves = flags.contains(MountFlags::MOVE) && !flags.intersects(PROPAGATION);
    let looks = !flags.contains(MountFlags::REMOUNT) && (flags.contains(MountFlags::BIND) || moves);
    let source = match looks {
        true if source.is_empty() => return Err(Errno::EINVAL),
        true => Some(open(&source)?),
        false => None,
    };
    let given = engine.given.as_ref().ok_or(Errno::EPERM)?;
    let before = given.may_mount(source.as_ref(), &target, flags)?;
    let from = source.as_ref().map_or(At::Cwd, At::Dir);
    if flags.contains(MountFlags::REMOUNT | MountFlags::RDONLY)
        && is_written(engine, &task, &target, flags.contains(MountFlags::BIND))?
    {
        return Err(Errno::EBUSY);
    }
    let change = || task.mount_treeat(from, b"", At::Dir(&target), b"", flags);
    match change() {
        Err(Errno::EBUSY) if flags.contains(MountFlags::REMOUNT) => {
            // What is remembered of files without a name that nobody has any more keeps it writable.
            engine.forget_unused();
            engine.handles.let_go_nameless(&task);
            change()?;
        }
        changed => changed?,
    }
    if let (Some(before), Some(given)) = (before, &mut engine.given) {
        given.mounted(&before);
    }
    Ok(Reply::Value(0))
}

/// Whether a file is open for writing on the mount that has its root there, or on any of its file system. The library does not
/// know of what a process has closed, and so not of what it has open.
fn is_written(engine: &Engine, task: &Task, root: &File, mount_alone: bool) -> Result<bool> {
    let stat =
        |file: &File| task.statx(At::Dir(file), b"", AtFlags::EMPTY_PATH, StatxMask::MNT_ID_UNIQUE);
    let on = stat(root)?;
    if !StatxAttributes::from_bits_retain(on.stx_attributes).contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(false);
    }
    let is_there = |known: &Known| {
        stat(&known.file).is_ok_and(|file| {
            let same = |of: fn(&Statx) -> u64| of(&file) == of(&on);
            let dev = |stat: &Statx| Dev::new(stat.stx_dev_major, stat.stx_dev_minor).to_stat();
            let regular = u32::from(file.stx_mode) & S_IFMT == S_IFREG;
            regular && if mount_alone { same(|stat| stat.stx_mnt_id) } else { same(dev) }
        })
    };
    let written = engine.cookies.written()?;
    let known = written.into_iter().filter_map(|id| engine.cookies.get(id));
    Ok(known.filter(|known| !known.path).any(|known| is_there(&known)))
}

/// The upper half of an `int` of flags once had to say that the call is of the new kind: then the lower one is all.
fn without_magic(flags: u64) -> u64 {
    const MASK: u64 = 0xffff_0000;
    const VALUE: u64 = 0xc0ed_0000;
    if flags & MASK == VALUE { flags & 0xffff } else { flags }
}

pub(crate) fn umount2(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let flags = UmountFlags::from_bits_retain(caller.word(1));
    if !(flags - UmountFlags::all()).is_empty() {
        return Err(Errno::EINVAL);
    }
    let path = caller.path(0)?;
    let task = with_cwd(engine, caller, &[&path])?;
    if makes_root_read_only(engine, &task, &path, flags)? {
        return Err(Errno::EBUSY);
    }
    let given = engine.given.as_ref().ok_or(Errno::EPERM)?;
    let mut answer = given.umount2(&task, &path, flags);
    if answer == Err(Errno::EBUSY) {
        // What is remembered of files that nobody has any more keeps it busy.
        engine.forget_unused();
        let given = engine.given.as_ref().ok_or(Errno::EPERM)?;
        answer = given.umount2(&task, &path, flags);
    } else if answer.is_ok() && flags.contains(UmountFlags::DETACH) {
        // What was in it need not stay any longer than somebody has it.
        engine.forget_unused();
    }
    engine.handles.let_go_unmounted();
    done(answer)
}

/// Whether it is the caller's own root that would be unmounted, which is made read-only instead, and there are files open for
/// writing.
fn makes_root_read_only(
    engine: &Engine,
    task: &Task,
    path: &[u8],
    flags: UmountFlags,
) -> Result<bool> {
    if flags.intersects(UmountFlags::DETACH | UmountFlags::EXPIRE)
        || !task.cred().caps.contains(CapSet::SYS_ADMIN)
    {
        return Ok(false);
    }
    let mut open = OpenFlags::PATH;
    open.set(OpenFlags::NOFOLLOW, flags.contains(UmountFlags::NOFOLLOW));
    // What cannot be opened umount2 itself says.
    let (Ok(place), Ok(root)) = (task.open(path, open, 0), task.open("/", OpenFlags::PATH, 0))
    else {
        return Ok(false);
    };
    // `..` leads to what was mounted on the root since, which is unmounted then.
    let top = task.open("/..", OpenFlags::PATH, 0)?;
    if place.place_id() != root.place_id() || top.place_id() != root.place_id() {
        return Ok(false);
    }
    is_written(engine, task, &root, false)
}

pub(crate) fn pivot_root(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    if !engine.task.cred().caps.contains(CapSet::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    let new_root = caller.path(0)?;
    let put_old = match caller.path(1) {
        Ok(path) => path,
        Err(errno) => {
            let task = with_cwd(engine, caller, &[&new_root])?;
            // It is followed before.
            task.open(&new_root, OpenFlags::PATH | OpenFlags::DIRECTORY, 0)?;
            return Err(errno);
        }
    };
    let task = with_cwd(engine, caller, &[&new_root, &put_old])?;
    let given = engine.given.as_mut().ok_or(Errno::EPERM)?;
    done(given.pivot_root(&task, &new_root, &put_old))
}

pub(crate) fn chroot(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let (base, path) = place(engine, caller, AT_FDCWD, 0, AtFlags::empty());
    let rooted = engine.task.fork();
    rooted.chrootat(base.at(), &path)?;
    if let Some(people) = &mut engine.people {
        people.change_root(caller.tid, rooted);
    }
    Ok(Reply::Value(0))
}

/// A task of the caller's credentials and root that stands where the caller does, if one of these paths begins there.
fn with_cwd(engine: &mut Engine, caller: &Caller, paths: &[&[u8]]) -> Result<Task> {
    let mut task = engine.task.fork();
    // It is there already: whether it may be searched is asked when a path is walked from it.
    let cred = task.cred().clone();
    task.set_cred(Cred::root());
    for path in paths.iter().filter(|path| !path.is_empty()) {
        if let Some(known) = engine.base(caller, AT_FDCWD, path)?.dir() {
            task.fchdir(&known.file)?;
        }
    }
    task.set_cred(cred);
    Ok(task)
}

/// A string that is no path; there may be none.
fn string(caller: &Caller, index: usize) -> Result<Option<Vec<u8>>> {
    if caller.args[index] == 0 {
        return Ok(None);
    }
    match memory::read_string(caller.tid, caller.args[index], PATH_MAX - 1) {
        Err(Errno::ENAMETOOLONG) => Err(Errno::EINVAL),
        text => text.map(Some),
    }
}

/// What mount(2) is given last, up to its first NUL.
fn options(caller: &Caller) -> Result<Vec<u8>> {
    if caller.args[4] == 0 {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; PAGE];
    let read = memory::read(caller.tid, caller.args[4], &mut bytes)?;
    let end = bytes[..read].iter().position(|&byte| byte == 0).unwrap_or(read);
    bytes.truncate(end);
    Ok(bytes)
}

/// A new file system of a type.
///
/// # Errors
///
/// - `ENODEV`: there is no such type.
/// - `EPERM`: it is one of the kernel's, of which the tree can have none.
/// - `EINVAL`: there is no such option, or it has no such value.
fn file_system(engine: &Engine, kind: &[u8], options: &[u8]) -> Result<Arc<dyn FileSystem>> {
    match kind {
        b"tmpfs" => Ok(tmpfs(options, engine.task.cred())?),
        b"proc" if options.is_empty() => {
            Ok(ProcView::new(engine.asker.clone(), engine.cookies.knowns()))
        }
        b"proc" => Err(Errno::EINVAL),
        _ => Err(if is_known(kind) { Errno::EPERM } else { Errno::ENODEV }),
    }
}

fn is_known(kind: &[u8]) -> bool {
    let list = std::fs::read("/proc/filesystems").unwrap_or_default();
    list.split(|&byte| byte == b'\n').any(|line| {
        line.rsplit(|&byte| byte == b'\t')
            .next()
            .is_some_and(|name| !name.is_empty() && name == kind)
    })
}

/// Manual: tmpfs(5).
fn tmpfs(options: &[u8], who: &Cred) -> Result<Arc<MemFs>> {
    let text = std::str::from_utf8(options).map_err(|_| Errno::EINVAL)?;
    let mut limits = Limits { bytes: None, inodes: None };
    let (mut uid, mut gid) = (None, None);
    let mut builder = MemFs::builder().memfd();
    for option in text.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "size" => {
                let bytes = size(value).ok_or(Errno::EINVAL)?;
                limits.bytes = Some(bytes).filter(|bytes| *bytes != 0);
            }
            "nr_blocks" => {
                limits.bytes = count(value)?.map(|blocks| blocks.saturating_mul(4096));
            }
            "nr_inodes" => limits.inodes = count(value)?,
            "mode" => {
                let mode = u32::from_str_radix(value, 8).map_err(|_| Errno::EINVAL)?;
                builder = builder.root_mode(mode);
            }
            "uid" => uid = Some(id(value)?),
            "gid" => gid = Some(id(value)?),
            "inode32" | "inode64" | "noswap" if value.is_empty() => {}
            // No memory is had for it that could be in large pages.
            "huge" if ["never", "always", "within_size", "advise"].contains(&value) => {}
            _ => return Err(Errno::EINVAL),
        }
    }
    if limits.bytes.is_some() || limits.inodes.is_some() {
        builder = builder.limits(limits);
    }
    let (uid, gid) = (uid.unwrap_or(who.fsuid), gid.unwrap_or(who.fsgid));
    Ok(builder.root_owner(uid, gid).build())
}

/// So many, with a unit; 0 is as many as there can be.
fn count(text: &str) -> Result<Option<u64>> {
    let count = crate::spec::bytes(text).filter(|count| *count <= i64::MAX as u64);
    count.map(|count| Some(count).filter(|count| *count != 0)).ok_or(Errno::EINVAL)
}

/// A user or a group; -1 is none.
fn id(text: &str) -> Result<u32> {
    text.parse().ok().filter(|id| *id != u32::MAX).ok_or(Errno::EINVAL)
}

/// So many bytes, with a unit, or so much of the machine's memory.
fn size(text: &str) -> Option<u64> {
    let Some(percent) = text.strip_suffix('%') else { return crate::spec::bytes(text) };
    let percent: u64 = percent.parse().ok()?;
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total: u64 = total.trim().strip_suffix(" kB")?.parse().ok()?;
    total.checked_mul(1024)?.checked_mul(percent).map(|bytes| bytes / 100)
}
