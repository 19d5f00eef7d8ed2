//! What another process put elsewhere before a call: the call is about what its path leads to now, though the same files are found on
//! the way. The kernel is asked the same.

use crate::{common::Ground, left_out::left_out};
use Change::*;
use pathwalk_abi::{Errno, MountFlags, OpenFlags};
use pathwalk_core::{Config, Cred, Task};
use pathwalk_hostfs::{Coherence, HostFs, HostOptions};
use rustix::{
    fs::{AtFlags, Mode, OFlags},
    process::geteuid,
};
use std::{
    fs,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
    process::Command,
};

/// A call that changes a directory, by paths relative to the root.
#[derive(Debug)]
enum Change {
    Mkdir(&'static str),
    Open(&'static str, OpenFlags),
    Symlink(&'static str),
    Link(&'static str, &'static str),
    Rename(&'static str, &'static str),
    Unlink(&'static str),
    Rmdir(&'static str),
}

impl Change {
    fn ours(&self, task: &Task) -> Result<(), Errno> {
        let at = |path: &str| format!("/{path}");
        match *self {
            Mkdir(path) => task.mkdir(at(path), 0o755),
            Open(path, flags) => task.open(at(path), flags, 0o644).map(drop),
            Symlink(path) => task.symlink("body", at(path)),
            Link(old, new) => task.link(at(old), at(new)),
            Rename(old, new) => task.rename(at(old), at(new)),
            Unlink(path) => task.unlink(at(path)),
            Rmdir(path) => task.rmdir(at(path)),
        }
    }

    /// The same by the kernel, below a directory.
    fn native(&self, dir: &OwnedFd) -> Result<(), Errno> {
        let done = match *self {
            Mkdir(path) => rustix::fs::mkdirat(dir, path, Mode::from_raw_mode(0o755)),
            Open(path, flags) => {
                let flags = OFlags::from_bits_retain(flags.bits() as u32);
                rustix::fs::openat(dir, path, flags, Mode::from_raw_mode(0o644)).map(drop)
            }
            Symlink(path) => rustix::fs::symlinkat("body", dir, path),
            Link(old, new) => rustix::fs::linkat(dir, old, dir, new, AtFlags::empty()),
            Rename(old, new) => rustix::fs::renameat(dir, old, dir, new),
            Unlink(path) => rustix::fs::unlinkat(dir, path, AtFlags::empty()),
            Rmdir(path) => rustix::fs::unlinkat(dir, path, AtFlags::REMOVEDIR),
        };
        done.map_err(|error| errno(error.raw_os_error()))
    }
}

fn errno(raw: i32) -> Errno {
    Errno::from_raw(raw).expect("an error")
}

fn ground(coherence: Coherence) -> Ground {
    Ground::with(HostOptions { coherence, ..HostOptions::default() })
}

fn shell(dir: &Path, script: &str) {
    let output = Command::new("sh").args(["-ec", script]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}

/// What is in a directory of the host: names, types and contents.
fn listing(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if kind.is_dir() {
            all.extend(listing(&path).into_iter().map(|below| format!("{name}/{below}")));
            all.push(format!("{name}/"));
        } else if kind.is_symlink() {
            all.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
        } else {
            all.push(format!("{name}: {}", fs::read_to_string(&path).unwrap()));
        }
    }
    all.sort();
    all
}

const MADE: &str = "mkdir -p d/k top; echo 1 > d/f; echo 2 > top/other; ln -s k d/s; echo 3 > d/k/in; ln -s ../d/k/in d/k/l";

/// What others did to the directory, so that its files may be found where they were, in another one: the call is about that.
#[test]
fn a_change_is_made_in_the_directory_that_has_the_name() {
    const CREAT: OpenFlags = OpenFlags::CREAT;
    const EXCL: OpenFlags = OpenFlags::CREAT.union(OpenFlags::EXCL);
    let away = "mv d e";
    let another = "mv d e; mkdir -p d/k";
    let same_files = "mv d e; mkdir d; ln e/f d/f; mv e/k d/k; mv e/s d/s";
    let moved_up = "mv d/k e; mkdir d/k; ln e/in d/k/in; mv e/l d/k/l";
    let gone = "rm -r d";
    let changes = [
        Mkdir("d/x"),
        Open("d/x", CREAT),
        Open("d/x", EXCL),
        Open("d/x/", CREAT),
        Open("d/f", CREAT),
        Symlink("d/x"),
        Link("top/other", "d/x"),
        Rename("top/other", "d/x"),
        Rename("top/other", "d/f"),
        Rename("d/f", "top/g"),
        Rename("d/k", "d/q"),
        Rename("d/k/in", "d/f"),
        Unlink("d/f"),
        Unlink("d/k/in"),
        Unlink("d/k/l"),
        Rmdir("d/k"),
        Mkdir("d/k/../x"),
        Mkdir("d/s/../x"),
        Mkdir("d/s/x"),
        Mkdir("d/k/x"),
        Open("d/k/../f", CREAT),
        Unlink("d/k/../f"),
        Open("d/k/../k/../k/new", CREAT),
    ];
    for coherence in [Coherence::Strict, Coherence::Watched] {
        for others in [away, another, same_files, moved_up, gone] {
            for change in &changes {
                for times in [1, 6] {
                    let ground = ground(coherence);
                    let twin = tempfile::tempdir().unwrap();
                    let native = rustix::fs::open(twin.path(), OFlags::DIRECTORY, Mode::empty());
                    for dir in [&ground.host(""), twin.path()] {
                        shell(dir, MADE);
                    }
                    for path in "d d/f d/x d/k d/k/in d/k/l d/s d/k/.. d/s/.. d/k/x d/k/../x top/other top/g d/k/../f"
                        .split(' ')
                    {
                        for _ in 0..times {
                            let _ = ground.task.stat(format!("/{path}"));
                            let _ = ground.task.lstat(format!("/{path}"));
                        }
                    }
                    for dir in [&ground.host(""), twin.path()] {
                        shell(dir, others);
                    }
                    let what = format!("{coherence:?}, {others}, {change:?}, known {times} times");
                    assert_eq!(
                        change.ours(&ground.task),
                        change.native(&native.unwrap()),
                        "{what}"
                    );
                    assert_eq!(listing(&ground.host("")), listing(twin.path()), "{what}");
                }
            }
        }
    }
}

/// So with what is looked up: what a path leads to is what it leads the kernel to.
#[test]
fn a_path_leads_where_it_leads_the_kernel() {
    let others = [
        "mv d e",
        "mv d e; mkdir d; ln e/f d/f; mv e/k d/k; mv e/s d/s",
        "mv d/k e; mkdir d/k; ln e/in d/k/in; mv e/l d/k/l",
        "mv d e; mkdir d; mv e/k d/k; mv e/s d/s; echo other > d/f",
        "rm -r d",
    ];
    let paths = "d/f d/k d/k/in d/k/l d/s d/k/.. d/s/.. d/k/../f d/s/../f d/s/in d/s/l d/k/../k/../f d/k/../k/in top/../d/f";
    for coherence in [Coherence::Strict, Coherence::Watched] {
        for script in others {
            for path in paths.split(' ') {
                for times in [1, 6] {
                    let ground = ground(coherence);
                    shell(&ground.host(""), MADE);
                    let look = || {
                        let ours = ground.task.stat(format!("/{path}")).map(|stat| stat.st_ino);
                        let native = fs::metadata(ground.host(path)).map(|meta| meta.ino());
                        (ours, native.map_err(|error| errno(error.raw_os_error().unwrap())))
                    };
                    for _ in 0..times {
                        let (ours, native) = look();
                        assert_eq!(ours, native);
                    }
                    shell(&ground.host(""), script);
                    for _ in 0..3 {
                        let (ours, native) = look();
                        assert_eq!(
                            ours, native,
                            "{coherence:?}, {script}, {path}, known {times} times"
                        );
                    }
                }
            }
        }
    }
}

/// Another file system behind a run of names, and directories of it that are gone through and left: each is asked about once.
#[test]
fn going_up_where_all_is_known_asks_nobody_again() {
    let ground = ground(Coherence::Strict);
    shell(&ground.host(""), "mkdir -p a/b/mem a/b/c");
    let other = tempfile::tempdir().unwrap();
    fs::create_dir(other.path().join("q")).unwrap();
    let other = HostFs::new(other.path().as_os_str().as_bytes()).unwrap();
    ground.task.mount(other, "/a/b/mem", MountFlags::empty()).unwrap();
    let calls = |path: &str| {
        (0..40).for_each(|_| _ = ground.task.stat(path).unwrap());
        ground.calls(|| _ = ground.task.stat(path).unwrap())
    };
    let inside = calls("/a/b/mem");
    assert_eq!(
        calls("/a/b/mem/q/../q"),
        inside,
        "what lies in another file system costs this one nothing"
    );
    assert!(calls("/a/b/mem/../c") > inside, "what lies above the mount is asked about");
}

/// What `fs.protected_*` refuse goes by the directory of a file or symlink, which nobody asks about who remembers the way to that.
#[test]
fn a_directory_that_others_open_to_all_is_not_remembered_as_it_was() {
    if !geteuid().is_root() {
        left_out("only root gives files away");
        return;
    }
    let flags = OpenFlags::CREAT | OpenFlags::RDWR | OpenFlags::NONBLOCK;
    let creat = |path| move |task: &Task| task.open(path, flags, 0o600).map(drop);
    let stat = |path| move |task: &Task| task.stat(path).map(drop);
    type Call<'c> = &'c dyn Fn(&Task) -> Result<(), Errno>;
    let refused = Err(Errno::EACCES);
    // Fifos are not protected by this configuration.
    let calls: [(Call<'_>, _); 4] = [
        (&creat("/d/f"), refused),
        (&creat("/d/p"), Ok(())),
        (&stat("/d/l"), refused),
        (&stat("/l"), refused),
    ];
    let config = Config { protected_regular: 1, protected_symlinks: true, ..Config::default() };
    for (coherence, (call, shared)) in [Coherence::Strict, Coherence::Watched]
        .iter()
        .flat_map(|&how| calls.map(|call| (how, call)))
    {
        let options = HostOptions { coherence, special: true, ..HostOptions::default() };
        let dir = tempfile::tempdir().unwrap();
        let script = "chmod 755 .; mkdir d; echo f > d/f; mkfifo d/p; ln -s f d/l; ln -s d/l l; \
                      chmod 666 d/?; chown -h 1000 d/? l";
        shell(dir.path(), script);
        let ground = Ground::on(dir, options, config.clone());
        let stranger = ground.task.vfs().task(Cred::user(2000, 2000));
        for change in ["true", "chmod 1777 d", "chmod 755 d", "mv d e; mkdir -m 1777 d; mv e/* d"] {
            shell(&ground.host(""), change);
            let want = if change.contains("1777") { shared } else { Ok(()) };
            (0..8).for_each(|_| assert_eq!(call(&stranger), want, "{coherence:?} {change}"));
        }
    }
}
