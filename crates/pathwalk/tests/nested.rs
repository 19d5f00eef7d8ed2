//! File systems that walk through themselves while they are asked: how far that goes, and what is left of it after.

mod common;

use common::asking::{Inside, found, root_task};
use pathwalk::{
    Attr, Errno, FileType, Hooks, InodeRef, Result, SecurityModule, Subject, Task, Timespec,
    fs::{Automount, Features, FileSystem, Found, LinkTarget, Managed},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// What a walk asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Readlink,
    GetLink,
    UpdateTime,
    FollowLink,
    Automount,
    Manage,
}

use Question::*;

impl Question {
    const ALL: [Self; 6] = [Readlink, GetLink, UpdateTime, FollowLink, Automount, Manage];

    /// What it is asked about.
    fn path(self) -> &'static str {
        match self {
            Automount => "/auto",
            Manage => "/gate",
            _ => "/link",
        }
    }

    /// How much the walk that asks it takes of the budget itself.
    fn counts(self) -> u32 {
        u32::from(self != Manage)
    }
}

type Hook = dyn Fn(&Task) -> Result<()> + Send + Sync;

/// A root with the symlink `link` to the directory `0`, the managed directories `auto` and `gate`, and the symlinks `1`, `2`
/// and so on, each to the one before it.
struct Walking {
    question: Question,
    asked: AtomicU32,
    hook: Mutex<Option<Arc<Hook>>>,
    inside: Inside,
}

const LINK: u64 = 2;
const AUTO: u64 = 3;
const GATE: u64 = 4;
const ZERO: u64 = 100;

impl Walking {
    fn answer(&self, question: Question) -> Result<()> {
        if question != self.question {
            return Ok(());
        }
        assert!(self.asked.fetch_add(1, Relaxed) < 100, "it walks to the end of its stack");
        let hook = self.hook.lock().unwrap().clone();
        let task = self.inside.task().expect("the test has it");
        hook.map_or(Ok(()), |hook| hook(&task))
    }

    fn found(&self, node: u64) -> Found {
        let kind = match node {
            1 | AUTO | GATE | ZERO => FileType::Directory,
            _ => FileType::Symlink,
        };
        let body = (node > ZERO).then(|| format!("{}", node - ZERO - 1).into_bytes());
        // When it was read last is after it was changed, but for what is to be noted.
        let atime =
            Timespec { sec: i64::from(self.question != UpdateTime || node != LINK), nsec: 0 };
        let found = found(node, kind, 0o777);
        Found { attr: Attr { atime, ..found.attr }, body, ..found }
    }
}

impl FileSystem for Walking {
    fn kind(&self) -> &str {
        "walking"
    }

    fn features(&self) -> Features {
        let magic =
            if self.question == GetLink { Features::MAGIC_LINKS } else { Features::empty() };
        Features::MANAGED | magic
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        Ok(self.found(1))
    }

    fn lookup(&self, _: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let number = || std::str::from_utf8(name).ok()?.parse::<u64>().ok();
        let node = match name {
            b"link" => Some(LINK),
            b"auto" => Some(AUTO),
            b"gate" => Some(GATE),
            _ => number().map(|number| ZERO + number),
        };
        Ok(node.map(|node| self.found(node)))
    }

    fn readlink(&self, link: InodeRef<'_>) -> Result<Vec<u8>> {
        assert_eq!(link.node(), LINK);
        self.answer(Readlink)?;
        Ok(b"0".to_vec())
    }

    fn get_link<'v>(&self, link: InodeRef<'v>, _: &Subject<'_>) -> Result<LinkTarget<'v>> {
        if link.node() == LINK {
            self.answer(GetLink)?;
        }
        Ok(LinkTarget::Body(link.node().saturating_sub(ZERO + 1).to_string().into_bytes()))
    }

    fn update_time(&self, inode: InodeRef<'_>, _: Timespec) {
        if inode.node() == LINK {
            // It has nothing to answer.
            let _ = self.answer(UpdateTime);
        }
    }

    fn managed(&self, found: &Found) -> Managed {
        match found.node {
            AUTO => Managed::AUTOMOUNT,
            GATE => Managed::TRANSIT,
            _ => Managed::empty(),
        }
    }

    fn automount(&self, _: InodeRef<'_>, _: &Subject<'_>) -> Result<Option<Automount>> {
        self.answer(Automount)?;
        Err(Errno::EISDIR)
    }

