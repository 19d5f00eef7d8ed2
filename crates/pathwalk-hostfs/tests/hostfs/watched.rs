//! What who watches the host's files by inotify(7) is told of what is done here.

use crate::{
    coherence::{ground, often},
    common::Ground,
};
use pathwalk_abi::{Dev, OpenFlags, XattrFlags, mode::S_IFREG};
use pathwalk_core::{File, Task};
use pathwalk_hostfs::{Coherence, HostOptions};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::{
    fs,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

/// Who watches a directory, and what is in it.
struct Watcher(OwnedFd);

impl Watcher {
    fn of(dir: &Path, names: &[&str]) -> Self {
        let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
        let queue = inotify::init(flags).unwrap();
        for path in names.iter().map(|name| dir.join(name)).chain([dir.to_owned()]) {
            inotify::add_watch(&queue, path, WatchFlags::ALL_EVENTS).unwrap();
        }
        Self(queue)
    }

    /// What was told since then: of which watch, and what.
    fn told(&self) -> Vec<(i32, ReadFlags)> {
        let mut buf = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut buf);
        let mut told = Vec::new();
        while let Ok(event) = events.next() {
            told.push((event.wd(), event.events()));
        }
        told
    }

    /// How many such things were told, at least so many if they come: who is about to run a program in another test has what is open here
    /// for a moment, too.
    fn told_until(&self, want: usize, is: impl Fn((i32, ReadFlags)) -> bool) -> usize {
        let mut count = 0;
        for _ in 0..500 {
            count += self.told().into_iter().filter(|&told| is(told)).count();
            if count >= want {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        count
    }
}

/// What of a directory is open in this process and has no name any more.
fn gone_and_held(dir: &Path) -> Vec<String> {
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = links.filter_map(|link| fs::read_link(link.path()).ok());
    let links = links.map(|link| link.to_string_lossy().into_owned());
    let own = dir.to_str().unwrap();
    links.filter(|link| link.starts_with(own) && link.ends_with(" (deleted)")).collect()
}

fn each(f: impl Fn(&Ground)) {
    for coherence in [Coherence::Exclusive, Coherence::Watched, Coherence::Strict] {
        f(&Ground::with(HostOptions { coherence, ..HostOptions::default() }));
    }
}

fn make(task: &Task, path: &str) -> File {
    task.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).unwrap()
}

/// By what is kept of what was used.
fn used(task: &Task, path: &str) {
    task.chmod(path, 0o755).unwrap();
    let _ = task.setxattr(path, "user.name", b"value", XattrFlags::empty());
    drop(task.open(path, OpenFlags::RDONLY, 0).unwrap());
}

#[test]
fn of_what_is_removed_here_nothing_is_held() {
    each(|ground| {
        let (task, dir) = (&ground.task, ground.host(""));
        let files = ["file", "replaced", "linked"];
        files.iter().for_each(|name| drop(make(task, name)));
        drop(make(task, "new"));
        task.mkdir("sub", 0o755).unwrap();
        task.link("linked", "sub/link").unwrap();
        let all = ["file", "replaced", "linked", "sub"];
        all.iter().for_each(|name| used(task, name));
        let watcher = Watcher::of(&dir, &all);
        let ends = |want| {
            watcher.told_until(want, |(watch, what)| {
                watch <= all.len() as i32 && what.contains(ReadFlags::DELETE_SELF)
            })
        };
        task.unlink("file").unwrap();
        assert_eq!((ends(1), gone_and_held(&dir)), (1, vec![]), "unlink");
        task.rename("new", "replaced").unwrap();
        assert_eq!((ends(1), gone_and_held(&dir)), (1, vec![]), "rename");
        task.unlink("linked").unwrap();
        assert_eq!((ends(0), gone_and_held(&dir)), (0, vec![]), "it has another name");
        used(task, "sub/link");
        task.unlink("sub/link").unwrap();
        assert_eq!((ends(1), gone_and_held(&dir)), (1, vec![]), "the other name");
        task.rmdir("sub").unwrap();
        assert_eq!((ends(1), gone_and_held(&dir)), (1, vec![]), "rmdir");
    });
}

/// Who was given a place of it may watch it.
#[test]
fn of_what_others_remove_nothing_is_held_that_somebody_was_given() {
    each(|ground| {
        let (task, dir) = (&ground.task, ground.host(""));
        drop(make(task, "file"));
        used(task, "file");
        let place = task.open("file", OpenFlags::PATH, 0).unwrap();
        let given = place.host_place().unwrap().expect("it is the host's");
        let watcher = Watcher::of(&dir, &["file"]);
        drop((place, given));
        used(task, "file");
        drop(watcher.told());
        fs::remove_file(dir.join("file")).unwrap();
        assert_eq!(gone_and_held(&dir), [""; 0]);
        let is_end = |(_, what): (i32, ReadFlags)| what.contains(ReadFlags::DELETE_SELF);
        assert_eq!(watcher.told_until(1, is_end), 1);
    });
}

#[test]
fn what_is_made_is_opened_once_if_at_all() {
    each(|ground| {
        let (task, dir) = (&ground.task, ground.host(""));
        drop(make(task, "there"));
        // Watched by now, where it is.
        let _ = (task.stat("none"), task.stat("nor this"));
        let watcher = Watcher::of(&dir, &[]);
        let told = || watcher.told().into_iter().map(|(_, what)| what).collect::<Vec<_>>();
        for access in [OpenFlags::RDONLY, OpenFlags::WRONLY, OpenFlags::RDWR] {
            let file = task.open("new", access | OpenFlags::CREAT, 0o644).unwrap();
            assert_eq!(told(), [ReadFlags::CREATE, ReadFlags::OPEN], "{access:?}");
            drop(file);
            let closed = if access == OpenFlags::RDONLY {
                ReadFlags::CLOSE_NOWRITE
            } else {
                ReadFlags::CLOSE_WRITE
            };
            // Who is about to run a program in another test has it for a moment, too.
            let mut all = told();
            for _ in 0..500 {
                if all.contains(&closed) {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
                all.extend(told());
            }
            assert_eq!(all, [closed], "{access:?}");
            task.unlink("new").unwrap();
            assert_eq!(told(), [ReadFlags::DELETE], "{access:?}");
        }
        task.mknod("new", S_IFREG | 0o644, Dev::default()).unwrap();
        assert_eq!(told(), [ReadFlags::CREATE], "mknod");
        task.truncate("new", 5).unwrap();
        assert_eq!(told(), [ReadFlags::MODIFY], "truncate");
        task.truncate("new", 5).unwrap();
        assert_eq!(told(), [ReadFlags::MODIFY], "it is so long");
        assert_eq!(fs::metadata(dir.join("new")).unwrap().len(), 5);
        drop(task.open("new", OpenFlags::RDONLY | OpenFlags::TRUNC, 0).unwrap());
        assert!(told().contains(&ReadFlags::MODIFY));
    });
}

/// As natively, its maker alone may, by that call.
#[test]
fn what_is_made_is_open_as_it_was_asked_for() {
    each(|ground| {
        let flags = OpenFlags::CREAT | OpenFlags::WRONLY | OpenFlags::APPEND | OpenFlags::NOATIME;
        let file = ground.task.open("new", flags, 0).unwrap();
        assert_eq!(ground.task.write(&file, b"some"), Ok(4));
        let host = file.host_fd().expect("it is the host's");
        let has = rustix::fs::fcntl_getfl(host).unwrap();
        for wanted in [rustix::fs::OFlags::APPEND, rustix::fs::OFlags::NOATIME] {
            assert!(has.contains(wanted), "{has:?}");
        }
        assert_eq!(has & rustix::fs::OFlags::RWMODE, rustix::fs::OFlags::WRONLY);
    });
}

/// Somebody who writes as fast as events of it are taken keeps nobody waiting.
#[test]
fn who_writes_all_the_time_is_no_end_of_news() {
    for coherence in [Coherence::Strict, Coherence::Watched] {
        let ground = ground(coherence);
        let task = &ground.task;
        fs::write(ground.host("a/b/c/other"), "").unwrap();
        assert_eq!(often(|| task.stat("/a/b/c/file").map(|stat| stat.st_size)), Ok(1));
        let written = fs::File::options().write(true).open(ground.host("a/b/c/other")).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    written.write_at(b"1", 0).unwrap();
                }
            });
            let calls = (0..20_000).map(|_| {
                let before = ground.fs.host_calls();
                assert_eq!(task.stat("/a/b/c/file").map(|stat| stat.st_size), Ok(1));
                ground.fs.host_calls() - before
            });
            let most = calls.max();
            done.store(true, Relaxed);
            assert!(most < Some(20), "{most:?} calls of the host for one");
        });
    }
}
