//! A lookup: what this thread remembers, else one run of plain steps, else the ladder.
//!
//! ```text
//!   recall ── known ──────────► answer     a few comparisons; nothing is walked
//!    │ not known, or moved
//!   express ── one run ───────► answer     plain steps to the end, or to a name that is surely absent
//!    │ a symlink, `..`, a mount, a name that must be asked for …
//!   climb ────────────────────► answer     from where the run stopped
//! ```
//!
//! Who makes, removes or renames goes the same way to the directory of the last name: [`parent`].
//!
//! Linux: `filename_lookup`.

use super::{
    HeldPath, Lookup, Place, Request, Start, Stop, behind_slashes,
    end::{End, OnePath},
    hold::{Hold, Rcu, miss},
    job::{Keep, LookupJob, Parent, ParentJob, Terminal},
    ladder::{Begun, climb_from},
    memo::{self, Facts, Known, Memory, Recalled, Said},
    run::{Runner, Stopped, Until},
    text::LastText,
};
use crate::{
    dcache::{DIRECTORY, DentryId, HASHED, MOUNTED, NOT_PLAIN, SEARCH_ALL, UNNAMED, lookup::Seen},
    name::{Component, Kind, scan},
    vfs::Vfs,
};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::{Absent, Sample};

/// Looks a path up and asks something of what is there.
///
/// If this thread walked it before and nothing moved since, it is not walked again; see [`memo`]. All else is out of
/// line, so that this is short.
#[inline(always)]
pub(crate) fn lookup<'a, T: Terminal<'a>>(request: Request<'a>, mut terminal: T) -> Result<T::Out> {
    if may_be_remembered(&request) {
        let vfs = request.vfs;
        let root = request.fs.peek_root();
        let follow = request.flags.contains(Lookup::FOLLOW);
        match memo::recall(vfs, root, request.asker, request.path) {
            Recalled::Absent => return Err(Errno::ENOENT),
            // It was made following the last symlink, too.
            Recalled::Known(known) if known.is(Facts::LINK) && !follow => {}
            Recalled::Known(known) => {
                if !known.is(Facts::ASKS | Facts::ABSENT | Facts::DECIDES)
                    && !request.flags.contains(Lookup::DIRECTORY)
                    && let Some(answer) = terminal.exists()
                {
                    return answer;
                }
                if known.is(Facts::ASKS) {
                    return lookup_asking(request, known, terminal);
                }
                if known.is(Facts::ABSENT) {
                    return Err(Errno::ENOENT);
                }
                let at = known.place(vfs);
                let mut end = End::of(&request, at, root_of_before(&request));
                let canonical = known.is(Facts::CANONICAL);
                end.path = if canonical { OnePath::Asked } else { OnePath::InMemo };
                if let Express::Answer(answer) = arrive(&request, &end, &mut terminal) {
                    return answer;
                }
            }
            Recalled::Nothing => return lookup_anew(request, terminal),
        }
    }
    lookup_unremembered(request, terminal)
}

/// Looks a path up that this thread remembers, if a file system says that it still is so.
#[cold]
#[inline(never)]
fn lookup_asking<'a, T: Terminal<'a>>(
    request: Request<'a>,
    known: Known,
    mut terminal: T,
) -> Result<T::Out> {
    match known.ask(&request, request.path, terminal.wants_attributes()) {
        Said::Absent => return Err(Errno::ENOENT),
        Said::Leads(held, fresh)
            if held.is_directory() || !request.flags.contains(Lookup::DIRECTORY) =>
        {
            let answer = terminal.finish(&End::asked(&request, &held, fresh));
            if !T::HOLDS {
                held.put_keeping();
            }
            match answer {
                Ok(out) => return Ok(out),
                // It is walked after all, and asked anew.
                Err(Stop::Errno(Errno::ESTALE) | Stop::Leave(_)) => {}
                Err(Stop::Errno(errno)) => return Err(errno),
            }
        }
        Said::Leads(..) | Said::Walk => {}
    }
    lookup_walking(&request, terminal, Memory::Awake)
}

