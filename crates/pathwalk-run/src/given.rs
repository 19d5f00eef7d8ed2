//! The mounts that the tree was given: what they hide stays hidden, also from who may mount.
//!
//! A mount can hide a directory of the host. Who could take it down or aside, or show what is below it elsewhere, would
//! reach what was not given. So those that were there at first, and their copies, are locked, as Linux locks what a mount
//! namespace gets from one that is more privileged:
//!
//! 1. One that is locked is neither unmounted nor moved.
//! 2. What has one below it is shown elsewhere only together with it, and is not taken down lazily, which would part them.
//! 3. No mount that has one in it shares what is mounted and unmounted there.
//!
//! Linux: `MNT_LOCKED`, `has_locked_children`; mount_namespaces(7).

use pathwalk::{
    At, AtFlags, Errno, File, LSMT_ROOT, ListmountFlags, MountFlags, OpenFlags, Result,
    StatmountMask, StatxMask, Task, UmountFlags, abi::PATH_MAX,
};
use std::collections::HashSet;

/// More mounts nobody has.
const MOST: usize = 100_000;

/// Which mounts are locked.
#[derive(Debug)]
pub(crate) struct Given {
    /// Sees them all.
    task: Task,
    locked: HashSet<u64>,
}

/// What a call found out before it is made, for when it was.
pub(crate) struct Before(HashSet<u64>);

impl Given {
    /// All mounts that there are now; the task may do everything.
    pub(crate) fn new(task: Task) -> Self {
        let locked = list(&task);
        Self { task, locked }
    }

    /// Whether mount(2) may change what there is: with `MS_BIND`, `MS_MOVE`, a type of propagation. What does not exist is not
    /// said here.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: what is hidden would be seen.
    pub(crate) fn may_mount(
        &self,
        task: &Task,
        source: &[u8],
        target: &[u8],
        flags: MountFlags,
    ) -> Result<Option<Before>> {
        if flags.contains(MountFlags::REMOUNT) {
            return Ok(None);
        }
        let open = |path: &[u8]| task.open(path, OpenFlags::PATH, 0).ok();
        let Some(target) = open(target) else { return Ok(None) };
        if !flags.intersects(MountFlags::BIND | MountFlags::MOVE) {
            let all = flags.contains(MountFlags::REC);
            let hides =
                if all { self.hides(&target) } else { self.has_locked(self.mount_of(&target)?) };
            let refused = flags.contains(MountFlags::SHARED) && hides;
            return if refused { Err(Errno::EINVAL) } else { Ok(None) };
        }
        let Some(source) = open(source) else { return Ok(None) };
        let hides = self.hides(&source);
        let refused = if flags.contains(MountFlags::BIND) {
            hides && !flags.contains(MountFlags::REC)
        } else {
            self.locked.contains(&self.mount_of(&source)?)
        };
        if refused || hides && self.is_shared(&target)? {
            return Err(Errno::EINVAL);
        }
        Ok((hides && flags.contains(MountFlags::BIND)).then(|| Before(list(&self.task))))
    }

    /// What was locked is locked in the copy that was just mounted; its top is not.
    pub(crate) fn mounted(&mut self, before: &Before, task: &Task, target: &[u8]) {
        let top = task.open(target, OpenFlags::PATH, 0).and_then(|top| self.mount_of(&top)).ok();
        let new =
            list(&self.task).into_iter().filter(|id| !before.0.contains(id) && Some(*id) != top);
        self.locked.extend(new);
    }

    /// Whether what is mounted at a path may be unmounted.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: what is hidden would be seen.
    pub(crate) fn may_unmount(&self, task: &Task, path: &[u8], flags: UmountFlags) -> Result<()> {
        let follow = if flags.contains(UmountFlags::NOFOLLOW) {
            OpenFlags::NOFOLLOW
        } else {
            OpenFlags::empty()
        };
        let Ok(place) = task.open(path, OpenFlags::PATH | follow, 0) else { return Ok(()) };
        // The topmost is meant, which `.` and `/` do not lead to; `/..` does.
        let top = match &*self.path_of(&place).ok_or(Errno::EINVAL)? {
            b"/" => self.task.open("/..", OpenFlags::PATH, 0)?,
            path => self.task.open(path, OpenFlags::PATH | OpenFlags::NOFOLLOW, 0)?,
        };
        let lazily = flags.contains(UmountFlags::DETACH) && self.hides(&top);
        let refused = lazily || self.locked.contains(&self.mount_of(&top)?);
        if refused { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Whether a place may become the root.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: its mount would leave what it hides.
    pub(crate) fn may_pivot(&self, task: &Task, new_root: &[u8]) -> Result<()> {
        let Ok(place) = task.open(new_root, OpenFlags::PATH, 0) else { return Ok(()) };
        let refused = self.locked.contains(&self.mount_of(&place)?);
        if refused { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Whether a locked mount hangs somewhere below a place, in whichever mount.
    fn hides(&self, place: &File) -> bool {
        let own = self.mount_of(place).unwrap_or_default();
        let Some(mut above) = self.path_of(place) else {
            // It lies outside the root: whatever hangs in its mount.
            return self.has_locked(own);
        };
        if above != b"/" {
            above.push(b'/');
        }
        self.locked.iter().filter(|id| **id != own).any(|id| {
            let told = self.task.statmount(*id, StatmountMask::MNT_POINT);
            told.is_ok_and(|told| told.mnt_point.starts_with(&above) || told.mnt_point.is_empty())
        })
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
        let told = self.task.realpathat(At::Dir(place), b"", AtFlags::EMPTY_PATH, &mut path);
        path.truncate(told.ok()?.0);
        Some(path)
    }
}

fn list(task: &Task) -> HashSet<u64> {
    let list = task.listmount(LSMT_ROOT, 0, MOST, ListmountFlags::empty());
    list.unwrap_or_default().into_iter().collect()
}
