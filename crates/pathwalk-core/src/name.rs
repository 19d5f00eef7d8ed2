//! Names: one pass over a path's bytes finds the end of a component, its words and its hash.
//!
//! ```text
//!   "usr/lib/x"   word 0: 'u' 's' 'r' '/' …   masked below the first '/'
//!    └── hash = …fold(word 0) ^ word 1 …, the last of which is folded with the parent's id
//! ```
//!
//! Invariant: [`scan_rest`] gives a name the same hash and words, wherever in a path it stands.
//!
//! Linux: `hash_name`, `hashlen_string`; the salt is the parent's id instead of its address.

use pathwalk_abi::NAME_MAX;
use pathwalk_sync::{Cell64, bytes};

/// The words of a name that lie in the dentry itself.
pub(crate) const INLINE_WORDS: usize = 4;
/// The longest name that lies in the dentry itself.
pub(crate) const INLINE_LEN: usize = INLINE_WORDS * 8;
/// Most names are no longer: they are compared in two words.
const SHORT: usize = 16;

/// A key holds a name's length in eight bits: [`Component::key`].
const _: () = assert!(NAME_MAX <= 0xff);

/// The keys of a `Vfs`'s name hash, so that nobody outside can aim for a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret(pub(crate) [u64; 2]);

impl Secret {
    /// A word of a name that goes on, and what was before it.
    #[inline(always)]
    fn fold(self, hash: u64) -> u64 {
        self.fold_with(hash, 0)
    }

    /// The last word of a name, and what was before it; and who has the name.
    #[inline(always)]
    fn fold_with(self, hash: u64, parent: u32) -> u64 {
        let [first, second] = self.0;
        // The hash is in both, halves exchanged: by one alone two names would be as far apart as two others with the same difference, so
        // who found two that share a bucket could make many. And names that are counted would lie in steps, some of them in one bucket.
        fold(hash ^ first, hash.rotate_left(32) ^ u64::from(parent) ^ second)
    }
}

/// What a component is to the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name to look up.
    Norm,
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// Nothing: a path of slashes only, or an empty one.
    Root,
}

/// One component of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Component {
    /// The hash of the name alone, of which the last word is to be folded still: with the parent.
    hash: u64,
    /// The name's first eight bytes and the next eight, zero-padded.
    first: u64,
    second: u64,
    /// Where in its text the name begins, and how long it is.
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Slashes follow, and nothing after them. Set for a last component only.
    pub(crate) trailing_slash: bool,
}

impl Component {
    /// The component that stands for "no name".
    pub(crate) const ROOT: Self =
        Self { hash: 0, first: 0, second: 0, start: 0, len: 0, trailing_slash: false };

    /// What the component is to the walk.
    #[inline(always)]
    pub(crate) fn kind(&self) -> Kind {
        match (self.len, self.first) {
            (0, _) => Kind::Root,
            (1, 0x2e) => Kind::Dot,
            (2, 0x2e2e) => Kind::DotDot,
            _ => Kind::Norm,
        }
    }

    /// Whether it is `.` or `..`, or might be.
    #[inline(always)]
    pub(crate) fn starts_with_dot(&self) -> bool {
        self.first as u8 == b'.'
    }

    /// The key of the name below `parent`: its hash in the upper 56 bits, its length in the lower 8, unless it is too long.
    #[inline(always)]
    pub(crate) fn key(&self, parent: u32, secret: Secret) -> u64 {
        secret.fold_with(self.hash, parent) & !0xff | self.len as u64
    }

