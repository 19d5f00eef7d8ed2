//! Who opens what everybody may read: that too is somebody's to refuse, and somebody is told of it.

mod common;

use common::{
    asking::{found, root_task},
    lookups::acl,
};
use pathwalk::{
    AccessMode, Acls, At, AtFlags, Config, Cred, Errno, FdTable, FileType, Hooks, InodeRef,
    InotifyFlags, InotifyMask, MemFs, MountFlags, OpenFlags, PathRef, ProcFs, Result,
    SecurityModule, Subject, Task, Timespec, UmountFlags, Vfs, XattrFlags, acl_to_xattr,
    fs::{Access, Features, FileSystem, Found, OpenHandle},
};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

/// A user, in a machine with a file and a directory that everybody may read; and root.
fn machine() -> (Arc<Vfs>, Task, Task) {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let root = vfs.task(Cred::root());
    root.umask(0);
    root.mkdir("/d", 0o755).unwrap();
    root.creat("/d/f", 0o644).unwrap();
    let user = vfs.task(Cred::user(1000, 1000));
    (vfs, root, user)
}

fn reads(task: &Task, path: &str) -> Result<()> {
    task.open(path, OpenFlags::RDONLY, 0).map(drop)
}

struct Refuses(Hooks);

impl SecurityModule for Refuses {
    fn hooks(&self) -> Hooks {
        self.0
    }

    fn inode_permission(&self, _: &Subject<'_>, _: InodeRef<'_>, access: Access) -> Result<()> {
        if access.contains(Access::READ) { Err(Errno::EL2HLT) } else { Ok(()) }
    }

    fn file_open(&self, _: &Subject<'_>, _: &PathRef<'_>, _: OpenFlags) -> Result<u64> {
        Err(Errno::EL2HLT)
    }
}

#[test]
fn a_security_module_refuses_it() {
    for hook in [Hooks::INODE_PERMISSION, Hooks::FILE_OPEN] {
        let (vfs, _, user) = machine();
        let before = user.fork();
        // Walked and remembered.
        let opens = |path| (0..4).map(|_| reads(&user, path)).collect::<Vec<_>>();
        assert_eq!(opens("/d/f"), [Ok(()); 4], "{hook:?}");
        vfs.register_security(Arc::new(Refuses(hook))).unwrap();
        for path in ["/d/f", "/d"] {
            assert_eq!(opens(path), [Err(Errno::EL2HLT); 4], "{path}, {hook:?}");
        }
        assert_eq!(reads(&before, "/d/f"), Err(Errno::EL2HLT));
    }
}

#[test]
fn an_acl_refuses_it() {
    let (vfs, root, user) = machine();
    let other = vfs.task(Cred::user(1001, 1001));
    let none = acl_to_xattr(&acl(0o444, 1000..1001, 0));
    root.setxattr("/d/f", "system.posix_acl_access", &none, XattrFlags::empty()).unwrap();
    assert_eq!(root.stat("/d/f").unwrap().st_mode & 0o444, 0o444, "the mode alone grants it");
    for _ in 0..4 {
        assert_eq!(reads(&user, "/d/f"), Err(Errno::EACCES));
        assert_eq!(reads(&other, "/d/f"), Ok(()));
    }
}

/// A file system that lets nobody read, whatever the mode says; or that cannot be reached.
struct Closed(Features);

impl FileSystem for Closed {
    fn kind(&self) -> &str {
        "closed"
    }

    fn features(&self) -> Features {
        self.0
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory, 0o755))
    }

    fn lookup(&self, _: InodeRef<'_>, _: &[u8]) -> Result<Option<Found>> {
        Ok(Some(found(2, FileType::Regular, 0o644)))
    }

    fn permission(&self, _: InodeRef<'_>, access: Access, _: &Subject<'_>) -> Result<()> {
        if access.contains(Access::READ) { Err(Errno::EACCES) } else { Ok(()) }
    }

    fn getattr(&self, _: InodeRef<'_>) -> Result<()> {
        Err(Errno::EIO)
    }
}

