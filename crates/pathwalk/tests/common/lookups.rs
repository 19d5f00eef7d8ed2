//! A tree with all that a walk can meet, and all calls that finish without holding anything.

use super::sample::SampleFs;
use pathwalk::{
    AccessMode, AclEntry, AclTag, At, AtFlags, Config, Cred, Errno, File, FileType, MemFs,
    MountAttr, MountAttrFlags, MountFlags, MountIdMap, MountIdRange, MoveMountFlags, OpenFlags,
    OpenTreeFlags, Result, Stat, StatxMask, Task, Vfs, XattrFlags, acl_to_xattr,
    fs::{Access, Features},
};
use std::sync::Arc;

/// Where a path begins; an absolute one does not care.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    Cwd,
    Dir,
}

const FILE: Result<FileType> = Ok(FileType::Regular);
const DIR: Result<FileType> = Ok(FileType::Directory);
const ENOENT: Result<FileType> = Err(Errno::ENOENT);

/// A path, and what following it leads to.
const LOOKUPS: &[(From, &str, Result<FileType>)] = &[
    (From::Cwd, "/", DIR),
    (From::Cwd, ".", DIR),
    (From::Cwd, "..", DIR),
    (From::Cwd, "/../..", DIR),
    (From::Cwd, "/usr/lib/gcc/13/crtbegin.o", FILE),
    (From::Cwd, "/usr/lib/gcc/13/crtbegin.o/", Err(Errno::ENOTDIR)),
    (From::Cwd, "/usr/lib/gcc/13/crtbegin.o/x", Err(Errno::ENOTDIR)),
    (From::Cwd, "//usr///lib/./gcc/13/../13//crtbegin.o", FILE),
    (From::Cwd, "/usr/lib/gcc/13/crtend.o", ENOENT),
    (From::Cwd, "/usr/lib/none/13/crtbegin.o", ENOENT),
    (From::Cwd, "gcc/13/crtbegin.o", FILE),
    (From::Cwd, "gcc/13/none", ENOENT),
    (From::Cwd, "../include/stdio.h", FILE),
    (From::Dir, "13/crtbegin.o", FILE),
    (From::Dir, "13/none", ENOENT),
    (From::Dir, "../../include/stdio.h", FILE),
    (From::Cwd, "/lib/gcc/13/crtbegin.o", FILE),
    (From::Cwd, "/lib64/gcc/13/crtbegin.o", FILE),
    (From::Cwd, "/lib64/gcc/13/none", ENOENT),
    (From::Cwd, "/chain1/lib/gcc/13/crtbegin.o", FILE),
    (From::Cwd, "/chain1", DIR),
    (From::Cwd, "/dangling", ENOENT),
    (From::Cwd, "/loop", Err(Errno::ELOOP)),
    (From::Cwd, "/a-name-of-more-than-thirty-two-bytes-in-all", FILE),
    (From::Cwd, "/a-name-of-more-than-thirty-two-bytes-in-None", ENOENT),
    (From::Cwd, "/private/secret", Err(Errno::EACCES)),
    (From::Cwd, "/acl/file", FILE),
    (From::Cwd, "/acl/none", ENOENT),
    (From::Cwd, "/acl/many/file", FILE),
    (From::Cwd, "/acl/many/../many/none", ENOENT),
    (From::Cwd, "/acl/refused/file", Err(Errno::EACCES)),
    (From::Cwd, "/net/acl/none", ENOENT),
    (From::Cwd, "/mnt", DIR),
    (From::Cwd, "/mnt/upper", FILE),
    (From::Cwd, "/mnt/lower", ENOENT),
    (From::Cwd, "/mnt/../usr/include/stdio.h", FILE),
    (From::Cwd, "/inc/stdio.h", FILE),
    (From::Cwd, "/inc/../usr/include/stdio.h", FILE),
    (From::Cwd, "/inc/none", ENOENT),
    (From::Cwd, "/mapped/private/secret", FILE),
    (From::Cwd, "/mapped/private/none", ENOENT),
    (From::Cwd, "/mapped/private/../lib/gcc/13/crtbegin.o", FILE),
    (From::Cwd, "/mapped/acl/many/file", FILE),
    (From::Cwd, "/own/file", FILE),
    (From::Cwd, "/mapped/own/file", Err(Errno::EACCES)),
    (From::Cwd, "/net/remote", FILE),
    (From::Cwd, "/net/absent", ENOENT),
    (From::Cwd, "/net/link/usr/include/stdio.h", FILE),
    (From::Cwd, "/mnt/deep/none/../x", ENOENT),
];

