//! Paths through a procfs.

use super::Generator;
use crate::{
    call::Call,
    field::{Octal, Text, Where},
};
use pathwalk::MountFlags;

impl Generator {
    /// A path through a procfs.
    ///
    /// Of the kernel's, only what is the caller's own is ever named, and of that neither `exe` nor what other tasks have:
    /// all else leads out of the tree that the calls are to stay in. So these names are drawn here alone, and behind
    /// `thread-self`; the process of `self` is the one that draws.
    pub(super) fn path_by_task(&mut self) -> Text {
        let top = self.pick(&["/proc", "proc", "/proc", "d/../proc"]);
        let what = match self.rng.u8(..16) {
            0 => self.pick(&["", "self", "thread-self", "thread-self/fdinfo"]).to_owned(),
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
