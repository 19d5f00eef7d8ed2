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

/// The text before the last component, if there is one and it has at least two; to walk fewer is as quick as to remember.
#[inline(always)]
pub(crate) fn directory_of(path: &[u8], longest: usize) -> Option<&[u8]> {
    let slash = |text: &[u8]| text.iter().rposition(|&byte| byte == b'/');
    let last = slash(path).filter(|&last| last <= longest)?;
    let directory = &path[..last];
    slash(directory).filter(|&at| at > 0 && at + 1 < last).map(|_| directory)
}

/// Whether it has no empty name and no dots.
pub(super) fn is_canonical(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'/').skip(1).all(|name| !matches!(name, b"" | b"." | b".."))
}

/// Where a chunk of a text of at least one begins; one that the text does not reach lies on its last one.
#[inline(always)]
fn start(text: &[u8], number: usize) -> usize {
    (number * CHUNK).min(text.len().wrapping_sub(CHUNK))
}

/// The chunk of a text that begins there.
#[inline(always)]
fn chunk(text: &[u8], start: usize) -> u128 {
    let chunk = text.get(start..).and_then(<[u8]>::first_chunk);
    chunk.map_or(0, |chunk| u128::from_le_bytes(*chunk))
}

/// Whether `text` is what `own` begins with, which goes on with zeroes; the lengths are compared elsewhere. In registers:
/// the comparison of arrays is a call.
#[inline(always)]
pub(super) fn same(own: &[u8; LONG], text: &[u8]) -> bool {
    let len = text.len();
    if len < CHUNK {
        return tiny(own.get(..len).unwrap_or_default()) == tiny(text);
    }
    let differ = |number| {
        let start = start(text, number);
        chunk(own, start) ^ chunk(text, start)
    };
    if differ(0) | differ(1) | differ(2) | differ(3) != 0 {
        return false;
    }
    len <= SHORT || differ(4) | differ(5) | differ(6) == 0
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
    let len = text.len();
    if len < CHUNK {
        return mix(len as u64, tiny(text));
    }
    let chunk = |number| chunk(text, start(text, number));
    let first =
        mix(len as u64, chunk(0) ^ turn(chunk(1), 5) ^ turn(chunk(2), 11) ^ turn(chunk(3), 23));
    if len <= SHORT {
        return first;
    }
    mix(first, chunk(4) ^ turn(chunk(5), 5) ^ turn(chunk(6), 11))
}

/// Turns each half of a chunk, so that what is the same in two chunks does not cancel.
#[inline(always)]
fn turn(chunk: u128, bits: u32) -> u128 {
    let turned = |half: u128| u128::from((half as u64).rotate_left(bits));
    turned(chunk >> 64) << 64 | turned(chunk)
}

#[inline(always)]
fn mix(sum: u64, chunk: u128) -> u64 {
    let (low, high) = (chunk as u64, (chunk >> 64) as u64);
    sum.rotate_left(21) ^ fold(low ^ 0x9e37_79b9_7f4a_7c15, high ^ 0xd1b5_4a32_d192_ed03)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of all lengths, each one also with each of its bytes changed.
    #[test]
    fn every_byte_of_a_text_counts() {
        for len in 1..=LONG {
            let text: Vec<u8> = (0..len).map(|at| b'a' + (at % 23) as u8).collect();
            let mut own = [0; LONG];
            own[..len].copy_from_slice(&text);
            assert!(same(&own, &text), "{len}");
            for at in 0..len {
                let mut other = text.clone();
                other[at] ^= 1;
                assert!(!same(&own, &other), "byte {at} of {len} is compared");
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
