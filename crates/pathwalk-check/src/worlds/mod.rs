//! Exhaustive small worlds: every small tree, every short path, every caller, compared with the kernel.
//!
//! ```text
//!   trees     up to 5 nodes beside the root: directories, mounts, files, symlinks with 9 bodies;
//!             up to 4 where a mount has a map of owners
//!   × paths   up to 4 components of a, b, . and .., with and without a slash in front and behind
//!   × users   the owner of all, and a stranger
//!   × calls   stat and access, following or not; open for creating, following or not; mkdir, unlink, rmdir,
//!             rename from there, rename of a or b to there
//! ```
//!
//! These are 8,500 million questions. Few of them need to be asked:
//!
//! - Names are no more than names. Of trees that differ by swapping `a` and `b` one is asked: [`trees`].
//! - A question whose walk cannot come to a leaf of the tree is asked in the tree without it: [`questions`], by what
//!   [`reach`] finds out on its own. That leaves one question of sixteen.
//! - A tree is built once. What a call changed is taken back by the opposite call, at the place to which [`reach`] says that
//!   the path leads; that all is as before is looked at each time, and where it is not the tree is built again.

mod trees;

mod questions;

mod reach;

mod world;

mod places;

mod hands;

mod tell;

use crate::ours::Settings;
use hands::Kernel;
use indicatif::ProgressBar;
use questions::questions;
use reach::Shape;
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
const NODES: usize = 5;
/// Nodes of a tree in which a mount has a map.
const MAPPED: usize = 4;
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
    let trees = trees(NODES, MAPPED).into_iter().enumerate();
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
                let mut world = World::new(settings, Box::new(Kernel::new()));
                while let Some(tree) = trees.get(next.fetch_add(1, Relaxed)) {
                    world.ask(tree, &questions(&Shape::new(tree), &paths), |_, _, _| {});
                    progress.inc(1);
                    let done = std::mem::take(&mut world.done);
                    let mut asked = asked.lock().expect("nobody panics with it");
                    asked.trees += 1;
                    asked.calls += done.calls;
                    asked.found.extend(done.found);
                    if asked.found.len() >= ENOUGH {
                        break;
                    }
                }
            });
        }
    });
    asked.into_inner().expect("nobody panicked with it")
}

#[cfg(test)]
mod tests;
