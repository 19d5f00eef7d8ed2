//! realpath: what it says is what the C library's realpath(3) says of the same tree on the host.

use pathwalk::{At, AtFlags, Config, Cred, Errno, MemFs, MountFlags, OpenFlags, Stat, Task, Vfs};

fn task() -> Task {
    Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root())
}

fn real(task: &Task, path: &str) -> Result<String, Errno> {
    let mut buf = [0; 4096];
    let mut stat = Stat::default();
    let len = task.realpath(path, &mut buf, &mut stat)?;
    assert_eq!(Ok(stat), task.stat(path), "{path}");
    Ok(String::from_utf8(buf[..len].to_vec()).unwrap())
}

/// Makes a directory and all above it.
fn mkdir_all(task: &Task, path: &str) {
    let mut made = String::new();
    for name in path.split('/').skip(1) {
        made += &format!("/{name}");
        task.mkdir(&made, 0o755).unwrap();
    }
}

/// The same tree twice: in a temporary directory of the host, and in a machine under the same path.
#[test]
fn it_answers_as_the_c_library_does() {
    let host = tempfile::tempdir().unwrap();
    let top = host.path().canonicalize().unwrap();
    let top = top.to_str().unwrap();
    let task = task();
    mkdir_all(&task, top);
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
    let mut stat = Stat::default();
    let above = task.realpathat(&outside, "", AtFlags::EMPTY_PATH, &mut buf, &mut stat);
    assert_eq!(above, Err(Errno::ENOENT));
}

#[test]
fn a_buffer_that_is_too_small_is_erange_and_a_link_can_be_the_file() {
    let task = task();
    task.mkdir("/abc", 0o755).unwrap();
    task.symlink("abc", "/link").unwrap();
    let mut stat = Stat::default();
    for _ in 0..3 {
        for len in 0..8 {
            let mut buf = vec![0; len];
            let got = task.realpath("/link", &mut buf, &mut stat);
            assert_eq!(got, if len < 4 { Err(Errno::ERANGE) } else { Ok(4) });
            let got = task.realpath("/", &mut buf, &mut stat);
            assert_eq!(got, if len < 1 { Err(Errno::ERANGE) } else { Ok(1) });
        }
        let mut buf = [0; 8];
        let mut at =
            |flags, buf: &mut [u8]| task.realpathat(At::Cwd, "/link", flags, buf, &mut stat);
        let len = at(AtFlags::SYMLINK_NOFOLLOW, &mut buf).unwrap();
        assert_eq!(at(AtFlags::REMOVEDIR, &mut buf), Err(Errno::EINVAL));
        assert_eq!((&buf[..len], stat.st_mode & 0o170_000), (&b"/link"[..], 0o120_000));
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
            let (mut buf, mut stat) = (vec![0; size], Stat::default());
            let got = task.realpathat(&dir, "", AtFlags::EMPTY_PATH, &mut buf, &mut stat);
            assert_eq!(got, Err(Errno::ENAMETOOLONG), "{at}, {size}");
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
        assert_eq!(task.realpath("/a/b/f", &mut [0; 5], &mut Stat::default()), Err(Errno::ERANGE));
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
        let (mut buf, mut stat) = ([0; 100], Stat::default());
        let of_file = task.realpathat(&file, "", AtFlags::EMPTY_PATH, &mut buf, &mut stat);
        let of_directory = task.realpath(".", &mut buf, &mut stat);
        road::take(None);
        assert_eq!((of_file, of_directory), (Err(Errno::ENOENT), Err(Errno::ENOENT)), "{road:?}");
    }
}

