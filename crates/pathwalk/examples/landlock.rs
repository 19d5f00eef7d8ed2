//! Landlock as a security module: a task gives up what no rule allows beneath a file or directory; landlock(7).
//!
//! A domain is a stack of layers, each of one ruleset; a task may add layers and never takes one away. What a layer handles
//! it must allow: by rules on the file and on directories above it, together. No rule allows a file to get another parent
//! (`LANDLOCK_ACCESS_FS_REFER`): that is `EXDEV`. To mount is `EPERM` in a domain.

use pathwalk::{
    Config, Cred, Dev, Entry, Errno, FileType, Hooks, MemFs, MountFlags, OpenFlags, PathRef,
    RenameFlags, Result, SecurityModule, Subject, Task, UmountFlags, Vfs,
};
use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
};

const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const TRUNCATE: u64 = 1 << 14;
/// The bits of `LANDLOCK_ACCESS_FS_*`, all but `EXECUTE`, `REFER` and `IOCTL_DEV`.
pub const ALL: u64 = 0x5ffe;

/// What is handled, and what is allowed beneath files, by device and inode.
#[derive(Clone, Default)]
pub struct Ruleset {
    /// What is forbidden where no rule allows it.
    pub handled: u64,
    /// The rules.
    pub allowed: HashMap<(u64, u64), u64>,
}

/// The domains of a machine's tasks. The word in a task's credentials is its domain's number, 0 without one.
#[derive(Default)]
pub struct Landlock(RwLock<Vec<Arc<[Ruleset]>>>);

impl Landlock {
    /// landlock_restrict_self(2)
    pub fn restrict(&self, task: &mut Task, ruleset: Ruleset) {
        let mut layers = self.layers(task.cred().security).to_vec();
        layers.push(ruleset);
        let mut domains = self.0.write().expect("nobody panics with it");
        domains.push(layers.into());
        let cred = task.cred().clone().with_security(domains.len() as u64);
        task.set_cred(cred);
    }

    fn layers(&self, domain: u64) -> Arc<[Ruleset]> {
        let domains = self.0.read().expect("nobody panics with it");
        (domain as usize).checked_sub(1).map_or([].into(), |own| Arc::clone(&domains[own]))
    }

