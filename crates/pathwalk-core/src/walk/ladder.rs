//! The retry ladder: first holding nothing, then holding, then asking file systems anew.
//!
//! ```text
//!   Rcu ── decided ─────────────────────────────► answer
//!    │ Leave
//!    ├─ try_to_unlazy ── Ref, from there on ────► answer
//!    │ ECHILD
//!    └─ Ref, from the start ── ESTALE ── Reval ─► answer
//! ```
//!
//! Linux: `filename_lookup`, `path_lookupat`.

use super::{
    Event, Follow, HeldPath, Lookup, Place, Request, Start, Step, Stop, Walk,
    end::End,
    hold::{Hold, Rcu, Ref, miss},
    memo,
    observe::{Left, Observer},
    road,
    run::{Runner, Stopped, Until},
    skip_slashes,
    text::Text,
};
use crate::{
    dcache::{DIRECTORY, ask::Query},
    name::{Bytes, Component, Kind},
};
use pathwalk_abi::{Errno, Result};

/// What is done with a walk; done again from where it stopped if it stopped undecided.
pub(crate) trait Job<'a> {
    /// The answer.
    type Out;

    /// Walks and answers.
    fn run<H: Hold<'a>, O: Observer>(
        &mut self,
        walk: &mut Walk<'a, H, O>,
        text: &mut Text<'a>,
    ) -> Result<Self::Out, Stop>;
}

/// What is asked of the place where a lookup ends.
pub(crate) trait Terminal<'a> {
    /// The answer.
    type Out;

    /// The answer if it is the same for whatever is there.
    #[inline(always)]
    fn exists(&self) -> Option<Self::Out> {
        None
    }

    /// Answers. Where nothing is held it reads first and calls [`End::check`] then.
    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<Self::Out, Stop>;
}

/// Climbs the ladder until there is an answer.
#[inline]
pub(crate) fn climb<'a, J: Job<'a>, O: Observer>(
    request: &Request<'a>,
    observer: O,
    job: &mut J,
) -> Result<J::Out> {
    climb_from(request, observer, job, None)
}

/// Climbs the ladder from a place that was reached already: the walk begins there, at that position in the path.
fn climb_from<'a, J: Job<'a>, O: Observer>(
    request: &Request<'a>,
    observer: O,
    job: &mut J,
    begun: Option<Begun>,
) -> Result<J::Out> {
    if request.vfs.security.asks_in_walks() {
        return climb_holding(request, observer, job);
    }
    let mut text = Text::new(request.path);
    let mut walk = match Walk::<Rcu, O>::path_init(request, observer) {
        Ok(walk) => walk,
        Err((errno, _)) => return Err(errno),
    };
    if let Some(begun) = begun {
        (walk.at, walk.root, walk.links) = (begun.at, begun.root, begun.links);
        text.set_pos(begun.pos);
    }
    road::begin();
    match job.run(&mut walk, &mut text) {
        Ok(out) => Ok(out),
        Err(Stop::Errno(errno)) if errno != Errno::ESTALE => Err(errno),
        Err(stop) => climb_on(request, walk, text, stop, job),
    }
}

/// Climbs without the first rung: a security module wants to be asked on the way, and where the walk ends.
#[cold]
#[inline(never)]
fn climb_holding<'a, J: Job<'a>, O: Observer>(
    request: &Request<'a>,
    mut observer: O,
    job: &mut J,
) -> Result<J::Out> {
    observer.left_rcu(Left::Permission);
    if request.flags.contains(Lookup::CACHED) {
        return Err(Errno::EAGAIN);
    }
    match rung(request, request.flags, Errno::ECHILD, observer, job)? {
        (Err(Errno::ESTALE), observer) => {
            rung(request, request.flags | Lookup::REVAL, Errno::ESTALE, observer, job)?.0
        }
        (answer, _) => answer,
    }
}

/// How far an express walk came.
struct Begun {
    at: Place,
    root: Option<Place>,
    pos: usize,
    /// How many symlinks were followed.
    links: u32,
}

