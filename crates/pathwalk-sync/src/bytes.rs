//! Looking for a byte in eight at once.

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
}
