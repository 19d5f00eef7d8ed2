//! What is mounted where, as it is written: one grammar for all options.
//!
//! ```text
//!   mem:DST[:size=BYTES][:mode=OCTAL]
//!   host:DIR:DST[:ro|:rw][:coherence=exclusive|watched|strict][:ids=host|xattr|IDS-HOST-COUNT,…]
//!   proc:DST
//! ```
//!
//! A colon or backslash within a path has a backslash in front of it.

use pathwalk::{Coherence, IdMap, IdRange, Identities};
use std::fmt;

/// What `pathwalk help mounts` says.
pub const HELP: &str = "\
Mounts of pathwalk run

  --mount SPEC mounts a file system; the later one of two at one place hides the other.

  mem:DST[:size=BYTES][:mode=OCTAL]
      An empty file system in memory, which goes with the program. BYTES may end in k, m or g; what
      is written there is counted, not held back. MODE is that of its root, 1777 if it is not given.

  host:DIR:DST[:ro|:rw][:coherence=exclusive|watched|strict][:ids=WHOSE]
      The directory DIR of the host; ro if neither is given. Who else changes it meanwhile, and how
      that is noticed:
        watched    inotify(7) tells (the default; strict where it does not tell of everything)
        strict     each use of a cached name asks the host
        exclusive  nobody changes it but the program; what is cached is true
      WHOSE the files are, and what becomes of chown:
        host       as the host says; chown asks the host, which lets root alone give files away
        xattr      owner, group, mode and device number are kept in an extended attribute of each
                   file, user.pathwalk.stat: any user can chown, mknod and set modes there
        HERE-HOST-COUNT[,…]
                   so many users, from HERE on, are those from HOST on there; groups likewise; with
                   u or g in front (u0-1000-1,g0-100-1) users or groups alone
      If it is not given, they are as the host says; for --uid and --gid of who is not root there,
      what belongs to who runs this is U's and G's.

  proc:DST
      The host's /proc with no processes but the program's.

  A colon or backslash within a path has a backslash in front of it: host:/a\\:b:/c.

Short for that

  --bind SRC:DST[:ro]   host:SRC:DST:rw, or ro; other options too
  --tmpfs DST           mem:DST
  --rootfs DIR[:rw]     host:DIR:/:ro, or rw, with proc:/proc, host:/dev:/dev, mem:/tmp and
                        mem:/dev/shm in it

Without --rootfs and without anything at /, the tree is the host's: host:/:/:ro and all that is
mounted below it, proc:/proc, mem:/tmp, mem:/dev/shm, and the current directory rw. The mounts that are asked for
come on top.
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
    text: String,
    at: usize,
}

impl Piece {
    fn error(&self, what: &'static str) -> SpecError {
        SpecError { at: self.at, text: self.text.clone(), what }
    }

    fn absolute(&self) -> Result<Vec<u8>, SpecError> {
        if self.text.starts_with('/') {
            Ok(self.text.clone().into_bytes())
        } else {
            Err(self.error("the path in the tree begins with a slash"))
        }
    }
}

/// The pieces of a text, the first of which begins at this character.
fn pieces(text: &str, at: usize) -> Vec<Piece> {
    let mut pieces = vec![Piece { text: String::new(), at }];
    let mut chars = (at..).zip(text.chars());
    while let Some((index, char)) = chars.next() {
        let last = pieces.last_mut().expect("there is one");
        match char {
            '\\' => last.text.extend(chars.next().map(|(_, char)| char)),
            ':' => pieces.push(Piece { text: String::new(), at: index + 1 }),
            char => last.text.push(char),
        }
    }
    pieces
}