/// Looks a path up and asks something of what is there.
///
/// If this thread walked it before and nothing moved since, it is not walked again; see [`memo`]. All else is out of
/// line, so that this is short.
#[inline(always)]
pub(crate) fn lookup<'a, T: Terminal<'a>>(request: Request<'a>, mut terminal: T) -> Result<T::Out> {
    if Lookup::EXPRESS.contains(request.flags)
        && request.path.first() == Some(&b'/')
        && memo::can_be(request.path, request.vfs.remembered)
    {
        let vfs = request.vfs;
        let root = request.fs.peek_root();
        let follow = request.flags.contains(Lookup::FOLLOW);
        match memo::recall::<T>(vfs, root, request.path) {
            // It was made following the last symlink, too.
            Some(known) if known.link && !follow => {}
            Some(known) => {
                if let Some(out) = terminal.exists()
                    && !request.flags.contains(Lookup::DIRECTORY)
                {
                    return if known.absent { Err(Errno::ENOENT) } else { Ok(out) };
                }
                if known.absent {
                    return Err(Errno::ENOENT);
                }
                let at = known.place(vfs);
                // Nobody wants the root, but the way of before.
                let root =
                    cfg!(pathwalk_ablate = "forget_root").then(|| request.fs.sample_root(vfs));
                if let Express::Answer(answer) = arrive(&request, at, root, &mut terminal) {
                    return answer;
                }
            }
            None => memo::remember(request, request.path),
        }
    }
    lookup_walking(request, terminal)
}

/// Looks a path up by walking.
///
/// If the whole path is one run of plain steps, or ends in a name that is surely absent, no more than that run is made;
/// else the walk goes on from where it stopped.
#[inline(never)]
fn lookup_walking<'a, T: Terminal<'a>>(request: Request<'a>, terminal: T) -> Result<T::Out> {
    let mut job = LookupJob(terminal);
    if Lookup::EXPRESS.contains(request.flags) && !request.path.is_empty() {
        match express(&request, &mut job.0) {
            Express::Answer(answer) => return answer,
            Express::GoOn(begun) => return go_on(request, &mut job, Some(begun)),
            Express::Refused => {}
        }
    }
    go_on(request, &mut job, None)
}

/// By value: the request is put into memory only on the way here.
#[inline(never)]
fn go_on<'a, T: Terminal<'a>>(
    request: Request<'a>,
    job: &mut LookupJob<T>,
    begun: Option<Begun>,
) -> Result<T::Out> {
    climb_from(&request, (), job, begun)
}

enum Express<T> {
    Answer(Result<T>),
    GoOn(Begun),
    Refused,
}

#[inline(always)]
fn express<'a, T: Terminal<'a>>(request: &Request<'a>, terminal: &mut T) -> Express<T::Out> {
    let vfs = request.vfs;
    let path = request.path;
    let start = match request.start() {
        Ok(start) => start,
        Err(errno) => return Express::Answer(Err(errno)),
    };
    let (mut at, Rcu) = Rcu::start(vfs, request.fs, start, false);
    let root = matches!(start, Start::Root).then_some(at);
    let mut pos = skip_slashes(path, 0);
    if at.flags & DIRECTORY == 0 || pos == path.len() {
        return Express::Refused;
    }
    let mut links = 0;
    if let (Some(root), Some(directory)) = (&root, memo::directory_of(path, vfs.remembered)) {
        match memo::recall::<(T,)>(vfs, (root.mnt, root.dentry), directory) {
            Some(known) if known.absent => return Express::Answer(Err(Errno::ENOENT)),
            Some(known) => {
                let there = known.place(vfs);
                if there.flags & DIRECTORY != 0 {
                    (at, links, pos) = (there, known.links, directory.len() + 1);
                }
            }
            None => memo::remember(*request, directory),
        }
    }
    let bytes = Bytes::new(path);
    let root_dentry = root.map(|root| root.dentry);
    let runner = Runner {
        vfs,
        tables: vfs.tables(),
        #[cfg(pathwalk_ablate = "may_exec")]
        who: request.asker.subject(),
        root: root_dentry,
    };
    match runner.run(bytes, &mut at, &mut pos, Until::End) {
        Stopped::Done => return arrive(request, at, root, terminal),
        Stopped::Miss(name) => match miss(vfs, &at, bytes, &name) {
            Ok(_) => return Express::Answer(Err(Errno::ENOENT)),
            Err(Stop::Errno(errno)) => return Express::Answer(Err(errno)),
            Err(Stop::Leave(_)) => {}
        },
        Stopped::Last(_) | Stopped::Odd => {}
    }
    Express::GoOn(Begun { at, root, pos, links })
}

