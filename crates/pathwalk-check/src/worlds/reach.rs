//! What the walk of a path can look at in a tree: a few lines that know nothing of pathwalk's walk.
//!
//! Everybody may search every directory here, so a walk is the names that it looks up, each in a directory that it came to.

use super::trees::{BODIES, Kind, Node};

/// A tree by numbers: 0 is the root, the nodes follow.
pub(super) struct Shape {
    kinds: Vec<Kind>,
    parents: Vec<usize>,
    children: Vec<[Option<usize>; 2]>,
}

/// Nodes of a tree: a bit for each number.
pub(super) type Nodes = u32;

/// What the walk of one path looks at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    /// The nodes whose names it looks up.
    pub(super) looked_up: Nodes,
    /// The directory of the name that it looked up last.
    pub(super) dir: usize,
    /// That name's number, if nothing has it.
    pub(super) missing: Option<usize>,
    /// What the path leads to.
    pub(super) end: Option<usize>,
    /// Whether it came to the last component, and that is a name.
    pub(super) came_to_name: bool,
    links: u32,
}

/// What becomes of a symlink that is the last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// It is followed.
    Followed,
    /// It is not, if no slash is behind it.
    Kept,
    /// It is not: what is wanted is the name.
    Named,
}

/// The names of nodes.
const NAMES: [&str; 2] = ["a", "b"];

/// More symlinks than this no walk follows.
const MAXSYMLINKS: u32 = 40;

impl Shape {
    pub(super) fn new(tree: &[Node]) -> Self {
        let mut shape =
            Self { kinds: vec![Kind::Dir], parents: vec![0], children: vec![[None; 2]] };
        for (number, node) in (1..).zip(tree) {
            let (dir, name) = node.path.rsplit_once('/').expect("a path begins with a slash");
            let parent = tree.iter().position(|node| node.path == dir).map_or(0, |at| at + 1);
            shape.kinds.push(node.kind);
            shape.parents.push(parent);
            shape.children.push([None; 2]);
            let name = NAMES.iter().position(|known| *known == name).expect("a or b");
            shape.children[parent][name] = Some(number);
        }
        shape
    }

    /// The nodes that have nothing below them.
    pub(super) fn leaves(&self) -> Nodes {
        let leaf = |&node: &usize| self.children[node] == [None; 2];
        (1..self.kinds.len()).filter(leaf).map(bit).sum()
    }

    /// The number of what has one of the names in the root.
    pub(super) fn named(&self, name: usize) -> Option<usize> {
        self.children[0][name]
    }

    /// A node's children.
    pub(super) fn children(&self, node: usize) -> Nodes {
        self.children[node].into_iter().flatten().map(bit).sum()
    }

    /// A node, and all that is below it.
    pub(super) fn subtree(&self, node: usize) -> Nodes {
        let below = self.children[node].into_iter().flatten();
        below.fold(bit(node), |nodes, child| nodes | self.subtree(child))
    }

    /// Follows a path from the root.
    pub(super) fn reach(&self, path: &str, last: Last) -> Reach {
        let mut reach = Reach::default();
        if !path.is_empty() {
            reach.end = self.follow(0, path, (last, true), &mut reach);
        }
        reach
    }

    /// Follows a path, or a symlink's body; and whether the path ends where this does.
    fn follow(
        &self,
        from: usize,
        path: &str,
        (last, ends): (Last, bool),
        reach: &mut Reach,
    ) -> Option<usize> {
        let mut at = if path.starts_with('/') { 0 } else { from };
        let mut rest = path.trim_start_matches('/');
        while !rest.is_empty() {
            if !self.is_directory(at) {
                return None;
            }
            let (name, behind) = rest.split_once('/').unwrap_or((rest, ""));
            let ends = ends && behind.is_empty();
            let follow = match last {
                _ if !behind.is_empty() => true,
                Last::Followed => true,
                Last::Kept => name.len() < rest.len(),
                Last::Named => false,
            };
            rest = behind;
            match name {
                "." => {}
                ".." => at = self.parents[at],
                name => {
                    reach.came_to_name |= ends;
                    let name = NAMES.iter().position(|known| *known == name).expect("a or b");
                    (reach.dir, reach.missing) = (at, Some(name));
                    let node = self.children[at][name]?;
                    reach.missing = None;
                    reach.looked_up |= bit(node);
                    at = match self.kinds[node] {
                        Kind::Link(body) if follow => {
                            reach.links += 1;
                            if reach.links > MAXSYMLINKS {
                                return None;
                            }
                            self.follow(at, BODIES[body], (Last::Followed, ends), reach)?
                        }
                        _ => node,
                    };
                }
            }
        }
        Some(at)
    }

    fn is_directory(&self, node: usize) -> bool {
        matches!(self.kinds[node], Kind::Dir | Kind::Mount | Kind::Idmapped)
    }
}

fn bit(node: usize) -> Nodes {
    1 << node
}
