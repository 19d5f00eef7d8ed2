//! Open files are the host's.

use crate::{
    common::{Ground, both_ways},
    left_out::left_out,
};
use pathwalk_abi::{AtFlags, Errno, MountFlags, OpenFlags, SetTime, Timespec};
use pathwalk_core::{At, Config, Cred, Seek, Vfs};
use pathwalk_hostfs::{Coherence, HostFs, HostOptions};
use rustix::process::geteuid;
use std::{
    env, fs,
    io::{Read, Seek as _, Write},
    os::{
        fd::AsFd,
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, PermissionsExt, chown},
            process::CommandExt,
        },
    },
    path::Path,
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

#[test]
fn bytes_go_both_ways() {
    both_ways(|options| {
        let ground = Ground::with(options);
        let task = &ground.task;
        task.mkdir("/d", 0o755).unwrap();
        let file = task.open("/d/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o600).unwrap();
        assert_eq!(task.write(&file, b"hello"), Ok(5));
        assert_eq!(fs::read(ground.host("d/f")).unwrap(), b"hello");
        assert_eq!(task.fstat(&file).unwrap().st_size, 5);
        let mut buf = [0; 16];
        assert_eq!(task.pread(&file, &mut buf, 1), Ok(4));
        assert_eq!(&buf[..4], b"ello");
        let end = task.open("/d/f", OpenFlags::WRONLY | OpenFlags::APPEND, 0).unwrap();
        assert_eq!(task.write(&end, b" world"), Ok(6));
        assert_eq!(end.offset(), 11);
        assert_eq!(task.stat("/d/f").unwrap().st_size, 11);
        task.ftruncate(&file, 3).unwrap();
        assert_eq!(fs::read(ground.host("d/f")).unwrap(), b"hel");
        task.open("/d/f", OpenFlags::WRONLY | OpenFlags::TRUNC, 0).unwrap();
        assert_eq!(task.stat("/d/f").unwrap().st_size, 0);
    });
}

#[test]
fn an_open_file_has_a_descriptor_of_the_host() {
    let ground = Ground::new();
    let task = &ground.task;
    let file = task.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o600).unwrap();
    let fd = file.host_fd().expect("it is a file of the host").try_clone_to_owned().unwrap();
    let mut native = fs::File::from(fd);
    native.write_all(b"by the host").unwrap();
    native.rewind().unwrap();
    let mut buf = [0; 16];
    assert_eq!(task.read(&file, &mut buf), Ok(11), "its position is its own");
    let mut read = String::new();
    native.read_to_string(&mut read).unwrap();
    assert_eq!(read, "by the host");
    assert_eq!(
        native.metadata().unwrap().ino(),
        task.fstat(&file).unwrap().st_ino,
        "it is this very file"
    );
    let path = task.open("/f", OpenFlags::PATH, 0).unwrap();
    assert!(path.host_fd().is_none(), "a place is not open");
}

#[test]
fn a_file_without_a_name_lives_while_it_is_open() {
    both_ways(|options| {
        let ground = Ground::with(HostOptions { handles: 1, ..options });
        let task = &ground.task;
        let file = task.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o600).unwrap();
        let place = task.open("/f", OpenFlags::PATH, 0).unwrap();
        task.write(&file, b"here").unwrap();
        task.unlink("/f").unwrap();
        assert!(!ground.host("f").exists());
        // Somebody else has the name now.
        task.open("/f", OpenFlags::CREAT | OpenFlags::WRONLY, 0o644).unwrap();
        let stat = task.fstat(&file).unwrap();
        assert_eq!((stat.st_nlink, stat.st_size), (0, 4));
        task.fchmod(&file, 0o444).unwrap();
        task.ftruncate(&file, 2).unwrap();
        let again = task.fstatat(At::Dir(&place), "", AtFlags::EMPTY_PATH).unwrap();
        assert_eq!((again.st_mode & 0o777, again.st_size), (0o444, 2));
        let mut buf = [0; 8];
        assert_eq!(task.pread(&file, &mut buf, 0), Ok(2));
        assert_eq!(task.stat("/f").unwrap().st_mode & 0o777, 0o644, "the other is not touched");
        let known = ground.fs.known_files();
        drop((file, place));
        assert_eq!(ground.fs.known_files(), known - 1, "the host's file goes with its last user");
    });
}

