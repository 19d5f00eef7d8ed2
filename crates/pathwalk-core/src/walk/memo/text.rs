//! The text of a path, to be hashed and compared in few instructions.
//!
//! How many are made does not depend on the text, as the end of a loop is hard to predict: a text is looked at in four
//! chunks, of which the later overlap the earlier if it is short, and a long one in three more.

use crate::name::{fold, padded};

/// So many bytes are looked at at once.
const CHUNK: usize = 16;
/// So many bytes are in the chunks that are looked at first; most texts are no longer.
pub(super) const SHORT: usize = 4 * CHUNK;
/// The longest text that is remembered.
pub(super) const LONG: usize = SHORT + 3 * CHUNK;

/// Whether a text can be remembered: it is not longer than that, and does not end in a slash.
#[inline(always)]
pub(crate) fn can_be(text: &[u8], longest: usize) -> bool {
    text.len() <= longest && text.last().is_some_and(|&last| last != b'/')
}

/// The text before the last component, if there is one.
#[inline(always)]
pub(crate) fn directory_of(path: &[u8], longest: usize) -> Option<&[u8]> {
    let last = path.iter().rposition(|&byte| byte == b'/')?;
    (last > 1).then(|| &path[..last]).filter(|text| can_be(text, longest))
}

/// A text as chunks.
#[derive(Clone, Copy)]
struct Chunks<'t> {
    text: &'t [u8],
}

impl<'t> Chunks<'t> {
    /// None if the text is shorter than a chunk.
    #[inline(always)]
    fn of(text: &'t [u8]) -> Option<Self> {
        (text.len() >= CHUNK).then_some(Self { text })
    }

    /// The chunk that begins there, or the last one.
    #[inline(always)]
    fn at(self, start: usize) -> u128 {
        let start = start.min(self.text.len().wrapping_sub(CHUNK));
        let chunk = self.text.get(start..).and_then(<[u8]>::first_chunk);
        chunk.map_or(0, |chunk| u128::from_le_bytes(*chunk))
    }

    #[inline(always)]
    fn first(self) -> [u128; 4] {
        [self.at(0), self.at(CHUNK), self.at(2 * CHUNK), self.at(3 * CHUNK)]
    }

    /// What lies behind the first ones.
    #[inline(always)]
    fn rest(self) -> [u128; 3] {
        [self.at(SHORT), self.at(SHORT + CHUNK), self.at(SHORT + 2 * CHUNK)]
    }
}

/// Whether two texts of one length are the same. In registers: the comparison of arrays is a call.
#[inline(always)]
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    let (Some(a), Some(b)) = (Chunks::of(a), Chunks::of(b)) else {
        return tiny(a) == tiny(b);
    };
    let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (a.first(), b.first());
    if (a0 ^ b0) | (a1 ^ b1) | (a2 ^ b2) | (a3 ^ b3) != 0 {
        return false;
    }
    if a.text.len() <= SHORT {
        return true;
    }
    let ([a0, a1, a2], [b0, b1, b2]) = (a.rest(), b.rest());
    (a0 ^ b0) | (a1 ^ b1) | (a2 ^ b2) == 0
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

/// A quick hash of a text that can be remembered, which is compared afterwards. The chunks do not wait for each other.
#[inline(always)]
pub(super) fn hash(text: &[u8]) -> u64 {
    let len = text.len() as u64;
    let Some(chunks) = Chunks::of(text) else {
        return mix(len, tiny(text));
    };
    let [a, b, c, d] = chunks.first();
    let first = mix(mix(mix(mix(len, a), b), c), d);
    if text.len() <= SHORT {
        return first;
    }
    let [a, b, c] = chunks.rest();
    mix(mix(mix(first, a), b), c)
}

#[inline(always)]
fn mix(sum: u64, chunk: u128) -> u64 {
    let (low, high) = (chunk as u64, (chunk >> 64) as u64);
    // A path has no NUL bytes, so the second factor is not zero.
    sum.rotate_left(21) ^ fold(low ^ 0x9e37_79b9_7f4a_7c15, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of all lengths, each one also with each of its bytes changed.
    #[test]
    fn every_byte_of_a_text_counts() {
        for len in 1..=LONG {
            let text: Vec<u8> = (0..len).map(|at| b'a' + (at % 23) as u8).collect();
            assert!(same(&text, &text.clone()), "{len}");
            for at in 0..len {
                let mut other = text.clone();
                other[at] ^= 1;
                assert!(!same(&text, &other), "byte {at} of {len} is compared");
                assert_ne!(hash(&text), hash(&other), "byte {at} of {len} is hashed");
            }
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
}
