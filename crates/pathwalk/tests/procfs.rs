//! What a procfs says of the mounts, of a task that forks and of its threads.

use pathwalk::{
    AccessMode, At, AtFlags, Coherence, Config, Cred, Errno, FdTable, HostFs, HostOptions, MemFs,
    MountFlags, OpenFlags, ProcFs, Task, Vfs, mountinfo,
};
use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    process::Command,
    sync::Arc,
};

fn machine() -> Task {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    for dir in ["/proc", "/m", "/m/a b"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    task.mount(ProcFs::new(), "/proc", MountFlags::NOSUID | MountFlags::NODEV).unwrap();
    task
}

fn read(task: &Task, path: &str) -> Result<String, Errno> {
    let file = task.open(path, OpenFlags::RDONLY, 0)?;
    let mut text = Vec::new();
    loop {
        let mut part = [0; 7];
        match task.read(&file, &mut part)? {
            0 => return Ok(String::from_utf8(text).unwrap()),
            read => text.extend_from_slice(&part[..read]),
        }
    }
}

fn link(task: &Task, path: &str) -> Result<String, Errno> {
    let mut text = [0; 200];
    let len = task.readlink(path, &mut text)?;
    Ok(String::from_utf8(text[..len].to_vec()).unwrap())
}

#[test]
fn mounts_are_shown_as_the_task_sees_them() {
    let task = machine();
    task.mount(MemFs::new(), "/m/a b", MountFlags::RDONLY).unwrap();
    let source = |text: &str| text.split(' ').next().unwrap().to_owned();
    let text = read(&task, "/proc/mounts").unwrap();
    let none = source(&text);
    let want = [
        format!("{none} / tmpfs rw,relatime 0 0"),
        format!("{none} /proc proc rw,nosuid,nodev,relatime 0 0"),
        format!("{none} /m/a\\040b tmpfs ro,relatime 0 0"),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), want);
    let own = mountinfo(&task);
    assert_eq!(read(&task, "/proc/self/mountinfo").unwrap().into_bytes(), own);
    // A task with another root sees its own mounts, and others see those of that task.
    let child = task.fork();
    child.chroot("/m").unwrap();
    let path = format!("/proc/{}/mountinfo", child.number());
    assert_eq!(read(&task, &path).unwrap().into_bytes(), mountinfo(&child));
    assert_ne!(mountinfo(&child), own);
}

#[test]
fn a_task_in_a_namespace_of_its_own_shows_that_one() {
    let task = machine();
    let mut other = task.fork();
    other.unshare_mounts().unwrap();
    other.umount2("/proc", pathwalk::UmountFlags::DETACH).unwrap();
    let path = format!("/proc/{}/mounts", other.number());
    assert_eq!(read(&task, &path).unwrap().lines().count(), 1);
    assert_eq!(read(&task, "/proc/self/mounts").unwrap().lines().count(), 2);
}

#[test]
fn a_fork_has_a_table_of_its_own_and_a_thread_shares_it() {
    let task = machine();
    let files = Arc::new(FdTable::new(8));
    task.set_files(Some(Arc::clone(&files)));
    let fd = files.insert(task.open("/m", OpenFlags::PATH, 0).unwrap()).unwrap();
    let (child, thread) = (task.fork(), task.thread());
    files.close(fd).unwrap();
    let path = format!("/proc/{}/fd/{fd}", child.number());
    assert_eq!(link(&task, &path).as_deref(), Ok("/m"));
    assert_eq!(link(&thread, &format!("/proc/self/fd/{fd}")), Err(Errno::ENOENT));
    assert_eq!(link(&thread, "/proc/self"), Ok(task.number().to_string()));
    let status = read(&task, &format!("/proc/{}/status", child.number())).unwrap();
    assert!(status.contains(&format!("\nPPid:\t{}\n", task.number())), "{status}");
}

