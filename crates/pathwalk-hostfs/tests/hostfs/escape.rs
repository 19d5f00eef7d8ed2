//! Nothing outside is ever reached, whatever another process does to the tree meanwhile.
//!
//! `PATHWALK_ROUNDS` says how many rounds are made; a million is a thorough check.

use crate::common::{Ground, both_ways};
use pathwalk_abi::{Errno, OpenFlags};
use pathwalk_core::{At, Config, Task};
use pathwalk_hostfs::{Coherence, HostOptions};
use rustix::fs::{RenameFlags, renameat_with};
use std::{
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
};

/// In which directory the process is to swap.
const SWAP: &str = "PATHWALK_SWAP";

/// Starts another process that exchanges a directory and a symlink that leads out, again and again.
fn swapper(root: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "escape::swapper_in_a_process_of_its_own"])
        .env(SWAP, root)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn swapper_in_a_process_of_its_own() {
    let Some(root) = env::var_os(SWAP) else { return };
    let root = fs::File::open(root).unwrap();
    loop {
        renameat_with(&root, "link", &root, "a/b", RenameFlags::EXCHANGE).unwrap();
    }
}

fn rounds() -> u32 {
    env::var("PATHWALK_ROUNDS").map_or(1_000, |rounds| rounds.parse().expect("a number"))
}

/// Every kind of call on what is being swapped.
fn round(task: &Task, number: u32) -> Result<(), Errno> {
    let path = "/a/b/c/secret";
    match number % 8 {
        0 => {
            let file = task.open(path, OpenFlags::RDWR, 0)?;
            let mut buf = [0; 16];
            let read = task.read(&file, &mut buf)?;
            assert_eq!(&buf[..read], b"inside");
        }
        1 => task.truncate(path, 6)?,
        2 => task.chmod(path, 0o600)?,
        3 => {
            task.creat("/a/b/c/new", 0o600)?;
            task.unlink("/a/b/c/new")?;
        }
        4 => {
            task.mkdir("/a/b/c/dir", 0o700)?;
            task.rename("/a/b/c/dir", "/a/b/c/moved")?;
            task.rmdir("/a/b/c/moved")?;
        }
        5 => task.link(path, "/a/b/c/other")?,
        6 => task.unlink("/a/b/c/other")?,
        _ => {
            let dir = task.openat(At::Cwd, "/a/b/c", OpenFlags::DIRECTORY, 0)?;
            let mut buf = [0; 1024];
            let len = task.getdents64(&dir, &mut buf)?;
            assert!(!buf[..len].windows(7).any(|name| name == b"outside"));
        }
    }
    Ok(())
}

fn nothing_outside_is_reached(options: HostOptions) {
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("c")).unwrap();
    fs::write(outside.path().join("c/secret"), "outside!").unwrap();
    fs::write(outside.path().join("c/outside"), "").unwrap();
    let before = fs::metadata(outside.path().join("c/secret")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
    fs::write(dir.path().join("a/b/c/secret"), "inside").unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
    let mut swapper = swapper(dir.path());
    let ground = Ground::on(dir, options.clone(), Config::default());
    for number in 0..rounds() {
        let _ = round(&ground.task, number);
    }
    swapper.kill().unwrap();
    swapper.wait().unwrap();
    if options.coherence != Coherence::Exclusive {
        if ground.host("a/b").is_symlink() {
            fs::rename(ground.host("a/b"), ground.host("other")).unwrap();
            fs::rename(ground.host("link"), ground.host("a/b")).unwrap();
        }
        let _ = round(&ground.task, 6);
        assert_eq!(round(&ground.task, 0), Ok(()), "what is there is seen when it stays");
    }
    let after = fs::metadata(outside.path().join("c/secret")).unwrap();
    assert_eq!(fs::read(outside.path().join("c/secret")).unwrap(), b"outside!");
    assert_eq!(fs::read_dir(outside.path().join("c")).unwrap().count(), 2);
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(after.permissions(), before.permissions());
}

#[test]
fn swapped_symlinks_lead_nowhere() {
    both_ways(|options| {
        // With one descriptor everything is walked to again and again.
        for coherence in [Coherence::Exclusive, Coherence::Strict, Coherence::Watched] {
            for handles in [1, 100] {
                nothing_outside_is_reached(HostOptions { handles, coherence, ..options.clone() });
            }
        }
    });
}

#[test]
fn symlinks_of_the_host_are_walked_here() {
    let ground = Ground::new();
    std::os::unix::fs::symlink("/etc", ground.host("etc")).unwrap();
    std::os::unix::fs::symlink("../../../..", ground.host("up")).unwrap();
    assert_eq!(ground.task.stat("/etc/passwd"), Err(Errno::ELOOP), "/etc is this very link");
    assert_eq!(ground.task.stat("/up").unwrap().st_ino, ground.task.stat("/").unwrap().st_ino);
}