/// Looks a path up that nobody remembers. By value: the request is put into memory only on the way here.
#[inline(never)]
fn lookup_unremembered<'a, T: Terminal<'a>>(request: Request<'a>, terminal: T) -> Result<T::Out> {
    lookup_walking(&request, terminal, Memory::Awake)
}

/// Looks a path up that this thread does not remember, but may.
///
/// In one call with the walk: so nothing has to be kept beside the look at what is remembered.
#[cold]
#[inline(never)]
fn lookup_anew<'a, T: Terminal<'a>>(request: Request<'a>, terminal: T) -> Result<T::Out> {
    let sleeps = memo::sleeps_on(request.vfs);
    let memory = if sleeps { Memory::Asleep } else { memo::remember(request, request.path) };
    lookup_walking(&request, terminal, memory)
}

/// Looks a path up by a thread whose memory [seems asleep](memo::seem_asleep).
#[inline(always)]
pub(crate) fn lookup_asleep<'a, T: Terminal<'a>>(
    request: Request<'a>,
    terminal: T,
) -> Result<T::Out> {
    if may_be_remembered(&request) && memo::sleeps_on(request.vfs) {
        return lookup_walking(&request, terminal, Memory::Asleep);
    }
    lookup_after_all(request, terminal)
}

/// As [`lookup`], where the memory is awake after all, or such a path is never remembered.
#[cold]
#[inline(never)]
fn lookup_after_all<'a, T: Terminal<'a>>(request: Request<'a>, terminal: T) -> Result<T::Out> {
    lookup(request, terminal)
}

/// Looks a path up by walking: by plain steps, as far as they lead. A memory that is awake is asked for its directory.
///
/// Of what is there it is asked here only whether it is; all else is out of line, so that a walk is short.
#[inline(always)]
fn lookup_walking<'a, T: Terminal<'a>>(
    request: &Request<'a>,
    terminal: T,
    memory: Memory,
) -> Result<T::Out> {
    if memory == Memory::Awake
        && request.vfs.remembered > 0
        && let Some(begun) = remembered_directory(request)?
    {
        return lookup_from(request, terminal, begun);
    }
    let Some((start, rest)) = express_start(request) else {
        return go_on(*request, terminal, None);
    };
    lookup_steps(request, terminal, (start, rest))
}

/// Looks a path up from a directory that is remembered.
#[inline(never)]
fn lookup_from<'a, T: Terminal<'a>>(
    request: &Request<'a>,
    terminal: T,
    begun: Begun,
) -> Result<T::Out> {
    let rest = request.path.get(begun.pos..).unwrap_or_default();
    lookup_steps(request, terminal, (begun, rest))
}

/// Looks a path up by plain steps, as far as they lead, from where that much of it is left.
#[inline(always)]
fn lookup_steps<'a, T: Terminal<'a>>(
    request: &Request<'a>,
    terminal: T,
    (begun, rest): (Begun, &[u8]),
) -> Result<T::Out> {
    let at = begun.at;
    let runner = runner(request, at);
    let (left, reached) = runner.plain_steps::<false>(rest, at);
    let Some(left) = left else {
        let sure = runner.mount_stays(at);
        return if sure { Err(Errno::ENOENT) } else { go_on(*request, terminal, None) };
    };
    if left == 0
        && !request.flags.contains(Lookup::DIRECTORY)
        && !runner.mount.decides()
        && let Some(answer) = terminal.exists()
        && reached.stays()
        && runner.mount_stays(at)
    {
        return answer;
    }
    let pos = request.path.len() - left;
    lookup_beyond(request, terminal, Begun { at: reached.place(at), pos, ..begun })
}