#[test]
fn the_file_system_refuses_it() {
    let task = root_task(&Arc::new(Closed(Features::PERMISSION | Features::NO_OPEN)));
    for _ in 0..4 {
        assert_eq!(reads(&task, "/f"), Err(Errno::EACCES));
        assert_eq!(reads(&task, "/"), Err(Errno::EACCES));
    }
}

#[test]
fn who_watches_is_told_and_the_flags_are_those_of_an_open_file() {
    let (_, root, user) = machine();
    let queue = root.inotify_init1(InotifyFlags::NONBLOCK).unwrap();
    root.inotify_add_watch(&queue, "/d/f", InotifyMask::OPEN).unwrap();
    for opened in 1..4 {
        let kept = OpenFlags::NONBLOCK | OpenFlags::LARGEFILE;
        let flags = OpenFlags::CLOEXEC | OpenFlags::NOCTTY | kept;
        let file = user.open("/d/f", flags, 0).unwrap();
        assert_eq!(file.flags(), kept);
        assert_eq!(queue.bytes(), 16, "opened {opened} times");
        let mut event = [0; 16];
        assert_eq!(queue.read(&mut event), Ok(16));
    }
}

/// What a handle or a magic link leads to is asked about, and who is not told whose it is gets nothing by it. A file system that does not
/// answer is still to be left.
#[test]
fn what_is_held_of_a_file_system_that_does_not_answer_is_only_unmounted() {
    let (_, root, _) = machine();
    root.mkdir("/proc", 0o755).unwrap();
    root.mount(ProcFs::new(), "/proc", MountFlags::empty()).unwrap();
    root.mkdir("/m", 0o755).unwrap();
    let task = root.fork();
    let files = Arc::new(FdTable::new(8));
    task.set_files(Some(Arc::clone(&files)));
    task.mount(Arc::new(Closed(Features::GETATTR)), "/m", MountFlags::empty()).unwrap();
    let place = task.open("/m", OpenFlags::PATH, 0).unwrap();
    let link = format!("/proc/self/fd/{}", files.insert(place.clone()).unwrap());
    let (opened, nothing) = (task.open("/m", OpenFlags::RDONLY, 0).unwrap(), AtFlags::EMPTY_PATH);
    let said = [
        task.open(&link, OpenFlags::PATH, 0).map(drop),
        task.open(format!("{link}/.."), OpenFlags::PATH, 0).map(drop),
        task.access(&link, AccessMode::R_OK),
        task.stat(&link).map(drop),
        task.faccessat2(&place, "", AccessMode::R_OK, nothing),
        task.linkat(&place, "", At::Cwd, "/m/new", nothing),
        task.setxattrat(&opened, "", nothing, "user.a", b"", XattrFlags::empty()),
    ];
    assert_eq!(said, [Err(Errno::EIO); 7]);
    assert_eq!(task.umount2(&link, UmountFlags::DETACH), Ok(()));
}

/// A file system of files without a type, as an epoll of the kernel's is one.
struct Typeless;

impl FileSystem for Typeless {
    fn kind(&self) -> &str {
        "typeless"
    }

    fn features(&self) -> Features {
        Features::empty()
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory, 0o755))
    }

    fn lookup(&self, _: InodeRef<'_>, _: &[u8]) -> Result<Option<Found>> {
        let mut file = found(2, FileType::Regular, 0o600);
        file.attr.mode = 0o600;
        Ok(Some(file))
    }

    fn open(&self, _: InodeRef<'_>, _: OpenFlags) -> Result<Option<Box<dyn OpenHandle>>> {
        Err(Errno::ENXIO)
    }
}