const ACL: &str = "system.posix_acl_access";

/// An ACL that says the mode, and about users.
pub(crate) fn acl(mode: u32, users: std::ops::Range<u32>, access: u32) -> Vec<AclEntry> {
    let entry = |tag, bits| AclEntry { tag, access: Access::from_bits_truncate(bits & 7) };
    let users = users.map(|uid| entry(AclTag::User(uid), access));
    [entry(AclTag::UserObj, mode >> 6)]
        .into_iter()
        .chain(users)
        .chain(
            [(AclTag::GroupObj, mode >> 3), (AclTag::Mask, 7), (AclTag::Other, mode)]
                .map(|(tag, bits)| entry(tag, bits)),
        )
        .collect()
}

/// The machine, a task in it, and a directory handle.
pub(crate) struct World {
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) task: Task,
    dir: File,
}

impl World {
    /// Builds the tree and looks everything up until nothing is left to be cached or noted.
    pub(crate) fn new() -> Result<Self> {
        let vfs = Vfs::new(Config::default(), MemFs::new())?;
        let root = vfs.task(Cred::root());
        for dir in ["/usr", "/usr/lib", "/usr/lib/gcc", "/usr/lib/gcc/13", "/usr/include"] {
            root.mkdir(dir, 0o755)?;
        }
        for dir in ["/mnt", "/inc", "/net", "/mapped"] {
            root.mkdir(dir, 0o755)?;
        }
        root.mkdir("/private", 0o700)?;
        root.mkdir("/own", 0o700)?;
        root.creat("/own/file", 0o600)?;
        root.chown("/own/file", Some(1000), Some(1000))?;
        root.chown("/own", Some(1000), Some(1000))?;
        for file in [
            "/usr/lib/gcc/13/crtbegin.o",
            "/usr/include/stdio.h",
            "/private/secret",
            "/a-name-of-more-than-thirty-two-bytes-in-all",
        ] {
            root.creat(file, 0o644)?;
        }
        // The mode lets nobody in, or everybody; the ACL decides, and one is so long that it lies in pieces.
        for (dir, mode, users, access) in [
            ("/acl", 0o700, 1000..1001, 7),
            ("/acl/many", 0o700, 1..1001, 5),
            ("/acl/refused", 0o777, 1000..1001, 4),
        ] {
            root.mkdir(dir, mode)?;
            root.creat([dir, "/file"].concat(), 0o600)?;
            let acl = acl(mode, users, access);
            root.setxattr(dir, ACL, &acl_to_xattr(&acl), XattrFlags::empty())?;
            let file = [dir, "/file"].concat();
            root.setxattr(file, ACL, &acl_to_xattr(&acl), XattrFlags::empty())?;
        }
        for (body, path) in [
            ("usr/lib", "/lib"),
            ("/usr/lib", "/lib64"),
            ("chain2", "/chain1"),
            ("./chain3", "/chain2"),
            ("/mnt/.././usr/include/..//../usr", "/chain3"),
            ("nowhere/at/all", "/dangling"),
            ("loop", "/loop"),
        ] {
            root.symlink(body, path)?;
        }
        root.mount(MemFs::new(), "/mnt", MountFlags::empty())?;
        root.creat("/mnt/lower", 0o644)?;
        root.mount(MemFs::new(), "/mnt", MountFlags::empty())?;
        root.creat("/mnt/upper", 0o644)?;
        root.mkdir("/mnt/deep", 0o755)?;
        root.bind("/usr/include", "/inc")?;
        // The superuser's files are the user's there, and his are nobody's.
        let ids = [MountIdRange { stored: 0, seen: 1000, count: 1 }];
        let idmap = Some(Arc::new(MountIdMap::new(&ids, &ids)?));
        let attr = MountAttr { attr_set: MountAttrFlags::IDMAP, idmap, ..MountAttr::default() };
        let tree = root.open_tree_attr(At::Cwd, "/", OpenTreeFlags::CLONE, &attr)?;
        root.move_mount(&tree, "", At::Cwd, "/mapped", MoveMountFlags::F_EMPTY_PATH)?;
        let net = SampleFs::new(Features::POSIX_ACL);
        net.appear("remote", FileType::Regular, 0o644, "");
        net.appear("link", FileType::Symlink, 0o777, "/");
        net.appear("acl", FileType::Directory, 0o700, "");
        net.set_acls("acl", acl(0o700, 1000..1001, 5));
        root.mount(net, "/net", MountFlags::NOATIME)?;
        let task = vfs.task(Cred::user(1000, 1000));
        task.chdir("/usr/lib")?;
        let dir = task.open("/usr/lib/gcc", OpenFlags::PATH, 0)?;
        let world = Self { vfs, task, dir };
        // Each link's time of last access moves behind the others, and then stays for a day.
        std::thread::sleep(std::time::Duration::from_millis(5));
        world.round(&world.task);
        world.round(&world.task);
        Ok(world)
    }

