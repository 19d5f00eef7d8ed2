//! The words that calls are written with: slots, paths, numbers, flags.

use crate::call::{QUEUES, SLOTS, Who};
use bitflags::Flags;
use pathwalk::{
    AccessMode, AtFlags, CapSet, InodeFlags, InotifyFlags, InotifyMask, ListmountFlags,
    MountAttrFlags, MountFlags, MoveMountFlags, OpenFlags, OpenTreeFlags, RenameFlags,
    ResolveFlags, SetTime, StatmountMask, StatxMask, Timespec, UmountFlags, XattrFlags,
};
use std::fmt::{self, Formatter};

/// What can be asked of any word of a call.
pub(crate) trait Word {
    /// The slot whose file the call is about.
    fn uses(&self) -> Option<Slot> {
        None
    }

    /// The slot that gets the file which the call opens.
    fn fills(&self) -> Option<Slot> {
        None
    }

    /// The names of the flags that are set.
    fn flags(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// A word of a call.
pub(crate) trait Field: Word + Sized {
    /// The bounds that a word may have been beyond which cannot be read, for people.
    fn bounds() -> String {
        String::new()
    }

    /// Reads the word.
    fn read(word: &str) -> Option<Self>;
    /// Writes it so that it is read again.
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result;

    /// The names of all flags that it can have.
    fn known_flags() -> Vec<&'static str> {
        Vec::new()
    }

    /// The path or text that it is, if it is one.
    fn text(&mut self) -> Option<&mut Vec<u8>> {
        None
    }
}

/// A place for an open file: `h0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) usize);

impl Field for Slot {
    fn read(word: &str) -> Option<Self> {
        let slot = word.strip_prefix('h')?.parse().ok()?;
        (slot < SLOTS).then_some(Self(slot))
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.0)
    }
}

impl Word for Slot {
    fn uses(&self) -> Option<Slot> {
        Some(*self)
    }
}

/// The place for a file that a call opens: `h0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fills(pub(crate) Slot);

impl Field for Fills {
    fn read(word: &str) -> Option<Self> {
        Slot::read(word).map(Self)
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

impl Word for Fills {
    fn fills(&self) -> Option<Slot> {
        Some(self.0)
    }
}

/// A queue of events: `q0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue(pub(crate) usize);

impl Queue {
    /// Its place behind the slots for files.
    pub(crate) fn slot(self) -> Slot {
        Slot(SLOTS + self.0)
    }
}

impl Field for Queue {
    fn read(word: &str) -> Option<Self> {
        let queue = word.strip_prefix('q')?.parse().ok()?;
        (queue < QUEUES).then_some(Self(queue))
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "q{}", self.0)
    }
}

impl Word for Queue {
    fn uses(&self) -> Option<Slot> {
        Some(self.slot())
    }
}

/// A queue that a call makes: `q0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MakesQueue(pub(crate) Queue);

impl Field for MakesQueue {
    fn read(word: &str) -> Option<Self> {
        Queue::read(word).map(Self)
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

impl Word for MakesQueue {
    fn fills(&self) -> Option<Slot> {
        Some(self.0.slot())
    }
}

/// Bytes: `''` is none, `{a*255}` is 255 times `a`, `\x20` a blank, `\n` the end of a line, and so on as in Rust; `%h0` is the
/// number of the descriptor that the slot has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text(pub(crate) Vec<u8>);

impl Text {
    /// The most bytes that runs may make: many times what a path or the value of an attribute can have.
    const MOST: usize = 1 << 20;
}

impl Word for Text {}

impl Field for Text {
    fn bounds() -> String {
        format!(": at most {} bytes", Self::MOST)
    }

    fn read(word: &str) -> Option<Self> {
        if word == "''" {
            return Some(Self(Vec::new()));
        }
        let mut bytes = Vec::new();
        let mut rest = word;
        while let Some((before, after)) = rest.split_once('{') {
            let (run, after) = after.split_once('}')?;
            let (what, times) = run.split_once('*')?;
            bytes.extend(unescape(before)?);
            let (what, times) = (unescape(what)?, times.parse().ok()?);
            let len = what.len().checked_mul(times)?.checked_add(bytes.len())?;
            if len > Self::MOST {
                return None;
            }
            bytes.extend(what.repeat(times));
            rest = after;
        }
        bytes.extend(unescape(rest)?);
        Some(Self(bytes))
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("''");
        }
        write_bytes(&self.0, b" :{", f)
    }

    fn text(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.0)
    }
}

/// Writes bytes: what is no printable ASCII, and some of it, as escapes; long runs short.
pub(crate) fn write_bytes(bytes: &[u8], also: &[u8], f: &mut Formatter<'_>) -> fmt::Result {
    let escape = |unit: &[u8]| match *unit {
        [byte] if also.contains(&byte) => format!("\\x{byte:02x}"),
        _ => unit.escape_ascii().to_string(),
    };
    let mut rest = bytes;
    while !rest.is_empty() {
        let byte = &rest[..1];
        let runs = [b"./", byte].map(|unit: &[u8]| {
            let times = rest.chunks(unit.len()).take_while(|chunk| *chunk == unit).count();
            (unit, times)
        });
        let (unit, times) = match runs.into_iter().find(|(_, times)| *times >= 12) {
            Some((unit, times)) => {
                write!(f, "{{{}*{times}}}", escape(unit))?;
                (unit.len(), times)
            }
            None => {
                f.write_str(&escape(byte))?;
                (1, 1)
            }
        };
        rest = &rest[unit * times..];
    }
    Ok(())
}

/// Undoes [`slice::escape_ascii`].
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
                }
                itself @ (b'\\' | b'\'' | b'"') => itself,
                _ => return None,
            },
            byte => byte,
        };
        bytes.push(byte);
    }
    Some(bytes)
}