/// The answer where an express walk ends.
#[inline(always)]
fn arrive<'a, T: Terminal<'a>>(
    request: &Request<'a>,
    at: Place,
    root: Option<Place>,
    terminal: &mut T,
) -> Express<T::Out> {
    if request.flags.contains(Lookup::DIRECTORY) && at.flags & DIRECTORY == 0 {
        return Express::Refused;
    }
    match terminal.finish(&End::<true>::of(request, at, root)) {
        Ok(out) => Express::Answer(Ok(out)),
        Err(Stop::Errno(errno)) => Express::Answer(Err(errno)),
        Err(Stop::Leave(_)) => Express::Refused,
    }
}

/// The other rungs.
#[cold]
#[inline(never)]
fn climb_on<'a, J: Job<'a>, O: Observer>(
    request: &Request<'a>,
    mut walk: Walk<'a, Rcu, O>,
    mut text: Text<'a>,
    stop: Stop,
    job: &mut J,
) -> Result<J::Out> {
    let (errno, observer) = match stop {
        Stop::Errno(errno) => (errno, walk.observer),
        Stop::Leave(why) => {
            road::note_left();
            walk.observer.left_rcu(why);
            match walk.try_to_unlazy() {
                Ok(mut walk) => match decided(job.run(&mut walk, &mut text)) {
                    Ok(out) => return Ok(out),
                    Err(errno) => (errno, walk.observer),
                },
                Err(failed) => failed,
            }
        }
    };
    let (errno, observer) = match errno {
        Errno::ECHILD => rung(request, request.flags, Errno::ECHILD, observer, job)?,
        errno => (Err(errno), observer),
    };
    match errno {
        Err(Errno::ESTALE) => {
            rung(request, request.flags | Lookup::REVAL, Errno::ESTALE, observer, job)?.0
        }
        answer => answer,
    }
}

/// One whole walk that holds.
fn rung<'a, J: Job<'a>, O: Observer>(
    request: &Request<'a>,
    flags: Lookup,
    after: Errno,
    mut observer: O,
    job: &mut J,
) -> Result<(Result<J::Out>, O)> {
    observer.restarted(after);
    let request = Request { flags, ..*request };
    let mut text = Text::new(request.path);
    let mut walk = Walk::<Ref<'a>, O>::path_init(&request, observer).map_err(|(errno, _)| errno)?;
    let answer = decided(job.run(&mut walk, &mut text));
    Ok((answer, walk.observer))
}

/// A walk that holds decides everything.
fn decided<T>(answer: Result<T, Stop>) -> Result<T> {
    answer.map_err(|stop| match stop {
        Stop::Errno(errno) => errno,
        Stop::Leave(why) => {
            debug_assert!(false, "a walk that holds cannot leave: {why:?}");
            Errno::ECHILD
        }
    })
}

impl<'a, H: Hold<'a>, O: Observer> Walk<'a, H, O> {
    /// Walks to the last component, following the symlinks on the way.
    #[inline(always)]
    pub(crate) fn walk_to_last(&mut self, text: &mut Text<'a>) -> Result<Component, Stop> {
        loop {
            let (current, mut pos, pending) = text.current();
            let event = self.link_path_walk(current, &mut pos, pending);
            text.set_pos(pos);
            match event? {
                Event::Last(last) => return Ok(last),
                Event::Link(link, start) => {
                    if let Err(stop) = self.pick_link(link, text, false) {
                        // Whoever goes on from here finds the link again.
                        text.set_pos(start);
                        return Err(stop);
                    }
                }
                Event::End => {
                    self.observer.end_of_link();
                    text.pop();
                }
            }
        }
    }

    /// Walks the last component. Answers whether a symlink's body took the path's place, so that there is a new last
    /// component.
    ///
    /// Linux: `lookup_last`.
    #[inline(always)]
    pub(crate) fn lookup_last(
        &mut self,
        text: &mut Text<'a>,
        last: &Component,
    ) -> Result<bool, Stop> {
        if last.trailing_slash && last.kind() == Kind::Norm {
            self.flags |= Lookup::FOLLOW | Lookup::DIRECTORY;
        }
        let follow = if self.flags.contains(Lookup::FOLLOW) { Follow::Yes } else { Follow::No };
        let bytes = text.current().0;
        match self.walk_component(Bytes::new(bytes), last, follow)? {
            Step::Moved => Ok(false),
            Step::Link(link) => {
                self.pick_link(link, text, true)?;
                Ok(true)
            }
        }
    }

    /// What is checked of every place where a walk ends.
    ///
    /// Linux: `complete_walk`, and the end of `path_lookupat`.
    #[inline(always)]
    pub(crate) fn complete(&self) -> Result<(), Stop> {
        if self.topology_moved() {
            self.must_be_under_root()?;
        }
        if self.flags.contains(Lookup::DIRECTORY) && self.at.flags & DIRECTORY == 0 {
            self.check_at()?;
            return Err(Errno::ENOTDIR.into());
        }
        Ok(())
    }

    /// Whether a directory or mount moved since a scoped walk began.
    #[inline(always)]
    pub(crate) fn topology_moved(&self) -> bool {
        self.topology.is_some_and(|topology| !self.vfs.topology_unchanged(topology))
    }

    /// Directories or mounts moved during a scoped walk: is it still inside?
    #[cold]
    fn must_be_under_root(&self) -> Result<(), Stop> {
        if H::RCU {
            return Err(Stop::Leave(Left::Changed));
        }
        let root = self.root.expect("a scoped walk has a root from its start");
        let (at, root) = ((self.at.mnt, self.at.dentry), (root.mnt, root.dentry));
        let inside = self.vfs.while_still(|still| Some(self.vfs.is_under(at, root, still)));
        if inside { Ok(()) } else { Err(Errno::EXDEV.into()) }
    }
}

