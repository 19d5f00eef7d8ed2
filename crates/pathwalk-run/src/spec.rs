//! What is mounted where, as it is written: one grammar for all options.
//!
//! ```text
//!   mem:DST[:size=BYTES][:mode=OCTAL]
//!   host:DIR:DST[:ro|:rw][:coherence=exclusive|watched|strict][:ids=host|xattr|IDS-HOST-COUNT,…]
//!   proc:DST
//! ```
//!
//! A colon or backslash within a path has a backslash in front of it. Paths are bytes.

use pathwalk::{Coherence, IdMap, IdRange, Identities};
use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::OsStrExt,
};

/// What `pathwalk help mounts` says.
pub const HELP: &str = "\
Mounts of pathwalk run

  --mount SPEC mounts a file system; the later one of two at one place hides the other.
  DST is a directory, or a file where a file is mounted. Where there is none it is made, with all
  above it: in memory, or in a writable directory of the host, where it stays. On what is read-only
  none can be made.

  mem:DST[:size=BYTES][:mode=OCTAL]
      An empty file system in memory, which goes with the program. BYTES may end in k, m or g; what
      is written there is counted when somebody asks how much room is left, not held back. MODE is
      that of its root, 1777 if it is not given.

  host:DIR:DST[:ro|:rw][:coherence=exclusive|watched|strict][:ids=WHOSE]
      The directory DIR of the host, or the file; ro if neither is given. Who else changes it
      meanwhile, and how that is noticed:
        watched    inotify(7) tells (the default; strict where it does not tell of everything)
        strict     each use of a cached name asks the host (the default of a file)
        exclusive  nobody changes it but the program; what is cached is true
      WHOSE the files are, and what becomes of chown:
        host       as the host says; chown asks the host, which lets root alone give files away
        xattr      owner, group, mode and device number are kept in an extended attribute of each
                   file, user.pathwalk.stat: any user can chown, mknod and set modes there
        HERE-HOST-COUNT[,…]
                   so many users, from HERE on, are those from HOST on there; groups likewise; with
                   u or g in front (u0-1000-1,g0-100-1) users or groups alone; no number twice
      If it is not given, they are as the host says; for --uid and --gid of who is not root there,
      what belongs to who runs this is U's and G's.

  proc:DST
      The host's /proc with no processes but the program's.

  A colon or backslash within a path has a backslash in front of it: host:/a\\:b:/c. Paths are any
  bytes.

Short for that

  --bind SRC:DST[:ro]   host:SRC:DST:rw, or ro; other options too
  --tmpfs DST           mem:DST
  --rootfs DIR[:rw]     host:DIR:/:ro, or rw, with proc:/proc, host:/dev:/dev, mem:/tmp and
                        mem:/dev/shm in it; those for which DIR has no directory, and none can be
                        made, are left out, and a line on standard error says which

Without --rootfs and without anything at /, the tree is the host's: host:/:/:ro and all that is
mounted below it, proc:/proc, mem:/tmp, mem:/dev/shm, and the current directory rw, unless that is
the root. The mounts that are asked for come on top.
";

/// What may follow a directory of the host.
const HOST_OPTIONS: &str =
    "not ro, rw, coherence=exclusive, watched or strict, or ids=host, xattr or HERE-HOST-COUNT";

/// Something to be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) what: What,
    /// Where: an absolute path.
    pub(crate) at: Vec<u8>,
    /// Nobody asked for it: where it has no place it is left out.
    pub(crate) by_default: bool,
}

impl Spec {
    /// One that was asked for.
    pub(crate) fn new(what: What, at: Vec<u8>) -> Self {
        Self { what, at, by_default: false }
    }
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Mem {
        size: Option<u64>,
        mode: Option<u32>,
    },
    Host {
        dir: Vec<u8>,
        writable: bool,
        coherence: Option<Coherence>,
        identities: Option<Identities>,
    },
    Proc,
}

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The first character that is wrong, counted from 1.
    at: usize,
    /// From there to the next colon.
    text: String,
    what: &'static str,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, text, what } = self;
        if text.is_empty() {
            return write!(f, "character {at}: {what}; see pathwalk help mounts");
        }
        write!(f, "character {at}, '{text}': {what}; see pathwalk help mounts")
    }
}

