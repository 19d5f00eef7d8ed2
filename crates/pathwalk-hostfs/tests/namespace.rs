//! A process that has another mount namespace than it had when it began to watch. The first thread's is the one that counts, so this has no
//! harness.

#[path = "../../left_out.rs"]
mod left_out;

use left_out::left_out;
use pathwalk_core::{Config, Cred, Vfs};
use pathwalk_hostfs::{Coherence, HostFs, HostOptions};
use rustix::{
    io,
    mount::{MountPropagationFlags, mount_change},
    thread::UnshareFlags,
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::ffi::OsStrExt,
    process::{Command, Stdio},
    thread,
};

/// Has this process another mount namespace, in which nothing is told of this one.
#[expect(deprecated, reason = "descriptors stay shared")]
fn go_elsewhere() -> io::Result<()> {
    rustix::thread::unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// What is mounted where the directory is, is noticed by threads that ask for the first time from elsewhere.
fn main() {
    // What is mounted goes with the namespace.
    if let Err(error) = go_elsewhere() {
        return left_out(format_args!("no mount namespace of one's own: {error}"));
    }
    let dir = tempfile::tempdir().unwrap();
    for (below, text) in [("a/b/c", "1"), ("over/c", "12345")] {
        fs::create_dir_all(dir.path().join(below)).unwrap();
        fs::write(dir.path().join(below).join("file"), text).unwrap();
    }
    let options = HostOptions { coherence: Coherence::Watched, ..HostOptions::default() };
    let host = HostFs::with_options(dir.path().as_os_str().as_bytes(), options).unwrap();
    let task = Vfs::new(Config::default(), host).unwrap().task(Cred::root());
    let script = "read go; mount --bind over a/b; echo; read go; umount -l a/b; echo";
    let mut stays = Command::new("sh")
        .args(["-ec", script])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut go = stays.stdin.take().unwrap();
    let mut done = BufReader::new(stays.stdout.take().unwrap()).lines();
    go_elsewhere().unwrap();
    let sizes = || [(); 9].map(|()| task.stat("/a/b/c/file").map(|stat| stat.st_size));
    let asks = || {
        assert_eq!(sizes(), [Ok(1); 9]);
        for size in [5, 1] {
            writeln!(go, "go").unwrap();
            done.next().expect("it is mounted, or not any more").unwrap();
            assert_eq!(sizes(), [Ok(size); 9]);
        }
    };
    thread::scope(|scope| scope.spawn(asks).join()).unwrap();
    assert!(stays.wait().unwrap().success());
}
