//! Short scripts for two or three tasks, such that the order of whole calls explains whatever they can show.
//!
//! Linux does not promise that a call is one step: a walk can find a directory before a rename and a name in it after. So
//! the scripts keep to what is one step there too:
//!
//! - `d` and `e` stay where they are; what moves are the names in them.
//! - No symlink that moves is followed. What is linked, `f`, is never removed.
//! - Of what is found only its identity is compared: an owner and a mode that no other file has, or a symlink's body.
//! - One call at most makes something below what moves, `d/a/x`. It is two steps: it finds the directory, and makes
//!   something in it, which may have gone meanwhile. So the kernel makes it in two as well, see [`Script::orders`].
//!
//! The fixed directories are named in several ways: `./d`, `e/../d`, and by a symlink, `l`, which stays too.
//!
//! Some calls walk within bounds, and up on the way. What Linux cannot tell to have stayed within them, because something
//! was renamed or mounted meanwhile, is `EAGAIN`: see [`Script::is_explained`].
//!
//! Some scripts have a gate, besides: root's last call lets the others into `d`, or keeps them out of it. It changes the mode
//! of `d`, or mounts `d` where they look for it, `b`, or unmounts it there. What is found behind a gate and what is done there
//! are two steps. So the others' names are all behind it, and where it is a mount no call of theirs goes through it twice.
//!
//! Some scripts have a tree of mounts that hangs nowhere, besides: a copy, in `h1`, of what is mounted at `m`. Root gives it
//! a map of owners, or hangs it up at `n`, while the others make and remove files in it. There the scripts keep to this:
//!
//! - What is in the tree is named by `m` or by `h1`, which no call moves; by `n` it is only looked at.
//! - Files are not opened there, as who has one open for writing keeps a map away, as long as that is.
//! - Whoever writes at that moment keeps it away too: see [`Script::without_map`].
//! - Owners are changed by `m`, which has no map: to find a file and to ask the map are two steps, and root may rename the
//!   file before the one and give the map before the other.

use super::{DONE, Outcome};
use crate::{
    call::{Call, Step, Who},
    field::{Fills, Int, Len, Octal, Slot, Text, Where},
    idmaps::{IDMAPS, Idmap},
};
use pathwalk::{
    AtFlags, Errno, MountFlags, MoveMountFlags, OpenFlags, OpenTreeFlags, RenameFlags,
    ResolveFlags, UmountFlags, abi::mode::S_IFREG,
};
use std::collections::HashSet;

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

/// How many of them are in `d`.
const IN_GATE: usize = 3;

/// What lets into `d`.
#[derive(Clone, Copy, PartialEq)]
enum Gate {
    /// Its mode.
    Mode,
    /// A mount of it.
    Mount,
}

/// The names in the tree.
const IN_TREE: [&str; 2] = ["a", "b"];

/// The slot that holds the tree.
const TREE: Slot = Slot(1);

/// The slot that holds the directory in which something is made below what moves.
const FOUND: Slot = Slot(2);

/// The name of what is made there.
const BELOW: &str = "x";

