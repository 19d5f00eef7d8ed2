//! What others do, as each of many threads is told.

use crate::{
    coherence::{each, elsewhere},
    left_out::left_out,
};
use pathwalk_abi::AccessMode;
use std::{fs, sync::Barrier, thread};

/// Each thread is told, whoever asks first: more of them than have something to themselves.
#[test]
fn mounts_of_the_host_are_noticed_by_each_thread() {
    if !rustix::process::geteuid().is_root() {
        left_out("only root mounts something");
        return;
    }
    const THREADS: usize = 12;
    const SCRIPTS: [&str; 4] = ["true", "mount --bind over a/b", "umount -l a/b", "true"];
    each(|ground| {
        fs::create_dir_all(ground.host("over/c")).unwrap();
        fs::write(ground.host("over/c/file"), "12345").unwrap();
        let turn = Barrier::new(THREADS + 1);
        let asks = || {
            let task = ground.task.fork();
            SCRIPTS.map(|_| {
                turn.wait();
                let found: Vec<_> = (0..9)
                    .map(|_| task.access("/a/b/c/file", AccessMode::empty()))
                    .zip((0..9).map(|_| task.stat("/a/b/c/file").map(|stat| stat.st_size)))
                    .collect();
                turn.wait();
                found
            })
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(asks)).collect();
            for script in SCRIPTS {
                elsewhere(ground, script);
                turn.wait();
                turn.wait();
            }
            for thread in threads {
                let found = thread.join().unwrap();
                assert_eq!(found, [1, 5, 1, 1].map(|size| vec![(Ok(()), Ok(size)); 9]));
            }
        });
    });
}
