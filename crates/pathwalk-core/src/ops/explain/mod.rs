//! explain: why a path resolves as it does, component by component.
//!
//! ```text
//!   climb ── tells ──► Recorder ──► Explanation ── Display ──► a table
//!     │                  steps         steps, outcome           show
//!     └─ Arrive ── the rule of the access that was asked for
//! ```
//!
//! It is the walk of every other call that is watched, not a second one.

mod record;

mod show;

use super::{access::MayAccess, lookup_flags, only};
use crate::{
    cred::Cred,
    fs::Access,
    perm::Rule,
    task::{At, Task},
    walk::{
        Stop,
        end::End,
        job::{LookupJob, Terminal},
        ladder::climb,
        observe::{Left, Stand},
    },
};
use pathwalk_abi::{AccessMode, AtFlags, Errno, ResolveFlags, Result};
use record::Recorder;

/// How [`Task::explain`] looks a path up, and what it asks of what it finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplainHow {
    /// The access that is asked for at the end, as by faccessat2(2) with `AT_EACCESS`; empty asks only what is there.
    pub access: AccessMode,
    /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
    pub flags: AtFlags,
    /// `RESOLVE_*`, as for openat2(2).
    pub resolve: ResolveFlags,
}

/// Why a path resolves as it does. To be read by people it is written by [`Display`](std::fmt::Display).
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The path as it was asked for.
    pub path: Vec<u8>,
    /// Who asked.
    pub cred: Cred,
    /// Where the walk stood, and what it looked for, in its order.
    pub steps: Vec<Step>,
    /// How many symlinks were followed, of 40 that may be.
    pub links: u32,
    /// Why the walk, which began by holding nothing (RCU-walk), had to hold its place (ref-walk) from some step on.
    pub left: Option<Left>,
    /// Why it had to begin anew: `ECHILD` where its place could not be held, `ESTALE` where a file system no longer knew
    /// what the cache showed. The steps are those of the last beginning.
    pub restarts: Vec<Errno>,
    /// The answer.
    pub outcome: Result<Arrival, Failure>,
    /// The path of the current directory, where the walk began there.
    cwd: Vec<u8>,
}

/// One step of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the step was to.
    pub to: Target,
    /// In how many symlinks' bodies the component stands; nobody sees the end of the last one in a path, so the rest
    /// of the walk counts as being in it.
    pub depth: u32,
    /// What is there; none where the walk ended before it knew.
    pub stand: Option<Stand>,
    /// The mounts that were crossed into on the way, by their numbers in mountinfo.
    pub crossed: Vec<u64>,
    /// The rule that let the directory be searched, or did not; none where it was not searched.
    pub search: Option<Result<Rule, Rule>>,
    /// The symlink was followed.
    pub link: Option<Link>,
    /// The walk held its place here.
    pub holding: bool,
}

/// What a step is to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The root, where an absolute path or symlink begins.
    Root,
    /// The current directory, where a relative path begins.
    Cwd,
    /// A component, perhaps `.` or `..`.
    Name(Vec<u8>),
    /// The place that a symlink leads to which leads to a place and not to a path; with the path that shows it.
    Place(Vec<u8>),
}

/// A symlink that was followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The path that it contains.
    pub body: Vec<u8>,
    /// The how-manieth it was.
    pub number: u32,
}

/// Where a walk arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The step that ended there.
    pub step: usize,
    /// The rule that granted the access that was asked for.
    pub access: Option<Rule>,
}

/// Why a walk did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the call answers.
    pub errno: Errno,
    /// The step that it is about; none where the path was refused before the first one.
    pub step: Option<usize>,
    /// What was wrong there.
    pub cause: Cause,
}

/// What makes a lookup fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The path is empty.
    EmptyPath,
    /// The path has more than 4095 bytes.
    LongPath,
    /// A flag is not known.
    UnknownFlag,
    /// The directory has no such name.
    Absent,
    /// A name has more than 255 bytes.
    LongName,
    /// A name has a NUL byte.
    NulByte,
    /// What should be a directory is none.
    NotDirectory,
    /// The directory may not be searched, by this rule.
    Search(Rule),
    /// The symlink would be the 41st.
    TooManyLinks,
    /// The symlink is somebody else's, in a directory that everyone may write: `fs.protected_symlinks`.
    ProtectedLink,
    /// Symlinks are not followed, by the mount's or the call's wish.
    LinksForbidden,
    /// The walk would leave what it was told to stay in.
    Scope,
    /// The walk would have to hold its place, which it was told not to.
    WouldHold,
    /// What was found may not be accessed so, by this rule.
    Access(Rule),
    /// Nothing may be executed in the mount.
    NoExec,
    /// Nothing may be written in the mount or the file system.
    ReadOnly,
    /// The file system answered so.
    FileSystem,
}

