//! Of names that are the same, of what was asked before something was heard, and of who asks or watches beside others.

use super::*;
use std::{
    fs::Permissions,
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::Path,
    sync::mpsc::channel,
    thread,
};

#[test]
fn what_may_be_the_same_name_goes_with_it() {
    let all: [&[u8]; 5] = [b"name", b"Name", b"other", "näme".as_bytes(), "\u{212a}".as_bytes()];
    let left = |told: &[u8]| {
        let mut names = Names::default();
        for (node, name) in (1..).zip(all) {
            names.insert(name, Some(node));
            assert_eq!(names.get(name), Some(Some(node)));
        }
        names.remove(told);
        let left: Vec<_> = all.into_iter().filter(|name| names.get(name).is_some()).collect();
        assert_eq!(names.count(), left.len());
        left
    };
    assert_eq!(left(b"NAME"), [b"other"]);
    assert_eq!(left(b"other"), [b"name", b"Name"]);
    assert_eq!(left(b"new"), [&b"name"[..], b"Name", b"other"]);
    assert!(left("ö".as_bytes()).is_empty());
}

#[test]
fn no_more_names_than_that_are_known() {
    let host = Host::new(true, None);
    let watches = Watches::new(&host, Believed::All, 8).expect("it can watch");
    let dir = tempfile::tempdir().expect("a directory");
    let held = std::fs::File::open(dir.path()).expect("it is there");
    for number in 0..3 * MOST {
        let seen = watches.watch(&host, 1, held.as_fd()).expect("it is watched");
        let name = number.to_string();
        watches.learn(1, name.as_bytes(), None, seen);
        assert!(watches.lock().names <= MOST);
    }
    // Names that are not ASCII go together, and are found quickly all the same.
    for number in 0..MOST {
        let seen = watches.watch(&host, 1, held.as_fd()).expect("it is watched");
        watches.learn(1, format!("ä{number}").as_bytes(), Some(2), seen);
    }
    watches.forget(&host, 1);
    assert_eq!(watches.lock().names, 0);
}

/// Where a name in the directory 2 leads.
fn leads(watches: &Watches, host: &Host, name: &[u8]) -> Option<Option<u64>> {
    watches.leads(host, 2, &[name], None).map(|led| led.node)
}

/// A name that is absent in a directory that is watched, asked about by another thread, as often as it is told to go.
fn beside(
    table: impl FnOnce(&Watches, &Host, &Path, &dyn Fn(), &dyn Fn(Duration) -> Option<bool>) + Send,
) {
    let host = Host::new(true, None);
    let watches = Watches::new(&host, Believed::Names, 8).expect("it can watch");
    let dir = tempfile::tempdir().expect("a directory");
    let held = std::fs::File::open(dir.path()).expect("it is there");
    let seen = watches.watch(&host, 2, held.as_fd()).expect("it is watched");
    watches.learn(2, b"name", None, seen);
    let ((go, gone), (tell, told)) = (channel(), channel());
    let (watches, host) = (&watches, &host);
    thread::scope(|scope| {
        scope.spawn(move || {
            let still = || watches.still_leads(host, 2, b"name", None, false);
            assert!(!still(), "this thread has not asked");
            assert_eq!(leads(watches, host, b"name"), Some(None));
            tell.send(still()).expect("it is heard");
            while gone.recv().is_ok() {
                tell.send(still()).expect("it is heard");
            }
        });
        let answer = |within| told.recv_timeout(within).ok();
        let go = move || go.send(()).expect("it is there");
        assert_eq!(answer(LONG), Some(true));
        table(watches, host, dir.path(), &go, &answer);
    });
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn nobody_waits_who_asks_again_for_what_is_known() {
    beside(|watches, host, _, go, answer| {
        let table = watches.table.lock();
        go();
        let answered = answer(LONG);
        drop(table);
        assert_eq!(answered, Some(true));
        let seen = watches.version(2).expect("it is watched");
        watches.learn(2, b"name", Some(3), seen);
        go();
        assert_eq!(answer(LONG), Some(false), "another file was found there");
        assert_eq!(leads(watches, host, b"name"), Some(Some(3)));
    });
}

/// Who finds the queue empty because another has read it waits until that has noted what he read.
#[test]
fn what_was_taken_out_of_the_queue_is_waited_for() {
    beside(|watches, host, dir, go, answer| {
        let mut table = watches.lock();
        std::fs::write(dir.join("name"), "").expect("it is new");
        let mut change = None;
        let mut told = 0;
        let begins = || change = Some(watches.seq.change());
        let note = &mut |event: Event<'_>| {
            told += 1;
            if told == 1 {
                go();
                assert_eq!(answer(Duration::from_millis(200)), None);
            }
            table.table.note(&event);
        };
        host.events(&watches.news, begins, note).expect("it is told");
        drop(change);
        drop(table);
        assert_eq!((told > 0, answer(LONG)), (true, Some(false)));
    });
}