/// Looks a path up from where plain steps led.
///
/// If they led to its end, there is the answer; else the walk goes on from there.
#[inline(never)]
fn lookup_beyond<'a, T: Terminal<'a>>(
    request: &Request<'a>,
    mut terminal: T,
    begun: Begun,
) -> Result<T::Out> {
    let beyond = if begun.pos == request.path.len() {
        arrive(request, &End::of(request, begun.at, begun.root), &mut terminal)
    } else {
        express_on(request, &mut terminal, begun)
    };
    match beyond {
        Express::Answer(answer) => answer,
        Express::GoOn(begun) => go_on(*request, terminal, Some(begun)),
        Express::Refused => go_on(*request, terminal, None),
    }
}

/// By value: the request is put into memory only on the way here.
#[inline(never)]
fn go_on<'a, T: Terminal<'a>>(
    request: Request<'a>,
    terminal: T,
    begun: Option<Begun>,
) -> Result<T::Out> {
    climb_from(&request, (), &mut LookupJob(terminal), begun)
}

enum Express<T> {
    Answer(Result<T>),
    GoOn(Begun),
    Refused,
}

/// Goes on where plain steps ended before the path did.
#[inline(always)]
fn express_on<'a, T: Terminal<'a>>(
    request: &Request<'a>,
    terminal: &mut T,
    Begun { at, root, pos, links }: Begun,
) -> Express<T::Out> {
    let (vfs, path) = (request.vfs, request.path);
    let top = root.map(|root| root.dentry);
    let (stopped, at, pos) = runner(request, at).run(path, at, pos, Until::End, top);
    match stopped {
        Stopped::Done => return arrive(request, &End::of(request, at, root), terminal),
        Stopped::Miss(name) => match miss(vfs, vfs.secret, at, path, name) {
            Ok(_) => return Express::Answer(Err(Errno::ENOENT)),
            Err(Stop::Errno(errno)) => return Express::Answer(Err(errno)),
            Err(Stop::Leave(_)) => {}
        },
        // Who unmounts ends in what is mounted there, mostly.
        Stopped::Child(name, child)
            if request.flags.contains(Lookup::MOUNTPOINT) && pos + name.len == path.len() =>
        {
            if let Some(mounted) = mounted_on(vfs, &at, child) {
                return arrive(request, &End::of(request, mounted, root), terminal);
            }
        }
        Stopped::Last(_) | Stopped::Child(..) | Stopped::Odd => {}
    }
    Express::GoOn(Begun { at, root, pos, links })
}

/// The root of the one mount on a child of a place, where both are else plain. Hand over hand, as in `follow_mounts_rcu`.
#[inline(never)]
fn mounted_on(vfs: &Vfs, at: &Place, child: Seen) -> Option<Place> {
    if child.flags & (NOT_PLAIN | HASHED) != MOUNTED | HASHED {
        return None;
    }
    let below = Place { dentry: child.id, seq: child.seq, flags: child.flags, ..*at };
    let Absent::Found(seen) = vfs.lookup_mnt_rcu(at.mnt, child.id) else { return None };
    let mount = vfs.mount_slot(seen.id);
    let dentry = mount.root();
    let slot = vfs.dentry(dentry);
    let seq = slot.seq.sample();
    let flags = slot.flags.get();
    let stays = mount.seq.unchanged(seen.seq) && below.stays(vfs);
    let plain = flags & (NOT_PLAIN | UNNAMED) == 0;
    (stays && plain).then_some(Place { mnt: seen.id, mnt_seq: seen.seq, dentry, seq, flags })
}

/// The root, where it is only wanted by the way of before.
#[inline(always)]
fn root_of_before(request: &Request<'_>) -> Option<Place> {
    let before = cfg!(pathwalk_ablate = "forget_root");
    before.then(|| request.fs.sample_root(request.vfs))
}

/// Who makes such a run.
#[inline(always)]
fn runner<'r>(request: &'r Request<'_>, at: Place) -> Runner<'r> {
    Runner::of(request.vfs, &request.asker, at)
}

