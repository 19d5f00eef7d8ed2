//! Change notification, as far as the oracle does not see it: waiting, limits, and what a watch holds.

mod common;

use common::watched;
use pathwalk::{
    AtFlags, Attr, Config, Cred, Errno, InodeRef, Inotify, InotifyFlags, InotifyLimits,
    InotifyMask, MemFs, MountFlags, OpenFlags, Result, Subject, Task, Timespec, UmountFlags, Vfs,
    abi::inotify::{HEADER, events},
    fs::{Features, FileSystem, Found, FsStat, NewInode},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

const LIMITS: InotifyLimits =
    InotifyLimits { max_queued_events: 3, max_user_instances: 2, max_user_watches: 2 };

fn machine(inotify: InotifyLimits) -> (Arc<Vfs>, Task) {
    let config = Config { inotify, ..Config::default() };
    let vfs = Vfs::new(config, MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    (vfs, task)
}

fn watching(task: &Task, path: &str) -> Inotify {
    let queue = task.inotify_init1(InotifyFlags::empty()).unwrap();
    task.inotify_add_watch(&queue, path, InotifyMask::ALL_EVENTS).unwrap();
    queue
}

#[test]
fn a_full_queue_says_so_once_and_goes_on_when_it_was_read() {
    let (_vfs, task) = machine(LIMITS);
    let queue = watching(&task, "/");
    for name in ["a", "b", "c", "d", "e"] {
        task.mkdir(name, 0o755).unwrap();
    }
    let made = InotifyMask::CREATE | InotifyMask::ISDIR;
    let got: Vec<_> = queue.events().map(|event| (event.wd, event.mask, event.name)).collect();
    let name = |name: &[u8]| name.into();
    let overflow = (-1, InotifyMask::Q_OVERFLOW, name(b""));
    let first = [b"a", b"b", b"c"].map(|of| (1, made, name(of)));
    assert_eq!(got[..3], first);
    assert_eq!(got[3..], [overflow]);
    task.rmdir("a").unwrap();
    assert_eq!(queue.events().count(), 1);
}

#[test]
fn a_user_has_so_many_queues_and_watches() {
    let (vfs, task) = machine(LIMITS);
    for name in ["a", "b", "c"] {
        task.mkdir(name, 0o755).unwrap();
    }
    let (first, second) = (watching(&task, "a"), watching(&task, "b"));
    let more = task.inotify_init1(InotifyFlags::empty());
    assert_eq!(more.map(drop), Err(Errno::EMFILE));
    let other = vfs.task(Cred::user(1000, 1000));
    let of_other = watching(&other, "a");
    let all = InotifyMask::ALL_EVENTS;
    assert_eq!(task.inotify_add_watch(&first, "c", all), Err(Errno::ENOSPC));
    assert_eq!(task.inotify_add_watch(&first, "a", all), Ok(1), "that one is there");
    drop(second);
    // The number of the watch that was refused is spent, as it is in Linux.
    assert_eq!(task.inotify_add_watch(&first, "c", all), Ok(3));
    task.inotify_rm_watch(&first, 1).unwrap();
    task.rmdir("c").unwrap();
    let third = watching(&task, "b");
    assert_eq!(task.inotify_add_watch(&third, "a", all), Ok(2));
    drop((first, third, of_other));
    assert_eq!(task.inotify_init1(InotifyFlags::empty()).unwrap().bytes(), 0);
}

/// Linux: `inotify_new_group` counts for `current_euid()`.
#[test]
fn queues_and_watches_count_for_the_effective_user() {
    let (vfs, root) = machine(LIMITS);
    root.mkdir("/a", 0o755).unwrap();
    root.mkdir("/b", 0o755).unwrap();
    let task = |uid, fsuid| vfs.task(Cred { fsuid, ..Cred::user(uid, uid) });
    let (set_user_id, effective, real) = (task(1, 2), task(2, 2), task(1, 1));
    let held = [watching(&set_user_id, "/a"), watching(&set_user_id, "/b")];
    let new = |task: &Task| task.inotify_init1(InotifyFlags::empty());
    assert_eq!(new(&effective).err(), Some(Errno::EMFILE));
    assert_eq!(new(&task(3, 2)).err(), Some(Errno::EMFILE));
    let own = new(&real).expect("none is his");
    // A watch counts where its queue does, whoever adds it.
    for path in ["/a", "/b"] {
        set_user_id.inotify_add_watch(&own, path, InotifyMask::CREATE).expect("none is his");
    }
    let add = |queue: &Inotify| real.inotify_add_watch(queue, "/", InotifyMask::CREATE);
    assert_eq!(add(&own), Err(Errno::ENOSPC));
    drop(own);
    assert_eq!(add(&held[0]), Err(Errno::ENOSPC));
}

#[test]
fn a_reader_sleeps_until_something_happens() {
    let (_vfs, task) = machine(InotifyLimits::default());
    let queue = watching(&task, "/");
    assert!(!queue.wait(Some(Duration::from_millis(1))));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut buf = [0; 100];
            let read = queue.read(&mut buf).unwrap();
            events(&buf[..read]).map(|event| event.name.to_vec()).collect::<Vec<_>>()
        });
        let waiter = scope.spawn(|| queue.wait(None));
        task.symlink("x", "l").unwrap();
        assert_eq!(reader.join().unwrap(), [b"l"]);
        task.unlink("l").unwrap();
        assert!(waiter.join().unwrap());
    });
}