    /// The name, in the text that the component was found in.
    #[inline]
    pub(crate) fn bytes<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start..self.start + self.len]
    }

    /// Whether there is a NUL in the name, in the text that the component was found in.
    #[inline]
    pub(crate) fn has_nul(&self, text: &[u8]) -> bool {
        has_nul(self.words(), self.len.min(SHORT))
            || !self.is_short() && self.bytes(text)[SHORT..].contains(&0)
    }

    /// The first sixteen bytes, zero-padded.
    #[inline(always)]
    pub(crate) fn words(&self) -> [u64; 2] {
        [self.first, self.second]
    }

    /// Whether no file system has names as long as this.
    #[inline(always)]
    pub(crate) fn too_long(&self) -> bool {
        self.len > NAME_MAX
    }

    /// Whether the name is short, and the one in `cells`, zero-padded. Both are known to be equally long.
    #[inline(always)]
    pub(crate) fn is_in(&self, cells: &[Cell64; INLINE_WORDS]) -> bool {
        self.is_short() && self.words_are_in(cells)
    }

    /// The same of a name that is known to be short.
    #[inline(always)]
    pub(crate) fn words_are_in(&self, cells: &[Cell64; INLINE_WORDS]) -> bool {
        cells[0].get() == self.first && cells[1].get() == self.second
    }

    /// Writes the name into `cells`, zero-padded; it is no longer than they are.
    pub(crate) fn write_to(&self, text: &[u8], cells: &[Cell64; INLINE_WORDS]) {
        let [first, second, others @ ..] = cells;
        first.set(self.first);
        second.set(self.second);
        let rest = if self.is_short() { &[] } else { &self.bytes(text)[SHORT..] };
        let mut words = rest.chunks(8);
        for cell in others {
            cell.set(words.next().map_or(0, padded));
        }
    }

    /// Whether all of it is in two words.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        self.len <= SHORT
    }
}

/// Whether there is a NUL in a short name of that length, zero-padded, or in so many of the first bytes of a longer one.
#[inline(always)]
pub(crate) fn has_nul(words: [u64; 2], len: usize) -> bool {
    debug_assert!(len <= SHORT, "there are no more bytes to look at");
    bytes::before_in_two(words, 0) < len
}

/// Finds the component that begins at `start`, which is not a slash. Its end is a slash or the end of the text; a NUL
/// is a byte like any other here.
#[inline(always)]
pub(crate) fn scan(text: &[u8], start: usize, secret: Secret) -> Component {
    scan_rest(text, text.get(start..).unwrap_or_default(), secret)
}

/// Finds the component that `rest` begins with, by which the text ends.
#[inline(always)]
pub(crate) fn scan_rest(text: &[u8], rest: &[u8], secret: Secret) -> Component {
    let start = text.len() - rest.len();
    let last = last_word(text);
    match scan_short(rest, last, &secret) {
        Ok(name) => Component { start, ..name },
        Err(name) => {
            let behind = rest.get(SHORT..).unwrap_or_default();
            let (hash, len) = scan_long(name.hash, secret, last, behind);
            Component { hash, start, len: SHORT + len, ..name }
        }
    }
}

/// Finds the component that a text begins with, of which that is the [last word](last_word), if it ends in its second word; else, as an
/// error, these two words.
#[inline(always)]
pub(crate) fn scan_short(text: &[u8], last: u64, secret: &Secret) -> Result<Component, Component> {
    let name = |hash, [first, second]: [u64; 2], len| Component {
        hash,
        first,
        second,
        start: 0,
        len,
        trailing_slash: false,
    };
    // Most names end in the first word, and most others in the second: so these are written out.
    let first = match word(text, last) {
        Word::Ends(first, len) => return Ok(name(first, [first, 0], len)),
        Word::Whole(first) if matches!(text.get(8), None | Some(b'/')) => {
            return Ok(name(first, [first, 0], 8));
        }
        Word::Whole(first) => first,
    };
    let hash = secret.fold(first);
    match word(text.get(8..).unwrap_or_default(), last) {
        Word::Ends(second, len) => Ok(name(hash ^ second, [first, second], 8 + len)),
        Word::Whole(second) => Err(name(hash ^ second, [first, second], SHORT)),
    }
}

