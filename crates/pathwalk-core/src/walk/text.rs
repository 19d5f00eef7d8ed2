//! What is still to be walked: the caller's path, and the bodies of symlinks on top of it.
//!
//! ```text
//!   path   /a/link/b        pos ──────► "/b"
//!   bodies "x/y"            pos ► "x/y"            the top is walked first
//! ```
//!
//! Bodies are copied here before they are parsed, so nothing of a symlink is held while its body is walked.
//!
//! Linux: the `saved` stack of `struct nameidata`.

use smallvec::SmallVec;

/// The texts of one walk.
#[derive(Debug)]
pub(crate) struct Text<'p> {
    path: &'p [u8],
    /// The position in the path, or that of the body that replaced it.
    pos: usize,
    /// All bodies, one behind the other.
    bodies: SmallVec<[u8; 192]>,
    /// The bodies being walked; the last is the top.
    stack: SmallVec<[Frame; 4]>,
    /// The body of a symlink that stood last in the path replaced the path.
    replaced: Option<Frame>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    start: usize,
    end: usize,
    pos: usize,
}

/// The text in which a last component lies.
#[derive(Debug)]
pub(crate) enum LastText<'p> {
    /// The caller's path.
    Path(&'p [u8]),
    /// The body of a symlink that stood last.
    Body(Box<[u8]>),
}

impl LastText<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Path(path) => path,
            Self::Body(body) => body,
        }
    }
}

impl<'p> Text<'p> {
    #[inline(always)]
    pub(crate) fn new(path: &'p [u8]) -> Self {
        Self { path, pos: 0, bodies: SmallVec::new(), stack: SmallVec::new(), replaced: None }
    }

    /// The text to walk, the position in it, and whether it is a body with more pending below.
    #[inline(always)]
    pub(crate) fn current(&self) -> (&[u8], usize, bool) {
        match self.stack.last() {
            Some(top) => (&self.bodies[top.start..top.end], top.pos, true),
            None => match &self.replaced {
                None => (self.path, self.pos, false),
                Some(body) => (&self.bodies[body.start..body.end], self.pos, false),
            },
        }
    }

    #[inline(always)]
    pub(crate) fn set_pos(&mut self, pos: usize) {
        match self.stack.last_mut() {
            Some(top) => top.pos = pos,
            None => self.pos = pos,
        }
    }

    /// The text with the last component, for after the walk.
    pub(crate) fn take_last(&mut self) -> LastText<'p> {
        debug_assert!(self.stack.is_empty(), "a last component lies in the lowest text");
        match self.replaced.take() {
            None => LastText::Path(self.path),
            Some(body) => LastText::Body(self.bodies[body.start..body.end].into()),
        }
    }

    /// All was walked: who walks on finds nothing left.
    #[cold]
    pub(crate) fn finish(&mut self) {
        debug_assert!(self.stack.is_empty(), "a last component lies in the lowest text");
        self.pos = self.current().0.len();
    }

    /// The top body was walked to its end.
    pub(crate) fn pop(&mut self) {
        if let Some(top) = self.stack.pop() {
            self.bodies.truncate(top.start);
        }
    }

    /// What a symlink's body is copied to: above all others, from the end on.
    pub(crate) fn bodies(&mut self) -> &mut SmallVec<[u8; 192]> {
        &mut self.bodies
    }

    /// Puts the body that was copied from `start` on on top; `last` says that the link stood last, so that nothing is pending
    /// below it.
    pub(crate) fn push(&mut self, start: usize, last: bool) {
        if last {
            debug_assert!(self.stack.is_empty(), "a last component lies in the lowest text");
            self.bodies.drain(..start);
            self.pos = 0;
            self.replaced = Some(Frame { start: 0, end: self.bodies.len(), pos: 0 });
        } else {
            self.stack.push(Frame { start, end: self.bodies.len(), pos: 0 });
        }
    }
}
