//! Change notification, as far as the oracle does not see it: waiting, limits, and what a watch holds.

use pathwalk::{
    AtFlags, Config, Cred, Errno, Inotify, InotifyFlags, InotifyLimits, InotifyMask, MemFs,
    OpenFlags, Task, Vfs,
    abi::inotify::{HEADER, events},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
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
