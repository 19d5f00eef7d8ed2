//! The observer that writes down what a walk does.
//!
//! Invariant: the walk stands on `steps[standing]`, or on what that symlink's directory is; where `looking`, it looks
//! for the last step and has not moved to it.

use super::{Arrival, Cause, Explanation, Failure, Link, Step, Target};
use crate::{
    cred::Cred,
    perm::Rule,
    walk::observe::{Left, Observer, Spot},
};
use pathwalk_abi::{Errno, MAXSYMLINKS, Result};

/// What is known of a walk under way.
#[derive(Default)]
pub(super) struct Recorder {
    steps: Vec<Step>,
    standing: usize,
    looking: bool,
    absolute: bool,
    /// The bodies under way, and whether one took the path's place.
    nested: u32,
    replaced: bool,
    links: u32,
    holding: bool,
    left: Option<Left>,
    restarts: Vec<Errno>,
    /// The rule that refused the last search.
    refused: Option<Rule>,
    /// The last symlink may not be followed.
    protected: bool,
}

impl Recorder {
    pub(super) fn new(path: &[u8]) -> Self {
        Self { absolute: path.first() == Some(&b'/'), ..Self::default() }
    }

    /// The step that the walk stands on.
    pub(super) fn standing(&self) -> usize {
        self.standing
    }

    /// What the walk's failure is about.
    pub(super) fn failure(
        &self,
        errno: Errno,
        path: &[u8],
        access: Option<Result<Rule, Rule>>,
    ) -> Failure {
        let cause = if self.steps.is_empty() {
            before_the_first_step(errno, path)
        } else if errno == Errno::EXDEV {
            Cause::Scope
        } else if errno == Errno::EAGAIN {
            if self.left.is_some() { Cause::WouldHold } else { Cause::Scope }
        } else if self.looking {
            self.looking_for(errno, path)
        } else {
            self.standing_on(errno, access)
        };
        // A walk that may not jump, to the root for an absolute symlink or to a place, stands before the link still.
        let last = self.steps.last();
        let jumps = matches!(errno, Errno::EXDEV | Errno::ELOOP)
            && last.is_some_and(|step| step.link.is_some());
        let step = match last {
            None => None,
            Some(_) if self.looking || jumps => Some(self.steps.len() - 1),
            Some(_) => Some(self.standing),
        };
        Failure { errno, step, cause }
    }

    fn looking_for(&self, errno: Errno, path: &[u8]) -> Cause {
        let nul = |text: &[u8]| text.contains(&0);
        let nul = nul(path) || self.steps.iter().flat_map(|step| &step.link).any(|l| nul(&l.body));
        match errno {
            Errno::ENOENT => Cause::Absent,
            Errno::ENAMETOOLONG => Cause::LongName,
            Errno::EINVAL if nul => Cause::NulByte,
            Errno::ELOOP if self.links >= MAXSYMLINKS => Cause::TooManyLinks,
            Errno::ELOOP => Cause::LinksForbidden,
            Errno::EACCES if self.protected => Cause::ProtectedLink,
            _ => Cause::FileSystem,
        }
    }

    fn standing_on(&self, errno: Errno, access: Option<Result<Rule, Rule>>) -> Cause {
        match (errno, self.refused, access) {
            (Errno::ENOTDIR, ..) => Cause::NotDirectory,
            (Errno::ELOOP, ..) => Cause::LinksForbidden,
            (Errno::EACCES, Some(rule), _) => Cause::Search(rule),
            (Errno::EROFS, ..) => Cause::ReadOnly,
            (Errno::EACCES, None, Some(Err(rule))) => Cause::Access(rule),
            (Errno::EACCES, None, Some(Ok(_))) => Cause::NoExec,
            _ => Cause::FileSystem,
        }
    }

    pub(super) fn into_explanation(
        self,
        path: &[u8],
        cred: Cred,
        outcome: Result<Arrival, Failure>,
        cwd: Vec<u8>,
    ) -> Explanation {
        Explanation {
            path: path.to_vec(),
            cred,
            steps: self.steps,
            links: self.links,
            left: self.left,
            restarts: self.restarts,
            outcome,
            cwd,
        }
    }

