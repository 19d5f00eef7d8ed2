//! The mounts that the tree was given: what they hide stays hidden, also from who may mount.
//!
//! A mount can hide a directory of the host. Who could take it down or aside, or show what is below it elsewhere, would
//! reach what was not given. So those that were there at first, and their copies, are locked, as Linux locks what a mount
//! namespace gets from one that is more privileged:
//!
//! 1. One that is locked is neither unmounted nor moved.
//! 2. What has one below it is shown elsewhere only together with it, and is not taken down lazily, which would part them. One that is
//!    unbindable would be left out: then nothing is shown.
//! 3. No mount that has one in it shares what is mounted and unmounted there.
//! 4. What takes the place of one by pivot_root is locked in its stead.
//!
//! A tree that is all memory hides nothing, and nothing is locked in it.
//!
//! Linux: `MNT_LOCKED`, `has_locked_children`; mount_namespaces(7).

use parking_lot::Mutex;
use pathwalk::{
    At, AtFlags, Errno, File, Hooks, LSMT_ROOT, ListmountFlags, MountFlags, OpenFlags, PathRef,
    Result, SecurityModule, Stat, StatmountMask, StatxMask, Subject, Task, UmountFlags,
    abi::PATH_MAX,
};
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// More mounts nobody has.
const MOST: usize = 100_000;

/// Which mounts are locked.
#[derive(Debug)]
pub(crate) struct Given {
    /// Sees them all.
    task: Task,
    locked: HashSet<u64>,
    stays: Arc<Stays>,
}

/// The mounts that the call that is being made neither takes down nor makes the root. It is asked when the place was found: who
/// changes the way to it meanwhile changes nothing.
#[derive(Debug, Default)]
struct Stays {
    mounts: Mutex<HashSet<u64>>,
    /// The mount that was to become the root last.
    new_root: AtomicU64,
}

impl Stays {
    fn may_go(&self, root: &PathRef<'_>) -> Result<()> {
        if self.mounts.lock().contains(&root.mount_id()) { Err(Errno::EINVAL) } else { Ok(()) }
    }
}

impl SecurityModule for Stays {
    fn hooks(&self) -> Hooks {
        Hooks::SB_UMOUNT | Hooks::SB_PIVOTROOT
    }

    fn sb_umount(&self, _: &Subject<'_>, root: &PathRef<'_>, _: UmountFlags) -> Result<()> {
        self.may_go(root)
    }

    fn sb_pivotroot(&self, _: &Subject<'_>, _: &PathRef<'_>, new: &PathRef<'_>) -> Result<()> {
        self.new_root.store(new.mount_id(), Relaxed);
        self.may_go(new)
    }
}

/// What a call found out before it is made, for when it was.
pub(crate) struct Before(HashSet<u64>);

impl Given {
    /// All mounts that there are now, if they have something to hide; the task may do everything.
    ///
    /// # Errors
    ///
    /// - `EBUSY`: somebody else decides what may be done there.
    pub(crate) fn new(task: Task, hides: bool) -> Result<Self> {
        let locked = if hides { list(&task) } else { HashSet::new() };
        let stays = Arc::<Stays>::default();
        task.vfs().register_security(Arc::clone(&stays) as Arc<dyn SecurityModule>)?;
        Ok(Self { task, locked, stays })
    }

    /// Whether mount(2) may change what there is: with `MS_BIND`, `MS_MOVE`, a type of propagation.
    ///
    /// # Errors
    ///
    /// - `EPERM`: what hides something would be left out, as it is unbindable.
    /// - `EINVAL`: what is hidden would be seen.
    pub(crate) fn may_mount(
        &self,
        source: Option<&File>,
        target: &File,
        flags: MountFlags,
    ) -> Result<Option<Before>> {
        if flags.contains(MountFlags::REMOUNT) {
            return Ok(None);
        }
        let Some(source) = source else {
            let all = flags.contains(MountFlags::REC);
            let hides =
                if all { self.hides(target) } else { self.has_locked(self.mount_of(target)?) };
            let refused = flags.contains(MountFlags::SHARED) && hides;
            return if refused { Err(Errno::EINVAL) } else { Ok(None) };
        };
        let below = self.locked_below(source);
        let hides = !below.is_empty();
        let refused = if flags.contains(MountFlags::BIND) {
            if flags.contains(MountFlags::REC) && below.iter().any(|id| self.is_unbindable(*id)) {
                return Err(Errno::EPERM);
            }
            hides && !flags.contains(MountFlags::REC)
        } else {
            self.locked.contains(&self.mount_of(source)?)
        };
        if refused || hides && self.is_shared(target)? {
            return Err(Errno::EINVAL);
        }
        Ok((hides && flags.contains(MountFlags::BIND)).then(|| Before(list(&self.task))))
    }

    /// What was locked is locked in the copy that was just mounted; its top is not.
    pub(crate) fn mounted(&mut self, before: &Before) {
        let new: HashSet<u64> =
            list(&self.task).into_iter().filter(|id| !before.0.contains(id)).collect();
        let below = |id: &u64| self.above(*id).is_some_and(|above| new.contains(&above));
        let below: Vec<u64> = new.iter().copied().filter(below).collect();
        self.locked.extend(below);
    }