    /// Asks everything once; returns how many calls that were.
    pub(crate) fn round(&self, task: &Task) -> usize {
        let mut calls = 0;
        let mut body = [0; 64];
        for &(from, path, want) in LOOKUPS {
            let at = match from {
                From::Cwd => At::Cwd,
                From::Dir => At::Dir(&self.dir),
            };
            let errno = want.map(|_| ());
            let none = AtFlags::empty();
            let nofollow = AtFlags::SYMLINK_NOFOLLOW;
            assert_eq!(task.faccessat2(at, path, AccessMode::empty(), none), errno, "{path}");
            assert_eq!(task.faccessat2(at, path, AccessMode::R_OK, AtFlags::EACCESS), errno);
            let stat = task.fstatat(at, path, none);
            assert_eq!(stat.map(|stat| FileType::from_mode(stat.st_mode)), want.map(Some));
            let statx = task.statx(at, path, none, StatxMask::BASIC_STATS);
            let kind = statx.map(|statx| FileType::from_mode(statx.stx_mode.into()));
            assert_eq!(kind, want.map(Some), "{path}");
            // What is not followed may be a link to nowhere; the two calls must agree about it.
            let lstat = task.fstatat(at, path, nofollow);
            let is_link =
                lstat.map(|stat| FileType::from_mode(stat.st_mode) == Some(FileType::Symlink));
            let read = task.readlinkat(at, path, &mut body);
            match is_link {
                Ok(true) => assert!(read.is_ok_and(|len| len != 0), "{path}"),
                Ok(false) => assert_eq!(read, Err(Errno::EINVAL), "{path}"),
                Err(errno) => assert_eq!(read, Err(errno), "{path}"),
            }
            calls += 6;
            if let From::Cwd = from {
                assert_eq!(task.access(path, AccessMode::empty()), errno, "{path}");
                assert_eq!(task.stat(path).map(|_| ()), errno, "{path}");
                assert_eq!(task.lstat(path).is_ok(), lstat.is_ok(), "{path}");
                assert_eq!(task.readlink(path, &mut body), read, "{path}");
                let mut stat = Stat::default();
                let real = task.realpath(path, &mut body, &mut stat).map(|_| stat);
                assert_eq!(real, task.stat(path), "{path}");
                calls += 6;
            }
        }
        calls
    }
}
