//! A file system that mounts something when a walk comes by, and holds walks back, as a test tells it.

use crate::common::asking::{Inside, found, root_task};
use pathwalk::{
    Errno, FileType, InodeRef, MemFs, MountFlags, Result, Subject, Task, Timespec,
    fs::{Automount, Features, FileSystem, Found, Iattr, Managed},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// What the file system answers next.
pub(crate) enum Answer {
    /// A new file system.
    Mounts,
    /// One with those flags.
    MountsWith(MountFlags),
    /// That file system.
    Gives(Arc<dyn FileSystem>),
    /// A new one, after something was done.
    After(Hook),
    /// Says that somebody else does it, and nobody does.
    Nothing,
    /// An error.
    Fails(Errno),
}

/// The answer where nobody expects to be asked.
const UNEXPECTED: Errno = Errno::EPROTO;

/// What a file system does while it is asked.
pub(crate) type Hook = Box<dyn FnMut(&Task) + Send>;

/// A root with the directories `auto`, `gate`, `both` and `plain`, each with a directory `sub`; numbers are like `auto`.
#[derive(Default)]
pub(crate) struct Managing {
    answers: Mutex<VecDeque<Answer>>,
    automounts: Mutex<u32>,
    /// Whether it mounts something whenever nothing else is to be answered.
    pub(crate) always: AtomicBool,
    /// What manage answers where it may not block, and where it may; and how it was asked: whether it may.
    pub(crate) gate: Mutex<(Option<Errno>, Option<Errno>)>,
    pub(crate) asked: Mutex<Vec<bool>>,
    /// What is done first, once, where it may block.
    pub(crate) in_gate: Mutex<Option<Hook>>,
    pub(crate) inside: Inside,
}

const NAMES: [&[u8]; 4] = [b"auto", b"gate", b"both", b"plain"];

/// The node of the directory that has a number for its name.
fn numbered(name: u16) -> u64 {
    NUMBERED + u64::from(name)
}

const NUMBERED: u64 = 1000;

impl Managing {
    fn directory(node: u64) -> Found {
        found(node, FileType::Directory, 0o755)
    }

    pub(crate) fn answer_with(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    fn task(&self) -> Arc<Task> {
        self.inside.task().expect("the test has it")
    }

    /// How often automount was asked since this was last asked.
    pub(crate) fn automounts(&self) -> u32 {
        std::mem::take(&mut self.automounts.lock().unwrap())
    }
}

impl FileSystem for Managing {
    fn kind(&self) -> &str {
        "managing"
    }

    fn features(&self) -> Features {
        Features::MANAGED
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        Ok(Self::directory(1))
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let node = match dir.node() {
            1 => match NAMES.iter().position(|known| *known == name) {
                Some(index) => Some(index as u64 + 2),
                None => str::from_utf8(name).ok().and_then(|name| name.parse().ok()).map(numbered),
            },
            node if name == b"sub" => Some(node + 100),
            _ => None,
        };
        Ok(node.map(Self::directory))
    }

    fn managed(&self, found: &Found) -> Managed {
        match found.node {
            2 | NUMBERED.. => Managed::AUTOMOUNT,
            3 => Managed::TRANSIT,
            4 => Managed::AUTOMOUNT | Managed::TRANSIT,
            _ => Managed::empty(),
        }
    }

    fn automount(&self, dir: InodeRef<'_>, _: &Subject<'_>) -> Result<Option<Automount>> {
        *self.automounts.lock().unwrap() += 1;
        // No lock of the machine's is held: another call may be made of it.
        dir.vfs().usage();
        let gives = |flags| Ok(Some(Automount { fs: MemFs::new(), flags }));
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(Answer::Mounts) => gives(MountFlags::empty()),
            Some(Answer::MountsWith(flags)) => gives(flags),
            Some(Answer::Gives(fs)) => Ok(Some(Automount { fs, flags: MountFlags::empty() })),
            Some(Answer::After(mut hook)) => {
                hook(&self.task());
                gives(MountFlags::empty())
            }
            Some(Answer::Nothing) => Ok(None),
            Some(Answer::Fails(errno)) => Err(errno),
            None if self.always.load(Relaxed) => gives(MountFlags::empty()),
            None => Err(UNEXPECTED),
        }
    }

    fn manage(&self, node: u64, _: &Subject<'_>, dir: Option<InodeRef<'_>>) -> Result<()> {
        assert!(matches!(node, 3 | 4) && dir.is_none_or(|dir| dir.node() == node));
        self.asked.lock().unwrap().push(dir.is_some());
        if dir.is_some() {
            let hook = self.in_gate.lock().unwrap().take();
            if let Some(mut hook) = hook {
                hook(&self.task());
            }
        }
        let (at_once, waiting) = *self.gate.lock().unwrap();
        let errno = if dir.is_some() { waiting } else { at_once };
        errno.map_or(Ok(()), Err)
    }

    /// The sticky bit says that something is to be mounted.
    fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        let sticky = change.mode.is_some_and(|mode| mode & 0o1000 != 0);
        if inode.node() == 5 {
            inode.set_managed(if sticky { Managed::AUTOMOUNT } else { Managed::empty() });
        }
        inode.update(|attr| {
            change.copy_to(attr);
            Ok(())
        })
    }
}

pub(crate) fn machine() -> (Arc<Managing>, Arc<Task>) {
    let fs = Arc::new(Managing::default());
    let task = root_task(&fs);
    fs.inside.give(&task);
    (fs, task)
}

pub(crate) fn kind_at(task: &Task, path: &str) -> String {
    let mounts = String::from_utf8(pathwalk::mountinfo(task)).unwrap();
    mounts.lines().filter(|line| line.split(' ').nth(4) == Some(path)).map(|_| 'm').collect()
}
