//! Memory of what was removed goes back to the system while others walk, hold and make what was and is there.

use crate::{check_whole, deadline, machine};
use pathwalk::{Dev, Errno, OpenFlags, Task};
use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    thread,
    time::Instant,
};

/// So many files come and go in a directory at once: some chunks of 64 KiB.
const FILES: u32 = 3000;

/// Whose number this is, and of which turn.
fn dev(dir: u32, number: u32) -> Dev {
    Dev::new(dir + 1, number)
}

fn path(dir: u32, number: u32) -> String {
    // Some names are long, some directories are of that number.
    format!(
        "/{dir}/{}/{number}{}",
        number % 7,
        if number.is_multiple_of(5) { "-with-a-name-that-lies-elsewhere" } else { "" }
    )
}

/// Makes all files of a directory, renames some, and removes them all again.
fn come_and_go(task: &Task, dir: u32) {
    for part in 0..7 {
        task.mkdir(format!("/{dir}/{part}"), 0o755).unwrap();
    }
    for number in 0..FILES {
        task.mknod(path(dir, number), 0o020_644, dev(dir, number)).unwrap();
        if number % 11 == 3 {
            task.rename(path(dir, number), format!("/{dir}/moved")).unwrap();
            task.rename(format!("/{dir}/moved"), path(dir, number)).unwrap();
        }
    }
    for number in 0..FILES {
        task.unlink(path(dir, number)).unwrap();
    }
    for part in 0..7 {
        task.rmdir(format!("/{dir}/{part}")).unwrap();
    }
}

/// Ends what the others do, also where this one panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn memory_goes_while_others_walk() {
    let task = machine();
    for dir in 0..3 {
        task.mkdir(format!("/{dir}"), 0o755).unwrap();
    }
    task.mkdir("/0/stays", 0o755).unwrap();
    task.mknod("/0/stays/f", 0o020_644, Dev::new(77, 77)).unwrap();
    let (over, end) = (AtomicBool::new(false), deadline());
    let [found, missed, went] = [(); 3].map(|()| AtomicU32::new(0));
    thread::scope(|scope| {
        for dir in 0..2 {
            let (task, over) = (task.fork(), &over);
            scope.spawn(move || {
                let _over = Over(over);
                while Instant::now() < end {
                    come_and_go(&task, dir);
                }
            });
        }
        for reader in 0..2 {
            let (task, over, found, missed) = (task.fork(), &over, &found, &missed);
            scope.spawn(move || {
                let mut number: u32 = reader;
                while !over.load(Relaxed) {
                    number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let (dir, file) = (number >> 8 & 1, (number >> 9) % FILES);
                    let path = path(dir, file);
                    let told = match number >> 30 {
                        0 => {
                            task.open(&path, OpenFlags::PATH, 0).and_then(|file| task.fstat(&file))
                        }
                        _ => task.stat(&path),
                    };
                    match told {
                        Ok(stat) => {
                            assert_eq!(
                                stat.st_rdev,
                                dev(dir, file).to_stat(),
                                "{path} is another thing"
                            );
                            found.fetch_add(1, Relaxed);
                        }
                        Err(errno) => {
                            assert_eq!(errno, Errno::ENOENT);
                            missed.fetch_add(1, Relaxed);
                        }
                    }
                    assert_eq!(
                        task.stat("/0/stays/f").unwrap().st_rdev,
                        Dev::new(77, 77).to_stat()
                    );
                    assert_eq!(task.stat("/2/none").unwrap_err(), Errno::ENOENT);
                }
            });
        }
        let (task, over, went) = (task.fork(), &over, &went);
        scope.spawn(move || {
            while !over.load(Relaxed) {
                let before = task.vfs().usage().bytes;
                task.vfs().shrink(0);
                went.fetch_add(u32::from(task.vfs().usage().bytes < before), Relaxed);
            }
        });
    });
    assert!([found, missed, went].iter().all(|times| times.load(Relaxed) > 10));
    check_whole(&task);
}