#[test]
fn a_waker_is_called_once() {
    struct Calls(AtomicUsize);
    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let (_vfs, task) = machine(InotifyLimits::default());
    let queue = watching(&task, "/");
    let calls = Arc::new(Calls(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&calls));
    let mut cx = Context::from_waker(&waker);
    assert_eq!(queue.poll(&mut cx), Poll::Pending);
    assert_eq!(queue.poll(&mut cx), Poll::Pending);
    task.mkdir("a", 0o755).unwrap();
    task.mkdir("b", 0o755).unwrap();
    assert_eq!(calls.0.load(Relaxed), 1);
    assert_eq!(queue.poll(&mut cx), Poll::Ready(()));
    assert_eq!(queue.bytes(), 4 * HEADER);
}

#[test]
fn a_queue_is_of_one_machine() {
    let (_vfs, task) = machine(InotifyLimits::default());
    let (_other_vfs, other) = machine(InotifyLimits::default());
    let queue = watching(&task, "/");
    let all = InotifyMask::ALL_EVENTS;
    assert_eq!(other.inotify_add_watch(&queue, "/", all), Err(Errno::EBADF));
    assert_eq!(other.inotify_add_watch(&queue, "/", InotifyMask::empty()), Err(Errno::EINVAL));
    assert_eq!(other.inotify_rm_watch(&queue, 1), Err(Errno::EBADF));
}

#[test]
fn a_watch_goes_with_its_queue_and_holds_no_name() {
    let (vfs, task) = machine(InotifyLimits::default());
    task.mkdir("d", 0o755).unwrap();
    let before = vfs.usage();
    let file = task.open("d/f", OpenFlags::CREAT, 0o644).unwrap();
    let queue = watching(&task, "d/f");
    drop(file);
    task.unlink("d/f").unwrap();
    let got: Vec<_> = queue.events().map(|event| event.mask).collect();
    let told = [
        InotifyMask::CLOSE_NOWRITE,
        InotifyMask::ATTRIB,
        InotifyMask::DELETE_SELF,
        InotifyMask::IGNORED,
    ];
    assert_eq!(got, told);
    assert_eq!(vfs.usage(), before, "nothing is held any more");
    let queue = watching(&task, "d");
    drop(queue);
    task.unlinkat(pathwalk::At::Cwd, "d", AtFlags::REMOVEDIR).unwrap();
    assert_eq!(vfs.usage().inodes, before.inodes - 1);
}

/// What is done while the file system takes a node back.
type WhenEvicted = Box<dyn Fn(u64) + Send + Sync>;

/// A directory with the files "2" to "9", whose names can be evicted.
struct DigitsFs(WhenEvicted);

impl FileSystem for DigitsFs {
    fn kind(&self) -> &str {
        "digits"
    }

    fn features(&self) -> Features {
        Features::empty()
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        let attr = Attr { mode: 0o040_755, nlink: 2, ino: 1, ..Attr::default() };
        Ok(Found { node: 1, attr, body: None })
    }

    fn lookup(&self, _: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let &[digit @ b'2'..=b'9'] = name else { return Ok(None) };
        let node = u64::from(digit - b'0');
        let attr = Attr { mode: 0o100_644, nlink: 1, ino: node, ..Attr::default() };
        Ok(Some(Found { node, attr, body: None }))
    }

    fn create(&self, _: InodeRef<'_>, _: &[u8], _: &NewInode<'_>) -> Result<Option<Found>> {
        Err(Errno::EPERM)
    }

    fn read(&self, _: InodeRef<'_>, _: u64, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    fn write(
        &self,
        _: InodeRef<'_>,
        _: Option<u64>,
        _: &[u8],
        _: Timespec,
    ) -> Result<(u64, usize)> {
        Err(Errno::EPERM)
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat::default())
    }

    fn evict(&self, node: u64, _: bool) {
        self.0(node);
    }
}

/// A machine with such a file system on `/m`, some of whose files are watched, and nothing else keeps those.
fn watched_alone(files: &[&str], when_evicted: WhenEvicted) -> (Task, Inotify) {
    let (vfs, task) = machine(InotifyLimits::default());
    task.mkdir("/m", 0o755).unwrap();
    task.mkdir("/other", 0o755).unwrap();
    task.mount(Arc::new(DigitsFs(when_evicted)), "/m", MountFlags::empty()).unwrap();
    let queue = task.inotify_init1(InotifyFlags::NONBLOCK).unwrap();
    for file in files {
        task.inotify_add_watch(&queue, format!("/m/{file}"), InotifyMask::ALL_EVENTS).unwrap();
    }
    while vfs.shrink(8) != 0 {}
    (task, queue)
}

