//! When a file system is asked, and what becomes of what it says.

use crate::managing::{Answer, kind_at, machine};
use pathwalk::{
    AccessMode, At, AtFlags, Errno, MemFs, MountFlags, OpenFlags, OpenHow, OpenTreeFlags,
    ResolveFlags, Result, StatxMask, Task, UmountFlags,
};
use std::sync::{Arc, Mutex};

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
    ("open_exec", |t| match t.open_exec(At::Cwd, "/auto", AtFlags::empty()) {
        Err(Errno::EACCES) => Ok(()),
        other => panic!("{other:?}"),
    }),
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
    // Somebody is faster.
    fs.answer_with([Answer::After(Box::new(|task| {
        task.mount(MemFs::new(), "/auto", MountFlags::NODEV).unwrap();
    }))]);
    assert_eq!(look(), Err(Errno::ENOENT));
    assert_eq!(kind_at(&task, "/auto"), "m", "what was there first stays, the other is dropped");
    let flags = task.statfs("/auto").unwrap().f_flags;
    assert_eq!(flags & 4, 4, "it is the one without devices");
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
        // Not by who would remember the path.
        assert_eq!(asked(), [false]);
    }
    *fs.gate.lock().unwrap() = (Some(Errno::ECHILD), None);
    for _ in 0..3 {
        assert_eq!(look("in"), Ok(()));
        assert_eq!(asked(), [false, true]);
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

#[test]
fn what_is_mounted_while_a_walk_waits_is_crossed_into() {
    for path in ["/gate", "/both"] {
        let (fs, task) = machine();
        *fs.gate.lock().unwrap() = (Some(Errno::ECHILD), None);
        *fs.in_gate.lock().unwrap() = Some(Box::new(move |task| {
            task.mount(MemFs::new(), path, MountFlags::empty()).unwrap();
            task.mkdir(format!("{path}/in"), 0o755).unwrap();
        }));
        assert_eq!(task.stat(format!("{path}/in")).map(drop), Ok(()), "{path}");
        assert_eq!(fs.automounts(), 0, "{path}");
    }
    // Of both, the gate is asked first, and what it says is the end of it.
    let (fs, task) = machine();
    *fs.gate.lock().unwrap() = (Some(Errno::ECHILD), Some(Errno::EPERM));
    assert_eq!(task.stat("/both/sub").map(drop), Err(Errno::EPERM));
    *fs.gate.lock().unwrap() = (Some(Errno::ECHILD), Some(Errno::EISDIR));
    assert_eq!(task.stat("/both/sub").map(drop), Ok(()));
    *fs.gate.lock().unwrap() = (None, None);
    fs.answer_with([Answer::Mounts]);
    assert_eq!(task.stat("/both/sub").map(drop), Err(Errno::ENOENT));
    assert_eq!(fs.automounts(), 1);
}

#[test]
fn walks_inside_of_a_file_system_share_the_budget() {
    // It walks through itself.
    let (fs, task) = machine();
    let said = Arc::new(Mutex::new(Vec::new()));
    fs.answer_with((0..40).map(|_| {
        let said = Arc::clone(&said);
        Answer::After(Box::new(move |task| {
            let inside = task.stat("/auto/sub").map(drop);
            said.lock().unwrap().push(inside);
        }))
    }));
    assert_eq!(task.stat("/auto/sub").map(drop), Err(Errno::ENOENT));
    assert_eq!(fs.automounts(), 40);
    // The innermost is the first to come back; there it was mounted then.
    let said = said.lock().unwrap();
    assert_eq!((said[0], &said[1..]), (Err(Errno::ELOOP), &[Err(Errno::ENOENT); 39][..]));
    // What its walks followed is gone for who asked; 20 symlinks and one automount leave 19 for behind it.
    for (behind, answer) in [(19, Ok(())), (20, Err(Errno::ELOOP))] {
        let (fs, task) = machine();
        task.mount(MemFs::new(), "/plain", MountFlags::empty()).unwrap();
        task.mkdir("/plain/0", 0o755).unwrap();
        for link in 1..=20 {
            task.symlink(format!("{}", link - 1), format!("/plain/{link}")).unwrap();
        }
        fs.answer_with([Answer::After(Box::new(|task| {
            for _ in 0..4 {
                task.stat("/plain/5").unwrap();
            }
        }))]);
        let walk = task.stat(format!("/auto/../plain/{behind}")).map(drop);
        assert_eq!(walk, answer, "{behind}");
        // It is over with that walk.
        assert_eq!(task.stat("/plain/20").map(drop), Ok(()));
    }
}
