//! The text of a path, to be hashed and compared in few instructions.
//!
//! How many are made does not depend on the text, as the end of a loop is hard to predict: a text is looked at in four
//! chunks, which overlap if it is short, and a long one in three more. Of one that is longer still, which is rare, the rest is
//! looked at in a loop, out of line.

use crate::name::{fold, padded};

/// So many bytes are looked at at once.
const CHUNK: usize = 16;
/// So many bytes are in the chunks that are looked at first; most texts are no longer.
pub(super) const SHORT: usize = 4 * CHUNK;
/// So many are in those and the next; of a longer text the rest is kept elsewhere.
pub(super) const LONG: usize = SHORT + 3 * CHUNK;

/// Whether a text can be remembered: it is not longer than that, and does not end in a slash.
#[inline(always)]
pub(crate) fn can_be(text: &[u8], longest: usize) -> bool {
    text.len() <= longest && text.last().is_some_and(|&last| last != b'/')
}

/// The text before the last component, if there is one and it has at least two; to walk fewer is as quick as to remember,
/// where nothing is kept in the end.
#[inline(always)]
pub(crate) fn directory_of(path: &[u8], longest: usize) -> Option<&[u8]> {
    let directory = any_directory_of(path, longest)?;
    has_two(directory).then_some(directory)
}

/// The text before the last component, if there is one and it does not end in a slash.
#[inline(always)]
pub(crate) fn any_directory_of(path: &[u8], longest: usize) -> Option<&[u8]> {
    let last = slash(path).filter(|&last| last <= longest)?;
    let directory = &path[..last];
    directory.last().is_some_and(|&last| last != b'/').then_some(directory)
}

/// Whether a directory's text has at least two components.
#[inline(always)]
fn has_two(directory: &[u8]) -> bool {
    slash(directory).is_some_and(|at| at > 0)
}

/// Where the last slash is. Eight bytes are looked at at once: most last names are no longer than twice that.
#[inline(always)]
fn slash(mut text: &[u8]) -> Option<usize> {
    /// The top bit of each byte.
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);
    const SLASHES: u64 = u64::from_ne_bytes([b'/'; 8]);
    while let Some((before, word)) = text.split_last_chunk() {
        let differ = u64::from_le_bytes(*word) ^ SLASHES;
        // The top bits of those bytes that do not differ, and of no others: nothing is carried from one byte to the next.
        let slashes = !(((differ & !TOPS) + !TOPS) | differ) & TOPS;
        if slashes != 0 {
            return Some(text.len() - 1 - slashes.leading_zeros() as usize / 8);
        }
        text = before;
    }
    text.iter().rposition(|&byte| byte == b'/')
}

/// Whether it has no empty name and no dots.
pub(super) fn is_canonical(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'/').skip(1).all(|name| !matches!(name, b"" | b"." | b".."))
}

/// Where the chunks of a text begin that is at least as long as one: the first half from its start, the others from its end.
#[inline(always)]
fn starts(len: usize) -> [usize; 4] {
    let last = len - CHUNK;
    [0, last.min(CHUNK), last.saturating_sub(CHUNK), last]
}

/// Where those of a long text begin that lie between the others.
#[inline(always)]
fn starts_between(len: usize) -> [usize; 3] {
    [2 * CHUNK, 3 * CHUNK, len - 3 * CHUNK]
}

/// The chunk of a text that begins there.
#[inline(always)]
fn chunk(text: &[u8], start: usize) -> u128 {
    let chunk = text.get(start..).and_then(<[u8]>::first_chunk);
    chunk.map_or(0, |chunk| u128::from_le_bytes(*chunk))
}

/// Whether `text` is what `own` begins with; the lengths are compared elsewhere. In registers: the
/// comparison of arrays is a call. Whether a text for which there is no room in `own` goes on so, is asked.
#[inline(always)]
pub(super) fn same(
    own: &[u8; LONG],
    text: &[u8],
    goes_on_with: impl FnOnce(&[u8]) -> bool,
) -> bool {
    let len = text.len();
    if len < CHUNK {
        tiny(own.get(..len).unwrap_or_default()) == tiny(text)
    } else if len <= SHORT {
        alike(own, text, starts(len))
    } else if len <= LONG {
        alike(own, text, starts(len)) && alike(own, text, starts_between(len))
    } else {
        text.split_at_checked(LONG).is_some_and(|(begin, rest)| begin == own && goes_on_with(rest))
    }
}

/// Whether the chunks that begin there are the same.
#[inline(always)]
fn alike<const N: usize>(own: &[u8; LONG], text: &[u8], starts: [usize; N]) -> bool {
    let mut differ = 0;
    for start in starts {
        differ |= chunk(own, start) ^ chunk(text, start);
    }
    differ == 0
}

