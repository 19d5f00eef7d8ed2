//! Files that are open, as others change whose they are.

use crate::{
    coherence::{each, elsewhere, unwatched},
    common::{Ground, as_ordinary_user},
    left_out::left_out,
};
use pathwalk_abi::{
    AccessMode, AtFlags, Errno, OpenFlags, Result, SetTime, XattrFlags,
    mode::{S_ISGID, S_ISUID},
};
use pathwalk_core::{At, Cred, File, Task};
use pathwalk_hostfs::{Coherence, HostOptions};
use rustix::{
    fs::{OFlags, fcntl_getfl},
    process::geteuid,
};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

type Call<'a> = (&'a str, &'a dyn Fn(&Task, &File) -> Result<()>);

/// No lookup asks about what is open already.
#[test]
fn who_may_change_what_is_open_is_whose_it_is_now() {
    if !geteuid().is_root() {
        return left_out("only root gives files away");
    }
    let calls: [Call<'_>; 7] = [
        ("fchmod", &|task, file| task.fchmod(file, 0o640)),
        ("chmod of nothing below it", &|task, file| {
            task.fchmodat2(file, "", 0o640, AtFlags::EMPTY_PATH)
        }),
        ("fchown", &|task, file| task.fchown(file, None, Some(1000))),
        ("futimens", &|task, file| {
            let time = SetTime::At(Default::default());
            task.futimens(file, time, time)
        }),
        ("fsetxattr", &|task, file| {
            let set = task.fsetxattr(file, "user.of", b"1", XattrFlags::empty());
            set.map_err(|errno| if errno == Errno::EACCES { Errno::EPERM } else { errno })
        }),
        ("linkat", &|task, file| match task.linkat(
            file,
            "",
            At::Cwd,
            "/a/link",
            AtFlags::EMPTY_PATH,
        ) {
            Ok(()) => task.unlink("/a/link"),
            answer => answer,
        }),
        ("fremovexattr", &|task, file| match task.fremovexattr(file, "user.of") {
            Err(Errno::EACCES) => Err(Errno::EPERM),
            Err(Errno::ENODATA) => Ok(()),
            answer => answer,
        }),
    ];
    each(|ground| {
        let mut user = ground.task.fork();
        user.set_cred(Cred::user(1000, 1000));
        elsewhere(ground, "chown 1000:1000 a/b/c/file; chmod 644 a/b/c/file; chmod 777 a");
        let file = user.open("/a/b/c/file", OpenFlags::RDWR, 0).unwrap();
        for (what, call) in calls {
            elsewhere(ground, "chown 0:0 a/b/c/file; chmod 644 a/b/c/file");
            assert_eq!(call(&user, &file), Err(Errno::EPERM), "{what}: another's");
            elsewhere(ground, "chown 1000:1000 a/b/c/file");
            assert_eq!(call(&user, &file), Ok(()), "{what}: one's own");
        }
    });
}

/// What others made it run as is lost as well when its contents change.
#[test]
fn what_is_written_to_runs_as_nobody_else() {
    if !geteuid().is_root() {
        return left_out("only root gives files away");
    }
    let calls: [Call<'_>; 2] = [
        ("write", &|task, file| task.write(file, b"2").map(drop)),
        ("ftruncate", &|task, file| task.ftruncate(file, 0)),
    ];
    each(|ground| {
        let mut user = ground.task.fork();
        user.set_cred(Cred::user(1000, 1000));
        elsewhere(ground, "chmod 666 a/b/c/file");
        let file = user.open("/a/b/c/file", OpenFlags::RDWR, 0).unwrap();
        for (what, call) in calls {
            elsewhere(ground, "chmod 6777 a/b/c/file");
            assert_eq!(call(&user, &file), Ok(()), "{what}");
            let mode = user.fstat(&file).unwrap().st_mode;
            assert_eq!(mode & (S_ISUID | S_ISGID), 0, "{what}");
        }
    });
}