/// While one thread takes the watch away that alone keeps a file, another unmounts: the file system hears of the file, which it is
/// slow to take back, before that call returns. That it may panic meanwhile makes nobody wait.
#[test]
fn an_unmount_waits_for_a_watch_that_is_being_taken_away() {
    for panics in [false, true] {
        let state = Arc::new((AtomicUsize::new(0), Mutex::new(())));
        let seen = Arc::clone(&state);
        let slowly = move |node| {
            if node == 2 {
                seen.0.store(1, Relaxed);
                drop(seen.1.lock().unwrap());
                thread::sleep(Duration::from_millis(200));
                seen.0.store(2, Relaxed);
                assert!(!panics, "as the test wants it");
            }
        };
        let (task, queue) = watched_alone(&["2", "3"], Box::new(slowly));
        let ready = state.1.lock().unwrap();
        thread::scope(|scope| {
            let remover = scope.spawn(|| {
                catch_unwind(AssertUnwindSafe(|| task.inotify_rm_watch(&queue, 1))).is_err()
            });
            while state.0.load(Relaxed) == 0 {
                thread::yield_now();
            }
            drop(ready);
            assert_eq!(task.umount2("/m", UmountFlags::empty()), Ok(()));
            assert_eq!(state.0.load(Relaxed), 2, "the file outlived its file system");
            assert_eq!(remover.join().unwrap(), panics);
        });
    }
}

/// A queue that goes takes its watches away one by one: what goes with the first may be a file system that has the second.
#[test]
fn a_queue_goes_though_an_inode_takes_another_file_system_with_it() {
    watched(|| {
        let unmounts: Arc<OnceLock<Task>> = Arc::default();
        let also = Arc::clone(&unmounts);
        let gone = move |node| {
            if let (2, Some(task)) = (node, also.get()) {
                assert_eq!(task.umount2("/other", UmountFlags::empty()), Ok(()));
            }
        };
        let (task, queue) = watched_alone(&["2"], Box::new(gone));
        task.mount(Arc::new(DigitsFs(Box::new(|_| ()))), "/other", MountFlags::empty()).unwrap();
        task.inotify_add_watch(&queue, "/other/3", InotifyMask::ALL_EVENTS).unwrap();
        unmounts.set(task.vfs().task(Cred::root())).ok().unwrap();
        drop(queue);
        let left = task.stat("/other/3").map(drop);
        assert_eq!(left, Err(Errno::ENOENT));
        // Nobody holds the machine through its own file system.
        assert_eq!(task.umount2("/m", UmountFlags::empty()), Ok(()));
    });
}

/// Takes a watch away, and makes another inode, as soon as it is woken, in a thread of its own: the queue's own thread must not.
struct Remover(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Remover {
    fn wake(self: Arc<Self>) {
        if let Some(remove) = self.0.lock().unwrap().take() {
            thread::spawn(remove).join().unwrap();
        }
    }
}

/// The files of a file system that goes are told of it one by one. One that loses its watch meanwhile is not told, nor is what
/// has come in its place.
#[test]
fn an_unmount_tells_no_other_file_system() {
    let (task, queue) = watched_alone(&["2", "3"], Box::new(|_| ()));
    let other = task.inotify_init1(InotifyFlags::NONBLOCK).unwrap();
    let (asks, watches, theirs) = (task.vfs().task(Cred::root()), queue.clone(), other.clone());
    task.mount(Arc::new(DigitsFs(Box::new(|_| ()))), "/other", MountFlags::empty()).unwrap();
    // "3" is newer, so it is told first, and whoever waits hears of it before "2" is told.
    let remove = move || {
        asks.inotify_rm_watch(&watches, 1).unwrap();
        for file in 4..=9 {
            let file = format!("/other/{file}");
            asks.inotify_add_watch(&theirs, file, InotifyMask::ALL_EVENTS).unwrap();
        }
    };
    let waker = Waker::from(Arc::new(Remover(Mutex::new(Some(Box::new(remove))))));
    assert_eq!(queue.poll(&mut Context::from_waker(&waker)), Poll::Pending);
    assert_eq!(task.umount2("/m", UmountFlags::empty()), Ok(()));
    let told: Vec<_> = queue.events().map(|event| (event.wd, event.mask)).collect();
    let (unmount, ignored) = (InotifyMask::UNMOUNT, InotifyMask::IGNORED);
    assert_eq!(told, [(2, unmount), (1, ignored), (2, ignored)]);
    assert_eq!(other.events().next(), None);
    let removed: Vec<_> = (1..=6).map(|wd| task.inotify_rm_watch(&other, wd)).collect();
    assert_eq!(removed, [Ok(()); 6]);
}
