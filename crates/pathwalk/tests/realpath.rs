//! realpath: what it says is what the C library's realpath(3) says of the same tree on the host.

use pathwalk::{AtFlags, Config, Cred, Errno, MemFs, MountFlags, OpenFlags, Task, Vfs};

fn task() -> Task {
    Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root())
}

fn real(task: &Task, path: &str) -> Result<String, Errno> {
    let mut buf = [0; 4096];
    let (len, stat) = task.realpath(path, &mut buf)?;
    assert_eq!(Ok(stat), task.stat(path), "{path}");
    Ok(String::from_utf8(buf[..len].to_vec()).unwrap())
}

/// The same tree twice: in a temporary directory of the host, and in a machine under the same path.
#[test]
fn it_answers_as_the_c_library_does() {
    let host = tempfile::tempdir().unwrap();
    let top = host.path().canonicalize().unwrap();
    let top = top.to_str().unwrap();
    let task = task();
    let mut made = String::new();
    for name in top.split('/').skip(1) {
        made += &format!("/{name}");
        task.mkdir(&made, 0o755).unwrap();
    }
    let long = "n".repeat(200);
    for dir in ["a", "a/b", "a/b/c", &long, &format!("{long}/x")] {
        task.mkdir(format!("{top}/{dir}"), 0o755).unwrap();
        std::fs::create_dir(format!("{top}/{dir}")).unwrap();
    }
    for file in [
        "a/file",
        "a/b/c/thirty-two-bytes-is-the-most-in",
        "a/b/c/12345678",
        &format!("{long}/x/f"),
    ] {
        task.open(format!("{top}/{file}"), OpenFlags::CREAT | OpenFlags::WRONLY, 0o644).unwrap();
        std::fs::write(format!("{top}/{file}"), "").unwrap();
    }
    let absolute = format!("{top}/a/b");
    for (link, target) in [
        ("up", "a/b/.."),
        ("abs", &*absolute),
        ("a/b/link", "../../abs/c"),
        ("loop", "loop"),
        ("dangling", "nowhere/at/all"),
        ("a/b/c/last", "12345678"),
    ] {
        task.symlink(target, format!("{top}/{link}")).unwrap();
        std::os::unix::fs::symlink(target, format!("{top}/{link}")).unwrap();
    }
    let mut compared = 0;
    for path in [
        "",
        "a",
        "a/",
        "a/./b//c",
        "up",
        "up/file",
        "abs",
        "abs/c/last",
        "a/b/link",
        "a/b/link/last",
        "loop",
        "dangling",
        "gone",
        "a/file/x",
        "a/file/",
        "a/b/c/thirty-two-bytes-is-the-most-in",
        "a/b/../../abs/../file",
        &format!("{long}/x/f"),
        "/../../../../../../..",
    ] {
        let path = format!("{top}/{path}");
        let want = std::fs::canonicalize(&path).map(|path| path.to_str().unwrap().to_owned());
        let want = want.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap()).unwrap());
        // The first walk, one that is remembered, and one that uses what is remembered.
        for _ in 0..3 {
            assert_eq!(real(&task, &path), want, "{path}");
        }
        compared += 1;
    }
    assert!(compared > 15);
}