impl std::error::Error for SpecError {}

/// One piece between colons.
#[derive(Clone, Debug)]
struct Piece {
    /// Without backslashes.
    text: Vec<u8>,
    at: usize,
}

impl Piece {
    fn error(&self, what: &'static str) -> SpecError {
        let text = String::from_utf8_lossy(&self.text).into_owned();
        SpecError { at: self.at, text, what }
    }

    /// As text, which all but paths are; what is none is nothing that is known.
    fn word(&self) -> &str {
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// A place in the tree; the root is a slash, however it is written.
    fn absolute(&self) -> Result<Vec<u8>, SpecError> {
        if !self.text.starts_with(b"/") {
            return Err(self.error("the path in the tree begins with a slash"));
        }
        let mut names = self.text.split(|&byte| byte == b'/');
        let is_root = names.all(|name| matches!(name, b"" | b"." | b".."));
        Ok(if is_root { b"/".to_vec() } else { self.text.clone() })
    }
}

/// The pieces of a text, and its end.
///
/// # Errors
///
/// A backslash at the end.
fn pieces(text: &OsStr) -> Result<(Vec<Piece>, Piece), SpecError> {
    let text = text.as_bytes();
    // As it is shown: what is no UTF-8 is a character too.
    let character = |index| 1 + String::from_utf8_lossy(&text[..index]).chars().count();
    let piece = |index| Piece { text: Vec::new(), at: character(index) };
    let mut pieces = vec![piece(0)];
    let mut bytes = text.iter().enumerate();
    while let Some((index, &byte)) = bytes.next() {
        let last = pieces.last_mut().expect("there is one");
        match byte {
            b'\\' => match bytes.next() {
                Some((_, &byte)) => last.text.push(byte),
                None => {
                    let lone = Piece { text: b"\\".to_vec(), ..piece(index) };
                    return Err(lone.error("nothing follows it"));
                }
            },
            b':' => pieces.push(piece(index + 1)),
            byte => last.text.push(byte),
        }
    }
    Ok((pieces, piece(text.len())))
}

/// Reads `--mount`.
///
/// # Errors
///
/// What is wrong, and where.
pub(crate) fn mount(text: OsString) -> Result<Spec, SpecError> {
    let (pieces, end) = pieces(&text)?;
    let (kind, rest) = pieces.split_first().expect("there is one");
    match &kind.text[..] {
        b"mem" => mem(rest, &end),
        b"host" => host(rest, &end, false),
        b"proc" => {
            let (dst, rest) = rest.split_first().ok_or_else(|| end.error(WHERE))?;
            no_more(rest)?;
            Ok(Spec::new(What::Proc, dst.absolute()?))
        }
        _ => Err(kind.error("not mem, host or proc")),
    }
}

const WHERE: &str = "a colon and where it is to be mounted are missing";

/// Reads `--bind`.
///
/// # Errors
///
/// What is wrong, and where.
pub(crate) fn bind(text: OsString) -> Result<Spec, SpecError> {
    let (pieces, end) = pieces(&text)?;
    host(&pieces, &end, true)
}

/// Reads `--tmpfs`.
///
/// # Errors
///
/// What is wrong, and where.
pub(crate) fn tmpfs(text: OsString) -> Result<Spec, SpecError> {
    let (pieces, end) = pieces(&text)?;
    mem(&pieces, &end)
}

/// Reads `--rootfs`.
///
/// # Errors
///
/// What is wrong, and where.
pub(crate) fn rootfs(text: OsString) -> Result<Spec, SpecError> {
    let (mut pieces, end) = pieces(&text)?;
    pieces.insert(1, Piece { text: b"/".to_vec(), at: 1 });
    host(&pieces, &end, false)
}

fn mem(pieces: &[Piece], end: &Piece) -> Result<Spec, SpecError> {
    let (dst, options) = pieces.split_first().ok_or_else(|| end.error(WHERE))?;
    let at = dst.absolute()?;
    let (mut size, mut mode) = (None, None);
    for option in options {
        match option.word().split_once('=') {
            Some(("size", text)) => {
                let bytes = bytes(text).ok_or_else(|| option.error("no size"))?;
                once(&mut size, bytes, option)?;
            }
            Some(("mode", text)) => {
                let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
                once(&mut mode, bits.ok_or_else(|| option.error("no mode in octal"))?, option)?;
            }
            _ => return Err(option.error("not size=BYTES or mode=OCTAL")),
        }
    }
    Ok(Spec::new(What::Mem { size, mode }, at))
}

/// Keeps what an option says.
///
/// # Errors
///
/// Another one said it.
fn once<T>(said: &mut Option<T>, value: T, option: &Piece) -> Result<(), SpecError> {
    match said.replace(value) {
        None => Ok(()),
        Some(_) => Err(option.error("an option before it says that already")),
    }
}

fn host(pieces: &[Piece], end: &Piece, writable: bool) -> Result<Spec, SpecError> {
    let (dir, rest) = pieces.split_first().ok_or_else(|| end.error("a directory is missing"))?;
    if dir.text.is_empty() {
        return Err(dir.error("a directory of the host is missing"));
    }
    let (dst, options) = rest.split_first().ok_or_else(|| end.error(WHERE))?;
    let at = dst.absolute()?;
    let (mut said, mut coherence, mut identities) = (None, None, None);
    for option in options {
        match option.word() {
            "ro" => once(&mut said, false, option)?,
            "rw" => once(&mut said, true, option)?,
            "coherence=exclusive" => once(&mut coherence, Coherence::Exclusive, option)?,
            "coherence=watched" => once(&mut coherence, Coherence::Watched, option)?,
            "coherence=strict" => once(&mut coherence, Coherence::Strict, option)?,
            "ids=host" => once(&mut identities, Identities::Host, option)?,
            "ids=xattr" => once(&mut identities, Identities::Kept, option)?,
            text => match text.strip_prefix("ids=") {
                Some(text) => {
                    once(&mut identities, Identities::Mapped(id_map(option, text)?), option)?;
                }
                None => return Err(option.error(HOST_OPTIONS)),
            },
        }
    }
    let (dir, writable) = (dir.text.clone(), said.unwrap_or(writable));
    Ok(Spec::new(What::Host { dir, writable, coherence, identities }, at))
}

/// What is behind `ids=` in this option: `0-1000-1,u5-5-10`.
///
/// # Errors
///
/// What is wrong, and where.
fn id_map(option: &Piece, text: &str) -> Result<IdMap, SpecError> {
    let mut map = IdMap::default();
    let mut at = option.at + "ids=".len();
    for range in text.split(',') {
        let piece = Piece { text: range.into(), at };
        let (of, ids) =
            id_range(range).ok_or_else(|| piece.error("not host, xattr or HERE-HOST-COUNT"))?;
        let (users, groups) = (of != "g", of != "u");
        for (is_of, ranges) in [(users, &mut map.users), (groups, &mut map.groups)] {
            if is_of && ranges.iter().any(|other| meet(*other, ids)) {
                return Err(piece.error("a range before it has one of these numbers"));
            }
            ranges.extend(is_of.then_some(ids));
        }
        at += range.chars().count() + 1;
    }
    Ok(map)
}

/// `0-1000-1`, and what is in front of it: `u`, `g` or nothing.
fn id_range(range: &str) -> Option<(&str, IdRange)> {
    let numbers = range.trim_start_matches(['u', 'g']);
    let of = range.strip_suffix(numbers)?;
    let mut words = numbers.split('-').map(|word| word.parse::<u32>().ok());
    let mut next = || words.next().flatten();
    let (inside, host, count) = (next()?, next()?, next()?);
    let fits = count > 0 && inside.checked_add(count).and(host.checked_add(count)).is_some();
    let is_all = words.next().is_none() && of.len() <= 1;
    (fits && is_all).then_some((of, IdRange { inside, host, count }))
}

/// Whether they have a number in common, here or on the host.
fn meet(a: IdRange, b: IdRange) -> bool {
    let common = |from: u32, other: u32| from < other + b.count && other < from + a.count;
    common(a.inside, b.inside) || common(a.host, b.host)
}

fn no_more(rest: &[Piece]) -> Result<(), SpecError> {
    rest.first().map_or(Ok(()), |piece| Err(piece.error("nothing may follow here")))
}

/// A number with a unit.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1 << 10),
        b'm' => (&text[..text.len() - 1], 1 << 20),
        b'g' => (&text[..text.len() - 1], 1 << 30),
        b't' => (&text[..text.len() - 1], 1 << 40),
        b'p' => (&text[..text.len() - 1], 1 << 50),
        b'e' => (&text[..text.len() - 1], 1 << 60),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn mount(text: &str) -> Result<Spec, SpecError> {
        super::mount(text.into())
    }