impl Script {
    /// Draws one.
    pub(super) fn draw(rng: &mut fastrand::Rng) -> Self {
        let has_tree = rng.u8(..3) == 0;
        let gate = (!has_tree && rng.bool())
            .then(|| *rng.choice(&[Gate::Mode, Gate::Mount]).expect("some"));
        let mut drawing =
            Drawing { rng, modes: 0, below: false, has_tree, mapped: false, gate, task: 0 };
        let mut setup = vec![mkdir("d", 0o777), mkdir("e", 0o777), file("f", 0o666)];
        setup.push(Call::Symlinkat { target: Text(b"d".to_vec()), path: place("l") });
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
        let mut tasks: Vec<Vec<Call>> = (0..tasks).map(&mut calls_of).collect();
        if let Some(gate) = gate {
            let opens = drawing.rng.bool();
            let [open, close] = gate.calls();
            if gate == Gate::Mount {
                setup.push(mkdir("b", 0o755));
            }
            let (before, last) = if opens { (close, open) } else { (open, close) };
            if !(opens && gate == Gate::Mount) {
                setup.push(before);
            }
            *tasks[0].last_mut().expect("each task has a call") = last;
        }
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

    /// Whether some order of the calls has this outcome, but for walks within bounds that gave up, each while another task
    /// could rename or mount something. Those walks change nothing. They may give up now and then, not as a rule.
    pub(super) fn is_explained(&self, outcome: &Outcome, possible: &HashSet<Outcome>) -> bool {
        let calls = self.tasks.iter().enumerate();
        let calls = calls.flat_map(|(task, calls)| calls.iter().map(move |call| (task, call)));
        let gave_up: Vec<bool> = calls
            .zip(outcome)
            .map(|((task, call), answer)| {
                answer == Errno::EAGAIN.name() && is_bounded(call) && self.others_move(task)
            })
            .collect();
        gave_up.contains(&true)
            && possible.iter().any(|possible| {
                let answers = std::iter::zip(possible, outcome).enumerate();
                possible.len() == outcome.len()
                    && answers.into_iter().all(|(at, (possible, answer))| {
                        possible == answer || gave_up.get(at) == Some(&true)
                    })
            })
    }

    /// Whether a call of another task could make a walk within bounds give up.
    fn others_move(&self, task: usize) -> bool {
        let others = self.tasks.iter().enumerate().filter(|(other, _)| *other != task);
        others.flat_map(|(_, calls)| calls).any(|call| {
            matches!(
                call,
                Call::Renameat2 { .. }
                    | Call::Bind { .. }
                    | Call::Umount2 { .. }
                    | Call::MoveMount { .. }
                    | Call::IdmapMount { .. }
            )
        })
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
            looks.push(Call::Readlinkat { path: place(name), size: Len(64) });
            looks.push(Call::Lstat { path: Text(format!("{name}/{BELOW}").into()) });
        }
        looks
    }

    /// Every order in which the steps of the tasks' calls can follow each other: the numbers of tasks.
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
        let mut left: Vec<_> = self.in_steps().iter().map(Vec::len).collect();
        let mut orders = Vec::new();
        go(&mut left, &mut Vec::new(), &mut orders);
        orders
    }

    /// The steps of the calls, in one of the orders.
    pub(super) fn steps<'s>(&self, order: &'s [usize]) -> impl Iterator<Item = Step> + 's {
        let mut left: Vec<_> = self.in_steps().into_iter().map(Vec::into_iter).collect();
        let next = move |&task: &usize| {
            let call = left[task].next().expect("an order has each step once");
            Step { who: TASKS[task], call }
        };
        order.iter().map(next)
    }

    /// What each call answered, task by task, from what their steps answered in one of the orders.
    pub(super) fn answers(&self, order: &[usize], said: impl Iterator<Item = String>) -> Outcome {
        let mut told = vec![Vec::new(); self.tasks.len()];
        for (&task, said) in order.iter().zip(said) {
            told[task].push(said);
        }
        let mut answers = Vec::new();
        for (calls, told) in self.tasks.iter().zip(told) {
            let mut told = told.into_iter();
            let mut next = || told.next().expect("each step answered");
            for call in calls {
                let mut said = next();
                for _ in 1..in_steps(call).len() {
                    let then = next();
                    said = if said == DONE { then } else { said };
                }
                answers.push(said);
            }
        }
        answers
    }

    /// The steps of the calls of each task.
    fn in_steps(&self) -> Vec<Vec<Call>> {
        self.tasks.iter().map(|calls| calls.iter().flat_map(in_steps).collect()).collect()
    }
}

impl Gate {
    /// What opens it, and what closes it.
    fn calls(self) -> [Call; 2] {
        match self {
            Self::Mode => [0o777, 0o700].map(|mode| {
                let (path, mode) = (place("d"), Octal(mode));
                Call::Fchmodat2 { path, mode, flags: AtFlags::empty() }
            }),
            Self::Mount => {
                let (source, path) = (Text(b"d".to_vec()), Text(b"b".to_vec()));
                let umount = Call::Umount2 { path: path.clone(), flags: UmountFlags::DETACH };
                [Call::Bind { source, path }, umount]
            }
        }
    }
}

fn is_bounded(call: &Call) -> bool {
    matches!(call, Call::Openat2 { resolve, .. } if !resolve.is_empty())
}

/// A call, or the two that it is where what it finds can go before it makes something there.
fn in_steps(call: &Call) -> Vec<Call> {
    let Call::Mkdirat { path: Where { dir: None, path }, mode } = call else {
        return vec![call.clone()];
    };
    let Some(directory) = path.strip_suffix(format!("/{BELOW}").as_bytes()) else {
        return vec![call.clone()];
    };
    let flags = OpenFlags::PATH | OpenFlags::DIRECTORY;
    let path = Where { dir: None, path: directory.into() };
    let find = Call::Openat { slot: Fills(FOUND), path, flags, mode: Octal(0) };
    let path = Where { dir: Some(FOUND), path: BELOW.into() };
    vec![find, Call::Mkdirat { path, mode: *mode }]
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
    /// What lets into `d`.
    gate: Option<Gate>,
    /// Whose call is drawn.
    task: usize,
}

