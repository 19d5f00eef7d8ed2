//! How much is held: few descriptors, whatever the size of the tree.

use crate::common::Ground;
use pathwalk_abi::{Errno, OpenFlags};
use pathwalk_core::Config;
use pathwalk_hostfs::HostOptions;
use std::{env, fs, process::Command};

/// So many files lie in the tree.
const FILES: usize = 100_000;

#[test]
fn a_large_tree_works_with_64_descriptors() {
    // The limit is the process's: it is set for a process of its own.
    const INSIDE: &str = "PATHWALK_FEW_DESCRIPTORS";
    if env::var_os(INSIDE).is_none() {
        let me = env::current_exe().unwrap();
        let name = "bounds::a_large_tree_works_with_64_descriptors";
        let script = "ulimit -n 64 && exec \"$0\" \"$@\"";
        let status = Command::new("sh")
            .args(["-c", script])
            .arg(me)
            .args(["--exact", name, "--test-threads=1"])
            .env(INSIDE, "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for part in 0..100 {
        let part = dir.path().join(format!("{part}"));
        fs::create_dir(&part).unwrap();
        for file in 0..FILES / 100 {
            fs::write(part.join(format!("{file}")), "").unwrap();
        }
    }
    let config = Config { dentry_bytes: 64 << 20, ..Config::default() };
    let ground = Ground::on(dir, HostOptions::default(), config);
    let task = &ground.task;
    let mut open = Vec::new();
    for file in 0..FILES / 100 {
        for part in 0..100 {
            assert_eq!(task.stat(format!("/{part}/{file}")).unwrap().st_size, 0);
        }
        // As many as there can be, so that the pool has to give way.
        if file < 30 {
            open.push(task.open(format!("/7/{file}"), OpenFlags::RDWR, 0).unwrap());
        }
    }
    assert_eq!(ground.fs.known_files(), FILES + 101);
    assert!(ground.fs.held_handles() <= 16, "a quarter of 64");
    let mut full = 0;
    for file in 30..100 {
        match task.open(format!("/9/{file}"), OpenFlags::RDWR, 0) {
            Ok(file) => open.push(file),
            Err(errno) => {
                assert_eq!(errno, Errno::EMFILE);
                full += 1;
            }
        }
    }
    assert_ne!(full, 0, "open files are the caller's own");
    open.clear();
    for (number, file) in (0..FILES / 100).rev().enumerate() {
        task.rename(format!("/5/{file}"), format!("/6/moved-{number}")).unwrap();
        task.chmod(format!("/6/moved-{number}"), 0o600).unwrap();
    }
}

#[test]
fn forgotten_names_are_forgotten_below() {
    let dir = tempfile::tempdir().unwrap();
    for file in 0..5_000 {
        fs::write(dir.path().join(format!("{file}")), "").unwrap();
    }
    let config = Config { dentry_bytes: 1 << 17, inode_bytes: 1 << 17, ..Config::default() };
    let ground = Ground::on(dir, HostOptions::default(), config);
    for _ in 0..3 {
        for file in 0..5_000 {
            ground.task.stat(format!("/{file}")).unwrap();
        }
    }
    assert!(ground.fs.known_files() < 1100, "{}", ground.fs.known_files());
}
