//! A directory that is private goes, and somebody else's comes in its place, by the same name and in the same slots: nobody
//! ever looks into what was never theirs.

use crate::{common::watched, deadline, machine};
use pathwalk::{AccessMode, Cred, Errno, OpenFlags, Result, Task};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Instant,
};

const OWNER: u32 = 1000;
/// One path by the roads that lookups have: remembered, as one run, and step by step.
const SECRET: [&str; 4] =
    ["/d/e/secret", "/./d/e/secret", "/link/e/secret", "/d/e/../../d/e/./secret"];

/// Makes /d/e with a file in it, private from the beginning, and takes it away.
fn make(task: &Task, name: &str) -> Result<()> {
    let file = format!("/d/e/{name}");
    task.mkdir("/d", 0o700)?;
    task.mkdir("/d/e", 0o700)?;
    drop(task.open(&file, OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::WRONLY, 0o644)?);
    for _ in 0..20 {
        assert_eq!(task.access(&file, AccessMode::empty()), Ok(()));
        thread::yield_now();
    }
    task.unlink(&file)?;
    task.rmdir("/d/e")?;
    task.rmdir("/d")
}

#[test]
fn nobody_looks_into_what_was_never_theirs() {
    watched(|| {
        let root = machine();
        root.chmod("/", 0o777).unwrap();
        root.symlink("d", "/link").unwrap();
        let mut owner = root.fork();
        owner.set_cred(Cred::user(OWNER, OWNER));
        let mut looker = root.fork();
        looker.set_cred(Cred::user(OWNER, OWNER));
        let end = deadline();
        let (mut made, mut seen, over) = (0_u64, 0_u64, AtomicBool::new(false));
        thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut seen = 0;
                while !over.load(Relaxed) {
                    for path in SECRET {
                        let answer = looker.access(path, AccessMode::empty());
                        let no = matches!(answer, Err(Errno::EACCES | Errno::ENOENT));
                        assert!(no, "{path}: {answer:?}");
                        seen += u64::from(answer == Err(Errno::EACCES));
                    }
                    let _ = looker.access("/d/e/open", AccessMode::empty());
                }
                seen
            });
            // A busy machine takes its time for each of the yields.
            while (Instant::now() < end || made <= 10) && !looking.is_finished() {
                make(&root, "secret").unwrap();
                make(&owner, "open").unwrap();
                made += 1;
            }
            over.store(true, Relaxed);
            seen = looking.join().unwrap();
        });
        assert!(made > 10 && seen > 0, "{made} times, refused {seen} times");
    });
}