    fn manage(&self, _: u64, _: &Subject<'_>, dir: Option<InodeRef<'_>>) -> Result<()> {
        if dir.is_none() { Err(Errno::ECHILD) } else { self.answer(Manage) }
    }
}

/// Asks the file system when a symlink is followed.
struct Follows(Arc<Walking>);

impl SecurityModule for Follows {
    fn hooks(&self) -> Hooks {
        Hooks::INODE_FOLLOW_LINK
    }

    fn inode_follow_link(&self, _: &Subject<'_>, link: InodeRef<'_>) -> Result<()> {
        if link.node() == LINK { self.0.answer(FollowLink) } else { Ok(()) }
    }
}

fn machine(
    question: Question,
    hook: impl Fn(&Task) -> Result<()> + Send + Sync + 'static,
) -> (Arc<Walking>, Arc<Task>) {
    let fs = Arc::new(Walking {
        question,
        asked: AtomicU32::new(0),
        hook: Mutex::new(Some(Arc::new(hook))),
        inside: Inside::default(),
    });
    let task = root_task(&fs);
    if question == FollowLink {
        task.vfs().register_security(Arc::new(Follows(Arc::clone(&fs)))).unwrap();
    }
    fs.inside.give(&task);
    (fs, task)
}

/// As many symlinks may be followed on the way, and no more.
fn assert_left(task: &Task, on_the_way: &str, left: u32, what: Question) {
    let walk = |links: u32| task.stat(format!("{on_the_way}{links}")).map(drop);
    assert_eq!((walk(left + 1), walk(left)), (Err(Errno::ELOOP), Ok(())), "{what:?}");
}

#[test]
fn who_walks_through_itself_ends_with_eloop() {
    for question in Question::ALL.into_iter().filter(|question| question.counts() != 0) {
        let path = format!("{}/.", question.path());
        for passes_on in [true, false] {
            let through = path.clone();
            let (fs, task) = machine(question, move |task| {
                let inside = task.stat(&through).map(drop);
                if passes_on { inside } else { Ok(()) }
            });
            let answer = task.stat(&path).map(drop);
            let passed_on = passes_on && question != UpdateTime;
            let expected = if passed_on { Err(Errno::ELOOP) } else { Ok(()) };
            assert_eq!((answer, fs.asked.load(Relaxed)), (expected, 40), "{question:?}");
            assert_left(&task, "/", 40, question);
        }
    }
}

#[test]
fn what_is_followed_inside_is_gone_for_who_asked() {
    for question in Question::ALL {
        // Each time that it is asked.
        let (fs, task) = machine(question, |task| task.stat("/20").map(drop));
        let on_the_way = format!("{}/../", question.path());
        assert_eq!(task.stat(format!("{on_the_way}0")).map(drop), Ok(()), "{question:?}");
        assert_eq!(fs.asked.load(Relaxed), 1, "{question:?}");
        if question == Readlink {
            // Its body is in the cache now: it is not asked again.
            assert_left(&task, &on_the_way, 39, question);
            let (_fs, task) = machine(question, |task| task.stat("/20").map(drop));
            assert_eq!(task.stat(format!("{on_the_way}20")).map(drop), Err(Errno::ELOOP));
        } else {
            assert_left(&task, &on_the_way, 20 - question.counts(), question);
        }
        assert_left(&task, "/", 40, question);
    }
}

#[test]
fn a_panic_inside_leaves_the_thread_its_budget() {
    for question in Question::ALL {
        let (fs, task) = machine(question, |task| {
            task.stat("/20")?;
            panic!("as the test wants it")
        });
        let path = format!("{}/.", question.path());
        let walk = catch_unwind(AssertUnwindSafe(|| task.stat(&path).map(drop)));
        assert!(walk.is_err(), "{question:?}");
        assert_left(&task, "/", 40, question);
        *fs.hook.lock().unwrap() = None;
        assert_eq!(task.stat(&path).map(drop), Ok(()), "{question:?}");
        // It still remembers paths.
        #[cfg(debug_assertions)]
        {
            let made = pathwalk::road::made();
            for _ in 0..8 {
                task.stat("/0").unwrap();
            }
            assert!(pathwalk::road::made() > made, "{question:?}");
        }
        // The walk has given back what it held: the machine and the file system go.
        drop(task);
        assert_eq!(Arc::strong_count(&fs), 1, "{question:?}");
    }
}