#[test]
fn a_file_that_never_had_a_name_can_get_one() {
    let ground = Ground::new();
    let task = &ground.task;
    let file = task.open("/", OpenFlags::TMPFILE | OpenFlags::RDWR, 0o640).unwrap();
    task.write(&file, b"new").unwrap();
    assert_eq!(fs::read_dir(ground.host("")).unwrap().count(), 0);
    task.linkat(&file, "", At::Cwd, "/named", AtFlags::EMPTY_PATH).unwrap();
    assert_eq!(fs::read(ground.host("named")).unwrap(), b"new");
    assert_eq!(task.fstat(&file).unwrap().st_nlink, 1);
    let stat = ground.host("named").metadata().unwrap();
    assert_eq!(stat.mode() & 0o777, 0o640, "whatever umask this process has");
}

#[test]
fn listings_are_the_host_s() {
    both_ways(|options| {
        let ground = Ground::with(options);
        for file in 0..1000 {
            fs::write(ground.host(&format!("file-{file}")), "").unwrap();
        }
        fs::create_dir(ground.host("dir")).unwrap();
        let task = &ground.task;
        let dir = task.open("/", OpenFlags::DIRECTORY, 0).unwrap();
        for _ in 0..2 {
            let mut names = Vec::new();
            let mut buf = [0; 777];
            loop {
                let len = task.getdents64(&dir, &mut buf).unwrap();
                if len == 0 {
                    break;
                }
                let mut rest = &buf[..len];
                while !rest.is_empty() {
                    let size = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
                    let name = rest[19..size].split(|&byte| byte == 0).next().unwrap();
                    names.push(String::from_utf8(name.to_vec()).unwrap());
                    rest = &rest[size..];
                }
            }
            assert_eq!(names.len(), 1003);
            names.sort();
            names.dedup();
            assert_eq!(names.len(), 1003, "each once");
            task.lseek(&dir, Seek::Set(0)).unwrap();
        }
    });
}

#[test]
fn what_is_only_to_be_read_is_not_changed() {
    let ground = Ground::with(HostOptions { read_only: true, ..HostOptions::default() });
    fs::write(ground.host("f"), "text").unwrap();
    let task = &ground.task;
    let file = task.open("/f", OpenFlags::RDONLY, 0).unwrap();
    let mut buf = [0; 8];
    assert_eq!(task.read(&file, &mut buf), Ok(4));
    for refused in [
        task.mkdir("/d", 0o755),
        task.unlink("/f"),
        task.rename("/f", "/g"),
        task.link("/f", "/g"),
        task.symlink("f", "/g"),
        task.chmod("/f", 0o600),
        task.truncate("/f", 0),
        task.open("/f", OpenFlags::RDWR, 0).map(drop),
        task.creat("/g", 0o600).map(drop),
    ] {
        assert_eq!(refused, Err(Errno::EROFS));
    }
    assert_eq!(fs::read(ground.host("f")).unwrap(), b"text");
    assert_eq!(fs::read_dir(ground.host("")).unwrap().count(), 1);
    assert!(file.host_fd().unwrap().as_fd().try_clone_to_owned().is_ok());
}

/// Under relatime a time of last access that is a day old is written at the next reading.
#[test]
fn what_is_not_to_be_noted_the_host_does_not_note() {
    let ground = Ground::new();
    let task = &ground.task;
    task.mkdir("/d", 0o755).unwrap();
    task.mkdir("/m", 0o755).unwrap();
    for name in ["/d/f", "/d/g"] {
        task.open(name, OpenFlags::CREAT | OpenFlags::WRONLY, 0o644).unwrap();
    }
    let old = UNIX_EPOCH + Duration::from_secs(1_000_000);
    let age = || {
        for path in ["d", "d/f"] {
            let file = fs::File::open(ground.host(path)).unwrap();
            file.set_times(fs::FileTimes::new().set_accessed(old)).unwrap();
        }
    };
    let noted =
        || ["d", "d/f"].map(|path| ground.host(path).metadata().unwrap().atime() > 1_000_000);
    let read = |dir: &str, flags: OpenFlags| {
        age();
        // The cache has older attributes than the host now.
        let (opened, mut buf) = (task.open(dir, flags, 0).unwrap(), [0; 256]);
        while task.getdents64(&opened, &mut buf).unwrap() != 0 {}
        let file = task.open(format!("{dir}/f"), flags, 0).unwrap();
        task.read(&file, &mut buf).unwrap();
    };
    read("/d", OpenFlags::NOATIME);
    assert_eq!(noted(), [false, false], "O_NOATIME");
    let bind = MountFlags::BIND;
    task.mount_tree("/d", "/m", bind).unwrap();
    task.mount_tree("", "/m", bind | MountFlags::REMOUNT | MountFlags::NOATIME).unwrap();
    read("/m", OpenFlags::empty());
    assert_eq!(noted(), [false, false], "a mount with noatime");
    task.mount_tree("", "/m", bind | MountFlags::REMOUNT | MountFlags::NODIRATIME).unwrap();
    read("/m", OpenFlags::empty());
    let [directory, _] = noted();
    assert!(!directory, "a mount with nodiratime");
    task.mount_tree("", "/m", bind | MountFlags::REMOUNT | MountFlags::RDONLY).unwrap();
    read("/m", OpenFlags::empty());
    assert_eq!(noted(), [false, false], "a read-only mount");
    age();
    fs::read_dir(ground.host("d")).unwrap().for_each(drop);
    // Its file system may be mounted so that it notes nothing.
    let [notes, _] = noted();
    read("/d", OpenFlags::empty());
    assert_eq!(noted(), [notes, notes], "all else is noted");
}