/// A path and where it begins: `a/b`, or `h0:a/b`, or `h0:` for the file in the slot itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Where {
    /// The directory; none is the current one.
    pub(crate) dir: Option<Slot>,
    /// The path.
    pub(crate) path: Vec<u8>,
}

impl Field for Where {
    fn bounds() -> String {
        Text::bounds()
    }

    fn read(word: &str) -> Option<Self> {
        match word.split_once(':') {
            Some((slot, "")) => Some(Self { dir: Some(Slot::read(slot)?), path: Vec::new() }),
            Some((slot, path)) => {
                Some(Self { dir: Some(Slot::read(slot)?), path: Text::read(path)?.0 })
            }
            None => Some(Self { dir: None, path: Text::read(word)?.0 }),
        }
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(slot) = self.dir {
            slot.write(f)?;
            f.write_str(":")?;
            if self.path.is_empty() {
                return Ok(());
            }
        }
        Text(self.path.clone()).write(f)
    }

    fn text(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.path)
    }
}

impl Word for Where {
    fn uses(&self) -> Option<Slot> {
        self.dir
    }
}

impl Field for Who {
    fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|who| who.name() == word)
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Word for Who {}

/// A number; -1 where a call has that for "as it is".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Int(pub(crate) i64);

impl Word for Int {}

impl Field for Int {
    fn read(word: &str) -> Option<Self> {
        word.parse().ok().map(Self)
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// How much room a call is given, in bytes or, of numbers, in numbers: a buffer is a slice, so it has no negative length, of
/// which Linux can be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Len(pub(crate) usize);

impl Len {
    /// More than any call fills, and what each machine has.
    const MOST: usize = 1 << 24;
}

impl Word for Len {}

impl Field for Len {
    fn bounds() -> String {
        format!(": from 0 to {}", Self::MOST)
    }

    fn read(word: &str) -> Option<Self> {
        word.parse().ok().filter(|len| *len <= Self::MOST).map(Self)
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A mode or mask: `0755`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Octal(pub(crate) u32);

impl Word for Octal {}

impl Field for Octal {
    fn read(word: &str) -> Option<Self> {
        u32::from_str_radix(word, 8).ok().map(Self)
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "0{:o}", self.0)
    }
}

/// What utimensat(2) does with a time: `now`, `omit`, or seconds and, behind a dot, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct When(pub(crate) SetTime);

impl Word for When {}

impl Field for When {
    fn read(word: &str) -> Option<Self> {
        Some(Self(match word {
            "now" => SetTime::Now,
            "omit" => SetTime::Omit,
            time => {
                let (sec, nsec) = time.split_once('.').unwrap_or((time, "0"));
                SetTime::At(Timespec { sec: sec.parse().ok()?, nsec: nsec.parse().ok()? })
            }
        }))
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            SetTime::Now => f.write_str("now"),
            SetTime::Omit => f.write_str("omit"),
            SetTime::At(Timespec { sec, nsec: 0 }) => write!(f, "{sec}"),
            SetTime::At(Timespec { sec, nsec }) => write!(f, "{sec}.{nsec}"),
        }
    }
}

/// Flags are their names with `|` between; bits without a name are written as numbers, none as `0`.
fn read_flags<F: Flags<Bits: TryFrom<u64>> + Copy>(word: &str) -> Option<F> {
    let mut flags = F::empty();
    for name in word.split('|').filter(|&name| name != "0") {
        flags.insert(match F::from_name(name) {
            Some(flag) => flag,
            None => {
                let bits = u64::from_str_radix(name.strip_prefix("0x")?, 16).ok()?;
                F::from_bits_retain(bits.try_into().ok()?)
            }
        });
    }
    Some(flags)
}

fn write_flags<F: Flags<Bits: fmt::LowerHex> + Copy>(
    flags: F,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    if flags.bits() == F::empty().bits() {
        return f.write_str("0");
    }
    let mut names = flags.iter_names();
    let mut between = "";
    for (name, _) in names.by_ref() {
        write!(f, "{between}{name}")?;
        between = "|";
    }
    let rest = names.remaining().bits();
    if rest != F::empty().bits() {
        write!(f, "{between}{rest:#x}")?;
    }
    Ok(())
}

/// Capabilities: their names, or `ALL`.
impl Field for CapSet {
    fn read(word: &str) -> Option<Self> {
        if word == "ALL" { Some(Self::FULL) } else { read_flags(word) }
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if *self == Self::FULL { f.write_str("ALL") } else { write_flags(*self, f) }
    }
}

impl Word for CapSet {}

macro_rules! flags {
    ($($type:ty)*) => {$(
        impl Word for $type {
            fn flags(&self) -> Vec<&'static str> {
                self.iter_names().map(|(name, _)| name).collect()
            }
        }

        impl Field for $type {
            fn read(word: &str) -> Option<Self> {
                read_flags(word)
            }

            fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
                write_flags(*self, f)
            }

            fn known_flags() -> Vec<&'static str> {
                // A second name for the same bit is left out, as `iter_names` does.
                <$type>::from_bits_retain(!0).iter_names().map(|(name, _)| name).collect()
            }
        }
    )*};
}

flags! {
    OpenFlags ResolveFlags AtFlags StatxMask AccessMode InodeFlags RenameFlags MountFlags UmountFlags InotifyFlags
    InotifyMask XattrFlags OpenTreeFlags MoveMountFlags MountAttrFlags StatmountMask ListmountFlags
}