/// Looks a path up and asks something of what is there.
pub(crate) struct LookupJob<T>(pub(crate) T);

impl<'a, T: Terminal<'a>> Job<'a> for LookupJob<T> {
    type Out = T::Out;

    #[inline(always)]
    fn run<H: Hold<'a>, O: Observer>(
        &mut self,
        walk: &mut Walk<'a, H, O>,
        text: &mut Text<'a>,
    ) -> Result<T::Out, Stop> {
        loop {
            let last = walk.walk_to_last(text)?;
            if !walk.lookup_last(text, &last)? {
                break;
            }
        }
        let answer = walk.complete().and_then(|()| H::finish(walk, &mut self.0));
        if answer.is_err() {
            // Whoever goes on from here stands on the last component already.
            text.finish();
        }
        answer
    }
}

/// The place itself, to be kept.
pub(crate) struct Keep;

impl<'a> Terminal<'a> for Keep {
    type Out = HeldPath<'a>;

    #[inline]
    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<HeldPath<'a>, Stop> {
        end.hold()
    }
}

/// The directory of the last component, which is not looked up.
pub(crate) struct Parent<'a> {
    pub(crate) dir: HeldPath<'a>,
    pub(crate) last: Component,
    pub(crate) text: Text<'a>,
    /// File systems are asked anew: [`Lookup::REVAL`].
    pub(crate) anew: bool,
}

impl Parent<'_> {
    /// The text that the last component lies in.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.current().0
    }

    /// The last name.
    pub(crate) fn name(&self) -> &[u8] {
        self.last.bytes(self.text())
    }

    /// The last name, to be asked for.
    pub(crate) fn query(&self) -> Query<'_> {
        let (dir, inode) = (self.dir.dentry(), self.dir.inode());
        Query { dir, inode, text: self.text(), name: &self.last, anew: self.anew }
    }
}

/// Walks to the last component's directory.
///
/// Linux: `filename_parentat`.
pub(crate) struct ParentJob;

impl<'a> Job<'a> for ParentJob {
    type Out = Parent<'a>;

    fn run<H: Hold<'a>, O: Observer>(
        &mut self,
        walk: &mut Walk<'a, H, O>,
        text: &mut Text<'a>,
    ) -> Result<Parent<'a>, Stop> {
        let last = walk.walk_to_last(text)?;
        walk.complete_parent()?;
        let dir = H::finish(walk, &mut Keep)?;
        let anew = walk.flags.contains(Lookup::REVAL);
        Ok(Parent { dir, last, text: std::mem::replace(text, Text::new(b"")), anew })
    }
}

impl<'a, H: Hold<'a>, O: Observer> Walk<'a, H, O> {
    /// As [`Walk::complete`], for a directory whose child the call is about.
    fn complete_parent(&self) -> Result<(), Stop> {
        if self.topology_moved() {
            self.must_be_under_root()?;
        }
        Ok(())
    }
}

/// Looks a path up and keeps the place.
pub(crate) fn keep<'a>(request: &Request<'a>) -> Result<HeldPath<'a>> {
    lookup(*request, Keep)
}

/// Looks a path's last directory up and keeps it.
pub(crate) fn parent<'a>(request: &Request<'a>) -> Result<Parent<'a>> {
    climb(request, (), &mut ParentJob)
}
