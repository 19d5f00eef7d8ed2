//! How much is held: few descriptors, whatever the size of the tree.

use crate::common::Ground;
use pathwalk_abi::{Dev, Errno, OpenFlags, Result, mode::S_IFIFO};
use pathwalk_core::Config;
use pathwalk_hostfs::{HostOptions, Identities};
use std::{
    env,
    fs::{self, File},
    process::Command,
};

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

/// What the host makes is another user's until that is said beside it, which takes a descriptor.
#[test]
fn what_cannot_be_finished_is_not_made() {
    const INSIDE: &str = "PATHWALK_NO_DESCRIPTOR";
    if env::var_os(INSIDE).is_none() {
        let me = env::current_exe().unwrap();
        let name = "bounds::what_cannot_be_finished_is_not_made";
        let script = "ulimit -n 64 && exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(me).args(["--exact", name, "--test-threads=1"]);
        assert!(command.env(INSIDE, "1").status().unwrap().success());
        return;
    }
    let kept = HostOptions { identities: Identities::Kept, ..HostOptions::default() };
    let ground = Ground::on(tempfile::tempdir().unwrap(), kept, Config::default());
    let task = ground.task.fork();
    task.umask(0);
    let makes: [(&str, &dyn Fn() -> Result<()>); 4] = [
        ("directory", &|| task.mkdir("/directory", 0o1777)),
        ("symlink", &|| task.symlink("to", "/symlink")),
        ("fifo", &|| task.mknod("/fifo", S_IFIFO | 0o644, Dev::default())),
        ("file", &|| task.open("/file", OpenFlags::CREAT, 0o644).map(drop)),
    ];
    // The cache has that they are not there.
    for (name, _) in &makes {
        assert_eq!(task.stat(format!("/{name}")).map(drop), Err(Errno::ENOENT));
    }
    let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    for (name, make) in &makes {
        assert_eq!(make(), Err(Errno::EMFILE), "{name}");
    }
    drop(all);
    assert_eq!(fs::read_dir(ground.host("")).unwrap().count(), 0);
    for (name, make) in &makes {
        assert_eq!(make(), Ok(()), "{name}");
    }
    assert_eq!(task.stat("/directory").unwrap().st_mode & 0o7777, 0o1777);
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
