//! One tree in both, asked.

use super::{
    hands::{As, Ask, Hands, Ours},
    places::Places,
    questions::{Asking, FIRST, Question},
    tell::scenario,
    trees::{BODIES, Kind, Node},
};
use crate::ours::Settings;
use pathwalk::{AtFlags, MemFs, OpenFlags, Result, Vfs};
use std::{
    ffi::{CStr, CString},
    fmt::Write,
};

/// The two, each with a root that holds nothing but the tree.
pub(super) struct World {
    kernel: Box<dyn Hands>,
    ours: Box<dyn Hands>,
    who: As,
    places: Places,
    tree: Vec<Node>,
    /// What is where before a call.
    before: Vec<(u16, u64)>,
    /// What came of it.
    pub(super) done: Done,
}

/// What was asked of a world.
#[derive(Default)]
pub(super) struct Done {
    /// Calls that were compared.
    pub(super) calls: u64,
    /// Where the two differ.
    pub(super) found: Vec<String>,
}

/// Of one world no more findings are shown.
const ENOUGH: usize = 3;

impl World {
    /// `kernel` is asked first; what it makes lies in the calling thread's root, if it is the kernel.
    pub(super) fn new(settings: Settings, kernel: Box<dyn Hands>) -> Self {
        let ours = Box::new(Ours::new(&machine(settings)));
        let mut world = Self {
            kernel,
            ours,
            who: As::Root,
            places: Places::new(),
            tree: Vec::new(),
            before: Vec::new(),
            done: Done::default(),
        };
        world.must(Ask::Chmod(c"/", 0o755));
        world.must(Ask::Chown(c"/", Places::group("")));
        world
    }