#[test]
fn mounts_and_roots_are_seen_from_within() {
    let mut task = task();
    for dir in ["/a", "/a/b", "/jail", "/jail/in"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    task.mount(MemFs::new(), "/a/b", MountFlags::empty()).unwrap();
    task.mkdir("/a/b/deep", 0o755).unwrap();
    assert_eq!(real(&task, "/a/b").unwrap(), "/a/b");
    assert_eq!(real(&task, "/a/b/deep/..").unwrap(), "/a/b");
    assert_eq!(real(&task, "/a/b/deep").unwrap(), "/a/b/deep");
    task.chdir("/a/b/deep").unwrap();
    assert_eq!(real(&task, ".").unwrap(), "/a/b/deep");
    assert_eq!(real(&task, "../..").unwrap(), "/a");
    let outside = task.open("/a", OpenFlags::PATH, 0).unwrap();
    task.unshare_fs();
    task.chroot("/jail").unwrap();
    assert_eq!(real(&task, "/in").unwrap(), "/in");
    assert_eq!(real(&task, "/").unwrap(), "/");
    assert_eq!(real(&task, "."), Err(Errno::ENOENT), "the current directory lies outside");
    let mut buf = [0; 64];
    let above = task.realpathat(&outside, "", AtFlags::EMPTY_PATH, &mut buf);
    assert_eq!(above.map(|_| ()), Err(Errno::ENOENT));
}

#[test]
fn a_buffer_that_is_too_small_is_erange_and_a_link_can_be_the_file() {
    let task = task();
    task.mkdir("/abc", 0o755).unwrap();
    task.symlink("abc", "/link").unwrap();
    for _ in 0..3 {
        for len in 0..8 {
            let mut buf = vec![0; len];
            let got = task.realpath("/link", &mut buf).map(|(len, _)| len);
            assert_eq!(got, if len < 4 { Err(Errno::ERANGE) } else { Ok(4) });
            let got = task.realpath("/", &mut buf).map(|(len, _)| len);
            assert_eq!(got, if len < 1 { Err(Errno::ERANGE) } else { Ok(1) });
        }
        let mut buf = [0; 8];
        let at = |flags, buf: &mut [u8]| task.realpathat(pathwalk::At::Cwd, "/link", flags, buf);
        let (len, stat) = at(AtFlags::SYMLINK_NOFOLLOW, &mut buf).unwrap();
        assert_eq!((&buf[..len], stat.st_mode & 0o170_000), (&b"/link"[..], 0o120_000));
        assert_eq!(at(AtFlags::REMOVEDIR, &mut buf).map(|_| ()), Err(Errno::EINVAL));
    }
}

/// Whether the file is held or not.
#[cfg(debug_assertions)]
#[test]
fn a_path_that_is_too_long_is_refused_on_every_road() {
    use pathwalk::road;
    let task = Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root());
    let name = "n".repeat(200);
    let mut dir = task.open("/", OpenFlags::PATH, 0).unwrap();
    for _ in 0..25 {
        task.mkdirat(&dir, &name, 0o755).unwrap();
        dir = task.openat(&dir, &name, OpenFlags::PATH, 0).unwrap();
    }
    for at in [road::NEVER, 0, 1] {
        road::take(Some(road::Road { at, how: road::How::Unlazy }));
        for size in [8192, 4096, 10] {
            let got = task.realpathat(&dir, "", AtFlags::EMPTY_PATH, &mut vec![0; size]);
            assert_eq!(got.map(|(len, _)| len), Err(Errno::ENAMETOOLONG), "{at}, {size}");
        }
        road::take(None);
    }
}

#[test]
fn a_remembered_path_is_its_own_only_while_nothing_moves() {
    let task = task();
    for dir in ["/a", "/a/b"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    task.creat("/a/b/f", 0o644).unwrap();
    let asked_often = |path: &str, want: Result<&str, Errno>| {
        for _ in 0..4 {
            assert_eq!(real(&task, path), want.map(String::from), "{path}");
        }
    };
    for path in ["/a/b/f", "/a//b/f", "/a/./b/f", "/a/b/../b/f"] {
        asked_often(path, Ok("/a/b/f"));
    }
    for _ in 0..4 {
        assert_eq!(task.realpath("/a/b/f", &mut [0; 5]), Err(Errno::ERANGE));
    }
    task.rename("/a/b", "/a/c").unwrap();
    asked_often("/a/b/f", Err(Errno::ENOENT));
    task.symlink("c", "/a/b").unwrap();
    asked_often("/a/b/f", Ok("/a/c/f"));
    task.unlink("/a/b").unwrap();
    task.symlink("/a/c/f", "/a/b").unwrap();
    asked_often("/a/b", Ok("/a/c/f"));
}

#[cfg(debug_assertions)]
#[test]
fn what_was_removed_has_no_path_on_any_road() {
    use pathwalk::road::{self, How, NEVER, Road};
    let task = task();
    task.mkdir("/d", 0o755).unwrap();
    let file = task.creat("/d/f", 0o644).unwrap();
    task.unlink("/d/f").unwrap();
    task.chdir("/d").unwrap();
    task.rmdir("/d").unwrap();
    let (unlazy, echild) = (How::Unlazy, How::Echild);
    let roads = [(NEVER, unlazy), (0, unlazy), (0, echild)].map(|(at, how)| Some(Road { at, how }));
    for road in roads.into_iter().chain([None]) {
        road::take(road);
        let of_file = task.realpathat(&file, "", AtFlags::EMPTY_PATH, &mut [0; 100]);
        let of_directory = task.realpath(".", &mut [0; 100]);
        road::take(None);
        assert_eq!((of_file, of_directory), (Err(Errno::ENOENT), Err(Errno::ENOENT)), "{road:?}");
    }
}