/// Where a run of plain steps may begin, the root if that is there, and the path from the first component on; none where there is
/// no component, no directory, or a file system is to be asked about that.
#[inline(always)]
fn express_start<'a>(request: &Request<'a>) -> Option<(Begun, &'a [u8])> {
    if !Lookup::EXPRESS.contains(request.flags) {
        return None;
    }
    let start = request.start().ok()?;
    let (at, Rcu) = Rcu::start(request.vfs, request.fs, start, false);
    let root = matches!(start, Start::Root).then_some(at);
    let rest = match request.path {
        [b'/', rest @ ..] if rest.first() != Some(&b'/') => rest,
        path => behind_slashes(path),
    };
    let may = at.flags & (DIRECTORY | UNNAMED) == DIRECTORY && !rest.is_empty();
    may.then(|| (Begun { at, root, pos: request.path.len() - rest.len(), links: 0 }, rest))
}

/// The directory of the last component, if this thread walked there before.
///
/// # Errors
///
/// - `ENOENT`: it is remembered that there is no such directory.
#[inline(never)]
fn remembered_directory(request: &Request<'_>) -> Result<Option<Begun>> {
    let vfs = request.vfs;
    let absolute = Lookup::EXPRESS.contains(request.flags) && request.path.first() == Some(&b'/');
    let directory = memo::directory_of(request.path, vfs.remembered).filter(|_| absolute);
    let Some(directory) = directory else { return Ok(None) };
    let (root, Rcu) = Rcu::start(vfs, request.fs, Start::Root, false);
    if root.flags & UNNAMED != 0 {
        return Ok(None);
    }
    match memo::recall(vfs, (root.mnt, root.dentry), request.asker, directory) {
        Recalled::Known(known) if known.is(Facts::ASKS) => Ok(None),
        Recalled::Known(known) if !known.is(Facts::ABSENT) => {
            let (at, pos) = (known.place(vfs), directory.len() + 1);
            let is_directory = at.flags & DIRECTORY != 0;
            Ok(is_directory.then_some(Begun { at, root: Some(root), pos, links: known.links() }))
        }
        // A symlink by which a directory's text ends is followed.
        Recalled::Absent | Recalled::Known(_) => Err(Errno::ENOENT),
        Recalled::Nothing => {
            memo::remember(*request, directory);
            Ok(None)
        }
    }
}

/// The answer where an express walk ends.
#[inline(always)]
fn arrive<'a, T: Terminal<'a>>(
    request: &Request<'a>,
    end: &End<'a, true>,
    terminal: &mut T,
) -> Express<T::Out> {
    if request.flags.contains(Lookup::DIRECTORY) && end.at.flags & DIRECTORY == 0 {
        return Express::Refused;
    }
    match terminal.finish(end) {
        Ok(out) => Express::Answer(Ok(out)),
        Err(Stop::Errno(errno)) => Express::Answer(Err(errno)),
        Err(Stop::Leave(_)) => Express::Refused,
    }
}

/// Looks a path up and keeps the place.
pub(crate) fn keep<'a>(request: &Request<'a>) -> Result<HeldPath<'a>> {
    lookup(*request, Keep)
}

/// Keeps the place that a path leads to, if this thread remembers it; with its sample, and whether somebody was asked about it: then
/// nobody was about the directories on the way.
pub(crate) fn keep_remembered<'a>(request: &Request<'a>) -> Option<(HeldPath<'a>, Sample, bool)> {
    let vfs = request.vfs;
    if !may_be_remembered(request) {
        return None;
    }
    let root = request.fs.peek_root();
    let Recalled::Known(known) = memo::recall(vfs, root, request.asker, request.path) else {
        return None;
    };
    let follows = request.flags.contains(Lookup::FOLLOW) || !known.is(Facts::LINK);
    if known.is(Facts::ABSENT) || !follows {
        return None;
    }
    let at = known.place(vfs);
    let held = keep_known(request, &known, request.path).ok()??;
    Some((held, at.seq, known.is(Facts::ASKS)))
}

