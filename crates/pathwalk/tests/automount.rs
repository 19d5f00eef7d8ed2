//! File systems that mount something when a walk comes by, or hold walks back: when they are asked, and what they may say.

use pathwalk::{
    AccessMode, At, AtFlags, Config, Cred, Errno, FileType, InodeRef, MemFs, MountFlags, OpenFlags,
    OpenHow, OpenTreeFlags, ResolveFlags, Result, StatxMask, Subject, Task, Timespec, UmountFlags,
    Vfs,
    fs::{Automount, Emit, Features, FileSystem, Found, FsStat, Iattr, Managed, NewInode},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
};

/// What the file system answers next.
enum Answer {
    /// A new file system with a directory `in`.
    Mounts,
    /// Mounts it itself first, and then gives another one.
    SomebodyIsFaster,
    /// Says that somebody else does it, and nobody does.
    Nothing,
    /// An error.
    Fails(Errno),
}

/// A root with the directories `auto`, `gate`, `both` and `plain`, each with a directory `sub`.
#[derive(Default)]
struct Managing {
    answers: Mutex<VecDeque<Answer>>,
    automounts: Mutex<u32>,
    /// What manage answers, and how it was asked: whether it may block.
    gate: Mutex<(Option<Errno>, Option<Errno>)>,
    asked: Mutex<Vec<bool>>,
    task: Mutex<Weak<Task>>,
}

const NAMES: [&[u8]; 4] = [b"auto", b"gate", b"both", b"plain"];

impl Managing {
    fn directory(node: u64) -> Found {
        let mode = FileType::Directory.to_mode() | 0o755;
        let attr = pathwalk::Attr { mode, nlink: 2, ino: node, ..Default::default() };
        Found { node, attr, body: None }
    }

    fn answer_with(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// How often automount was asked since this was last asked.
    fn automounts(&self) -> u32 {
        std::mem::take(&mut self.automounts.lock().unwrap())
    }
}

impl FileSystem for Managing {
    fn kind(&self) -> &str {
        "managing"
    }

    fn features(&self) -> Features {
        Features::MANAGED
    }

    fn root(&self) -> Result<Found> {
        Ok(Self::directory(1))
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let node = match dir.node() {
            1 => NAMES.iter().position(|known| *known == name).map(|index| index as u64 + 2),
            node if name == b"sub" => Some(node + 100),
            _ => None,
        };
        Ok(node.map(Self::directory))
    }

    fn managed(&self, found: &Found) -> Managed {
        match found.node {
            2 => Managed::AUTOMOUNT,
            3 => Managed::TRANSIT,
            4 => Managed::AUTOMOUNT | Managed::TRANSIT,
            _ => Managed::empty(),
        }
    }

    fn automount(&self, dir: InodeRef<'_>, _: &Subject<'_>) -> Result<Option<Automount>> {
        *self.automounts.lock().unwrap() += 1;
        // No lock of the machine's is held: another call may be made of it.
        dir.vfs().usage();
        let gives = || Some(Automount { fs: MemFs::new(), flags: MountFlags::NOSUID });
        match self.answers.lock().unwrap().pop_front() {
            Some(Answer::Mounts) => Ok(gives()),
            Some(Answer::SomebodyIsFaster) => {
                let task = self.task.lock().unwrap().upgrade().expect("the test has it");
                task.mount(MemFs::new(), "/auto", MountFlags::NODEV).unwrap();
                Ok(gives())
            }
            Some(Answer::Nothing) => Ok(None),
            Some(Answer::Fails(errno)) => Err(errno),
            None => panic!("nobody expects to be asked"),
        }
    }

    fn manage(&self, _: InodeRef<'_>, _: &Subject<'_>, may_block: bool) -> Result<()> {
        self.asked.lock().unwrap().push(may_block);
        let (at_once, waiting) = *self.gate.lock().unwrap();
        let errno = if may_block { waiting } else { at_once };
        errno.map_or(Ok(()), Err)
    }

    fn create(&self, _: InodeRef<'_>, _: &[u8], _: &NewInode<'_>) -> Result<Found> {
        Err(Errno::EPERM)
    }

    /// The sticky bit says that something is to be mounted.
    fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        let sticky = change.mode.is_some_and(|mode| mode & 0o1000 != 0);
        if inode.node() == 5 {
            inode.set_managed(if sticky { Managed::AUTOMOUNT } else { Managed::empty() });
        }
        inode.update(|attr| {
            change.copy_to(attr);
            Ok(())
        })
    }

    fn read(&self, _: InodeRef<'_>, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(Errno::EPERM)
    }

