//! Short scripts for two or three tasks, such that the order of whole calls explains whatever they can show.
//!
//! Linux does not promise that a call is one step: a walk can find a directory before a rename and a name in it after. So
//! the scripts keep to what is one step there too:
//!
//! - `d` and `e` stay where they are; what moves are the names in them.
//! - No symlink is followed. What is linked, `f`, is never removed.
//! - Of what is found only its identity is compared: an owner and a mode that no other file has, or a symlink's body.
//! - One call at most makes something below what moves, `d/a/x`.
//!
//! Some scripts have a tree of mounts that hangs nowhere, besides: a copy, in `h1`, of what is mounted at `m`. Root gives it
//! a map of owners, or hangs it up at `n`, while the others make and remove files in it. There the scripts keep to this:
//!
//! - What is in the tree is named by `m` or by `h1`, which no call moves; by `n` it is only looked at.
//! - Files are not opened there, as who has one open for writing keeps a map away, as long as that is.
//! - Whoever writes at that moment keeps it away too: see [`Script::without_map`].

use crate::idmaps::{IDMAPS, Idmap};
use crate::{
    call::{Call, Step, Who},
    field::{Fills, Int, Octal, Slot, Text, Where},
};
use pathwalk::{
    AtFlags, MountFlags, MoveMountFlags, OpenFlags, OpenTreeFlags, RenameFlags, abi::mode::S_IFREG,
};

/// A tree, and what each task does to it. All paths begin in a directory of the run's own.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// Builds the tree, as root.
    pub(super) setup: Vec<Call>,
    /// The calls of each task.
    pub(super) tasks: Vec<Vec<Call>>,
    /// It has a tree of mounts.
    pub(super) has_tree: bool,
}

/// Who the tasks are.
pub(super) const TASKS: [Who; 3] = [Who::Root, Who::U, Who::V];

/// The names that move.
const NAMES: [&str; 6] = ["d/a", "d/b", "d/c", "e/a", "e/b", "e/c"];

/// The names in the tree.
const IN_TREE: [&str; 2] = ["a", "b"];

/// The slot that holds the tree.
const TREE: Slot = Slot(1);

impl Script {
    /// Draws one.
    pub(super) fn draw(rng: &mut fastrand::Rng) -> Self {
        let has_tree = rng.u8(..3) == 0;
        let mut drawing = Drawing { rng, modes: 0, below: false, has_tree, mapped: false };
        let mut setup = vec![mkdir("d", 0o777), mkdir("e", 0o777), file("f", 0o666)];
        for name in NAMES {
            if drawing.rng.u8(..2) == 0 {
                setup.push(drawing.make(name));
            }
        }
        if has_tree {
            setup.extend(drawing.tree());
        }
        let (tasks, calls) = *drawing.rng.choice(&[(2, 2), (2, 3), (3, 1), (3, 2)]).expect("some");
        let mut calls_of = |task: usize| (0..calls).map(|_| drawing.call_of(task)).collect();
        let tasks = (0..tasks).map(&mut calls_of).collect();
        Self { setup, tasks, has_tree }
    }

    /// The script without the call that gives the tree a map, and the place of that among the answers.
    ///
    /// Who writes keeps a map away. On Linux as here, a call that makes something in the tree does so until it ends: a map
    /// that comes meanwhile is `EBUSY`, which no order of whole calls explains.
    pub(super) fn without_map(&self) -> Option<(Self, usize)> {
        if !self.tasks.iter().skip(1).flatten().any(writes_in_tree) {
            return None;
        }
        let calls = self.tasks.iter().flatten();
        let at = calls.clone().position(|call| matches!(call, Call::IdmapMount { .. }))?;
        let mut script = self.clone();
        let mut left = at;
        let task = script.tasks.iter_mut().find(|calls| {
            let found = left < calls.len();
            left -= if found { 0 } else { calls.len() };
            found
        });
        task.expect("it is a task's").remove(left);
        Some((script, at))
    }