    fn host_at(dir: &str, at: &str, writable: bool, coherence: Option<Coherence>) -> Spec {
        let identities = None;
        let what = What::Host { dir: dir.into(), writable, coherence, identities };
        Spec::new(what, at.into())
    }

    #[test]
    fn what_is_written_is_what_is_mounted() {
        let unsaid = None;
        assert_eq!(mount("host:/a:/b"), Ok(host_at("/a", "/b", false, unsaid)));
        assert_eq!(
            mount("host:a b:/b:rw:coherence=watched"),
            Ok(host_at("a b", "/b", true, Some(Coherence::Watched)))
        );
        assert_eq!(mount(r"host:/a\:b:/c\\d"), Ok(host_at("/a:b", r"/c\d", false, unsaid)));
        assert_eq!(bind("/a:/b".into()), Ok(host_at("/a", "/b", true, unsaid)));
        assert_eq!(bind("/a:/b:ro".into()), Ok(host_at("/a", "/b", false, unsaid)));
        assert_eq!(rootfs("/a".into()), Ok(host_at("/a", "/", false, unsaid)));
        assert_eq!(rootfs("/a:rw".into()), Ok(host_at("/a", "/", true, unsaid)));
        let mem = |size, mode| What::Mem { size, mode };
        let at = b"/t".to_vec();
        assert_eq!(tmpfs("/t".into()), Ok(Spec::new(mem(None, None), at.clone())));
        assert_eq!(
            mount("mem:/t:size=3m:mode=700"),
            Ok(Spec::new(mem(Some(3 << 20), Some(0o700)), at.clone()))
        );
        assert_eq!(mount("proc:/t"), Ok(Spec::new(What::Proc, at)));
        for root in ["/", "//", "/.", "/./", "/../.", "/.././/.."] {
            assert_eq!(mount(&format!("proc:{root}")), Ok(Spec::new(What::Proc, b"/".to_vec())));
        }
        for other in ["/...", "/./a", "/a/.."] {
            assert_eq!(mount(&format!("proc:{other}")), Ok(Spec::new(What::Proc, other.into())));
        }
    }

