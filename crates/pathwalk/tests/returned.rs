//! What is dropped gives its memory back to the system.
//!
//! A process of its own: what others of its threads do would be counted.

mod common;

use common::resident;
use pathwalk::{Config, Cred, Dev, MemFs, Vfs};

const MIB: u64 = 1 << 20;
const FILES: u32 = 400_000;
/// 16 bytes of buckets for each name, 4 for each inode: these are never fewer.
const BUCKETS: u64 = FILES as u64 * 20;

#[test]
fn a_large_tree_that_is_removed_leaves_little_memory_behind() {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    let memory = || (vfs.usage().bytes, resident());
    let empty = memory();
    let path = |file: u32| format!("/{}/{file}", file % 10);
    for turn in 0..3 {
        (0..10).for_each(|dir| task.mkdir(format!("/{dir}"), 0o755).unwrap());
        (0..FILES).for_each(|file| task.mknod(path(file), 0o100_644, Dev::default()).unwrap());
        let full = memory();
        assert!(full.0 - empty.0 > u64::from(FILES) * 256, "{turn}: {full:?}");
        (0..FILES).for_each(|file| task.unlink(path(file)).unwrap());
        (0..10).for_each(|dir| task.rmdir(format!("/{dir}")).unwrap());
        let left = memory();
        // What is kept for who makes files next, of dentries and of inodes.
        let kept = BUCKETS + 2 * 12 * MIB;
        assert!(left.0 < empty.0 + kept, "{turn}: {empty:?} {full:?} {left:?}");
        assert!(left.1 < empty.1 + kept + 4 * MIB, "{turn}: {empty:?} {full:?} {left:?}");
        // And that goes where it is asked for, but for what large pages are only in part.
        vfs.shrink(0);
        let least = memory();
        assert!(least.0 < empty.0 + BUCKETS + 6 * MIB, "{turn}: {left:?} {least:?}");
    }
}