/// All of a text that is shorter than a chunk; its length is told elsewhere.
#[inline(always)]
fn tiny(text: &[u8]) -> u128 {
    let word = |word: &[u8; 8]| u64::from_le_bytes(*word);
    match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => u128::from(word(first)) << 64 | u128::from(word(last)),
        _ => u128::from(padded(text)) << 64,
    }
}

/// A quick hash of a text that can be remembered, which is compared afterwards.
#[inline(always)]
pub(super) fn hash(text: &[u8]) -> u64 {
    let len = text.len();
    if len < CHUNK {
        return mix(of_len(len), halves(tiny(text)));
    }
    if len > LONG {
        return hash_longer(text);
    }
    let at = |start| halves(chunk(text, start));
    let [a, b, c, d] = starts(len);
    let first = mix(of_len(len), add(at(a), add(at(b), add(at(c), at(d)))));
    if len <= SHORT {
        return first;
    }
    let [a, b, c] = starts_between(len);
    mix(first, add(at(a), add(at(b), at(c))))
}

/// The hash of a text that is longer than a long one: of its first part, and of all chunks behind that, of which the last two
/// overlap.
#[cold]
#[inline(never)]
fn hash_longer(text: &[u8]) -> u64 {
    let (first, rest) = text.split_at(LONG.min(text.len()));
    let last = text.len() - CHUNK;
    let starts = (0..rest.len()).step_by(CHUNK).map(|at| (LONG + at).min(last));
    let mixed = starts.fold(hash(first), |sum, at| mix(sum, halves(chunk(text, at))));
    mix(of_len(text.len()), (mixed, 0))
}

/// What a length adds to a hash, in all its bits: of texts like `/d/d/d/d` and `/d/d/d/d/d` it may be all that differs.
#[inline(always)]
fn of_len(len: usize) -> u64 {
    (len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

type Halves = (u64, u64);

#[inline(always)]
fn halves(chunk: u128) -> Halves {
    (chunk as u64, (chunk >> 64) as u64)
}

/// Adds what was added up before, turned, so that it matters where something stands.
#[inline(always)]
fn add(a: Halves, before: Halves) -> Halves {
    let add = |a: u64, before: u64| a.wrapping_add(before.rotate_left(21));
    (add(a.0, before.0), add(a.1, before.1))
}

#[inline(always)]
fn mix(sum: u64, (low, high): Halves) -> u64 {
    sum.rotate_left(21) ^ fold(low ^ 0x9e37_79b9_7f4a_7c15, high ^ 0xd1b5_4a32_d192_ed03)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of all lengths, each one also with each of its bytes changed.
    #[test]
    fn every_byte_of_a_text_counts() {
        for len in 1..=3 * LONG {
            let text: Vec<u8> = (0..len).map(|at| b'a' + (at % 23) as u8).collect();
            let mut own = [0; LONG];
            let kept = len.min(LONG);
            own[..kept].copy_from_slice(&text[..kept]);
            let same = |text: &[u8]| same(&own, text, |_| true);
            assert!(same(&text), "{len}");
            for at in 0..len {
                let mut other = text.clone();
                other[at] ^= 1;
                assert_eq!(same(&other), at >= LONG, "byte {at} of {len} is compared");
                assert_ne!(hash(&text), hash(&other), "byte {at} of {len} is hashed");
            }
        }
    }

    /// Two texts with one tag in one set take each other's place.
    #[test]
    fn texts_that_differ_in_their_length_alone_lie_apart() {
        for len in 4..200 {
            let [one, two] = [len, len + 2].map(|len| {
                let hash = hash(&b"/d".repeat(200)[..len]);
                (hash % 512, hash >> 48)
            });
            assert!(one.0 != two.0 && one.1 != two.1, "{len}: {one:?} and {two:?}");
        }
    }

    #[test]
    fn a_directory_is_what_stands_before_the_last_slash() {
        let directory = |path: &'static str| directory_of(path.as_bytes(), LONG);
        assert_eq!(directory("/usr/lib/x"), Some(&b"/usr/lib"[..]));
        assert_eq!(directory("/usr//x"), None, "it ends in a slash");
        assert_eq!(directory("/x"), None);
        assert_eq!(directory("x"), None);
    }

    /// Among bytes that differ from a slash in one bit, or are next to it.
    #[test]
    fn the_last_slash_is_found_wherever_it_is_and_nothing_else() {
        for len in 0..40_usize {
            for other in [b'.', b'0', b'/' ^ 0x80, b'/' ^ 1, 0, 0xff] {
                let mut text = vec![other; len];
                assert_eq!(slash(&text), None, "{other:#x}, {len} times");
                for at in 0..len {
                    text[at] = b'/';
                    assert_eq!(slash(&text), Some(at), "{other:#x}, {len} times");
                }
            }
        }
    }
}