    #[test]
    fn whose_files_are_is_written_too() {
        let ids = |text: &str| match mount(&format!("host:/a:/b:ids={text}")).map(|spec| spec.what)
        {
            Ok(What::Host { identities, .. }) => identities,
            _ => None,
        };
        assert_eq!(ids("host"), Some(Identities::Host));
        assert_eq!(ids("xattr"), Some(Identities::Kept));
        let range = |inside, host, count| IdRange { inside, host, count };
        let map = |users: &[IdRange], groups: &[IdRange]| {
            let (users, groups) = (users.to_vec(), groups.to_vec());
            Some(Identities::Mapped(IdMap { users, groups }))
        };
        assert_eq!(ids("0-1000-1"), map(&[range(0, 1000, 1)], &[range(0, 1000, 1)]));
        assert_eq!(ids("u0-7-2,g5-6-9"), map(&[range(0, 7, 2)], &[range(5, 6, 9)]));
        assert_eq!(
            ids("u0-7-2,2-5-2,g0-7-2"),
            map(&[range(0, 7, 2), range(2, 5, 2)], &[range(2, 5, 2), range(0, 7, 2)])
        );
        for wrong in ["", "0", "0-1", "0-1-0", "0-1-2-3", "x0-1-1", "ug0-1-1", "9-9-4294967295"] {
            assert_eq!(ids(wrong), None, "{wrong}");
        }
        for twice in ["0-1-1,0-2-1", "0-1-1,1-1-1", "3-9-4,6-1-2", "u3-9-4,1-6-4", "g0-1-1,0-2-1"] {
            assert_eq!(ids(twice), None, "{twice}");
        }
    }

