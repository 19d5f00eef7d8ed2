//! Paths through a procfs, and who asks.

use super::Generator;
use crate::{
    call::{Call, Who},
    field::{Int, Octal, Text, Where},
};
use pathwalk::{CapSet, MountFlags};

impl Generator {
    /// A path through a procfs.
    ///
    /// Of the kernel's, only what is the caller's own is ever named, and of that neither `exe` nor what other tasks have:
    /// all else leads out of the tree that the calls are to stay in. So these names are drawn here alone, and behind
    /// `thread-self`; the process of `self` is the one that draws.
    pub(super) fn path_by_task(&mut self) -> Text {
        let top = self.pick(&["/proc", "proc", "/proc", "d/../proc"]);
        let what = match self.rng.u8(..16) {
            // Not `self`: bound to `thread-self`, it would show the files of the process that draws.
            0 => self.pick(&["", "thread-self", "thread-self/fdinfo"]).to_owned(),
            1 => "thread-self/fd".to_owned(),
            2..6 => "thread-self/cwd".to_owned(),
            6..8 => "thread-self/root".to_owned(),
            _ => format!("thread-self/fd/%h{}", self.slot().0),
        };
        let mut path = format!("{top}/{what}").into_bytes();
        for _ in 0..self.pick(&[0, 0, 0, 1, 1, 2]) {
            path.push(b'/');
            self.component(&mut path);
        }
        if self.one_in(12) {
            path.push(b'/');
        }
        Text(path)
    }

    /// A task gets other credentials, or those of a user 0 back; who is none mostly stays that and gets a power or two.
    pub(super) fn setcred(&mut self) -> Call {
        let id = |g: &mut Self| Int(g.pick(&[0, 1000, 1000, 1001]));
        if matches!(self.who, Who::U | Who::V) && !self.one_in(6) {
            let (_, _, uid, gid, _) = self.who.ids();
            let caps = match self.rng.u8(..5) {
                0 => CapSet::empty(),
                1 => self.capability() | self.capability(),
                _ => self.capability(),
            };
            return Call::Setcred { fsuid: Int(uid.into()), fsgid: Int(gid.into()), caps };
        }
        if self.one_in(3) {
            return all_powers();
        }
        let caps = match self.rng.u8(..4) {
            0 => CapSet::from_bits_truncate(self.rng.u64(..)),
            1 => CapSet::FULL - self.capability(),
            _ => self.capability() | self.capability(),
        };
        Call::Setcred { fsuid: id(self), fsgid: id(self), caps }
    }

    /// A task loses powers for ever, and has some of those that are left: with what may be effective, and not with what is,
    /// access(2) asks for a real user 0. Mostly credentials can still be changed.
    pub(super) fn setcaps(&mut self) -> Call {
        if self.who == Who::Root && !self.shrinks {
            return self.setcred();
        }
        let mut permitted = match self.rng.u8(..3) {
            0 => CapSet::from_bits_truncate(self.rng.u64(..) | self.rng.u64(..)),
            _ => CapSet::FULL - self.capability(),
        };
        if !self.one_in(8) {
            permitted |= CapSet::SETUID | CapSet::SETGID;
        }
        let caps = match self.rng.u8(..4) {
            0 => permitted,
            1 => CapSet::from_bits_truncate(self.rng.u64(..)),
            _ => self.capability() | self.capability(),
        };
        Call::Setcaps { permitted, caps }
    }

    fn capability(&mut self) -> CapSet {
        self.pick(&[
            CapSet::CHOWN,
            CapSet::DAC_OVERRIDE,
            CapSet::DAC_READ_SEARCH,
            CapSet::FOWNER,
            CapSet::FSETID,
            CapSet::LINUX_IMMUTABLE,
            CapSet::MKNOD,
            CapSet::SETFCAP,
            CapSet::SYS_ADMIN,
            CapSet::SYS_ADMIN,
            CapSet::SYS_CHROOT,
        ])
    }

    /// The calls with which a run begins that has a procfs.
    pub(super) fn a_procfs(&mut self, index: usize) -> Call {
        let path = b"proc".to_vec();
        if index == 0 {
            return Call::Mkdirat { path: Where { dir: None, path }, mode: Octal(0o755) };
        }
        let none = MountFlags::empty();
        let flags =
            if self.rng.bool() { none } else { self.mount_modifiers() - MountFlags::POSIXACL };
        Call::Mountproc { path: Text(path), flags }
    }
}

/// Who has lost something has it again.
pub(super) fn all_powers() -> Call {
    Call::Setcred { fsuid: Int(0), fsgid: Int(0), caps: CapSet::FULL }
}
