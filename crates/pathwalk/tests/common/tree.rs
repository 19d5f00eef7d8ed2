//! Checking a tree whole: what is listed can be looked up, what is counted is there.

use pathwalk::{
    At, AtFlags, Errno, File, FileType, OpenFlags, Result, Seek, StatxMask, Task, UmountFlags,
    abi::dirent,
};
use std::collections::{BTreeMap, BTreeSet};

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ino: u64,
    /// The position behind it.
    pub(crate) next: u64,
    pub(crate) kind: u8,
    pub(crate) name: Vec<u8>,
}

/// Reads one buffer of a listing.
pub(crate) fn getdents(task: &Task, dir: &File, room: usize) -> Result<Vec<Entry>> {
    let mut buf = vec![0; room];
    let len = task.getdents64(dir, &mut buf)?;
    let mut entries = Vec::new();
    let mut rest = &buf[..len];
    while !rest.is_empty() {
        let word = |at: usize| u64::from_ne_bytes(rest[at..][..8].try_into().unwrap());
        let len = u16::from_ne_bytes(rest[dirent::D_RECLEN..][..2].try_into().unwrap());
        let (entry, after) = rest.split_at(len.into());
        let name = entry[dirent::D_NAME..].split(|&byte| byte == 0).next().unwrap();
        entries.push(Entry {
            ino: word(dirent::D_INO),
            next: word(dirent::D_OFF),
            kind: entry[dirent::D_TYPE],
            name: name.to_vec(),
        });
        rest = after;
    }
    Ok(entries)
}

/// Reads a listing from where it stands to its end.
pub(crate) fn list(task: &Task, dir: &File, room: usize) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    loop {
        let some = getdents(task, dir, room)?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(some);
    }
}

/// What a tree holds, mounts not crossed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Names, the root's included.
    pub(crate) names: u32,
    /// Files and directories.
    pub(crate) inodes: u32,
}

/// `umount2`, but of the mount of the task's root, which would leave the task without a tree.
///
/// # Errors
///
/// - `EINVAL`: it is that.
/// - those of `umount2`.
pub(crate) fn umount_but_root(task: &Task, path: &[u8], flags: UmountFlags) -> Result<()> {
    let mount = |path: &[u8], at: AtFlags| {
        let statx = task.statx(At::Cwd, path, at, StatxMask::MNT_ID_UNIQUE);
        statx.map(|statx| statx.stx_mnt_id)
    };
    let at = if flags.contains(UmountFlags::NOFOLLOW) {
        AtFlags::SYMLINK_NOFOLLOW
    } else {
        AtFlags::empty()
    };
    if mount(path, at).is_ok_and(|mount_id| Ok(mount_id) == mount(b"/", AtFlags::empty())) {
        return Err(Errno::EINVAL);
    }
    task.umount2(path, flags)
}

/// Takes away all mounts but the root. The task is at the root afterwards.
pub(crate) fn umount_all(task: &Task) {
    let umount = |path: &[u8]| {
        let flags = UmountFlags::DETACH | UmountFlags::NOFOLLOW;
        while umount_but_root(task, path, flags).is_ok() {}
    };
    task.chdir("/").unwrap();
    // What is mounted on the root itself is crossed only on the way back to it.
    umount(b"..");
    let mut todo = vec![task.open("/", OpenFlags::DIRECTORY, 0).unwrap()];
    while let Some(dir) = todo.pop() {
        task.fchdir(&dir).unwrap();
        for entry in children(task, &dir) {
            umount(&entry.name);
            if entry.kind == dirent::DT_DIR {
                todo.push(open_directory(task, &dir, &entry.name));
            }
        }
    }
    task.chdir("/").unwrap();
}

fn children(task: &Task, dir: &File) -> Vec<Entry> {
    let mut entries = list(task, dir, 4096).unwrap();
    entries.retain(|entry| entry.name != b"." && entry.name != b"..");
    entries
}

fn open_directory(task: &Task, dir: &File, name: &[u8]) -> File {
    task.openat(dir, name, OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW, 0).unwrap()
}

/// Checks the tree below the root, which has no mounts: listings, lookups, `..`, links and sizes agree.
pub(crate) fn census(task: &Task) -> Census {
    let mut census = Census { names: 1, inodes: 1 };
    // Of what is no directory: how many names were found, and how many there should be.
    let mut links: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut directories = BTreeSet::new();
    let mut todo = vec![task.open("/", OpenFlags::DIRECTORY, 0).unwrap()];
    while let Some(dir) = todo.pop() {
        let own = task.fstat(&dir).unwrap();
        assert!(directories.insert(own.st_ino), "a directory has one name");
        let up = task.fstatat(&dir, "..", AtFlags::empty()).unwrap();
        let entries = list(task, &dir, 512).unwrap();
        assert_eq!((&entries[0].name[..], entries[0].ino), (&b"."[..], own.st_ino));
        assert_eq!((&entries[1].name[..], entries[1].ino), (&b".."[..], up.st_ino));
        let names: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
        assert_eq!(names.len(), entries.len(), "a name is listed once");
        assert_eq!(task.lseek(&dir, Seek::Set(0)), Ok(0));
        assert_eq!(list(task, &dir, 4096).unwrap(), entries, "listed again");
        let mut subdirectories = 0;
        for entry in &entries[2..] {
            let name = entry.name.escape_ascii();
            let nofollow = AtFlags::SYMLINK_NOFOLLOW;
            let stat = task.fstatat(&dir, &entry.name, nofollow);
            let stat = stat.unwrap_or_else(|errno| panic!("{name} is listed, but {errno}"));
            let statx = task.statx(&dir, &entry.name, nofollow, StatxMask::BASIC_STATS).unwrap();
            assert_eq!((stat.st_ino, statx.stx_ino), (entry.ino, entry.ino), "{name}");
            let kind = FileType::from_mode(stat.st_mode).unwrap();
            assert_eq!(kind.to_dt(), entry.kind, "{name}");
            census.names += 1;
            if kind == FileType::Directory {
                subdirectories += 1;
                census.inodes += 1;
                let child = open_directory(task, &dir, &entry.name);
                let up = task.fstatat(&child, "..", AtFlags::empty()).unwrap();
                assert_eq!(up.st_ino, own.st_ino, "{name}/..");
                todo.push(child);
            } else {
                links.entry(entry.ino).or_insert((0, stat.st_nlink)).0 += 1;
            }
        }
        assert_eq!(own.st_nlink, 2 + subdirectories, "links");
        assert_eq!(own.st_size, 20 * entries.len() as i64, "size");
        let gone = task.fstatat(&dir, "a name that nobody makes", AtFlags::empty());
        assert_eq!(gone.map(drop), Err(Errno::ENOENT));
    }
    for (ino, (names, links)) in &links {
        assert_eq!(names, links, "inode {ino}: names and links");
    }
    census.inodes += links.len() as u32;
    census
}