/// What may not be looked into by somebody is not there for him, whatever he asks for: as in Linux, walked or remembered.
#[test]
fn whether_somebody_elses_files_are_there_is_not_told() {
    let task = machine();
    let user = task.vfs().task(Cred::user(1000, 1000));
    let path = format!("/proc/{}/fdinfo", task.number());
    for _ in 0..5 {
        assert_eq!(task.access(&path, AccessMode::empty()), Ok(()));
        assert_eq!(user.access(&path, AccessMode::empty()), Err(Errno::EACCES));
    }
}

type Call<'a> = (&'a str, &'a dyn Fn() -> Result<(), Errno>);

/// No lookup asks about what a magic link leads to.
#[test]
fn who_is_led_to_what_is_open_may_do_what_he_may_now() {
    let strict = HostOptions { coherence: Coherence::Strict, ..HostOptions::default() };
    let watched = HostOptions { coherence: Coherence::Watched, ..HostOptions::default() };
    let unwatched = HostOptions { watches: 0, ..strict.clone() };
    for (options, opened) in [strict, unwatched, watched]
        .iter()
        .flat_map(|options| [OpenFlags::RDONLY, OpenFlags::PATH].map(|opened| (options, opened)))
    {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("file");
        fs::write(&path, "1").unwrap();
        let root = host.path().as_os_str().as_bytes();
        let hostfs = HostFs::with_options(root, options.clone()).unwrap();
        let task = machine();
        task.mount(hostfs, "/m", MountFlags::empty()).unwrap();
        let files = Arc::new(FdTable::new(8));
        let fd = files.insert(task.open("/m/file", opened, 0).unwrap()).unwrap();
        let mut user = task.fork();
        user.set_files(Some(files));
        let other = path.metadata().unwrap().uid() + 1;
        user.set_cred(Cred::user(other, other));
        let link = &format!("/proc/self/fd/{fd}");
        let xattr = |name: &str| match user.getxattr(link, name, &mut []) {
            Err(Errno::ENODATA) => Ok(()),
            answer => answer.map(drop),
        };
        let calls: [Call<'_>; 6] = [
            ("open", &|| user.open(link, OpenFlags::RDONLY, 0).map(drop)),
            ("creat", &|| user.open(link, OpenFlags::CREAT, 0o600).map(drop)),
            ("open to write", &|| user.open(link, OpenFlags::RDWR, 0).map(drop)),
            ("truncate", &|| user.truncate(link, 1)),
            ("access", &|| user.access(link, AccessMode::R_OK)),
            ("getxattr", &|| xattr("user.none")),
        ];
        for (what, call) in calls {
            for (mode, answer) in [(0o600, Err(Errno::EACCES)), (0o666, Ok(()))].repeat(3) {
                let chmod = Command::new("chmod").arg(format!("{mode:o}")).arg(&path).status();
                assert!(chmod.unwrap().success());
                assert_eq!(call(), answer, "{what}, {mode:o}, {opened:?}, {options:?}");
            }
        }
    }
}

/// The form of linkat(2) that needs no privilege: a magic link to what has no name any more.
#[test]
fn what_others_removed_gets_no_name_by_a_magic_link() {
    let task = machine();
    let files = Arc::new(FdTable::new(8));
    task.set_files(Some(Arc::clone(&files)));
    let dir = tempfile::tempdir().unwrap();
    for coherence in [Coherence::Strict, Coherence::Watched] {
        let options = HostOptions { coherence, ..HostOptions::default() };
        let fs = HostFs::with_options(dir.path().as_os_str().as_bytes(), options).unwrap();
        task.mount(fs, "/m", MountFlags::empty()).unwrap();
        for opened in [OpenFlags::PATH, OpenFlags::RDONLY] {
            fs::write(dir.path().join("f"), "").unwrap();
            let fd = files.insert(task.open("/m/f", opened, 0).unwrap()).unwrap();
            fs::remove_file(dir.path().join("f")).unwrap();
            let link = format!("/proc/self/fd/{fd}");
            let linked = task.linkat(At::Cwd, &link, At::Cwd, "/m/new", AtFlags::SYMLINK_FOLLOW);
            assert_eq!(linked, Err(Errno::ENOENT), "{opened:?}, {coherence:?}");
        }
    }
}
