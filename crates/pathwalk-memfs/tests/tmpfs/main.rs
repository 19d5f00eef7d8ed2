//! The file system as a task of pathwalk sees it.

mod attributes;

mod contents;

mod limits;

mod memfd;

mod races;
mod root;

use pathwalk_abi::{OpenFlags, Timespec};
use pathwalk_core::{Config, Cred, File, Task, Vfs};
use pathwalk_memfs::{Limits, MemFs};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// A file system with so many pages and inodes, and a task of user 0 at its root.
fn machine(pages: Option<u64>, inodes: Option<u64>) -> (Arc<MemFs>, Task) {
    let fs = MemFs::with_limits(Limits { bytes: pages.map(|pages| pages * 4096), inodes });
    let config = Config { clock: Some(clock), ..Config::default() };
    let vfs = Vfs::new(config, Arc::clone(&fs) as _).expect("a machine");
    (fs, vfs.task(Cred::root()))
}

/// A clock that never shows the same time twice.
fn clock() -> Timespec {
    static TICKS: AtomicU64 = AtomicU64::new(1);
    let ticks = TICKS.fetch_add(1, Ordering::Relaxed);
    Timespec { sec: 1_000_000_000 + ticks as i64, nsec: 0 }
}

/// Opens a file for reading and writing, made if it is not there.
fn open(task: &Task, path: &str) -> File {
    task.open(path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644).expect("a file")
}

/// Reads an open file from its beginning to its end.
fn contents(task: &Task, file: &File) -> Vec<u8> {
    let size = task.fstat(file).expect("an open file").st_size as usize;
    let mut buf = vec![0xaa; size + 1];
    let read = task.pread(file, &mut buf, 0).expect("a file to read");
    buf.truncate(read);
    buf
}

/// Where two threads wait for each other without going to sleep, so that what they do next happens at once.
#[derive(Default)]
struct Meeting(AtomicU32);

impl Meeting {
    fn meet(&self) {
        let arrived = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let all = arrived.next_multiple_of(2);
        let mut spins = 0;
        while self.0.load(Ordering::Relaxed) < all {
            spins += 1;
            // The other one may have no processor.
            if spins % 1000 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Says when it goes that its thread has ended, even by a failed assertion: nobody then waits for it.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
