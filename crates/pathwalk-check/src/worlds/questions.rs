//! What is asked about a path in a tree, and which nodes the answer can depend on.
//!
//! A tree in which a leaf matters to nothing that the call looks at answers as the tree without that leaf does, and that one
//! is asked too, being smaller. So a question is asked only where every leaf may matter: then every node may, for a leaf is
//! come to by what is above it. What a call looks at:
//!
//! - the names that the walk of its path looks up, one after the other, each in a directory that it came to: [`Reach`];
//! - what is in the directory to which it leads, as links, size, and whether anything can be removed show that;
//! - where it changes something, what else is in the directory that it changes, and all that is moved with a directory.
//!
//! The test below asks all questions about small trees, and finds that those left out have the answers of those kept.

use super::{
    hands::Ask,
    reach::{Last, Nodes, Reach, Shape},
};
use pathwalk::{AtFlags, OpenFlags};
use std::ffi::{CStr, CString};

/// What is asked about a path; whether a last symlink is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    /// What is there.
    Stat(bool),
    /// Whether it may be read and written.
    Access(bool),
    /// Opening, and creating.
    Open(bool),
    /// Making a directory.
    Mkdir,
    /// Removing what is no directory.
    Unlink,
    /// Removing a directory.
    Rmdir,
    /// Moving it aside.
    RenameFrom,
    /// Moving `/a` or `/b` there.
    RenameTo(usize),
}

/// A name that no tree has: what is moved goes there.
pub(super) const ASIDE: &CStr = c"/z";

/// What is moved to other places, if it is there.
pub(super) const FIRST: [&CStr; 2] = [c"/a", c"/b"];

impl Question {
    /// Those that change nothing.
    pub(super) const LOOKS: [Self; 4] =
        [Self::Stat(true), Self::Stat(false), Self::Access(true), Self::Access(false)];

    /// Those that do.
    pub(super) const CHANGES: [Self; 8] = [
        Self::Open(true),
        Self::Open(false),
        Self::Mkdir,
        Self::Unlink,
        Self::Rmdir,
        Self::RenameFrom,
        Self::RenameTo(0),
        Self::RenameTo(1),
    ];

    /// The call.
    pub(super) fn about(self, path: &CStr) -> Ask<'_> {
        let at_flags = |follow: bool| match follow {
            true => AtFlags::empty(),
            false => AtFlags::SYMLINK_NOFOLLOW,
        };
        match self {
            Self::Stat(follow) => Ask::Stat(path, at_flags(follow)),
            Self::Access(follow) => Ask::Access(path, at_flags(follow)),
            Self::Open(true) => Ask::Open(path, OpenFlags::empty()),
            Self::Open(false) => Ask::Open(path, OpenFlags::NOFOLLOW),
            Self::Mkdir => Ask::Mkdir(path),
            Self::Unlink => Ask::Unlink(path, AtFlags::empty()),
            Self::Rmdir => Ask::Unlink(path, AtFlags::REMOVEDIR),
            Self::RenameFrom => Ask::Rename(path, ASIDE),
            Self::RenameTo(first) => Ask::Rename(FIRST[first], path),
        }
    }

    fn last(self) -> Last {
        match self {
            Self::Stat(true) | Self::Access(true) | Self::Open(true) => Last::Followed,
            Self::Stat(false) | Self::Access(false) | Self::Open(false) => Last::Kept,
            _ => Last::Named,
        }
    }
}

/// A question about a path in a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'p> {
    /// The path.
    pub(super) path: &'p CStr,
    /// What is asked about it.
    pub(super) question: Question,
    /// What its walk looks at.
    pub(super) reach: Reach,
}

impl Asking<'_> {
    /// The nodes that the answer can depend on.
    fn looks_at(&self, shape: &Shape) -> Nodes {
        let Reach { looked_up, dir, end, came_to_name, .. } = self.reach;
        let tree = |node: Option<usize>| node.map_or(0, |node| shape.subtree(node));
        let inside = end.map_or(0, |end| shape.children(end));
        let changed = shape.children(dir) | inside;
        let renamed = changed | shape.children(0) | tree(end);
        let more = match self.question {
            Question::Stat(_) => inside,
            Question::Access(_) => 0,
            // Nothing but a name can be made, removed or moved.
            _ if !came_to_name => 0,
            Question::Open(_) | Question::Mkdir | Question::Unlink | Question::Rmdir => changed,
            Question::RenameFrom => renamed,
            Question::RenameTo(first) => renamed | tree(shape.named(first)),
        };
        looked_up | more
    }

    /// Of the leaves, those on which the answer cannot depend.
    pub(super) fn looks_past(&self, shape: &Shape, leaves: Nodes) -> Nodes {
        leaves & !self.looks_at(shape)
    }
}

/// The questions to be asked in a tree, those that change nothing first.
pub(super) fn questions<'p>(shape: &Shape, paths: &'p [CString]) -> Vec<Asking<'p>> {
    let leaves = shape.leaves();
    let mut questions = every_question(shape, paths);
    questions.retain(|asking| asking.looks_past(shape, leaves) == 0);
    questions
}

/// All questions, whether they are asked elsewhere or not.
pub(super) fn every_question<'p>(shape: &Shape, paths: &'p [CString]) -> Vec<Asking<'p>> {
    let reaches: Vec<_> = paths
        .iter()
        .map(|path| {
            let text = path.to_str().expect("paths are text");
            [Last::Followed, Last::Kept, Last::Named].map(|last| shape.reach(text, last))
        })
        .collect();
    let mut all = Vec::new();
    for questions in [&Question::LOOKS[..], &Question::CHANGES] {
        for (path, reaches) in paths.iter().zip(&reaches) {
            all.extend(questions.iter().map(|&question| {
                let reach = reaches[question.last() as usize];
                Asking { path, question, reach }
            }));
        }
    }
    all
}