    /// What of `wanted` some layer does not allow at a place.
    fn lacks(&self, who: &Subject<'_>, at: &PathRef<'_>, wanted: u64) -> u64 {
        let layers = self.layers(who.security);
        let mut lacks: Vec<u64> = layers.iter().map(|layer| wanted & layer.handled).collect();
        let mut look = |at: &PathRef<'_>| {
            let key = (at.dev().to_stat(), at.inode().attr().ino);
            for (lacks, layer) in lacks.iter_mut().zip(layers.iter()) {
                *lacks &= !layer.allowed.get(&key).copied().unwrap_or(0);
            }
            lacks.iter().any(|&lacks| lacks != 0)
        };
        let mut above = look(at).then(|| at.parent()).flatten();
        while let Some(at) = above {
            above = look(&at).then(|| at.parent()).flatten();
        }
        lacks.iter().fold(0, |all, lacks| all | lacks)
    }

    fn need(&self, who: &Subject<'_>, at: &PathRef<'_>, wanted: u64) -> Result<()> {
        if self.lacks(who, at, wanted) == 0 { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// What is mounted is not changed by who is in a sandbox.
    fn unsandboxed(who: &Subject<'_>) -> Result<()> {
        if who.security == 0 { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// A file leaves one directory and comes into another, or the same.
    fn refer(&self, who: &Subject<'_>, [old, new]: [(&PathRef<'_>, u64); 2]) -> Result<()> {
        let id = |at: &PathRef<'_>| (at.dev(), at.inode().attr().ino);
        if who.security == 0 || id(old.0) == id(new.0) {
            return self.need(who, new.0, old.1 | new.1);
        }
        self.need(who, old.0, old.1)?;
        self.need(who, new.0, new.1)?;
        Err(Errno::EXDEV)
    }
}

/// `MAKE_CHAR` and so on, in their order.
const MAKE: &[u8] = b"cd-spbl";

fn making(kind: FileType) -> u64 {
    let at = MAKE.iter().position(|&letter| char::from(letter) == kind.letter());
    1 << (6 + at.expect("every type has its letter"))
}

fn removing(entry: &Entry<'_>) -> u64 {
    let kind = entry.inode.map(|inode| inode.attr().file_type());
    kind.map_or(0, |kind| if kind == FileType::Directory { REMOVE_DIR } else { REMOVE_FILE })
}

impl SecurityModule for Landlock {
    fn hooks(&self) -> Hooks {
        Hooks::all() - Hooks::WALK
    }
    fn path_mkdir(&self, who: &Subject<'_>, at: &Entry<'_>, _: u32) -> Result<()> {
        self.need(who, &at.dir, making(FileType::Directory))
    }
    fn path_mknod(&self, who: &Subject<'_>, at: &Entry<'_>, mode: u32, _: Dev) -> Result<()> {
        self.need(who, &at.dir, making(FileType::from_mode(mode).unwrap_or(FileType::Regular)))
    }
    fn path_symlink(&self, who: &Subject<'_>, at: &Entry<'_>, _: &[u8]) -> Result<()> {
        self.need(who, &at.dir, making(FileType::Symlink))
    }
    fn path_unlink(&self, who: &Subject<'_>, at: &Entry<'_>) -> Result<()> {
        self.need(who, &at.dir, REMOVE_FILE)
    }
    fn path_rmdir(&self, who: &Subject<'_>, at: &Entry<'_>) -> Result<()> {
        self.need(who, &at.dir, REMOVE_DIR)
    }
    fn path_link(&self, who: &Subject<'_>, old: &PathRef<'_>, new: &Entry<'_>) -> Result<()> {
        let above = old.parent();
        let made = making(old.inode().attr().file_type());
        self.refer(who, [(above.as_ref().unwrap_or(old), 0), (&new.dir, made)])
    }
    fn path_rename(
        &self,
        who: &Subject<'_>,
        old: &Entry<'_>,
        new: &Entry<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        let comes = |entry: &Entry<'_>| entry.inode.map_or(0, |of| making(of.attr().file_type()));
        let back = if flags.contains(RenameFlags::EXCHANGE) { comes(new) } else { 0 };
        let (from, to) = (removing(old) | back, removing(new) | comes(old));
        self.refer(who, [(&old.dir, from), (&new.dir, to)])
    }
    fn sb_mount(&self, who: &Subject<'_>, _: &[u8], _: &PathRef<'_>, _: MountFlags) -> Result<()> {
        Self::unsandboxed(who)
    }
    fn sb_umount(&self, who: &Subject<'_>, _: &PathRef<'_>, _: UmountFlags) -> Result<()> {
        Self::unsandboxed(who)
    }
    fn sb_remount(&self, who: &Subject<'_>, _: &PathRef<'_>, _: MountFlags) -> Result<()> {
        Self::unsandboxed(who)
    }
    fn sb_pivotroot(&self, who: &Subject<'_>, _: &PathRef<'_>, _: &PathRef<'_>) -> Result<()> {
        Self::unsandboxed(who)
    }
    fn move_mount(&self, who: &Subject<'_>, _: &PathRef<'_>, _: &PathRef<'_>) -> Result<()> {
        Self::unsandboxed(who)
    }
    fn path_truncate(&self, who: &Subject<'_>, file: &PathRef<'_>) -> Result<()> {
        self.need(who, file, TRUNCATE)
    }
    fn file_open(&self, who: &Subject<'_>, file: &PathRef<'_>, flags: OpenFlags) -> Result<u64> {
        let directory = file.inode().attr().file_type() == FileType::Directory;
        let wanted = match flags.bits() & 3 {
            0 if directory => READ_DIR,
            mode => [READ_FILE, WRITE_FILE, READ_FILE | WRITE_FILE, 0][mode as usize],
        };
        let lacks = self.lacks(who, file, wanted | TRUNCATE);
        // What is kept with the file is what it may not: a file that was opened before has no word.
        if lacks & wanted == 0 { Ok(lacks) } else { Err(Errno::EACCES) }
    }
    fn file_truncate(&self, _: &Subject<'_>, _: &PathRef<'_>, lacks: u64) -> Result<()> {
        if lacks & TRUNCATE == 0 { Ok(()) } else { Err(Errno::EACCES) }
    }
}

fn main() -> Result<()> {
    let vfs = Vfs::new(Config::default(), MemFs::new())?;
    let landlock = Arc::new(Landlock::default());
    vfs.register_security(landlock.clone())?;
    let mut task = vfs.task(Cred::root());
    task.mkdir("/srv", 0o755)?;
    let srv = task.stat("/srv")?;
    let allowed = HashMap::from([((srv.st_dev, srv.st_ino), ALL)]);
    landlock.restrict(&mut task, Ruleset { handled: ALL, allowed });
    task.mkdir("/srv/in", 0o755)?;
    assert_eq!(task.mkdir("/out", 0o755), Err(Errno::EACCES));
    assert_eq!(task.rename("/srv/in", "/out"), Err(Errno::EACCES));
    assert_eq!(task.open("/", OpenFlags::DIRECTORY, 0).map(drop), Err(Errno::EACCES));
    println!("beneath /srv it may do all, elsewhere nothing");
    Ok(())
}