/// What was done before a call is known by it, also where another has just read of that.
#[test]
fn what_others_read_is_known_to_who_asks() {
    const ROUNDS: usize = 10_000;
    beside(|watches, host, dir, _, _| {
        let over = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while over.load(Relaxed) == 0 {
                    watches.drain(host);
                }
            });
            let mut believed = 0;
            for _ in 0..ROUNDS {
                let held = std::fs::File::open(dir).expect("it is there");
                let seen = watches.watch(host, 2, held.as_fd()).expect("it is watched");
                watches.learn(2, b"name", None, seen);
                leads(watches, host, b"name");
                std::fs::write(dir.join("name"), "").expect("there is room");
                believed += u32::from(watches.still_leads(host, 2, b"name", None, false));
                std::fs::remove_file(dir.join("name")).expect("it is there");
            }
            over.store(1, Relaxed);
            assert_eq!(believed, 0);
        });
    });
}

/// What is told after something was heard may be from before that.
#[test]
fn what_was_asked_before_something_was_heard_permits_nothing() {
    let host = Host::new(true, None);
    let watches = Watches::new(&host, Believed::Names, 8).expect("it can watch");
    let dir = tempfile::tempdir().expect("a directory");
    let held = std::fs::File::open(dir.path()).expect("it is there");
    let seen = watches.watch(&host, 2, held.as_fd()).expect("it is watched");
    watches.learn(2, b"name", Some(2), seen);
    let permits = || watches.leads(&host, 2, &[b"name"], None).expect("it is known").permits;
    let itself = || watches.version_of_itself(2).expect("it is watched");
    let before = itself();
    held.set_permissions(Permissions::from_mode(0o711)).expect("it is ours");
    assert!(!permits());
    watches.told_who_may(2, before);
    assert!(!permits());
    watches.told_who_may(2, itself());
    assert!(permits() && watches.permits(2));
    std::fs::write(dir.path().join("other"), "").expect("it is new");
    assert!(permits(), "nothing happened to itself");
    held.set_permissions(Permissions::from_mode(0o755)).expect("it is ours");
    assert!(!permits());
    watches.told_who_may(2, itself());
    watches.lock().forget_all(true);
    assert!(!watches.permits(2));
    let now = watches.lock().watched.get(2).map(|watch| watch.itself);
    watches.told_who_may(2, now.expect("it is kept"));
    assert!(!watches.permits(2), "it may be watched no more");
}

/// Two nodes of one directory, as the cache forgot it and found it again: the end of the older one leaves the later one watched.
#[test]
fn who_has_the_same_number_is_told_all_the_same() {
    let host = Host::new(true, None);
    let watches = Watches::new(&host, Believed::All, 8).expect("it can watch");
    let dir = tempfile::tempdir().expect("a directory");
    let held = std::fs::File::open(dir.path()).expect("it is there");
    let watch = |node| watches.watch(&host, node, held.as_fd()).expect("it is watched");
    watches.learn(1, b"name", None, watch(1));
    watches.learn(2, b"name", None, watch(2));
    watches.forget(&host, 1);
    assert_eq!(leads(&watches, &host, b"name"), Some(None));
    std::fs::write(dir.path().join("name"), "").expect("it is new");
    assert_eq!(leads(&watches, &host, b"name"), None, "it is heard of");
    // Nor does a directory stay believed of which it was lost that its watch ended.
    watches.learn(2, b"other", None, watch(2));
    watches.lock().forget_all(true);
    assert_eq!(watches.version(2), None);
    watches.learn(2, b"other", None, watch(2));
    assert_eq!(leads(&watches, &host, b"other"), Some(None));
}

/// The host may take as long as it likes to watch a directory: meanwhile others are watched, and no more.
#[test]
fn nobody_waits_for_who_is_watched() {
    let host = Host::new(true, None);
    let watches = Watches::new(&host, Believed::All, 8).expect("it can watch");
    let dir = tempfile::tempdir().expect("a directory");
    let held = std::fs::File::open(dir.path()).expect("it is there");
    watches.watch(&host, 1, held.as_fd()).expect("it is watched");
    let asked = AtomicU32::new(0);
    let version = watches.enter(Kind::Directory, &host, 2, || {
        let number = host.add_watch(&watches.news, held.as_fd(), Kind::Directory, true).ok();
        assert!(watches.table.try_lock().is_some());
        // By the first number nothing is told any more.
        if asked.fetch_add(1, Relaxed) == 0 {
            watches.forget(&host, 1);
        }
        number
    });
    watches.learn(2, b"name", None, version.expect("it is watched"));
    assert_eq!(asked.into_inner(), 2);
    assert_eq!(leads(&watches, &host, b"name"), Some(None));
    std::fs::write(dir.path().join("name"), "").expect("it is new");
    assert_eq!(leads(&watches, &host, b"name"), None, "it is heard of");
    // Where that does not end it is given up, and nothing stays watched.
    let given_up = watches.enter(Kind::Directory, &host, 3, || {
        let number = host.add_watch(&watches.news, held.as_fd(), Kind::Directory, true).ok();
        watches.forget(&host, 2);
        watches.watch(&host, 2, held.as_fd());
        watches.forget(&host, 2);
        number
    });
    assert_eq!(given_up, None);
    assert!(watches.lock().by_number.is_empty());
}

#[test]
fn what_cannot_be_watched_is_tried_less_and_less() {
    let asked = Asked::new();
    let names: [&[u8]; 2] = [b"a", b"b"];
    let tried: Vec<_> = (1..100).filter(|_| asked.again(1, &names)).collect();
    assert_eq!(tried, [4, 8, 16, 32, 64]);
    asked.watched(1, &names);
    assert_eq!((1..10).find(|_| asked.again(1, &names)), Some(4));
}
