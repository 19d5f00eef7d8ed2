//! Short scripts for two or three tasks, such that the order of whole calls explains whatever they can show.
//!
//! Linux does not promise that a call is one step: a walk can find a directory before a rename and a name in it after. So
//! the scripts keep to what is one step there too:
//!
//! - `d` and `e` stay where they are; what moves are the names in them.
//! - No symlink is followed. What is linked, `f`, is never removed.
//! - Of what is found only its identity is compared: an owner and a mode that no other file has, or a symlink's body.
//! - One call at most makes something below what moves, `d/a/x`.

use crate::{
    call::{Call, Step, Who},
    field::{Fills, Int, Octal, Slot, Text, Where},
};
use pathwalk::{AtFlags, OpenFlags, RenameFlags, abi::mode::S_IFREG};

/// A tree, and what each task does to it. All paths begin in a directory of the run's own.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// Builds the tree, as root.
    pub(super) setup: Vec<Call>,
    /// The calls of each task.
    pub(super) tasks: Vec<Vec<Call>>,
}

/// Who the tasks are.
pub(super) const TASKS: [Who; 3] = [Who::Root, Who::U, Who::V];

/// The names that move.
const NAMES: [&str; 6] = ["d/a", "d/b", "d/c", "e/a", "e/b", "e/c"];

impl Script {
    /// Draws one.
    pub(super) fn draw(rng: &mut fastrand::Rng) -> Self {
        let mut drawing = Drawing { rng, modes: 0, below: false };
        let mut setup = vec![mkdir("d", 0o777), mkdir("e", 0o777), file("f", 0o666)];
        for name in NAMES {
            if drawing.rng.u8(..2) == 0 {
                setup.push(drawing.make(name));
            }
        }
        let (tasks, calls) = *drawing.rng.choice(&[(2, 2), (2, 3), (3, 1), (3, 2)]).expect("some");
        let tasks = (0..tasks).map(|_| (0..calls).map(|_| drawing.call()).collect()).collect();
        Self { setup, tasks }
    }

    /// What is looked at in the end.
    pub(super) fn looks() -> Vec<Call> {
        let names = NAMES.iter().copied().chain(["f"]);
        let mut looks = Vec::new();
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

struct Drawing<'r> {
    rng: &'r mut fastrand::Rng,
    /// Modes given out: each file has one of its own.
    modes: u32,
    /// Whether a call makes something in a directory that may move.
    below: bool,
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

    fn open(&mut self, name: &'static str, more: OpenFlags) -> Call {
        let flags = OpenFlags::CREAT | OpenFlags::NOFOLLOW | OpenFlags::RDWR | more;
        let (slot, mode) = (Fills(Slot(0)), Octal(self.mode()));
        Call::Openat { slot, path: place(name), flags, mode }
    }
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