    fn write(
        &self,
        _: InodeRef<'_>,
        _: Option<u64>,
        _: &[u8],
        _: Timespec,
    ) -> Result<(u64, usize)> {
        Err(Errno::EPERM)
    }

    fn readdir(&self, _: InodeRef<'_>, _: u64, _: &mut Emit<'_>) -> Result<()> {
        Ok(())
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat::default())
    }
}

fn machine() -> (Arc<Managing>, Arc<Task>) {
    let fs = Arc::new(Managing::default());
    let vfs = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap();
    let task = Arc::new(vfs.task(Cred::root()));
    *fs.task.lock().unwrap() = Arc::downgrade(&task);
    (fs, task)
}

fn kind_at(task: &Task, path: &str) -> String {
    let mounts = String::from_utf8(pathwalk::mountinfo(task)).unwrap();
    mounts.lines().filter(|line| line.split(' ').nth(4) == Some(path)).map(|_| 'm').collect()
}

/// `STATX_ATTR_AUTOMOUNT`
const AUTOMOUNT: u64 = 0x1000;

type Call = fn(&Task) -> Result<()>;

/// Calls that want to be inside what is mounted there.
const TRIGGERS: &[(&str, Call)] = &[
    ("through it", |t| match t.stat("/auto/x") {
        Err(Errno::ENOENT) => Ok(()),
        other => panic!("{other:?}"),
    }),
    ("a dot", |t| t.stat("/auto/.").map(drop)),
    ("a slash", |t| t.stat("/auto/").map(drop)),
    ("open", |t| t.open("/auto", OpenFlags::empty(), 0).map(drop)),
    ("O_DIRECTORY|O_PATH", |t| {
        t.open("/auto", OpenFlags::PATH | OpenFlags::DIRECTORY, 0).map(drop)
    }),
    ("statx", |t| t.statx(At::Cwd, "/auto", AtFlags::empty(), StatxMask::all()).map(drop)),
    ("chdir", |t| t.fork().chdir("/auto")),
    ("chroot", |t| t.fork().chroot("/auto")),
    ("statfs", |t| t.statfs("/auto").map(drop)),
    ("open_tree", |t| t.open_tree(At::Cwd, "/auto", OpenTreeFlags::empty()).map(drop)),
    ("bind", |t| t.bind("/auto", "/plain")),
    ("..", |t| match t.stat("/auto/sub/..") {
        Ok(_) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno),
    }),
];

/// Calls that take the directory as it is.
const QUIET: &[(&str, Call)] = &[
    ("stat", |t| t.stat("/auto").map(drop)),
    ("lstat", |t| t.lstat("/auto").map(drop)),
    ("fstatat", |t| t.fstatat(At::Cwd, "/auto", AtFlags::empty()).map(drop)),
    ("AT_NO_AUTOMOUNT", |t| {
        t.statx(At::Cwd, "/auto", AtFlags::NO_AUTOMOUNT, StatxMask::all()).map(drop)
    }),
    ("O_PATH", |t| t.open("/auto", OpenFlags::PATH, 0).map(drop)),
    ("access", |t| t.access("/auto", AccessMode::empty())),
    ("chmod", |t| t.chmod("/auto", 0o755)),
    ("readlink", |t| match t.readlink("/auto", &mut [0; 8]) {
        Err(Errno::EINVAL) => Ok(()),
        other => panic!("{other:?}"),
    }),
    ("OPEN_TREE_NO_AUTOMOUNT", |t| {
        t.open_tree(At::Cwd, "/auto", OpenTreeFlags::NO_AUTOMOUNT).map(drop)
    }),
];

#[test]
fn who_wants_to_be_inside_has_it_mounted_once() {
    for (name, call) in TRIGGERS {
        let (fs, task) = machine();
        for (quiet, call) in QUIET {
            // More than once, as what is cached is walked otherwise.
            for _ in 0..3 {
                assert_eq!(call(&task), Ok(()), "{quiet}");
            }
        }
        let flags = AtFlags::NO_AUTOMOUNT;
        let told = task.statx(At::Cwd, "/auto", flags, StatxMask::all()).unwrap();
        assert_eq!(told.stx_attributes & AUTOMOUNT, AUTOMOUNT);
        assert_eq!(fs.automounts(), 0, "only those who want to be inside");
        fs.answer_with([Answer::Mounts]);
        for _ in 0..3 {
            assert_eq!(call(&task), Ok(()), "{name}");
        }
        assert_eq!(fs.automounts(), 1, "{name}");
        assert_eq!(kind_at(&task, "/auto"), "m", "{name}");
        for (_, call) in QUIET {
            assert_eq!(call(&task), Ok(()));
        }
        // When it is gone it comes again.
        task.umount2("/auto", UmountFlags::DETACH).unwrap();
        fs.answer_with([Answer::Mounts]);
        assert_eq!(task.stat("/auto/.").map(drop), Ok(()));
        assert_eq!(fs.automounts(), 1, "{name}, again");
    }
}

