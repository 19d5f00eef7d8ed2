//! Numbers of the machine: they are counted as they come, or written as `N`.

use std::{collections::HashMap, hash::Hash};

/// The how many-th it is of those that were seen.
pub(super) fn number<K: Hash + Eq>(seen: &mut HashMap<K, u32>, key: K) -> u32 {
    let next = seen.len() as u32 + 1;
    *seen.entry(key).or_insert(next)
}

/// Numbers of tasks and descriptors, as a procfs shows them, are the machine's, and so is an inode's, which is the name of a
/// file that has none: as components of a path they are written as `N`.
pub(super) fn without_numbers(bytes: &[u8], shows_tasks: bool) -> Vec<u8> {
    let named = |name: &[u8]| match name.strip_prefix(b"#") {
        _ if shows_tasks && is_number(name) => b"N".to_vec(),
        Some(rest) if is_number(rest.strip_suffix(b" (deleted)").unwrap_or(rest)) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            [b"#N", &rest[digits..]].concat()
        }
        _ => name.to_vec(),
    };
    bytes.split(|&byte| byte == b'/').map(named).collect::<Vec<_>>().join(&b'/')
}

/// Whether it is the name of a task or of a descriptor.
pub(super) fn is_number(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(u8::is_ascii_digit)
}