/// The words behind the second: the hash, and how many bytes they have.
#[cold]
#[inline(never)]
fn scan_long(mut hash: u64, secret: Secret, last: u64, mut rest: &[u8]) -> (u64, usize) {
    let mut len = 0;
    loop {
        hash = secret.fold(hash);
        match word(rest, last) {
            Word::Whole(word) => (hash, len) = (hash ^ word, len + 8),
            Word::Ends(word, more) => return (hash ^ word, len + more),
        }
        rest = rest.get(8..).unwrap_or_default();
    }
}

/// What the first word of a text, of which that is the last word, has of the name that it begins with.
#[inline(always)]
fn word(text: &[u8], last: u64) -> Word {
    let (word, len) = match text.first_chunk::<8>() {
        Some(bytes) => (u64::from_le_bytes(*bytes), 8),
        // Behind the end there are zeros; of nothing that is all.
        None => (last.checked_shr(64 - 8 * text.len() as u32).unwrap_or(0), text.len()),
    };
    match bytes::before(word, b'/') {
        None if len == 8 => Word::Whole(word),
        None => Word::Ends(word, len),
        Some(len) => Word::Ends(word & BELOW[len], len),
    }
}

/// The last eight bytes of a text; of a shorter one, all, in the upper bytes.
#[inline(always)]
pub(crate) fn last_word(text: &[u8]) -> u64 {
    match text.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => last_of_few(text),
    }
}

#[cold]
#[inline(never)]
fn last_of_few(text: &[u8]) -> u64 {
    padded(text) << 1 << (63 - 8 * text.len())
}

/// What a word of a name is.
enum Word {
    /// Eight bytes of the name.
    Whole(u64),
    /// The last bytes of the name, zero-padded, and how many they are.
    Ends(u64, usize),
}

/// The bits of so many bytes.
static BELOW: [u64; 8] = [
    0,
    0xff,
    0xffff,
    0xff_ffff,
    0xffff_ffff,
    0xff_ffff_ffff,
    0xffff_ffff_ffff,
    0xff_ffff_ffff_ffff,
];

/// A folded multiply: both halves of the product, mixed.
#[inline(always)]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Whether the words in `cells`, zero-padded, spell `name`.
pub(crate) fn spells(cells: &[Cell64], name: &[u8]) -> bool {
    let (words, rest) = name.as_chunks::<8>();
    let Some((whole, behind)) = cells.split_at_checked(words.len()) else { return false };
    let same = |(cell, word): (&Cell64, &[u8; 8])| cell.get() == u64::from_le_bytes(*word);
    let last = || match name.last_chunk::<8>() {
        // The rest is in its upper bytes.
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
        None => padded(rest),
    };
    whole.iter().zip(words).all(same)
        && (rest.is_empty() || behind.first().is_some_and(|cell| cell.get() == last()))
}

