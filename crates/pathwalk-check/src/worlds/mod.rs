//! Exhaustive small worlds: every small tree, every short path, every caller, compared with the kernel.
//!
//! ```text
//!   trees     up to 4 nodes beside the root: directories, mounts, files, symlinks with 9 bodies
//!   × paths   up to 4 components of a, b, . and .., with and without a slash in front and behind
//!   × users   the owner of all, and a stranger
//!   × calls   stat, lstat, access (following or not), open for creating (following or not), mkdir, unlink, rename from, rename to
//! ```
//!
//! A tree is built once. The calls that look come first; each call that changed something is taken back, by its opposite
//! where that leads back, else by building the tree again. Trees that differ by swapping `a` and `b` are asked once.

mod hands;
mod trees;
mod world;

use crate::{kernel, ours::Settings};
use indicatif::ProgressBar;
use std::{
    ffi::CString,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};
use trees::{Node, paths, trees};
use world::World;

/// Nodes beside the root.
const NODES: usize = 4;
/// Components of a path.
const COMPONENTS: usize = 4;
/// After so many findings no more is asked.
const ENOUGH: usize = 20;

/// What came of it.
#[derive(Default)]
pub(crate) struct Asked {
    /// Trees.
    pub(crate) trees: usize,
    /// Calls that were compared.
    pub(crate) calls: u64,
    /// Where the two differ, each as a scenario.
    pub(crate) found: Vec<String>,
}

/// The trees of one slice of so many.
pub(crate) fn slice(number: usize, of: usize) -> Vec<Vec<Node>> {
    let trees = trees(NODES).into_iter().enumerate();
    trees.filter(|(index, _)| index % of == number - 1).map(|(_, tree)| tree).collect()
}

/// Asks both everything about the trees.
pub(crate) fn ask(trees: &[Vec<Node>], threads: usize, progress: &ProgressBar) -> Asked {
    let paths: Vec<_> = paths(COMPONENTS)
        .into_iter()
        .map(|path| CString::new(path).expect("paths have no NUL"))
        .collect();
    let settings = Settings::running();
    let next = AtomicUsize::new(0);
    let asked = Mutex::new(Asked::default());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                kernel::root_of_ones_own().expect("a root of one's own");
                let mut world = World::new(settings);
                while let Some(tree) = trees.get(next.fetch_add(1, Relaxed)) {
                    let (calls, found) = world.ask(tree, &paths);
                    progress.inc(1);
                    let mut asked = asked.lock().expect("nobody panics with it");
                    asked.trees += 1;
                    asked.calls += calls;
                    asked.found.extend(found);
                    if asked.found.len() >= ENOUGH {
                        break;
                    }
                }
            });
        }
    });
    asked.into_inner().expect("nobody panicked with it")
}