    /// Unmounts, where that shows nothing that is hidden.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: what is hidden would be seen.
    /// - those of [`Task::umount2`].
    pub(crate) fn umount2(&self, task: &Task, path: &[u8], flags: UmountFlags) -> Result<()> {
        let mut stays = self.locked.clone();
        if flags.contains(UmountFlags::DETACH) {
            for id in &self.locked {
                stays.extend(std::iter::successors(Some(*id), |id| self.above(*id)));
            }
        }
        *self.stays.mounts.lock() = stays;
        task.umount2(path, flags)
    }

    /// Makes a mount the root that leaves nothing uncovered.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: its mount would leave what it hides.
    /// - those of [`Task::pivot_root`].
    pub(crate) fn pivot_root(
        &mut self,
        task: &Task,
        new_root: &[u8],
        put_old: &[u8],
    ) -> Result<()> {
        self.stays.mounts.lock().clone_from(&self.locked);
        let root = self.mount_of(&task.open("/", OpenFlags::PATH, 0)?)?;
        task.pivot_root(new_root, put_old)?;
        if self.locked.remove(&root) {
            self.locked.insert(self.stays.new_root.load(Relaxed));
        }
        Ok(())
    }

    /// Whether the mount of a file is in the tree, and not one that was taken down with who uses it still there.
    ///
    /// Linux: `check_mnt`, in `mnt_may_suid`.
    pub(crate) fn is_mounted(&self, file: &File) -> bool {
        let mount = self.mount_of(file);
        mount.is_ok_and(|id| self.task.statmount(id, StatmountMask::MNT_BASIC).is_ok())
    }

    /// Whether a mount hides anything.
    pub(crate) fn hides_something(&self) -> bool {
        !self.locked.is_empty()
    }

    /// The mount that one hangs in.
    fn above(&self, mount: u64) -> Option<u64> {
        let told = self.task.statmount(mount, StatmountMask::MNT_BASIC).ok()?;
        (told.mnt_parent_id != mount).then_some(told.mnt_parent_id)
    }

    /// Whether a locked mount hangs somewhere below a place, in whichever mount.
    fn hides(&self, place: &File) -> bool {
        !self.locked_below(place).is_empty()
    }

    /// The locked mounts that hang below a place, in whichever mount.
    fn locked_below(&self, place: &File) -> Vec<u64> {
        let own = self.mount_of(place).unwrap_or_default();
        let others = self.locked.iter().copied().filter(|id| *id != own);
        let Some(mut above) = self.path_of(place) else {
            // It lies outside the root, or its path is longer than one can be told: whatever hangs in its mount, and in those below.
            let hangs = |id: &u64| {
                std::iter::successors(self.above(*id), |id| self.above(*id)).any(|id| id == own)
            };
            return others.filter(hangs).collect();
        };
        if above != b"/" {
            above.push(b'/');
        }
        let is_below = |id: &u64| {
            let told = self.task.statmount(*id, StatmountMask::MNT_POINT);
            told.is_ok_and(|told| told.mnt_point.starts_with(&above) || told.mnt_point.is_empty())
        };
        others.filter(is_below).collect()
    }

    fn is_unbindable(&self, mount: u64) -> bool {
        let told = self.task.statmount(mount, StatmountMask::MNT_BASIC);
        told.is_ok_and(|told| told.mnt_propagation.contains(MountFlags::UNBINDABLE))
    }

    fn has_locked(&self, mount: u64) -> bool {
        self.locked.iter().any(|id| {
            let told = self.task.statmount(*id, StatmountMask::MNT_BASIC);
            told.is_ok_and(|told| told.mnt_parent_id == mount && told.mnt_id != mount)
        })
    }

    fn is_shared(&self, place: &File) -> Result<bool> {
        let told = self.task.statmount(self.mount_of(place)?, StatmountMask::MNT_BASIC)?;
        Ok(told.mnt_propagation.contains(MountFlags::SHARED))
    }

    fn mount_of(&self, place: &File) -> Result<u64> {
        let mask = StatxMask::MNT_ID_UNIQUE;
        self.task.statx(At::Dir(place), b"", AtFlags::EMPTY_PATH, mask).map(|stat| stat.stx_mnt_id)
    }

    fn path_of(&self, place: &File) -> Option<Vec<u8>> {
        let mut path = vec![0; PATH_MAX];
        let (place, mut stat) = (At::Dir(place), Stat::default());
        let told = self.task.realpathat(place, b"", AtFlags::EMPTY_PATH, &mut path, &mut stat);
        path.truncate(told.ok()?);
        Some(path)
    }
}

fn list(task: &Task) -> HashSet<u64> {
    let list = task.listmount(LSMT_ROOT, 0, MOST, ListmountFlags::empty());
    list.unwrap_or_default().into_iter().collect()
}