/// Remembers where a path leads, if it was met before.
pub(crate) fn remember(request: &Request<'_>) {
    if may_be_remembered(request) {
        memo::remember(*request, request.path);
    }
}

/// Whether a thread can remember where a path leads: it begins at the root, and the walk knows no bounds.
#[inline(always)]
fn may_be_remembered(request: &Request<'_>) -> bool {
    Lookup::REMEMBERED.contains(request.flags)
        && request.path.first() == Some(&b'/')
        && memo::can_be(request.path, request.vfs.remembered)
}

/// What a thread remembers of the directory of a last name.
pub(crate) enum Remembered<'a> {
    /// The directory, kept; the asker may search it.
    Parent(Parent<'a>),
    /// Nothing: there is no use in asking again.
    Nothing,
    /// Not all that is wanted; the walk may begin there, if there is anything.
    Other(Option<Begun>),
}

/// The directory of the last name, kept, if this thread walked there before and the asker may search it; unless `leave` says of the
/// two, before anything is counted, that it is not wanted.
///
/// # Errors
///
/// - `ENOENT`: it is remembered that there is no such directory.
pub(crate) fn remembered_parent<'a>(
    request: &Request<'a>,
    leave: impl FnOnce(DentryId, &Component) -> bool,
) -> Result<Remembered<'a>> {
    let (vfs, path) = (request.vfs, request.path);
    let plain = Lookup::EXPRESS.contains(request.flags)
        && path.first() == Some(&b'/')
        && path.last() != Some(&b'/');
    if !plain {
        return Ok(Remembered::Other(None));
    }
    let Some(directory) = memo::any_directory_of(path, vfs.remembered) else {
        return Ok(Remembered::Nothing);
    };
    let root = request.fs.peek_root();
    let known = match memo::recall(vfs, root, request.asker, directory) {
        Recalled::Known(known) => known,
        Recalled::Absent => return Err(Errno::ENOENT),
        Recalled::Nothing => {
            memo::remember(*request, directory);
            return Ok(Remembered::Nothing);
        }
    };
    if known.is(Facts::ABSENT) && !known.is(Facts::ASKS) {
        return Err(Errno::ENOENT);
    }
    let (at, pos) = (known.place(vfs), directory.len() + 1);
    let is_directory = at.flags & DIRECTORY != 0;
    let begun = || {
        let (walked_from, Rcu) = Rcu::start(vfs, request.fs, Start::Root, false);
        // Else another thread has moved it meanwhile.
        let same = (walked_from.mnt, walked_from.dentry) == root;
        let begun = Begun { at, root: Some(walked_from), pos, links: known.links() };
        (same && is_directory && !known.is(Facts::ASKS)).then_some(begun)
    };
    let last = scan(path, pos, vfs.secret);
    if last.kind() != Kind::Norm || leave(at.dentry, &last) {
        return Ok(Remembered::Other(begun()));
    }
    vfs.tables().expect_name(at.dentry, &last);
    let Some(dir) = keep_known(request, &known, directory)? else {
        return Ok(Remembered::Other(None));
    };
    let everyone = at.flags & SEARCH_ALL != 0;
    let may = || everyone || Runner::may_search(vfs, request.asker, (at.mnt, at.dentry));
    if !is_directory || !may() {
        return Ok(Remembered::Other(begun()));
    }
    Ok(Remembered::Parent(Parent { dir, last, text: LastText::Path(path), anew: false }))
}

