//! Looking for a byte in eight or sixteen at once.

/// How many bytes of a word, the lowest first, are before the first that is `byte`; nothing if none is.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "see the argument")]
pub fn before(word: u64, byte: u8) -> Option<usize> {
    // SAFETY: there is no x86-64 without SSE2.
    let found = unsafe { equal(word, byte) };
    std::num::NonZeroU8::new(found).map(|found| found.trailing_zeros() as usize)
}

/// Which bytes of a word are `byte`.
#[inline]
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn equal(word: u64, byte: u8) -> u8 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_cvtsi64_si128, _mm_movemask_epi8, _mm_set1_epi8};
    let word = _mm_cvtsi64_si128(word.cast_signed());
    _mm_movemask_epi8(_mm_cmpeq_epi8(word, _mm_set1_epi8(byte.cast_signed()))) as u8
}

/// How many bytes of a word, the lowest first, are before the first that is `byte`; nothing if none is.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub fn before(word: u64, byte: u8) -> Option<usize> {
    portable(word, byte)
}

/// How many bytes of two words, the lowest of the first word first, are before the first that is `byte`; all if none is.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "see the argument")]
pub fn before_in_two(words: [u64; 2], byte: u8) -> usize {
    // SAFETY: there is no x86-64 without SSE2.
    let found = unsafe { equal_in_two(words, byte) };
    (u32::from(found) | 1 << 16).trailing_zeros() as usize
}

/// Which bytes of two words are `byte`.
#[inline]
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn equal_in_two(words: [u64; 2], byte: u8) -> u16 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let [first, second] = words.map(u64::cast_signed);
    let words = _mm_set_epi64x(second, first);
    _mm_movemask_epi8(_mm_cmpeq_epi8(words, _mm_set1_epi8(byte.cast_signed()))) as u16
}

/// How many bytes of two words, the lowest of the first word first, are before the first that is `byte`; all if none is.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub fn before_in_two(words: [u64; 2], byte: u8) -> usize {
    portable_in_two(words, byte)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable_in_two([first, second]: [u64; 2], byte: u8) -> usize {
    portable(first, byte).unwrap_or_else(|| 8 + portable(second, byte).unwrap_or(8))
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable(word: u64, byte: u8) -> Option<usize> {
    const LOW: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let differs = word ^ u64::from_ne_bytes([byte; 8]);
    // The lowest set bit marks the first such byte; what lies above it may be a false alarm.
    let found = differs.wrapping_sub(LOW) & !differs & HIGH;
    (found != 0).then_some((found.trailing_zeros() / 8) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_its_kind_is_found() {
        for at in 0..=8 {
            for (other, behind) in
                [(b'.', b'/'), (b'0', b'0'), (0, b'.'), (0xff, b'/'), (0xaf, 0xae)]
            {
                let mut bytes = [other; 8];
                bytes[at..].fill(behind);
                if let Some(first) = bytes.get_mut(at) {
                    *first = b'/';
                }
                let found = (at < 8).then_some(at);
                let word = u64::from_le_bytes(bytes);
                assert_eq!(before(word, b'/'), found, "{bytes:?}");
                assert_eq!(portable(word, b'/'), found, "{bytes:?}");
            }
        }
    }

    #[test]
    fn the_first_of_its_kind_in_two_words_is_found() {
        for byte in 0..=u8::MAX {
            for other in [byte ^ 1, byte ^ 0x80, byte ^ 0xff, byte.wrapping_add(1)] {
                for (at, behind) in (0..=16).flat_map(|at| [(at, byte), (at, other)]) {
                    let mut bytes = [other; 16];
                    bytes[at..].fill(behind);
                    if let Some(first) = bytes.get_mut(at) {
                        *first = byte;
                    }
                    let words = u128::from_le_bytes(bytes);
                    let words = [words as u64, (words >> 64) as u64];
                    assert_eq!(before_in_two(words, byte), at, "{byte} in {bytes:?}");
                    assert_eq!(portable_in_two(words, byte), at, "{byte} in {bytes:?}");
                }
            }
        }
    }
}