/// Of who may keep what the file runs as nothing is taken, so whether there is any is not asked.
#[test]
fn who_keeps_set_id_bits_asks_for_none_before_a_write() {
    let ground = unwatched();
    let mut user = ground.task.fork();
    user.set_cred(Cred::user(1000, 1000));
    let file = ground.task.open("/a/b/c/file", OpenFlags::RDWR, 0).unwrap();
    let calls = |task: &Task| {
        (0..3).for_each(|_| assert_eq!(task.write(&file, b"2"), Ok(1)));
        ground.calls(|| assert_eq!(task.write(&file, b"2"), Ok(1)))
    };
    let mut root = ground.task.fork();
    root.set_cred(Cred::root());
    assert_eq!(calls(&user), calls(&root) + 1);
}

/// With an empty path no name leads there, and nobody would be asked.
#[test]
fn who_may_use_what_is_held_is_asked() {
    if !geteuid().is_root() {
        return left_out("whoever else runs this may own the files");
    }
    each(|ground| {
        let mut user = ground.task.fork();
        user.set_cred(Cred::user(1000, 1000));
        elsewhere(ground, "chmod 644 a/b/c/file");
        for opened in [OpenFlags::RDONLY, OpenFlags::PATH] {
            let file = user.open("/a/b/c/file", opened, 0).unwrap();
            let may = |mode| user.faccessat2(&file, "", mode, AtFlags::EMPTY_PATH);
            for (mode, answer) in [("600", Err(Errno::EACCES)), ("755", Ok(()))].repeat(3) {
                elsewhere(ground, &format!("chmod {mode} a/b/c/file"));
                for asked in [AccessMode::R_OK, AccessMode::X_OK] {
                    assert_eq!(may(asked), answer, "{asked:?}, {mode}, {opened:?}");
                }
                let runs = user.open_exec(&file, "", AtFlags::EMPTY_PATH).map(drop);
                assert_eq!(runs, answer, "to run it, {mode}, {opened:?}");
            }
            elsewhere(ground, "chmod 644 a/b/c/file");
        }
    });
}

/// What is wrong with the new name is said first, and then that there is nothing to be linked.
#[test]
fn what_others_removed_gets_no_name() {
    each(|ground| {
        elsewhere(ground, "touch a/there");
        for opened in [OpenFlags::PATH, OpenFlags::RDONLY] {
            elsewhere(ground, "touch a/b/c/file");
            let file = ground.task.open("/a/b/c/file", opened, 0).unwrap();
            elsewhere(ground, "rm a/b/c/file");
            let link = |to: &str| ground.task.linkat(&file, "", At::Cwd, to, AtFlags::EMPTY_PATH);
            assert_eq!(link("/a/there"), Err(Errno::EEXIST), "{opened:?}");
            assert_eq!(link("/none/new"), Err(Errno::ENOENT), "{opened:?}");
            assert_eq!(link("/a/new"), Err(Errno::ENOENT), "{opened:?}");
        }
    });
}

/// Who has a file open has it, whoever removed its name.
#[test]
fn what_others_removed_is_changed_by_who_has_it_open() {
    for coherence in [Coherence::Strict, Coherence::Watched] {
        // No other descriptor of it stays held.
        let ground = &Ground::with(HostOptions { coherence, handles: 1, ..HostOptions::default() });
        elsewhere(ground, "mkdir -p a/b/c; echo > a/b/c/file; mkdir other; echo > other/file");
        let task = &ground.task;
        let file = task.open("/a/b/c/file", OpenFlags::RDWR, 0).unwrap();
        elsewhere(ground, "rm a/b/c/file");
        task.chmod("/other/file", 0o600).unwrap();
        let time = SetTime::At(Default::default());
        assert_eq!(task.fchmod(&file, 0o640), Ok(()));
        assert_eq!(task.fchown(&file, None, None), Ok(()));
        assert_eq!(task.futimens(&file, time, time), Ok(()));
        assert_eq!(task.fsetxattr(&file, "user.of", b"1", XattrFlags::empty()), Ok(()));
        assert_eq!(task.ftruncate(&file, 7), Ok(()));
        let stat = task.fstat(&file).unwrap();
        assert_eq!((stat.st_size, stat.st_mode & 0o777, stat.st_nlink), (7, 0o640, 0));
    }
}