/// A host under relatime does not note that a file is read whose time of last access lies ahead.
#[test]
fn what_the_host_does_not_note_the_cache_notes() {
    let ground = Ground::new();
    let task = &ground.task;
    task.mkdir("/d", 0o755).unwrap();
    task.mkdir("/m", 0o755).unwrap();
    let bind = MountFlags::BIND;
    task.mount_tree("/d", "/m", bind).unwrap();
    task.mount_tree("", "/m", bind | MountFlags::REMOUNT | MountFlags::STRICTATIME).unwrap();
    let ahead = SetTime::At(Timespec { sec: 5_000_000_000, nsec: 0 });
    task.utimensat(At::Cwd, "/d", ahead, SetTime::Omit, AtFlags::empty()).unwrap();
    let list = || {
        let (opened, mut buf) = (task.open("/m", OpenFlags::empty(), 0).unwrap(), [0; 256]);
        while task.getdents64(&opened, &mut buf).unwrap() != 0 {}
        task.stat("/m").unwrap().st_atime
    };
    for _ in 0..3 {
        assert!(list() < 5_000_000_000, "it was read now");
    }
    task.chmod("/d", 0o700).unwrap();
    assert!(task.stat("/d").unwrap().st_atime < 5_000_000_000, "it was read before");
    task.utimensat(At::Cwd, "/d", ahead, SetTime::Omit, AtFlags::empty()).unwrap();
    assert_eq!(task.stat("/d").unwrap().st_atime, 5_000_000_000, "it was set");
}

/// Whom no mode binds in the tree one may bind on the host: what is his own is opened all the same, and stays as it is. What would lose
/// its set-group-ID bit by that is not opened.
#[test]
fn own_files_that_the_host_refuses_are_opened_and_stay_as_they_are() {
    const WHERE: &str = "PATHWALK_OWN_FILES";
    let files =
        [("own", 0o4040, 1000), ("of_his_group", 0o2155, 1000), ("of_another", 0o2155, 2000)];
    if let Some(dir) = env::var_os(WHERE) {
        let dir = Path::new(&dir);
        let options = HostOptions { coherence: Coherence::Exclusive, ..HostOptions::default() };
        let fs = HostFs::with_options(dir.as_os_str().as_bytes(), options).unwrap();
        let task = Vfs::new(Config::default(), fs).unwrap().task(Cred::root());
        for (name, mode, gid) in files {
            let path = format!("/{name}");
            assert_eq!(task.stat(&path).unwrap().st_mode & 0o7777, mode, "{name}");
            let may = if gid == 2000 { Err(Errno::EACCES) } else { Ok(()) };
            assert_eq!(task.open(&path, OpenFlags::RDONLY, 0).map(drop), may, "{name}");
            let (stat, host) = (task.stat(&path).unwrap(), dir.join(name).metadata().unwrap());
            assert_eq!((stat.st_mode & 0o7777, host.mode() & 0o7777), (mode, mode), "{name}");
            let changed = (stat.st_ctime, stat.st_ctime_nsec as i64);
            assert_eq!(changed, (host.ctime(), host.ctime_nsec()), "the cache was told: {name}");
        }
        return;
    }
    if !geteuid().is_root() {
        left_out("only root makes files of several users");
        return;
    }
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    chown(dir.path(), Some(1000), Some(1000)).unwrap();
    for (name, mode, gid) in files {
        let path = dir.path().join(name);
        fs::write(&path, "").unwrap();
        chown(&path, Some(1000), Some(gid)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let test = "open::own_files_that_the_host_refuses_are_opened_and_stay_as_they_are";
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", test, "--test-threads=1"]).env(WHERE, dir.path());
    // What cannot be run by others is not run.
    match command.uid(1000).gid(1000).current_dir("/").status() {
        Ok(status) => assert!(status.success()),
        Err(error) => left_out(format_args!("no process of another user: {error}")),
    }
}