    /// What is looked at in the end.
    pub(super) fn looks(&self) -> Vec<Call> {
        let names = NAMES.iter().copied().chain(["f"]);
        let mut looks = Vec::new();
        if self.has_tree {
            for name in IN_TREE {
                looks.push(Call::Lstat { path: Text(format!("m/{name}").into()) });
                looks.push(Call::Lstat { path: Text(format!("n/{name}").into()) });
                let path = in_tree(name);
                looks.push(Call::Fstatat { path, flags: AtFlags::SYMLINK_NOFOLLOW });
            }
        }
        for name in names {
            looks.push(Call::Lstat { path: Text(name.into()) });
            looks.push(Call::Readlinkat { path: place(name), size: Int(64) });
            looks.push(Call::Lstat { path: Text(format!("{name}/x").into()) });
        }
        looks
    }

    /// Every order in which the tasks' calls can follow each other: the numbers of tasks.
    pub(super) fn orders(&self) -> Vec<Vec<usize>> {
        fn go(left: &mut [usize], order: &mut Vec<usize>, orders: &mut Vec<Vec<usize>>) {
            if left.iter().all(|left| *left == 0) {
                orders.push(order.clone());
            }
            for task in 0..left.len() {
                if left[task] > 0 {
                    left[task] -= 1;
                    order.push(task);
                    go(left, order, orders);
                    order.pop();
                    left[task] += 1;
                }
            }
        }
        let mut left: Vec<_> = self.tasks.iter().map(Vec::len).collect();
        let mut orders = Vec::new();
        go(&mut left, &mut Vec::new(), &mut orders);
        orders
    }

    /// The calls as steps, in one of the orders.
    pub(super) fn steps<'s>(
        &'s self,
        order: &'s [usize],
    ) -> impl Iterator<Item = (usize, Step)> + 's {
        let mut made = [0; TASKS.len()];
        order.iter().map(move |&task| {
            let call = self.tasks[task][made[task]].clone();
            made[task] += 1;
            (task, Step { who: TASKS[task], call })
        })
    }
}

/// Whether the call changes something in the tree by its own mount.
fn writes_in_tree(call: &Call) -> bool {
    call.uses().contains(&TREE) && !matches!(call, Call::Fstatat { .. })
}

struct Drawing<'r> {
    rng: &'r mut fastrand::Rng,
    /// Modes given out: each file has one of its own.
    modes: u32,
    /// Whether a call makes something in a directory that may move.
    below: bool,
    /// Whether there is a tree of mounts.
    has_tree: bool,
    /// Whether a call gives it a map.
    mapped: bool,
}

