//! Nothing outside is ever reached, whatever another process does to the tree meanwhile.
//!
//! `PATHWALK_ESCAPE_ROUNDS` says how many rounds are made each time; a million is a thorough check.

use crate::common::{Ground, both_ways};
use pathwalk_abi::{Errno, OpenFlags};
use pathwalk_core::{At, Config, Task};
use pathwalk_hostfs::{Coherence, HostOptions};
use rustix::fs::{Mode, OFlags, RenameFlags, openat, renameat, renameat_with};
use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// In which directory the process is to swap, or from which it is to move to which.
const SWAP: &str = "PATHWALK_SWAP";
const MOVE: &str = "PATHWALK_MOVE";

/// Another process that does something again and again, until this goes.
struct Again(Child);

impl Again {
    fn new(test: &str, dirs: &[(&str, &Path)]) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test]).envs(dirs.iter().copied()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Exchanges a directory and a symlink that leads out.
#[test]
fn swapper_in_a_process_of_its_own() {
    let Some(root) = env::var_os(SWAP) else { return };
    let root = fs::File::open(root).unwrap();
    loop {
        renameat_with(&root, "link", &root, "a/b", RenameFlags::EXCHANGE).unwrap();
    }
}

/// Moves a directory out and in again.
#[test]
fn mover_in_a_process_of_its_own() {
    let (Some(root), Some(outside)) = (env::var_os(SWAP), env::var_os(MOVE)) else { return };
    let (root, outside) = (fs::File::open(root).unwrap(), fs::File::open(outside).unwrap());
    loop {
        renameat(&root, "a/b", &outside, "b").unwrap();
        renameat(&outside, "b", &root, "a/b").unwrap();
    }
}

fn rounds() -> u32 {
    let rounds = env::var("PATHWALK_ESCAPE_ROUNDS");
    rounds.map_or(1_000, |rounds| rounds.parse().expect("a number"))
}

/// Every kind of call on what is in a directory that is being swapped, or is found by one.
fn round(task: &Task, number: u32, dir: &str) -> Result<(), Errno> {
    let path = |name: &str| format!("{dir}/{name}");
    match number % 8 {
        0 => {
            let file = task.open(path("secret"), OpenFlags::RDWR, 0)?;
            let mut buf = [0; 16];
            let read = task.read(&file, &mut buf)?;
            assert_eq!(&buf[..read], b"inside");
        }
        1 => task.truncate(path("secret"), 6)?,
        2 => task.chmod(path("secret"), 0o600)?,
        3 => {
            task.creat(path("new"), 0o600)?;
            task.unlink(path("new"))?;
        }
        4 => {
            task.mkdir(path("dir"), 0o700)?;
            task.rename(path("dir"), path("moved"))?;
            task.rmdir(path("moved"))?;
        }
        5 => task.link(path("secret"), path("other"))?,
        6 => task.unlink(path("other"))?,
        _ => {
            let dir = task.openat(At::Cwd, dir, OpenFlags::DIRECTORY, 0)?;
            let mut buf = [0; 1024];
            let len = task.getdents64(&dir, &mut buf)?;
            assert!(!buf[..len].windows(7).any(|name| name == b"outside"));
        }
    }
    Ok(())
}

/// A directory with a secret, and what must not change in it.
struct Outside(TempDir, PathBuf, fs::Metadata);

impl Outside {
    fn new(below: &str) -> Self {
        let outside = tempfile::tempdir().unwrap();
        let dir = outside.path().join(below);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("secret"), "outside!").unwrap();
        fs::write(dir.join("outside"), "").unwrap();
        let before = fs::metadata(dir.join("secret")).unwrap();
        Self(outside, dir, before)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn is_as_it_was(&self) {
        let Self(_, dir, before) = self;
        let after = fs::metadata(dir.join("secret")).unwrap();
        assert_eq!(fs::read(dir.join("secret")).unwrap(), b"outside!");
        assert_eq!(fs::read_dir(dir).unwrap().count(), 2);
        assert_eq!(after.modified().unwrap(), before.modified().unwrap());
        assert_eq!((after.permissions(), after.nlink()), (before.permissions(), before.nlink()));
    }
}

fn nothing_outside_is_reached(options: HostOptions) {
    let outside = Outside::new("c");
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
    fs::write(dir.path().join("a/b/c/secret"), "inside").unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
    let swapper = Again::new("escape::swapper_in_a_process_of_its_own", &[(SWAP, dir.path())]);
    let ground = Ground::on(dir, options.clone(), Config::default());
    for number in 0..rounds() {
        let _ = round(&ground.task, number, "/a/b/c");
    }
    drop(swapper);
    if options.coherence != Coherence::Exclusive {
        if ground.host("a/b").is_symlink() {
            fs::rename(ground.host("a/b"), ground.host("other")).unwrap();
            fs::rename(ground.host("link"), ground.host("a/b")).unwrap();
        }
        let _ = round(&ground.task, 6, "/a/b/c");
        assert_eq!(round(&ground.task, 0, "/a/b/c"), Ok(()), "what is there is seen when it stays");
    }
    outside.is_as_it_was();
}

/// Of what was moved out `..` is another directory on the host, and what lies there was never given.
fn nothing_above_what_is_moved_out_is_reached(options: HostOptions) {
    let outside = Outside::new("");
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
    fs::write(dir.path().join("a/secret"), "inside").unwrap();
    let inner = fs::File::open(dir.path().join("a/b/c")).unwrap();
    let dirs = [(SWAP, dir.path()), (MOVE, outside.path())];
    let mover = Again::new("escape::mover_in_a_process_of_its_own", &dirs);
    // Who asks the host for it gets there.
    let natively = std::iter::repeat_with(|| {
        let secret = openat(&inner, "../../secret", OFlags::RDONLY, Mode::empty());
        secret.map(|secret| std::io::read_to_string(fs::File::from(secret)).unwrap())
    });
    assert!(natively.take(1_000_000).any(|secret| secret.is_ok_and(|secret| secret == "outside!")));
    let ground = Ground::on(dir, options.clone(), Config::default());
    for number in 0..rounds() {
        // From where it stands, too, which is outside at times.
        let above = if number / 8 % 2 == 0 { "/a/b/c/../.." } else { "../.." };
        if number % 8 == 0 {
            let _ = ground.task.chdir(if number % 3 == 0 { "/" } else { "/a/b/c" });
        }
        let _ = round(&ground.task, number, above);
    }
    drop(mover);
    if outside.path().join("b").exists() {
        fs::rename(outside.path().join("b"), ground.host("a/b")).unwrap();
    }
    if options.coherence != Coherence::Exclusive {
        assert_eq!(ground.task.chdir("/a/b/c"), Ok(()));
        for above in ["/a/b/c/../..", "../.."] {
            let _ = round(&ground.task, 6, above);
            assert_eq!(round(&ground.task, 0, above), Ok(()), "{above} is seen when it stays");
        }
    }
    outside.is_as_it_was();
}

/// In each way of walking, for each way in which others may change the directory. With one descriptor everything is walked to again and
/// again.
fn each(f: impl Fn(HostOptions)) {
    both_ways(|options| {
        for coherence in [Coherence::Exclusive, Coherence::Strict, Coherence::Watched] {
            for handles in [1, 100] {
                f(HostOptions { handles, coherence, ..options.clone() });
            }
        }
    });
}

#[test]
fn swapped_symlinks_lead_nowhere() {
    each(nothing_outside_is_reached);
}

#[test]
fn directories_that_are_moved_out_lead_nowhere() {
    each(nothing_above_what_is_moved_out_is_reached);
}

#[test]
fn symlinks_of_the_host_are_walked_here() {
    let ground = Ground::new();
    std::os::unix::fs::symlink("/etc", ground.host("etc")).unwrap();
    std::os::unix::fs::symlink("../../../..", ground.host("up")).unwrap();
    assert_eq!(ground.task.stat("/etc/passwd"), Err(Errno::ELOOP), "/etc is this very link");
    assert_eq!(ground.task.stat("/up").unwrap().st_ino, ground.task.stat("/").unwrap().st_ino);
}