    #[test]
    fn an_error_says_where() {
        for (text, at, piece) in [
            ("", 1, ""),
            ("men:/t", 1, "men"),
            ("mem", 4, ""),
            ("mem:t", 5, "t"),
            ("mem:/t:size=x", 8, "size=x"),
            ("mem:/t:mode=9", 8, "mode=9"),
            ("mem:/t:mode=10000", 8, "mode=10000"),
            ("mem:/t:ro", 8, "ro"),
            ("host:", 6, ""),
            ("host:/a", 8, ""),
            ("host:/ä:b", 9, "b"),
            ("host:/a:/b:wr", 12, "wr"),
            ("host:/a:/b:coherence=none", 12, "coherence=none"),
            ("host:/a:/b:ids=me", 16, "me"),
            ("host:/a:/b:ids=", 16, ""),
            ("host:/a:/b:ids=0-1-1,1-1", 22, "1-1"),
            ("host:/a:/b:ids=0-1-1,u1-5-9,g0-7-1", 29, "g0-7-1"),
            ("proc:/p:ro", 9, "ro"),
            ("host:/a:/b:ro:rw", 15, "rw"),
            ("host:/a:/b:ro:ids=host:ro", 24, "ro"),
            ("host:/a:/b:ids=host:ids=xattr", 21, "ids=xattr"),
            ("host:/a:/b:coherence=strict:coherence=strict", 29, "coherence=strict"),
            ("mem:/t:size=1k:size=2k", 16, "size=2k"),
            ("mem:/t:mode=700:mode=700", 17, "mode=700"),
            (r"host:/ä:/b\", 11, r"\"),
        ] {
            let error = mount(text).expect_err(text);
            assert_eq!((error.at, &*error.text), (at, piece), "{text}");
        }
    }

    #[test]
    fn paths_are_bytes() {
        let bytes = |text: &[u8]| OsString::from_vec(text.to_vec());
        let at = b"/m\xff".to_vec();
        let what = What::Mem { size: None, mode: None };
        assert_eq!(tmpfs(bytes(b"/m\xff")), Ok(Spec::new(what, at.clone())));
        let host = |spec: Result<Spec, SpecError>| match spec.map(|spec| (spec.what, spec.at)) {
            Ok((What::Host { dir, .. }, at)) => (dir, at),
            _ => (Vec::new(), Vec::new()),
        };
        assert_eq!(host(bind(bytes(b"/\xfe\\::/m\xff:ro"))), (b"/\xfe:".to_vec(), at));
        assert_eq!(host(rootfs(bytes(b"\xff"))), (b"\xff".to_vec(), b"/".to_vec()));
        let error = bind(bytes(b"\xff\xc3:/b:\xffro")).expect_err("no such option");
        assert_eq!((error.at, &*error.text), (7, "\u{fffd}ro"));
    }
}