/// The answers are those that Linux gives to root who asks about an epoll by its link in `/proc/self/fd`.
#[test]
fn what_has_no_type_is_no_regular_file() {
    let task = root_task(&Arc::new(Typeless));
    let all = OpenFlags::RDWR;
    for flags in [all, OpenFlags::WRONLY, all | OpenFlags::TRUNC, all | OpenFlags::CREAT] {
        assert_eq!(task.open("/f", flags, 0o600).map(drop), Err(Errno::ENXIO), "{flags:?}");
    }
    assert_eq!(task.truncate("/f", 0), Err(Errno::EINVAL));
    let refused = task.setxattr("/f", "user.a", b"1", XattrFlags::empty());
    assert_eq!(refused, Err(Errno::EPERM));
    assert_eq!(task.getxattr("/f", "user.a", &mut []), Err(Errno::ENODATA));
    let place = task.open("/f", OpenFlags::PATH, 0).unwrap();
    assert_eq!(task.fstat(&place).unwrap().st_mode, 0o600);
}

/// A file system whose files have no name left, or whose directories were others' the first time.
struct Stale {
    once: bool,
    asked: AtomicU32,
}

impl FileSystem for Stale {
    fn kind(&self) -> &str {
        "stale"
    }

    fn features(&self) -> Features {
        Features::empty()
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory, 0o755))
    }

    fn lookup(&self, _: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        Ok((name == b"f").then(|| found(2, FileType::Regular, 0o644)))
    }

    fn link(&self, _: InodeRef<'_>, _: InodeRef<'_>, _: &[u8], _: Timespec) -> Result<()> {
        let first = self.asked.fetch_add(1, Relaxed) == 0;
        if first || !self.once { Err(Errno::ESTALE) } else { Ok(()) }
    }
}

/// What is held is asked about once more; what is stale then has no name that it could be linked by.
#[test]
fn what_is_stale_is_linked_at_the_second_try_or_not_at_all() {
    for (once, answer) in [(true, Ok(())), (false, Err(Errno::ENOENT))] {
        let fs = Arc::new(Stale { once, asked: AtomicU32::new(0) });
        let task = root_task(&fs);
        let asked = || fs.asked.swap(0, Relaxed);
        let file = task.open("/f", OpenFlags::PATH, 0).unwrap();
        let linked = task.linkat(&file, "", At::Cwd, "/by_handle", AtFlags::EMPTY_PATH);
        assert_eq!((linked, asked()), (answer, 2));
        assert_eq!((task.link("/f", "/by_name"), asked()), (answer, 2));
    }
}

/// A file that an ACL, of which only its file system knows, keeps from one user whom the mode lets read.
struct Listed(AtomicU32);

impl FileSystem for Listed {
    fn kind(&self) -> &str {
        "listed"
    }

    fn features(&self) -> Features {
        Features::NO_OPEN | Features::POSIX_ACL
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory, 0o755))
    }

    fn lookup(&self, _: InodeRef<'_>, _: &[u8]) -> Result<Option<Found>> {
        Ok(Some(found(2, FileType::Regular, 0o444)))
    }

    fn acls(&self, inode: InodeRef<'_>) -> Result<Acls> {
        if inode.attr().file_type() == FileType::Directory {
            return Ok(Acls::default());
        }
        self.0.fetch_add(1, Relaxed);
        Ok(Acls { access: acl(0o444, 1000..1001, 0), ..Acls::default() })
    }
}

#[test]
fn an_acl_that_was_not_asked_for_refuses_it() {
    let fs = Arc::new(Listed(AtomicU32::new(0)));
    let mut user = root_task(&fs).fork();
    user.set_cred(Cred::user(1000, 1000));
    for _ in 0..4 {
        assert_eq!(reads(&user, "/f"), Err(Errno::EACCES));
    }
    assert_eq!(fs.0.load(Relaxed), 1);
}

/// A mode that lets all others read, and not its owner or its group.
#[test]
fn the_mode_of_its_own_class_refuses_it() {
    let (_, root, user) = machine();
    root.chown("/d/f", Some(1000), Some(1001)).unwrap();
    let mut member = root.fork();
    member.set_cred(Cred::user(1002, 1001));
    for (mode, own, group) in
        [(0o044, Err(Errno::EACCES), Ok(())), (0o404, Ok(()), Err(Errno::EACCES))]
    {
        root.chmod("/d/f", mode).unwrap();
        for _ in 0..4 {
            assert_eq!((reads(&user, "/d/f"), reads(&member, "/d/f")), (own, group), "{mode:o}");
        }
    }
}
