//! All small trees, each of those that differ by swapping `a` and `b` once.
//!
//! A tree is a list of nodes, parents before children; each has its place and what it is. The root is no node.

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A directory.
    Dir,
    /// A directory with a file system mounted on it; what is below lies in that.
    Mount,
    /// The same, and the mount has a map in which the stranger is nobody.
    Idmapped,
    /// A file.
    File,
    /// A symlink, by the number of its body.
    Link(usize),
}

impl Kind {
    /// Whether something is mounted there.
    pub(super) fn is_mount(self) -> bool {
        matches!(self, Self::Mount | Self::Idmapped)
    }
}

/// A node of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    /// From the root, beginning with a slash.
    pub(crate) path: String,
    /// What it is.
    pub(crate) kind: Kind,
}

/// The bodies of symlinks: each place to which two characters can lead in such a tree. Left out are `./`, which leads where
/// `.` does, and `//` and `/.`, which lead where `/` does, the latter for who may search the root, as all may here:
/// `symlinks.scn` has them side by side.
pub(super) const BODIES: [&str; 9] = ["a", "b", ".", "..", "/", "/a", "/b", "a/", "b/"];

/// All trees of up to so many nodes beside the root, the smaller ones first; of twins the first. Trees with maps have up to
/// `mapped` nodes.
pub(super) fn trees(nodes: usize, mapped: usize) -> Vec<Vec<Node>> {
    let mut trees = all_trees(nodes, mapped);
    trees.retain(|tree| is_first_of_its_twins(tree));
    trees
}

/// All of them, with their twins.
pub(super) fn all_trees(nodes: usize, mapped: usize) -> Vec<Vec<Node>> {
    let mut trees = Vec::new();
    for size in 0..=nodes {
        let dirs = if size <= mapped { &DIRS[..] } else { &DIRS[..2] };
        below(dirs, "", size, &mut |tree: &[Node]| trees.push(tree.to_vec()));
    }
    trees
}

/// What can have something below it.
const DIRS: [Kind; 3] = [Kind::Dir, Kind::Mount, Kind::Idmapped];

/// Calls back with every choice of `size` nodes below a directory.
fn below(dirs: &[Kind], dir: &str, size: usize, found: &mut dyn FnMut(&[Node])) {
    for left in 0..=size {
        child(dirs, &format!("{dir}/a"), left, &mut |a| {
            child(dirs, &format!("{dir}/b"), size - left, &mut |b| found(&[a, b].concat()));
        });
    }
}

/// Calls back with every way in which a name stands for `size` nodes: itself and what is below it.
fn child(dirs: &[Kind], path: &str, size: usize, found: &mut dyn FnMut(&[Node])) {
    let node = |kind| Node { path: path.to_owned(), kind };
    match size {
        0 => found(&[]),
        1 => {
            found(&[node(Kind::File)]);
            (0..BODIES.len()).for_each(|body| found(&[node(Kind::Link(body))]));
        }
        _ => {}
    }
    if size >= 1 {
        for &kind in dirs {
            below(dirs, path, size - 1, &mut |rest| found(&[&[node(kind)], rest].concat()));
        }
    }
}

fn is_first_of_its_twins(tree: &[Node]) -> bool {
    let mut own = tree.to_vec();
    let mut twin: Vec<_> = tree.iter().map(swapped).collect();
    own.sort();
    twin.sort();
    own <= twin
}

/// The node in the tree's twin.
pub(super) fn swapped(node: &Node) -> Node {
    let kind = match node.kind {
        Kind::Link(body) => {
            let twin = swap(BODIES[body]);
            let twin = BODIES.iter().position(|body| *body == twin);
            Kind::Link(twin.expect("the bodies have their twins"))
        }
        kind => kind,
    };
    Node { path: swap(&node.path), kind }
}

/// The text with `a` for `b` and `b` for `a`.
pub(super) fn swap(text: &str) -> String {
    let other = |char| match char {
        'a' => 'b',
        'b' => 'a',
        char => char,
    };
    text.chars().map(other).collect()
}

/// All paths of up to so many components, with and without slashes in front and behind; and none, and the root.
pub(super) fn paths(components: usize) -> Vec<String> {
    let mut paths = vec![String::new(), "/".to_owned()];
    let mut last = vec![String::new()];
    for _ in 0..components {
        let longer = |path: &String| {
            ["a", "b", ".", ".."].map(|name| match path.as_str() {
                "" => name.to_owned(),
                path => format!("{path}/{name}"),
            })
        };
        last = last.iter().flat_map(longer).collect();
        for path in &last {
            paths.extend([
                path.clone(),
                format!("/{path}"),
                format!("{path}/"),
                format!("/{path}/"),
            ]);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_small_tree_is_there_once() {
        // By hand: nothing; one node of 12 kinds at `a`, as `b` is its twin, but a link's body may be any.
        let small = trees(1, 0);
        assert_eq!(small.len(), 1 + 12);
        // And one more kind.
        assert_eq!(trees(1, 1).len(), 1 + 13);
        for nodes in [2, 3] {
            let found: Vec<_> = trees(nodes, nodes)
                .into_iter()
                .map(|mut tree| {
                    tree.sort();
                    tree
                })
                .collect();
            let set: HashSet<_> = found.iter().map(|tree| format!("{tree:?}")).collect();
            assert_eq!(set.len(), found.len());
            for tree in &found {
                let mut twin: Vec<_> = tree.iter().map(swapped).collect();
                twin.sort();
                assert!(twin == *tree || !set.contains(&format!("{twin:?}")));
            }
        }
        // The number of all trees of two nodes is 240, of which 12 are their own twins.
        assert_eq!(trees(2, 0).len() - small.len(), (240 + 12) / 2);
    }

    #[test]
    fn every_short_path_is_there_once() {
        let all = paths(4);
        assert_eq!(all.len(), 2 + 4 * (4 + 16 + 64 + 256));
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }
}
