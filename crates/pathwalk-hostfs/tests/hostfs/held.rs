//! Files that are open, as others change whose they are.

use crate::coherence::{each, elsewhere, unwatched};
use pathwalk_abi::{
    AtFlags, Errno, OpenFlags, Result, SetTime, XattrFlags,
    mode::{S_ISGID, S_ISUID},
};
use pathwalk_core::{At, Cred, File, Task};
use rustix::process::geteuid;

type Call<'a> = (&'a str, &'a dyn Fn(&Task, &File) -> Result<()>);

/// No lookup asks about what is open already.
#[test]
fn who_may_change_what_is_open_is_whose_it_is_now() {
    if !geteuid().is_root() {
        return println!("SKIPPED: only root gives files away");
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
        return println!("SKIPPED: only root gives files away");
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