    /// Writes down that the walk looks for something, or is there at once.
    fn push(&mut self, to: Target) -> &mut Step {
        self.steps.push(Step {
            to,
            depth: self.nested + u32::from(self.replaced),
            stand: None,
            crossed: Vec::new(),
            search: None,
            link: None,
            holding: self.holding,
        });
        self.steps.last_mut().expect("one was just pushed")
    }

    /// The step that the walk looks for, if it does.
    fn sought(&mut self) -> Option<&mut Step> {
        if self.looking { self.steps.last_mut() } else { None }
    }

    fn stands_on_last(&mut self) {
        self.looking = false;
        self.standing = self.steps.len() - 1;
    }
}

fn before_the_first_step(errno: Errno, path: &[u8]) -> Cause {
    match errno {
        Errno::ENOENT if path.is_empty() => Cause::EmptyPath,
        Errno::ENAMETOOLONG => Cause::LongPath,
        Errno::EINVAL => Cause::UnknownFlag,
        Errno::EXDEV => Cause::Scope,
        _ => Cause::FileSystem,
    }
}

impl Observer for &mut Recorder {
    const LISTENS: bool = true;

    fn begin(&mut self, at: Spot<'_>) {
        let relative = self.steps.is_empty() && !self.absolute;
        let to = if relative { Target::Cwd } else { Target::Root };
        self.push(to).stand = Some(at.stand());
        self.stands_on_last();
    }

    fn may_search(&mut self, _at: Spot<'_>, rule: Rule) {
        let standing = self.standing;
        self.steps[standing].search = Some(Ok(rule));
    }

    fn may_not_search(&mut self, rule: Rule) {
        // What it looked for before it had to hold is not what it fails at.
        if std::mem::take(&mut self.looking) {
            self.steps.pop();
        }
        self.refused = Some(rule);
        let standing = self.standing;
        self.steps[standing].search = Some(Err(rule));
    }

    fn component(&mut self, name: &[u8], holding: bool) {
        if name.is_empty() {
            return;
        }
        self.holding = holding;
        match self.sought() {
            // The same one again, now holding.
            Some(step) => {
                step.crossed.clear();
                step.holding = holding;
            }
            None => drop(self.push(Target::Name(name.to_vec()))),
        }
        self.looking = true;
        if name == b"." {
            let stand = self.steps[self.standing].stand.clone();
            self.steps.last_mut().expect("one is sought").stand = stand;
            self.stands_on_last();
        }
    }

    fn stepped(&mut self, at: Spot<'_>) {
        // The step to the root, for an absolute symlink, is told as a beginning.
        if let Some(step) = self.sought() {
            step.stand = Some(at.stand());
            self.stands_on_last();
        }
    }

    fn mounted(&mut self, at: Spot<'_>) {
        if let Some(step) = self.sought() {
            step.crossed.push(at.stand().mount);
        }
    }

    fn before_link(&mut self, at: Spot<'_>) {
        if let Some(step) = self.sought() {
            step.stand = Some(at.stand());
        }
    }

    fn may_not_follow(&mut self) {
        self.protected = true;
    }

    fn link(&mut self, body: &[u8], links: u32, last: bool) {
        if let Some(step) = self.sought() {
            step.link = Some(Link { body: body.to_vec(), number: links });
        }
        self.links = links;
        self.looking = false;
        if last { self.replaced = true } else { self.nested += 1 }
    }

    fn jumped(&mut self, at: Spot<'_>) {
        let link = self.steps.last().and_then(|step| step.link.as_ref());
        let path = link.map_or_else(Vec::new, |link| link.body.clone());
        self.push(Target::Place(path)).stand = Some(at.stand());
        self.stands_on_last();
    }

    fn end_of_link(&mut self) {
        self.nested = self.nested.saturating_sub(1);
    }

    fn left_rcu(&mut self, why: Left) {
        self.holding = true;
        self.left.get_or_insert(why);
        let at = if self.looking { self.steps.len() - 1 } else { self.standing };
        self.steps[at].holding = true;
    }

    fn restarted(&mut self, errno: Errno) {
        let mut restarts = std::mem::take(&mut self.restarts);
        restarts.push(errno);
        **self = Recorder {
            absolute: self.absolute,
            holding: true,
            left: self.left,
            restarts,
            ..Recorder::default()
        };
    }
}