/// Up to eight bytes as a word, zero-padded.
pub(crate) fn padded(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() <= 8, "a word");
    // Both halves at once, where there are two; what is in both is the same.
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let [first, last] = [first, last].map(|half| u64::from(u32::from_le_bytes(*half)));
        return first | last << (8 * (bytes.len() - 4));
    }
    let byte = |at| bytes.get(at).map_or(0, |&byte| u64::from(byte) << (8 * at));
    byte(0) | byte(1) | byte(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn of(name: &[u8], secret: Secret) -> Component {
        scan(name, 0, secret)
    }

    const SECRET: Secret = Secret([0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211]);

    #[test]
    fn a_name_has_one_hash_wherever_it_stands() {
        for len in 1..=255 {
            let name: Vec<u8> = (0..len).map(|i| b'a' + (i % 26) as u8).collect();
            let alone = of(&name, SECRET);
            assert_eq!(alone.len, len);
            for before in 0..9 {
                for after in [&b""[..], b"/", b"/x", b"//yyyyyyyyyyyy"] {
                    let mut path = vec![b'/'; before];
                    path.extend(&name);
                    path.extend(after);
                    let found = scan(&path, before, SECRET);
                    assert_eq!((found.start, found.len), (before, len));
                    assert_eq!(found.first, alone.first);
                    assert_eq!(found.is_in(&cells_of(&name)), len <= SHORT);
                    assert_eq!(found.key(7, SECRET), alone.key(7, SECRET));
                    assert_ne!(found.key(7, SECRET), alone.key(8, SECRET));
                }
            }
        }
    }

    /// What a dentry has of a name, as far as it fits.
    fn cells_of(name: &[u8]) -> [Cell64; INLINE_WORDS] {
        words_of(name, INLINE_WORDS).try_into().unwrap()
    }

    fn words_of(name: &[u8], words: usize) -> Vec<Cell64> {
        let words = (0..words).map(|word| {
            let rest = name.get(8 * word..).unwrap_or_default();
            let cell = Cell64::default();
            cell.set(padded(&rest[..rest.len().min(8)]));
            cell
        });
        words.collect()
    }

    #[test]
    fn every_byte_of_a_name_is_hashed_and_compared() {
        for len in 1..=NAME_MAX {
            let name: Vec<u8> = (0..len).map(|at| b'a' + (at % 23) as u8).collect();
            let (cells, words) = (cells_of(&name), words_of(&name, len.div_ceil(8)));
            let key = of(&name, SECRET).key(7, SECRET);
            assert!(spells(&words, &name), "{len}");
            assert!(!spells(&words[..words.len() - 1], &name), "there is no room for {len}");
            for at in 0..len {
                let mut other = name.clone();
                other[at] ^= 1;
                assert!(!spells(&words, &other), "byte {at} of {len}");
                let other = of(&other, SECRET);
                assert!(!other.is_in(&cells), "byte {at} of {len}");
                assert_ne!(other.key(7, SECRET), key, "byte {at} of {len}");
            }
        }
    }

    /// Who found two names that share a bucket, by how long they take, has found two: what is changed in both alike parts them.
    #[test]
    fn names_that_share_a_bucket_say_nothing_of_others() {
        let bucket = |begin: u16, end: &str| {
            let name = format!("{begin:04x}{end}");
            of(name.as_bytes(), SECRET).key(7, SECRET) >> 32 & 0xffff
        };
        let mut first = HashMap::new();
        let (mut pairs, mut still) = (0, 0);
        for number in 0..4000u16 {
            let name = number.wrapping_mul(0x9e37);
            if let Some(other) = first.insert(bucket(name, "0000"), name) {
                for end in ["0001", "0090", "a000", "wxyz"] {
                    pairs += 1;
                    still += u32::from(bucket(name, end) == bucket(other, end));
                }
            }
        }
        assert!(pairs > 200 && still * 50 < pairs, "{still} of {pairs}");
    }

    #[test]
    fn bytes_next_to_a_slash_are_not_taken_for_one() {
        for byte in (1..=255u8).filter(|&b| b != b'/') {
            for len in 1..=16 {
                let path = [vec![byte; len], b"/\x30\x2e".to_vec()].concat();
                assert_eq!(scan(&path, 0, SECRET).len, len, "{byte:#x}");
            }
        }
    }

    #[test]
    fn a_nul_in_a_name_is_found_wherever_it_is() {
        for len in 1..=40 {
            for after in [&b""[..], b"/", b"/\0"] {
                let mut path = vec![b'x'; len];
                path.extend(after);
                let found = of(&path, SECRET);
                assert!(!found.has_nul(&path), "{path:?}");
                for at in 0..len {
                    let mut path = path.clone();
                    path[at] = 0;
                    assert!(of(&path, SECRET).has_nul(&path), "{path:?}");
                }
            }
        }
    }

    #[test]
    fn dots_are_told_apart() {
        assert_eq!(of(b".", SECRET).kind(), Kind::Dot);
        assert_eq!(of(b"..", SECRET).kind(), Kind::DotDot);
        for name in [&b"..."[..], b".a", b"a.", b"..a", b"a"] {
            assert_eq!(of(name, SECRET).kind(), Kind::Norm);
        }
    }
}