    /// Asks about a tree by its owner and by a stranger; `hear` is told what the kernel answered.
    pub(super) fn ask(
        &mut self,
        tree: &[Node],
        questions: &[Asking<'_>],
        mut hear: impl FnMut(As, &Asking<'_>, Result<u64>),
    ) {
        self.done = Done::default();
        self.become_user(As::Root);
        self.clear(true);
        self.tree = tree.to_vec();
        self.build();
        self.before = self.places.snapshot(&mut *self.kernel);
        for who in [As::Owner, As::Stranger] {
            for asking in questions {
                self.become_user(who);
                let ask = asking.question.about(asking.path);
                let kernel = self.kernel.call(ask);
                let ours = self.ours.call(ask);
                hear(who, asking, kernel);
                self.done.calls += 1;
                if kernel != ours && self.done.found.len() < ENOUGH {
                    self.done.found.push(scenario(&self.tree, who, ask, kernel, ours));
                }
                // What was changed by one alone has to be taken back too.
                if changed(who, asking, kernel) || changed(who, asking, ours) {
                    self.look(ask);
                    self.take_back(asking);
                }
            }
        }
    }

    fn become_user(&mut self, who: As) {
        if self.who != who {
            self.who = who;
            self.kernel.become_user(who);
            self.ours.become_user(who);
        }
    }

    /// Compares the whole trees.
    fn look(&mut self, ask: Ask<'_>) {
        let kernel = self.places.snapshot(&mut *self.kernel);
        let ours = self.places.snapshot(&mut *self.ours);
        self.done.calls += 1;
        if kernel != ours && self.done.found.len() < ENOUGH {
            let mut scenario = scenario(&self.tree, self.who, ask, Ok(0), Ok(0));
            let [kernel, ours] = [kernel, ours].map(|seen| self.places.shown(&seen));
            let _ = writeln!(scenario, "# and then:\n# kernel:   {kernel}\n# pathwalk: {ours}");
            self.done.found.push(scenario);
        }
    }

    /// Makes both as they were before a call.
    fn take_back(&mut self, asking: &Asking<'_>) {
        self.call_back(asking);
        let is_as_before = |world: &mut Self| {
            let kernel = world.places.snapshot(&mut *world.kernel);
            kernel == world.before && world.places.snapshot(&mut *world.ours) == world.before
        };
        if !is_as_before(self) {
            self.become_user(As::Root);
            self.clear(false);
            self.build();
            assert!(is_as_before(self), "{:?} was built as it had been", self.tree);
        }
    }

    /// Tries the opposite of a call, at the place to which its path led.
    fn call_back(&mut self, asking: &Asking<'_>) {
        let reach = asking.reach;
        let path = |node: usize| match node {
            0 => "",
            node => &self.tree[node - 1].path,
        };
        let end = reach.end.map(|node| text(path(node)));
        let new = reach.missing.map(|name| {
            text(&format!("{}{}", path(reach.dir), FIRST[name].to_str().expect("names are text")))
        });
        match asking.question {
            Question::Stat(_) | Question::Access(_) => {}
            Question::Open(_) => self.both(new.as_deref().map(unlink)),
            Question::Mkdir => self.both(new.as_deref().map(rmdir)),
            Question::Unlink | Question::Rmdir => self.build_again(reach.end),
            Question::RenameFrom => {
                let old = end.as_deref();
                self.both(old.map(|old| Ask::Rename(super::questions::ASIDE, old)));
            }
            Question::RenameTo(first) => {
                let at = new.as_deref().or(end.as_deref());
                self.both(at.map(|at| Ask::Rename(at, FIRST[first])));
                self.build_again(reach.end);
            }
        }
    }

    /// Has both do something; whether it is done shows later.
    fn both(&mut self, ask: Option<Ask<'_>>) {
        if let Some(ask) = ask {
            let _ = (self.kernel.call(ask), self.ours.call(ask));
        }
    }

    /// Has both do what must be done.
    fn must(&mut self, ask: Ask<'_>) {
        let done = (self.kernel.call(ask), self.ours.call(ask));
        assert_eq!(done, (Ok(0), Ok(0)), "{ask:?} in {:?}", self.tree);
    }

    /// Makes a node anew, if it is one.
    fn build_again(&mut self, node: Option<usize>) {
        if let Some(node) = node.filter(|&node| node != 0) {
            self.become_user(As::Root);
            self.build_node(node - 1);
        }
    }

    /// Builds the tree; its mounts, and the directories that lead to them, may still be there.
    fn build(&mut self) {
        (0..self.tree.len()).for_each(|index| self.build_node(index));
    }

    fn build_node(&mut self, index: usize) {
        let node = &self.tree[index];
        let (kind, path, group) = (node.kind, text(&node.path), Places::group(&node.path));
        let make = match kind {
            Kind::Dir | Kind::Mount | Kind::Idmapped => Ask::Mkdir(&path),
            // O_EXCL: whatever was there is gone.
            Kind::File => Ask::Open(&path, OpenFlags::EXCL),
            Kind::Link(body) => {
                let body = text(BODIES[body]);
                let made = [&mut self.kernel, &mut self.ours]
                    .map(|hands| hands.call(Ask::Symlink(&body, &path)));
                return self.own(made, &path, group);
            }
        };
        let made = [&mut self.kernel, &mut self.ours].map(|hands| hands.call(make));
        if kind.is_mount() && made.iter().all(Result::is_ok) {
            self.must(Ask::Mount(&path));
        }
        if kind == Kind::Idmapped && made.iter().all(Result::is_ok) {
            self.must(Ask::Idmap(&path));
        }
        self.own(made, &path, group);
    }

    /// Gives what both made to its owner; what was there is his.
    fn own(&mut self, made: [Result<u64>; 2], path: &CStr, group: u32) {
        if made.iter().all(Result::is_ok) {
            self.must(Ask::Chown(path, group));
        }
    }

    /// Removes what there is; mounts that are where they belong only if all is to go.
    fn clear(&mut self, all: bool) {
        let stays = |node: &&Node| !all && node.kind.is_mount();
        let stay: Vec<CString> =
            self.tree.iter().filter(stays).map(|node| text(&node.path)).collect();
        self.places.clear(&mut *self.kernel, &stay);
        self.places.clear(&mut *self.ours, &stay);
    }
}

/// A machine set as the kernel is.
pub(super) fn machine(settings: Settings) -> std::sync::Arc<Vfs> {
    Vfs::new(settings.config(), MemFs::new()).expect("a machine fits")
}

/// Whether the call changed the tree.
fn changed(who: As, asking: &Asking<'_>, answer: Result<u64>) -> bool {
    match (asking.question, answer) {
        (_, Err(_)) | (Question::Stat(_) | Question::Access(_), _) => false,
        // Whether an open made something shows in what it opened.
        (Question::Open(_), Ok(opened)) => (opened >> 48) as u32 == who.id(),
        _ => true,
    }
}

fn unlink(path: &CStr) -> Ask<'_> {
    Ask::Unlink(path, AtFlags::empty())
}

fn rmdir(path: &CStr) -> Ask<'_> {
    Ask::Unlink(path, AtFlags::REMOVEDIR)
}

fn text(path: &str) -> CString {
    CString::new(path).expect("paths have no NUL")
}