impl Drawing<'_> {
    fn name(&mut self) -> &'static str {
        let names = if self.gate.is_some() { IN_GATE } else { NAMES.len() };
        NAMES[self.rng.usize(..names)]
    }

    /// The name as the task has it that calls: one of several that lead there.
    fn by(&mut self, name: &str) -> Where {
        let behind = self.task != 0 && self.gate == Some(Gate::Mount);
        let (dir, rest) = name.split_at(1);
        let dir = match (dir, self.rng.u8(..8)) {
            ("d", _) if behind => self.pick(&["b", "b", "./b", "e/../b"]),
            ("d", 0..3) => self.pick(&["./d", "e/../d", "l"]),
            ("e", 0..3) => self.pick(&["./e", "d/../e", "l/../e"]),
            _ => dir,
        };
        place(&format!("{dir}{rest}"))
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.rng.usize(..from.len())]
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
            1 => self.symlink(place(name)),
            _ => file(name, self.mode()),
        }
    }

    fn symlink(&mut self, path: Where) -> Call {
        self.modes += 1;
        Call::Symlinkat { target: Text(format!("t{}", self.modes).into()), path }
    }

    fn call(&mut self) -> Call {
        let name = self.name();
        let path = self.by(name);
        match self.rng.u8(..20) {
            16.. => self.open_within(path),
            0 | 1 => Call::Mkdirat { path, mode: Octal(0o777) },
            2 => self.open(path, OpenFlags::EXCL),
            3 => self.open(path, OpenFlags::empty()),
            4 => self.symlink(path),
            5 => Call::Linkat { old: place("f"), new: path, flags: AtFlags::empty() },
            6 | 7 => Call::Unlinkat { path, flags: AtFlags::empty() },
            8 | 9 => Call::Unlinkat { path, flags: AtFlags::REMOVEDIR },
            10 => Call::Lstat { path: Text(path.path) },
            11 if !self.below => {
                self.below = true;
                Call::Mkdirat { path: self.by(&format!("d/a/{BELOW}")), mode: Octal(0o777) }
            }
            11.. if self.task != 0 && self.gate == Some(Gate::Mount) => {
                Call::Lstat { path: Text(path.path) }
            }
            _ => {
                let none = RenameFlags::empty();
                let flags = [none, none, none, RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
                let flags = flags[self.rng.usize(..flags.len())];
                let new = self.name();
                Call::Renameat2 { old: path, new: self.by(new), flags }
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
        self.task = task;
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
                let path = place(&format!("m/{name}"));
                Call::Fchownat { path, uid: id, gid: Int(-1), flags: none }
            }
            7 => Call::Unlinkat { path, flags: none },
            _ => {
                let flags = RenameFlags::NOREPLACE;
                Call::Renameat2 { old: in_tree("a"), new: in_tree("b"), flags }
            }
        }
    }

    /// Holds what is there, by a walk within bounds that goes up: never above where it begins, or against its root.
    fn open_within(&mut self, path: Where) -> Call {
        let bounds = [ResolveFlags::BENEATH, ResolveFlags::IN_ROOT];
        let resolve = bounds[self.rng.usize(..bounds.len())];
        let up = match resolve {
            ResolveFlags::IN_ROOT => self.pick(&["e/../", "../", "/e/../../"]),
            _ => self.pick(&["e/../", "e/../e/../", "../"]),
        };
        let path = place(&format!("{up}{}", String::from_utf8_lossy(&path.path)));
        let (slot, flags) = (Fills(Slot(0)), OpenFlags::PATH | OpenFlags::NOFOLLOW);
        Call::Openat2 { slot, path, flags, mode: Octal(0), resolve }
    }

    fn open(&mut self, path: Where, more: OpenFlags) -> Call {
        let flags = OpenFlags::CREAT | OpenFlags::NOFOLLOW | OpenFlags::RDWR | more;
        let (slot, mode) = (Fills(Slot(0)), Octal(self.mode()));
        Call::Openat { slot, path, flags, mode }
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