/// And whoever shut a directory above.
#[test]
fn what_cannot_be_walked_to_is_changed_by_who_has_it_open() {
    let test = "held::what_cannot_be_walked_to_is_changed_by_who_has_it_open";
    as_ordinary_user(4322, test, || {
        for coherence in [Coherence::Exclusive, Coherence::Strict, Coherence::Watched] {
            // No other descriptor of it stays held.
            let ground =
                &Ground::with(HostOptions { coherence, handles: 1, ..HostOptions::default() });
            elsewhere(ground, "mkdir -p a/b/c; echo > a/b/c/file; mkdir other; echo > other/file");
            let task = &ground.task;
            let file = task.open("/a/b/c/file", OpenFlags::RDWR, 0).unwrap();
            let place = task.open("/a/b/c/file", OpenFlags::PATH, 0).unwrap();
            task.chmod("/a", 0).unwrap();
            task.chmod("/other/file", 0o600).unwrap();
            let time = SetTime::At(Default::default());
            assert_eq!(task.fchmod(&file, 0o640), Ok(()), "{coherence:?}");
            assert_eq!(task.fchown(&file, None, None), Ok(()));
            assert_eq!(task.futimens(&file, time, time), Ok(()));
            assert_eq!(task.fsetxattr(&file, "user.of", b"1", XattrFlags::empty()), Ok(()));
            assert_eq!(task.ftruncate(&file, 7), Ok(()));
            let stat = task.fstat(&file).unwrap();
            assert_eq!((stat.st_size, stat.st_mode & 0o777, stat.st_nlink), (7, 0o640, 1));
            drop(file);
            task.chmod("/other/file", 0o640).unwrap();
            let of_nobody = task.fchmodat2(&place, "", 0o600, AtFlags::EMPTY_PATH);
            assert_eq!(of_nobody, Err(Errno::EACCES), "{coherence:?}");
            task.chmod("/a", 0o700).unwrap();
            assert_eq!(task.fchmodat2(&place, "", 0o600, AtFlags::EMPTY_PATH), Ok(()));
        }
    });
}

/// A file that its owner may not write to is opened up for the moment of opening, and no longer; and others are meanwhile.
#[test]
fn what_somebody_has_leased_is_not_opened_up_until_he_lets_go() {
    let test = "held::what_somebody_has_leased_is_not_opened_up_until_he_lets_go";
    as_ordinary_user(4322, test, || {
        let ground = &Ground::new();
        elsewhere(ground, "touch leased other; chmod 400 leased other");
        let mut root = ground.task.fork();
        root.set_cred(Cred::root());
        let script = "
import fcntl, os, signal, sys
told = []
signal.signal(signal.SIGIO, lambda *_: told.append(1))
fd = os.open('leased', os.O_RDONLY); fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
print('leased', flush=True)
while not told: signal.pause()
print('told', flush=True)
sys.stdin.readline()
";
        let holder = Command::new("python3")
            .args(["-c", script])
            .current_dir(ground.host(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut holder) = holder else { return left_out("python3 is not installed") };
        let mut says = BufReader::new(holder.stdout.take().unwrap());
        let mut line = || {
            let mut line = String::new();
            says.read_line(&mut line).unwrap();
            line
        };
        assert_eq!(line(), "leased\n");
        let nonblock = OpenFlags::RDWR | OpenFlags::NONBLOCK;
        let mode =
            |name: &str| fs::metadata(ground.host(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(root.open("/leased", nonblock, 0).map(drop), Err(Errno::EAGAIN));
        assert_eq!((line(), mode("leased")), ("told\n".into(), 0o400));
        thread::scope(|scope| {
            let waits = scope.spawn(|| root.fork().open("/leased", OpenFlags::RDWR, 0));
            thread::sleep(Duration::from_millis(100));
            let shut = (0..100).filter(|_| {
                thread::sleep(Duration::from_millis(1));
                mode("leased") == 0o400
            });
            let shut = shut.count();
            let since = Instant::now();
            root.open("/other", OpenFlags::RDWR, 0).unwrap();
            let took = since.elapsed();
            assert!(!waits.is_finished());
            drop(holder.stdin.take());
            let file = waits.join().unwrap().unwrap();
            assert!(shut > 50, "{shut} of 100");
            assert!(took < Duration::from_secs(2), "{took:?}");
            let flags = fcntl_getfl(file.host_fd().unwrap()).unwrap();
            assert_eq!(flags & (OFlags::NONBLOCK | OFlags::RWMODE), OFlags::RDWR);
        });
        assert_eq!(["leased", "other"].map(mode), [0o400; 2]);
        assert!(holder.wait().unwrap().success());
    });
}