impl Task {
    /// Explains why a path resolves as it does: looks it up as stat(2) and faccessat2(2) do, and tells about every step.
    ///
    /// It never fails: that a lookup does is what it explains. Permission is that of the effective user.
    ///
    /// What it shows of a directory is as true as a stat(2) of it in passing: others may change it meanwhile. A lookup
    /// may fill caches, so that the next one of the same path takes place without holding anything.
    pub fn explain(&self, path: impl AsRef<[u8]>, how: ExplainHow) -> Explanation {
        let path = path.as_ref();
        let mut recorder = Recorder::new(path);
        let mut rule = None;
        let answer = self.watch(path, how, &mut recorder, &mut rule);
        let outcome = match answer {
            Ok(()) => Ok(Arrival { step: recorder.standing(), access: rule.and_then(Result::ok) }),
            Err(errno) => Err(recorder.failure(errno, path, rule)),
        };
        let cwd = match path.first() {
            Some(b'/') => Vec::new(),
            _ => self.getcwd().unwrap_or_else(|_| b"(removed)".to_vec()),
        };
        recorder.into_explanation(path, self.cred().clone(), outcome, cwd)
    }

    fn watch(
        &self,
        path: &[u8],
        how: ExplainHow,
        recorder: &mut Recorder,
        rule: &mut Option<Result<Rule, Rule>>,
    ) -> Result<()> {
        only(how.flags, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        if how.access.bits() & !AccessMode::all().bits() != 0 {
            return Err(Errno::EINVAL);
        }
        let request = self.request(At::Cwd.resolve(how.resolve), path, lookup_flags(how.flags))?;
        let access = Access::from_bits_truncate(how.access.bits());
        climb(&request, recorder, &mut LookupJob(Arrive { access, rule }))
    }
}

/// Asks for access where a walk ends, and for the rule that decided about it.
struct Arrive<'r> {
    access: Access,
    rule: &'r mut Option<Result<Rule, Rule>>,
}

impl<'a> Terminal<'a> for Arrive<'_> {
    type Out = ();

    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<(), Stop> {
        let answer = MayAccess::<true>(self.access).finish(end);
        if !self.access.is_empty() && !matches!(answer, Err(Stop::Leave(_))) {
            let rule = end.vfs.deciding_rule(end.inode(), self.access, &end.who());
            // Only the file system itself knows what it would answer; it was asked.
            *self.rule = Some(match rule {
                Err(Rule::FileSystem) if answer.is_ok() => Ok(Rule::FileSystem),
                rule => rule,
            });
        }
        answer
    }
}

impl Explanation {
    /// The path of a step without symlinks, `.` and `..`, as the walk saw it from its root: what realpath(3) answers,
    /// for the step of an [`Arrival`].
    ///
    /// The step of a symlink is where the symlink itself stands.
    ///
    /// # Panics
    ///
    /// If there are not so many steps.
    pub fn path_of(&self, step: usize) -> Vec<u8> {
        let mut base: &[u8] = b"";
        let mut names: Vec<&[u8]> = Vec::new();
        for (index, at) in self.steps[..=step].iter().enumerate() {
            match &at.to {
                Target::Root => {
                    base = b"";
                    names.clear();
                }
                Target::Cwd => names.extend(components(&self.cwd, &mut base)),
                Target::Place(path) => {
                    names.clear();
                    names.extend(components(path, &mut base));
                }
                Target::Name(name) => match &name[..] {
                    b"." => {}
                    b".." => drop(names.pop()),
                    // A link that was followed is left again for what it contains.
                    _ if at.link.is_some() && index != step => {}
                    name => names.push(name),
                },
            }
        }
        let mut path = base.to_vec();
        for name in &names {
            path.push(b'/');
            path.extend(*name);
        }
        if names.is_empty() {
            path.push(b'/');
        }
        path
    }
}

/// The components of what getcwd(2) answers, and what stands before the first slash of one that is not reachable.
fn components<'p>(cwd: &'p [u8], base: &mut &'p [u8]) -> impl Iterator<Item = &'p [u8]> {
    let slash = cwd.iter().position(|&byte| byte == b'/').unwrap_or(cwd.len());
    *base = &cwd[..slash];
    cwd[slash..].split(|&byte| byte == b'/').filter(|name| !name.is_empty())
}