#[test]
fn what_it_answers_is_done() {
    let (fs, task) = machine();
    let look = || task.stat("/auto/sub").map(drop);
    fs.answer_with([Answer::Fails(Errno::EHOSTUNREACH)]);
    assert_eq!(look(), Err(Errno::EHOSTUNREACH));
    // As it is: the directory below has the name.
    fs.answer_with([Answer::Fails(Errno::EISDIR)]);
    assert_eq!(look(), Ok(()));
    // Each time counts as a symlink.
    fs.automounts();
    fs.answer_with((0..40).map(|_| Answer::Nothing));
    assert_eq!(look(), Err(Errno::ELOOP));
    assert_eq!(fs.automounts(), 40);
    fs.answer_with([Answer::Nothing, Answer::Mounts]);
    assert_eq!(look(), Err(Errno::ENOENT));
    assert_eq!(task.umount2("/auto", UmountFlags::empty()), Ok(()));
    fs.answer_with([Answer::SomebodyIsFaster]);
    assert_eq!(look(), Err(Errno::ENOENT));
    assert_eq!(kind_at(&task, "/auto"), "m", "what was there first stays, the other is dropped");
    let flags = task.statfs("/auto").unwrap().f_flags;
    assert_eq!((flags & 2, flags & 4), (0, 4), "the other is the one without devices");
}

#[test]
fn bounds_refuse_before_it_is_asked() {
    let (fs, task) = machine();
    let open = |path: &str, resolve: ResolveFlags| {
        let how = OpenHow { flags: 0, mode: 0, resolve: resolve.bits() };
        task.openat2(At::Cwd, path, &how).map(drop)
    };
    assert_eq!(open("/auto/sub", ResolveFlags::NO_XDEV), Err(Errno::EXDEV));
    assert_eq!(open("/gate/sub", ResolveFlags::NO_XDEV), Err(Errno::EXDEV));
    assert_eq!(open("/auto", ResolveFlags::CACHED), Err(Errno::EAGAIN));
    assert_eq!((fs.automounts(), fs.asked.lock().unwrap().len()), (0, 0));
}

#[test]
fn a_gate_is_asked_each_time_and_may_say_that_it_cannot_say() {
    let (fs, task) = machine();
    task.mount(MemFs::new(), "/gate", MountFlags::empty()).unwrap();
    task.mkdir("/gate/in", 0o755).unwrap();
    let asked = || std::mem::take(&mut *fs.asked.lock().unwrap());
    let look = |name: &str| task.stat(format!("/gate/{name}")).map(drop);
    asked();
    for _ in 0..3 {
        assert_eq!(look("in"), Ok(()));
        // Once more by who would remember the path.
        let asked = asked();
        assert!(!asked.is_empty() && asked.iter().all(|may_block| !may_block), "{asked:?}");
    }
    *fs.gate.lock().unwrap() = (Some(Errno::ECHILD), None);
    for _ in 0..3 {
        assert_eq!(look("in"), Ok(()));
        let asked = asked();
        assert_eq!((asked.first(), asked.last()), (Some(&false), Some(&true)), "{asked:?}");
    }
    *fs.gate.lock().unwrap() = (Some(Errno::ECHILD), Some(Errno::ENOENT));
    assert_eq!(look("in"), Err(Errno::ENOENT));
    // What is mounted is not to be seen by this walk.
    for plain in [(Some(Errno::EISDIR), None), (Some(Errno::ECHILD), Some(Errno::EISDIR))] {
        *fs.gate.lock().unwrap() = plain;
        assert_eq!((look("in"), look("sub")), (Err(Errno::ENOENT), Ok(())));
    }
    *fs.gate.lock().unwrap() = (None, None);
    assert_eq!((look("in"), look("sub")), (Ok(()), Err(Errno::ENOENT)));
}

#[test]
fn a_file_system_changes_its_mind() {
    let (fs, task) = machine();
    for _ in 0..3 {
        task.stat("/plain/sub").unwrap();
    }
    task.chmod("/plain", 0o1755).unwrap();
    fs.answer_with([Answer::Mounts]);
    assert_eq!(task.stat("/plain/sub").map(drop), Err(Errno::ENOENT));
    task.umount2("/plain", UmountFlags::empty()).unwrap();
    task.chmod("/plain", 0o755).unwrap();
    assert_eq!(task.stat("/plain/sub").map(drop), Ok(()));
}