/// Keeps the place that is known of a text, if its file system says that it still is so, or wants not to be asked.
///
/// # Errors
///
/// - `ENOENT`: it says that there still is no such place.
#[inline(always)]
fn keep_known<'a>(
    request: &Request<'a>,
    known: &Known,
    text: &[u8],
) -> Result<Option<HeldPath<'a>>> {
    if !known.is(Facts::ASKS) {
        let end = End::<true>::of(request, known.place(request.vfs), root_of_before(request));
        return Ok(end.hold().ok());
    }
    match known.ask(request, text, true) {
        Said::Leads(held, _) => Ok(Some(held)),
        Said::Absent => Err(Errno::ENOENT),
        Said::Walk => Ok(None),
    }
}

/// As [`parent`], after that of another path was looked up: where both are spelled alike, and neither has bounds, it is the same
/// one, as if both had been looked up at one moment, and counted once.
///
/// # Errors
///
/// As [`parent`].
pub(crate) fn parent_beside<'p, 'a: 'p>(
    request: &Request<'a>,
    (other, other_request): (&'p Parent<'a>, &Request<'a>),
) -> Result<Parent<'p>> {
    let (vfs, path, other_path) = (request.vfs, request.path, other_request.path);
    // The last name before a slash at the end belongs to no directory that is spelled so.
    let ends_in_name = |path: &[u8]| path.last() != Some(&b'/');
    let plain = Lookup::EXPRESS.contains(request.flags | other_request.flags)
        && path.first() == Some(&b'/')
        && ends_in_name(path)
        && ends_in_name(other_path)
        && matches!(other.text, LastText::Path(_))
        && !vfs.security.asks_in_walks();
    let directory = memo::any_directory_of(path, path.len()).filter(|_| plain);
    if let Some(directory) = directory
        && memo::any_directory_of(other_path, other_path.len()) == Some(directory)
    {
        let last = scan(path, directory.len() + 1, vfs.secret);
        if last.kind() == Kind::Norm {
            return Ok(Parent {
                dir: other.dir.lend(),
                last,
                text: LastText::Path(path),
                anew: false,
            });
        }
    }
    parent(request)
}

/// Looks a path's last directory up and keeps it.
pub(crate) fn parent<'a>(request: &Request<'a>) -> Result<Parent<'a>> {
    let begun = match remembered_parent(request, |_, _| false)? {
        Remembered::Parent(parent) => return Ok(parent),
        // A dot at the end, or what is remembered is not all that is wanted: the walk may still begin there.
        Remembered::Other(Some(begun)) => Some(begun),
        // A slash at the end.
        Remembered::Other(None) if request.path.first() == Some(&b'/') => None,
        Remembered::Nothing | Remembered::Other(None) => match express_parent(request) {
            Express::Answer(parent) => return parent,
            Express::GoOn(begun) => Some(begun),
            Express::Refused => None,
        },
    };
    climb_from(request, (), &mut ParentJob, begun)
}

/// The directory of the last name, kept, if one run of plain steps leads there.
#[inline(always)]
fn express_parent<'a>(request: &Request<'a>) -> Express<Parent<'a>> {
    let path = request.path;
    let Some((Begun { at, root, .. }, rest)) = express_start(request) else {
        return Express::Refused;
    };
    let runner = runner(request, at);
    let (left, reached) = runner.plain_steps::<true>(rest, at);
    let Some(left) = left else {
        let sure = runner.mount_stays(at);
        return if sure { Express::Answer(Err(Errno::ENOENT)) } else { Express::Refused };
    };
    let at = reached.place(at);
    let top = root.map(|root| root.dentry);
    let (stopped, at, pos) = runner.run(path, at, path.len() - left, Until::Last, top);
    if let Stopped::Last(last) = stopped {
        // While the directory is counted, the name's chain is on its way here.
        request.vfs.tables().expect_name(at.dentry, &last);
        if let Ok(dir) = End::<true>::of(request, at, root).hold() {
            let text = LastText::Path(path);
            return Express::Answer(Ok(Parent { dir, last, text, anew: false }));
        }
    }
    Express::GoOn(Begun { at, root, pos, links: 0 })
}
