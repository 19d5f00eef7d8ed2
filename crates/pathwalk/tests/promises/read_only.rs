//! A cached lookup stores nothing: it succeeds while the tables cannot be written.

use crate::common::{lookups::World, sample::SampleFs};
use pathwalk::{Config, Cred, Errno, FileType, Task, Vfs, fs::Features};
use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
};

#[test]
fn lookups_succeed_while_the_tables_are_read_only() {
    let world = World::new().unwrap();
    // Each with a root and a current directory of its own: taking those counts them.
    let tasks: Vec<Task> = (0..4).map(|_| world.task.fork()).collect();
    let calls = world.vfs.with_tables_read_only(|| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = tasks
                .iter()
                .map(|task| scope.spawn(|| (0..50).map(|_| world.round(task)).sum::<usize>()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        })
    });
    assert!(calls.unwrap() > 4 * 50 * 200);
    // And afterwards they can be written again.
    assert_eq!(world.task.mkdir("/mnt/new", 0o755), Ok(()));
}

#[test]
fn a_panic_leaves_the_tables_writable() {
    let world = World::new().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.vfs.with_tables_read_only(|| std::panic::resume_unwind(Box::new(())))
    }));
    assert!(panicked.is_err());
    assert_eq!(world.task.mkdir("/mnt/new", 0o755), Ok(()));
}

/// Once the hands have gone by, a hit stores that the name is used; no hit does before, and none that comes after.
#[test]
fn a_hit_takes_a_mark_off_once() {
    const NAMES: u32 = 400;
    for memo_bytes in [0, Config::default().memo_bytes] {
        let fs = SampleFs::new(Features::empty());
        // Every third is not there, which is cached as well.
        let is_there = |number: u32| !number.is_multiple_of(3);
        for number in (0..NAMES).filter(|&number| is_there(number)) {
            fs.appear(&format!("{number}"), FileType::Regular, 0o644, "");
        }
        let vfs = Vfs::new(Config { memo_bytes, ..Config::default() }, fs).unwrap();
        let task = vfs.task(Cred::root());
        let paths: Vec<String> = (0..NAMES).map(|number| format!("/{number}")).collect();
        let look_up_all = || {
            for (number, path) in (0..).zip(&paths) {
                let want = if is_there(number) { Ok(()) } else { Err(Errno::ENOENT) };
                assert_eq!(task.stat(path).map(drop), want, "{path}");
            }
        };
        (0..3).for_each(|_| look_up_all());
        vfs.with_tables_read_only(look_up_all).unwrap();
        for _ in 0..3 {
            let before = vfs.hand_steps();
            assert_eq!(vfs.shrink(1), 1);
            // What was marked before has been used since: the hand that drops went by it.
            let steps = vfs.hand_steps().wrapping_sub(before);
            assert!(before == 0 || steps > NAMES / 10, "{steps}");
            look_up_all();
            vfs.with_tables_read_only(look_up_all).unwrap();
        }
    }
}

/// The protection works: what stores does not survive it.
#[test]
fn whatever_stores_ends_the_process_while_the_tables_are_read_only() {
    type Store = fn(&Task) -> Result<(), Errno>;
    let stores: [(&str, Store); 5] = [
        ("mkdir", |task| task.mkdir("/mnt/new", 0o755)),
        ("chmod", |task| task.chmod("/mnt/upper", 0o600)),
        ("open", |task| task.open("/mnt/upper", pathwalk::OpenFlags::PATH, 0).map(drop)),
        ("chdir", |task| task.chdir("/mnt")),
        ("lookup", |task| task.stat("/net/never-seen").map(drop)),
    ];
    const CHILD: &str = "PATHWALK_STORE";
    if let Ok(name) = std::env::var(CHILD) {
        let world = World::new().unwrap();
        let (_, store) = stores.iter().find(|(store, _)| *store == name).unwrap();
        let task = world.vfs.task(pathwalk::Cred::root());
        let _ = world.vfs.with_tables_read_only(|| store(&task));
        return;
    }
    for (name, _) in stores {
        let status = again("read_only::whatever_stores", &[(CHILD, name)]);
        assert_eq!(status.signal(), Some(SIGSEGV), "{name}: {status}");
    }
    assert!(again("read_only::lookups_succeed", &[]).success());
}

const SIGSEGV: i32 = 11;

/// Runs tests of this program in a process of their own.
fn again(filter: &str, variables: &[(&str, &str)]) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(filter).envs(variables.iter().copied());
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
}