impl Drawing<'_> {
    fn name(&mut self) -> &'static str {
        NAMES[self.rng.usize(..NAMES.len())]
    }

    /// A mode with which everybody may do everything, and which no other file has.
    fn mode(&mut self) -> u32 {
        self.modes += 1;
        let bits = [0o001, 0o010, 0o100, 0o1000].into_iter().enumerate();
        bits.filter(|(bit, _)| self.modes >> bit & 1 != 0).fold(0o666, |mode, (_, bit)| mode | bit)
    }

    fn make(&mut self, name: &'static str) -> Call {
        match self.rng.u8(..4) {
            0 => mkdir(name, 0o777),
            1 => self.symlink(name),
            _ => file(name, self.mode()),
        }
    }

    fn symlink(&mut self, name: &'static str) -> Call {
        self.modes += 1;
        Call::Symlinkat { target: Text(format!("t{}", self.modes).into()), path: place(name) }
    }

    fn call(&mut self) -> Call {
        let name = self.name();
        match self.rng.u8(..16) {
            0 | 1 => Call::Mkdirat { path: place(name), mode: Octal(0o777) },
            2 => self.open(name, OpenFlags::EXCL),
            3 => self.open(name, OpenFlags::empty()),
            4 => self.symlink(name),
            5 => Call::Linkat { old: place("f"), new: place(name), flags: AtFlags::empty() },
            6 | 7 => Call::Unlinkat { path: place(name), flags: AtFlags::empty() },
            8 | 9 => Call::Unlinkat { path: place(name), flags: AtFlags::REMOVEDIR },
            10 => Call::Lstat { path: Text(name.into()) },
            11 if !self.below => {
                self.below = true;
                mkdir("d/a/x", 0o777)
            }
            _ => {
                let none = RenameFlags::empty();
                let flags = [none, none, none, RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
                let flags = flags[self.rng.usize(..flags.len())];
                Call::Renameat2 { old: place(name), new: place(self.name()), flags }
            }
        }
    }

    /// What builds the tree.
    fn tree(&mut self) -> Vec<Call> {
        let m = || Text(b"m".to_vec());
        let mode = Octal(0o777);
        let mut calls = vec![
            mkdir("m", 0o777),
            mkdir("n", 0o777),
            Call::Mount { path: m(), flags: MountFlags::empty() },
            Call::Fchmodat2 { path: place("m"), mode, flags: AtFlags::empty() },
        ];
        if self.rng.bool() {
            calls.push(file("m/a", self.mode()));
        }
        let (path, flags) = (place("m"), OpenTreeFlags::CLONE);
        calls.push(Call::OpenTree { slot: Fills(TREE), path, flags });
        calls
    }

    fn call_of(&mut self, task: usize) -> Call {
        if !self.has_tree || self.rng.u8(..4) == 0 {
            return self.call();
        }
        let name = IN_TREE[self.rng.usize(..IN_TREE.len())];
        if task == 0 && !self.mapped && self.rng.bool() {
            self.mapped = true;
            let map = Idmap(self.rng.usize(..IDMAPS.len()));
            return Call::IdmapMount { path: in_tree(""), flags: OpenTreeFlags::EMPTY_PATH, map };
        }
        let none = AtFlags::empty();
        let path = match self.rng.u8(..3) {
            0 => place(if name == "a" { "m/a" } else { "m/b" }),
            _ => in_tree(name),
        };
        match self.rng.u8(..9) {
            0 if task == 0 => {
                let flags = MoveMountFlags::F_EMPTY_PATH;
                Call::MoveMount { from: in_tree(""), to: place("n"), flags }
            }
            0 | 1 => Call::Lstat { path: Text(format!("n/{name}").into()) },
            2 => Call::Fstatat { path, flags: AtFlags::SYMLINK_NOFOLLOW },
            3 => Call::Mkdirat { path, mode: Octal(0o777) },
            4 | 5 => Call::Mknodat { path, mode: Octal(S_IFREG | self.mode()), dev: Int(0) },
            6 => {
                let id = Int(if self.rng.bool() { 0 } else { 1000 });
                Call::Fchownat { path, uid: id, gid: Int(-1), flags: none }
            }
            7 => Call::Unlinkat { path, flags: none },
            _ => {
                let flags = RenameFlags::NOREPLACE;
                Call::Renameat2 { old: in_tree("a"), new: in_tree("b"), flags }
            }
        }
    }

    fn open(&mut self, name: &'static str, more: OpenFlags) -> Call {
        let flags = OpenFlags::CREAT | OpenFlags::NOFOLLOW | OpenFlags::RDWR | more;
        let (slot, mode) = (Fills(Slot(0)), Octal(self.mode()));
        Call::Openat { slot, path: place(name), flags, mode }
    }
}

/// A path from the tree's root; its root itself.
fn in_tree(path: &str) -> Where {
    Where { dir: Some(TREE), path: path.into() }
}

fn place(path: &str) -> Where {
    Where { dir: None, path: path.into() }
}

fn mkdir(path: &str, mode: u32) -> Call {
    Call::Mkdirat { path: place(path), mode: Octal(mode) }
}

fn file(path: &str, mode: u32) -> Call {
    Call::Mknodat { path: place(path), mode: Octal(S_IFREG | mode), dev: Int(0) }
}
