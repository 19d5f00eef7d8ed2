//! What is remembered is what would be walked: a machine whose threads remember answers every call as one whose threads do not.

use pathwalk::{Config, Cred, Errno, MemFs, MountFlags, OpenFlags, Task, Vfs};
use std::sync::Arc;

/// Sticky directories, links into them and out of them, private directories, bind mounts of a file and of a directory.
fn tree(root: &Task) {
    for dir in ["/a", "/a/b", "/s", "/s/d", "/p", "/m"] {
        root.mkdir(dir, 0o755).unwrap();
    }
    for (path, mode) in [("/s", 0o1777), ("/s/d", 0o1770), ("/p", 0o700)] {
        root.chmod(path, mode).unwrap();
    }
    for file in ["/a/f", "/a/b/f", "/s/root", "/p/f", "/m/f", "/f"] {
        root.creat(file, 0o666).unwrap();
        root.chmod(file, 0o666).unwrap();
    }
    let user = root.vfs().task(Cred::user(1000, 1000));
    user.creat("/s/mine", 0o666).unwrap();
    user.symlink("/s/root", "/s/link").unwrap();
    for (body, link) in [
        ("f", "/a/l"),
        ("l", "/a/ll"),
        ("/s/root", "/a/tosticky"),
        ("/a/f", "/s/ofroot"),
        ("b/", "/a/dir"),
        ("missing", "/a/dangling"),
        ("b/../f", "/a/dots"),
    ] {
        root.symlink(body, link).unwrap();
    }
    root.mount_tree("/a/f", "/s/mine", MountFlags::BIND).unwrap();
    root.mount_tree("/s", "/m", MountFlags::BIND).unwrap();
}

fn paths() -> Vec<String> {
    let mut paths: Vec<_> = "/a/f /a/l /a/ll /a/dots /a/dir /a/dangling /a/tosticky /a/b/f /a/b /a/b/.. /a/b/. /a/../a/f /a//f \
        /s/root /s/mine /s/link /s/ofroot /s/d/x /p/f /p/new /p /m/root /m/mine /m/link /a/f/x /a/f/x/y /nowhere/x \
        /nowhere/x/y /f /a/f/ /a/b/ /a/new /s/new / /.."
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let long = "n".repeat(300);
    paths.extend(["/a", "/a/b", "/nowhere", "/p"].map(|dir| format!("{dir}/{long}")));
    paths
}

/// What a task hears of a path, and hears again, as texts are remembered only after some meetings. What it makes goes again.
fn hears(root: &Task, cred: &Cred, path: &str, flags: OpenFlags) -> Vec<[Result<(), Errno>; 4]> {
    const TIMES: usize = 7;
    let task = root.vfs().task(cred.clone());
    (0..TIMES)
        .map(|_| {
            let there = root.lstat(path).is_ok();
            let opened = task.open(path, flags, 0o600).map(drop);
            if opened.is_ok() && !there {
                root.unlink(path).unwrap();
            }
            // What is there is to stay.
            let (made, removed) = if there {
                (Ok(()), Ok(()))
            } else {
                let made = task.mkdir(path, 0o755);
                if made.is_ok() {
                    root.rmdir(path).unwrap();
                }
                (made, task.unlink(path))
            };
            [opened, made, removed, task.stat(path).map(drop)]
        })
        .collect()
}

#[test]
fn what_is_remembered_is_what_is_walked() {
    let flags = [
        OpenFlags::CREAT,
        OpenFlags::CREAT | OpenFlags::WRONLY,
        OpenFlags::CREAT | OpenFlags::NOFOLLOW,
        OpenFlags::CREAT | OpenFlags::EXCL,
        OpenFlags::CREAT | OpenFlags::RDWR | OpenFlags::TRUNC,
        OpenFlags::RDONLY,
        OpenFlags::WRONLY,
    ];
    let creds = [Cred::root(), Cred::user(1000, 1000), Cred::user(2000, 2000)];
    let mut refused = 0;
    for setting in 0..=2 {
        let machine = |memo_bytes| {
            let config = Config {
                memo_bytes,
                protected_regular: setting,
                protected_fifos: setting,
                ..Config::default()
            };
            let vfs: Arc<Vfs> = Vfs::new(config, MemFs::new()).unwrap();
            let root = vfs.task(Cred::root());
            tree(&root);
            root
        };
        let (walks, remembers) = (machine(0), machine(1 << 24));
        for path in &paths() {
            for flags in flags {
                for cred in &creds {
                    let heard = hears(&walks, cred, path, flags);
                    let again = hears(&remembers, cred, path, flags);
                    assert_eq!(heard, again, "{path} {flags:?} {cred:?}, protected {setting}");
                    refused += usize::from(heard[0][0] == Err(Errno::EACCES));
                }
            }
        }
    }
    assert!(refused > 100, "the rules of sticky directories were met {refused} times");
}