/// Reads `--mount`.
///
/// # Errors
///
/// What is wrong, and where.
pub(crate) fn mount(text: &str) -> Result<Spec, SpecError> {
    let mut pieces = pieces(text, 1).into_iter();
    let kind = pieces.next().expect("there is one");
    let rest: Vec<Piece> = pieces.collect();
    let end = Piece { text: String::new(), at: text.chars().count() + 1 };
    match &*kind.text {
        "mem" => mem(&rest, &end),
        "host" => host(&rest, &end, false),
        "proc" => {
            let (dst, rest) = rest.split_first().ok_or_else(|| end.error(WHERE))?;
            no_more(rest)?;
            Ok(Spec { what: What::Proc, at: dst.absolute()? })
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
pub(crate) fn bind(text: &str) -> Result<Spec, SpecError> {
    let end = Piece { text: String::new(), at: text.chars().count() + 1 };
    host(&pieces(text, 1), &end, true)
}

/// Reads `--tmpfs`.
///
/// # Errors
///
/// What is wrong, and where.
pub(crate) fn tmpfs(text: &str) -> Result<Spec, SpecError> {
    let end = Piece { text: String::new(), at: text.chars().count() + 1 };
    mem(&pieces(text, 1), &end)
}

/// Reads `--rootfs`.
///
/// # Errors
///
/// What is wrong, and where.
pub(crate) fn rootfs(text: &str) -> Result<Spec, SpecError> {
    let mut pieces = pieces(text, 1);
    pieces.insert(1, Piece { text: "/".into(), at: 1 });
    let end = Piece { text: String::new(), at: text.chars().count() + 1 };
    host(&pieces, &end, false)
}

fn mem(pieces: &[Piece], end: &Piece) -> Result<Spec, SpecError> {
    let (dst, options) = pieces.split_first().ok_or_else(|| end.error(WHERE))?;
    let at = dst.absolute()?;
    let (mut size, mut mode) = (None, None);
    for option in options {
        match option.text.split_once('=') {
            Some(("size", text)) => {
                size = Some(bytes(text).ok_or_else(|| option.error("no size"))?)
            }
            Some(("mode", text)) => {
                let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
                mode = Some(bits.ok_or_else(|| option.error("no mode in octal"))?);
            }
            _ => return Err(option.error("not size=BYTES or mode=OCTAL")),
        }
    }
    Ok(Spec { what: What::Mem { size, mode }, at })
}

fn host(pieces: &[Piece], end: &Piece, writable: bool) -> Result<Spec, SpecError> {
    let (dir, rest) = pieces.split_first().ok_or_else(|| end.error("a directory is missing"))?;
    if dir.text.is_empty() {
        return Err(dir.error("a directory of the host is missing"));
    }
    let (dst, options) = rest.split_first().ok_or_else(|| end.error(WHERE))?;
    let at = dst.absolute()?;
    let (mut writable, mut coherence, mut identities) = (writable, None, None);
    for option in options {
        match &*option.text {
            "ro" => writable = false,
            "rw" => writable = true,
            "coherence=exclusive" => coherence = Some(Coherence::Exclusive),
            "coherence=watched" => coherence = Some(Coherence::Watched),
            "coherence=strict" => coherence = Some(Coherence::Strict),
            "ids=host" => identities = Some(Identities::Host),
            "ids=xattr" => identities = Some(Identities::Kept),
            text => match text.strip_prefix("ids=") {
                Some(text) => {
                    let map = id_map(text).ok_or_else(|| option.error("not HERE-HOST-COUNT"))?;
                    identities = Some(Identities::Mapped(map));
                }
                None => return Err(option.error(HOST_OPTIONS)),
            },
        }
    }
    let dir = dir.text.clone().into_bytes();
    Ok(Spec { what: What::Host { dir, writable, coherence, identities }, at })
}

/// `0-1000-1,u5-5-10`
fn id_map(text: &str) -> Option<IdMap> {
    let mut map = IdMap::default();
    for range in text.split(',') {
        let numbers = range.trim_start_matches(['u', 'g']);
        let mut words = numbers.split('-').map(|word| word.parse::<u32>().ok());
        let mut next = || words.next().flatten();
        let (inside, host, count) = (next()?, next()?, next()?);
        let fits = count > 0 && inside.checked_add(count).and(host.checked_add(count)).is_some();
        if words.next().is_some() || !fits {
            return None;
        }
        let ids = IdRange { inside, host, count };
        match range.strip_suffix(numbers)? {
            "" => {
                map.users.push(ids);
                map.groups.push(ids);
            }
            "u" => map.users.push(ids),
            "g" => map.groups.push(ids),
            _ => return None,
        }
    }
    Some(map)
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

    fn host_at(dir: &str, at: &str, writable: bool, coherence: Option<Coherence>) -> Spec {
        let identities = None;
        let what = What::Host { dir: dir.into(), writable, coherence, identities };
        Spec { what, at: at.into() }
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
        assert_eq!(bind("/a:/b"), Ok(host_at("/a", "/b", true, unsaid)));
        assert_eq!(bind("/a:/b:ro"), Ok(host_at("/a", "/b", false, unsaid)));
        assert_eq!(rootfs("/a"), Ok(host_at("/a", "/", false, unsaid)));
        assert_eq!(rootfs("/a:rw"), Ok(host_at("/a", "/", true, unsaid)));
        let mem = |size, mode| What::Mem { size, mode };
        let at = b"/t".to_vec();
        assert_eq!(tmpfs("/t"), Ok(Spec { what: mem(None, None), at: at.clone() }));
        assert_eq!(
            mount("mem:/t:size=3m:mode=700"),
            Ok(Spec { what: mem(Some(3 << 20), Some(0o700)), at: at.clone() })
        );
        assert_eq!(mount("proc:/t"), Ok(Spec { what: What::Proc, at }));
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
        for wrong in ["", "0", "0-1", "0-1-0", "0-1-2-3", "x0-1-1", "ug0-1-1", "9-9-4294967295"] {
            assert_eq!(ids(wrong), None, "{wrong}");
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
            ("host:/a:/b:ids=me", 12, "ids=me"),
            ("proc:/p:ro", 9, "ro"),
        ] {
            let error = mount(text).expect_err(text);
            assert_eq!((error.at, &*error.text), (at, piece), "{text}");
        }
    }
}
