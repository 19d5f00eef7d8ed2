//! What the running kernel is asked in must be each world's own.

use super::{Kernel, Nursery, Powers, powers};
use crate::{
    answer::{Raw, Said},
    call::{Call, Step, Who},
    field::Text,
    left_out::left_out,
    normal::Pace,
    subject::Subject,
};
use pathwalk::MountFlags;
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

#[test]
fn a_namespace_goes_with_its_last_task_whoever_makes_worlds_meanwhile() {
    if powers() != Powers::Root {
        left_out("no right to make mount namespaces");
        return;
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let nursery = Nursery::new();
            let mut worlds = VecDeque::new();
            while !done.load(Relaxed) {
                worlds.push_back(nursery.world());
                if worlds.len() > 8 {
                    worlds.pop_front();
                }
            }
        });
        let nursery = Nursery::new();
        let kept = (0..400).filter(|_| keeps_its_master(&nursery)).count();
        done.store(true, Relaxed);
        assert_eq!(kept, 0, "mounts of 400 that are slaves of a namespace that nobody is in");
    });
}

/// Whether a mount has a master left whose namespace was its only task's, who has gone elsewhere.
fn keeps_its_master(nursery: &Nursery) -> bool {
    let path = || Text(b".".to_vec());
    let change = |flags| Call::MountTree { source: Text(b"none".to_vec()), path: path(), flags };
    let root = |call| Step { who: Who::Root, call };
    let steps = [
        root(change(MountFlags::SHARED)),
        root(Call::UnshareMounts {}),
        root(Call::Mount { path: path(), flags: MountFlags::empty() }),
        root(Call::Mount { path: path(), flags: MountFlags::empty() }),
        root(Call::Mount { path: path(), flags: MountFlags::empty() }),
        Step { who: Who::S, call: change(MountFlags::SLAVE) },
        root(Call::Setns { of: Who::Judge }),
        root(Call::Mounts {}),
    ];
    let outcomes = Kernel::new(nursery).steps(&steps, Pace::Fast);
    let Said::Answer(Ok(Raw::Mounts(texts))) = &outcomes[steps.len() - 1].said else {
        panic!("it tells what is mounted")
    };
    texts.iter().any(|(_, text)| String::from_utf8_lossy(text).contains("master:"))
}