/// A task in a tree where many ways lead to one file, each not by its own name, and where else there is room.
fn many_ways() -> Task {
    let task = task();
    for dir in ["/a", "/a/b", "/a/b/c", "/a/x", "/o", "/o/x", "/t"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    task.creat("/a/b/c/f", 0o644).unwrap();
    task.symlink("a/b", "/l").unwrap();
    task.symlink("/l/c/f", "/t/abs").unwrap();
    task.symlink("../x/../b/./c", "/a/b/again").unwrap();
    task
}

const WAYS: [&str; 6] =
    ["/l/c/f", "/t/abs", "/a/x/../b/c/f", "/l/again/f", "/a//b/./c/f", "/t/../l/../b/c/f"];

/// What a thread says that remembers nothing.
fn walked(task: &Task, path: &str) -> Result<String, Errno> {
    std::thread::scope(|scope| scope.spawn(|| real(task, path)).join().unwrap())
}

/// Whatever changes one of the names of the path, or what they lead to, is felt by who knew the path: also where that name was not
/// spelt by him.
#[test]
fn what_happens_to_a_name_on_the_way_is_felt() {
    type Event = (&'static str, fn(&Task) -> Result<(), Errno>, Option<&'static str>);
    let events: [Event; 10] = [
        ("the top is renamed", |task| task.rename("/a", "/z"), None),
        ("the middle is renamed", |task| task.rename("/a/b", "/a/z"), None),
        ("the directory is moved", |task| task.rename("/a/b/c", "/o/c"), None),
        ("the file is renamed", |task| task.rename("/a/b/c/f", "/a/b/c/g"), None),
        ("the file is removed", |task| task.unlink("/a/b/c/f"), None),
        (
            "another file takes its name",
            |task| {
                task.creat("/o/f", 0o600)?;
                task.rename("/o/f", "/a/b/c/f")
            },
            Some("/a/b/c/f"),
        ),
        (
            "the middle becomes a symlink",
            |task| {
                task.rename("/a/b", "/a/z")?;
                task.symlink("z", "/a/b")
            },
            Some("/a/z/c/f"),
        ),
        (
            "the top becomes a symlink",
            |task| {
                task.rename("/a", "/o/a")?;
                task.symlink("o/a", "/a")
            },
            Some("/o/a/b/c/f"),
        ),
        (
            "something is mounted over the middle",
            |task| task.mount(MemFs::new(), "/a/b", MountFlags::empty()),
            None,
        ),
        (
            "a part of the tree is mounted over the top",
            |task| {
                for dir in ["/o/b", "/o/b/c"] {
                    task.mkdir(dir, 0o755)?;
                }
                task.symlink("../x/../b/./c", "/o/b/again")?;
                task.creat("/o/b/c/f", 0o644)?;
                task.bind("/o", "/a")
            },
            Some("/a/b/c/f"),
        ),
    ];
    for (what, happens, want) in events {
        let task = many_ways();
        for _ in 0..4 {
            for path in WAYS {
                assert_eq!(real(&task, path).unwrap(), "/a/b/c/f", "{path}");
            }
        }
        happens(&task).unwrap();
        for path in WAYS {
            let walked = walked(&task, path);
            assert!(want.is_none() || walked == want.ok_or(Errno::ENOENT).map(String::from));
            for _ in 0..4 {
                assert_eq!(real(&task, path), walked, "{path}, when {what}");
            }
        }
    }
}

/// Mounts on the way: what moves, goes, or lies over it.
#[test]
fn what_happens_to_a_mount_on_the_way_is_felt() {
    let task = task();
    for dir in ["/m", "/n", "/k", "/k/in"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    task.symlink("m/./d", "/l").unwrap();
    let mount = |path: &str| task.mount(MemFs::new(), path, MountFlags::empty()).unwrap();
    mount("/m");
    for dir in ["/m/d", "/m/d/e"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    let asked_often = |path: &str, want: Result<&str, Errno>| {
        assert_eq!(walked(&task, path), want.map(String::from), "{path}");
        for _ in 0..4 {
            assert_eq!(real(&task, path), want.map(String::from), "{path}");
        }
    };
    let way = "/l/e/../e";
    asked_often(way, Ok("/m/d/e"));
    task.mount_tree("/m", "/n", MountFlags::MOVE).unwrap();
    asked_often(way, Err(Errno::ENOENT));
    task.unlink("/l").unwrap();
    task.symlink("n/./d", "/l").unwrap();
    asked_often(way, Ok("/n/d/e"));
    // Its mountpoint gets another name, and nothing else changes.
    task.bind("/", "/k/in").unwrap();
    asked_often("/k/in/k/./in", Ok("/k/in/k/in"));
    asked_often("/n/d/../d/e", Ok("/n/d/e"));
    assert_eq!(task.rename("/n", "/o"), Err(Errno::EBUSY));
    task.umount2("/n", pathwalk::UmountFlags::empty()).unwrap();
    asked_often(way, Err(Errno::ENOENT));
    task.umount2("/k/in", pathwalk::UmountFlags::empty()).unwrap();
    asked_often("/k/./in", Ok("/k/in"));
    // Where one dentry carries two mounts it stays a mountpoint when one of them goes: only that mount tells.
    task.bind("/", "/k/in").unwrap();
    for path in ["/m", "/k/in/m"] {
        task.mount(MemFs::new(), path, MountFlags::empty()).unwrap();
        task.mkdir(format!("{path}/d"), 0o755).unwrap();
    }
    for (from, to) in [("/m", "/n"), ("/k/in/m", "/k/in/n")] {
        asked_often(&format!("{from}/./d"), Ok(&format!("{from}/d")));
        task.mount_tree(from, to, MountFlags::MOVE).unwrap();
        asked_often(&format!("{from}/./d"), Err(Errno::ENOENT));
        asked_often(&format!("{to}/./d"), Ok(&format!("{to}/d")));
    }
}

/// One place has a path for each root from which it is seen, and for each mount by which it is reached.
#[test]
fn a_path_is_of_the_root_from_which_it_is_asked_for() {
    let task = many_ways();
    task.bind("/a", "/o/x").unwrap();
    task.symlink("../c/../c", "/a/b/c/round").unwrap();
    let mut jailed = task.fork();
    jailed.unshare_fs();
    for _ in 0..2 {
        for _ in 0..4 {
            assert_eq!(real(&task, "/l/c/f").unwrap(), "/a/b/c/f");
            assert_eq!(real(&task, "/o/./x/b/c/f").unwrap(), "/o/x/b/c/f");
            assert_eq!(real(&task, "/l/c/round/f").unwrap(), "/a/b/c/f");
        }
        jailed.chroot("/a").unwrap();
        for _ in 0..4 {
            assert_eq!(real(&jailed, "/b/./c/f").unwrap(), "/b/c/f");
            assert_eq!(real(&jailed, "/b/c/round/f").unwrap(), "/b/c/f");
            assert_eq!(real(&jailed, "/../..").unwrap(), "/");
        }
        jailed.chroot("/b").unwrap();
        for _ in 0..4 {
            assert_eq!(real(&jailed, "/c/../c/./f").unwrap(), "/c/f");
        }
        jailed = task.fork();
        jailed.unshare_fs();
    }
    // All of the tasks that share it get another root.
    let other = task.fork();
    for _ in 0..4 {
        assert_eq!(real(&other, "/./a/b/c").unwrap(), "/a/b/c");
    }
    other.chdir("/").unwrap();
    task.mkdir("/a/a", 0o755).unwrap();
    task.mkdir("/a/a/b", 0o755).unwrap();
    task.mkdir("/a/a/b/c", 0o755).unwrap();
    jailed.chroot("/a").unwrap();
    for _ in 0..4 {
        assert_eq!(real(&jailed, "/./a/b/c").unwrap(), "/a/b/c");
        assert_ne!(task.stat("/./a/b/c"), jailed.stat("/./a/b/c"));
    }
}

/// What a memo has no room for is read from the names on the way up, as before.
#[cfg(debug_assertions)]
#[test]
fn a_memo_tells_what_it_has_room_for() {
    use pathwalk::road::told;
    let task = task();
    let lens = [1, 8, 20, 31, 32, 33, 36, 37, 40, 45, 50, 51, 52, 53, 54, 55, 56, 60, 100, 255];
    for len in lens {
        let name = "n".repeat(len);
        task.mkdir(format!("/{name}"), 0o755).unwrap();
        for (path, asked) in [(format!("/./{name}"), len + 3), (format!("/{name}/."), len + 3)] {
            for round in 0..5 {
                let before = told();
                assert_eq!(real(&task, &path).unwrap(), format!("/{name}"));
                let fits = asked + 1 + len <= 112;
                let want = if round >= 2 { fits } else { told() > before };
                assert_eq!(
                    told() > before,
                    want,
                    "{asked} bytes, {len} in the name, round {round}"
                );
            }
        }
    }
    // More names than a memo looks at itself; also more than anybody climbs over who holds nothing.
    let mut deep = String::new();
    for depth in 1..40 {
        deep += "/d";
        task.mkdir(&deep, 0o755).unwrap();
        let before = told();
        for _ in 0..5 {
            assert_eq!(real(&task, &format!("/.{deep}")).unwrap(), deep);
        }
        assert_eq!(told() > before, depth < 15, "{depth} directories");
    }
    for _ in 0..5 {
        assert_eq!(real(&task, "/..").unwrap(), "/");
    }
}

/// Random changes, to a machine and to the host: after each of them both say the same of all paths, though the machine's paths are
/// mostly remembered.
#[test]
fn whatever_is_renamed_the_c_library_says_the_same() {
    let host = tempfile::tempdir().unwrap();
    // Nothing of the host's own is reached by going up.
    let top = host.path().canonicalize().unwrap().join("1/2/3/4");
    std::fs::create_dir_all(&top).unwrap();
    let top = top.to_str().unwrap();
    let task = task();
    mkdir_all(&task, top);
    let seed = std::env::var("PATHWALK_SEED").map(|seed| seed.parse().unwrap());
    let seed = seed.unwrap_or_else(|_| fastrand::u64(..));
    println!("PATHWALK_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let names = ["a", "b", "c"];
    let dirs = ["", "/a", "/b", "/a/a", "/a/b", "/b/a"];
    let mut paths = Vec::new();
    for first in ["a", "b", "c", "./a", "a/../b"] {
        for rest in ["", "/a", "/b/..", "/a/../b", "/c", "/a/b", "/b/./a/c"] {
            paths.push(format!("{top}/{first}{rest}"));
        }
    }
    let errno = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap()).unwrap();
    let mut found = 0;
    for _ in 0..400 {
        let name = |random: &mut fastrand::Rng| {
            format!("{top}{}/{}", random.choice(dirs).unwrap(), random.choice(names).unwrap())
        };
        let (one, two) = (name(&mut random), name(&mut random));
        let (ours, theirs) = match random.u32(..7) {
            0 | 1 => (task.mkdir(&one, 0o755), std::fs::create_dir(&one)),
            2 | 3 => (task.rename(&one, &two), std::fs::rename(&one, &two)),
            4 => {
                let target = random.choice(["a", "..", "../b", "b/a", "../a/."]).unwrap();
                (task.symlink(target, &one), std::os::unix::fs::symlink(target, &one))
            }
            5 => (task.rmdir(&one), std::fs::remove_dir(&one)),
            _ => {
                let opened = task.open(&one, OpenFlags::CREAT | OpenFlags::WRONLY, 0o644);
                let created = std::fs::OpenOptions::new().create(true).append(true).open(&one);
                (opened.map(drop), created.map(drop))
            }
        };
        assert_eq!(ours, theirs.map_err(errno), "{one}, {two}");
        if random.u32(..8) == 0 {
            let (ours, theirs) = (task.unlink(&two), std::fs::remove_file(&two));
            assert_eq!(ours, theirs.map_err(errno), "{two}");
        }
        for path in &paths {
            let want = std::fs::canonicalize(path).map(|path| path.to_str().unwrap().to_owned());
            let want = want.map_err(errno);
            for _ in 0..3 {
                assert_eq!(real(&task, path), want, "{path}");
            }
            found += u32::from(want.is_ok());
        }
    }
    assert!(found > 100, "{found} paths lead somewhere");
}

/// Something moves when the path was just read, to be kept: neither this answer nor the next is of before and after at once.
#[cfg(debug_assertions)]
#[test]
fn a_path_that_is_read_while_something_moves_is_not_kept() {
    use pathwalk::road::{before_it_is_kept, told};
    let task = many_ways();
    let mover = task.fork();
    let ask = || real(&task, "/l/./c/f");
    // It is asked about twice, so it is remembered, and its path is not read yet.
    assert_eq!(ask().unwrap(), "/a/b/c/f");
    before_it_is_kept(move || {
        let moves = || {
            mover.rename("/a", "/z").unwrap();
            mover.unlink("/l").unwrap();
            mover.symlink("z/b", "/l").unwrap();
        };
        std::thread::scope(|scope| scope.spawn(moves).join().unwrap());
    });
    let before = told();
    // Its file is where it was found, by a way that is gone.
    let answer = ask();
    assert_eq!((answer.as_deref(), told()), (Ok("/z/b/c/f"), before));
    for _ in 0..4 {
        assert_eq!(ask().unwrap(), "/z/b/c/f");
    }
    assert!(told() > before);
}

/// Others move what is on the way, all the time: the path is always the one of the file whose attributes come with it.
#[test]
fn a_path_and_its_file_belong_together_while_others_move_them() {
    let task = task();
    for dir in ["/p", "/q", "/p/s", "/q/s"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    for file in ["/p/s/f", "/q/s/f"] {
        task.creat(file, 0o644).unwrap();
    }
    let files = ["/p/s/f", "/q/s/f"].map(|path| (path, task.stat(path).unwrap().st_ino));
    task.symlink("p/s", "/now").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let done = &done;
    std::thread::scope(|scope| {
        let (mover, looker) = (task.fork(), task.fork());
        scope.spawn(move || {
            for turn in 0..3000 {
                let to = if turn % 2 == 0 { "q/s" } else { "p/s" };
                mover.symlink(to, "/next").unwrap();
                mover.rename("/next", "/now").unwrap();
                if turn % 7 == 0 {
                    mover.rename("/p", "/away").unwrap();
                    mover.rename("/away", "/p").unwrap();
                }
                // So that it is remembered, too.
                (0..turn % 50 * 20).for_each(|_| std::hint::spin_loop());
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut looks = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) || looks < 1000 {
            for way in ["/now/f", "/now/./f", "/now/../s/f"] {
                let mut buf = [0; 64];
                let mut stat = Stat::default();
                match looker.realpath(way, &mut buf, &mut stat) {
                    Ok(len) => {
                        let path = std::str::from_utf8(&buf[..len]).unwrap();
                        let away = ("/away/s/f", files[0].1);
                        let all = [files[0], files[1], away];
                        assert!(all.contains(&(path, stat.st_ino)), "{path} {}", stat.st_ino);
                    }
                    Err(errno) => assert_eq!(errno, Errno::ENOENT),
                }
            }
            looks += 1;
        }
    });
    for _ in 0..4 {
        let now = real(&task, "/now/f").unwrap();
        assert_eq!(now, walked(&task, "/now/f").unwrap());
    }
}
