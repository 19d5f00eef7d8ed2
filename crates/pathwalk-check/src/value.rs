//! Values of extended attributes, as words.
//!
//! ```text
//!   acl:u7,u1000:5,g4,g50:6,m5,o0     an ACL: owner, user 1000, group, group 50, mask, others
//!   x:0001ff                          bytes
//!   anything                          itself
//! ```

use crate::field::{Field, Text, Word};
use pathwalk::abi::xattr::posix_acl;
use std::fmt::{self, Formatter};

/// The value of an extended attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value(pub(crate) Vec<u8>);

impl Word for Value {}

impl Field for Value {
    fn bounds() -> String {
        Text::bounds()
    }

    fn read(word: &str) -> Option<Self> {
        if let Some(entries) = word.strip_prefix("acl:") {
            let mut value = posix_acl::VERSION.to_le_bytes().to_vec();
            for entry in entries.split(',').filter(|entry| !entry.is_empty()) {
                value.extend(read_entry(entry)?);
            }
            return Some(Self(value));
        }
        if let Some(hex) = word.strip_prefix("x:") {
            let digits = hex.as_bytes().chunks(2).map(std::str::from_utf8);
            let bytes = digits.map(|pair| u8::from_str_radix(pair.ok()?, 16).ok());
            return bytes.collect::<Option<_>>().map(Self);
        }
        Text::read(word).map(|text| Self(text.0))
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(entries) = entries(&self.0) {
            return write!(f, "acl:{}", entries.join(","));
        }
        let plain = self.0.iter().all(|byte| byte.is_ascii_alphanumeric());
        if plain {
            return Text(self.0.clone()).write(f);
        }
        f.write_str("x:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The bytes of `u7` or `u1000:5`.
fn read_entry(entry: &str) -> Option<Vec<u8>> {
    let (letter, rest) = entry.split_at_checked(1)?;
    let (id, perm) = match rest.split_once(':') {
        Some((id, perm)) => (Some(id.parse::<u32>().ok()?), perm),
        None => (None, rest),
    };
    let tag = match (letter, id) {
        ("u", None) => posix_acl::USER_OBJ,
        ("u", Some(_)) => posix_acl::USER,
        ("g", None) => posix_acl::GROUP_OBJ,
        ("g", Some(_)) => posix_acl::GROUP,
        ("m", None) => posix_acl::MASK,
        ("o", None) => posix_acl::OTHER,
        _ => return None,
    };
    let perm: u16 = perm.parse().ok()?;
    let id = id.unwrap_or(posix_acl::UNDEFINED_ID);
    Some([&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat())
}

/// The entries of a value that is an ACL, such that they are read as the same again.
fn entries(value: &[u8]) -> Option<Vec<String>> {
    let (version, rest) = value.split_first_chunk::<{ posix_acl::HEADER }>()?;
    let (entries, []) = rest.as_chunks::<{ posix_acl::ENTRY }>() else { return None };
    if *version != posix_acl::VERSION.to_le_bytes() {
        return None;
    }
    entries
        .iter()
        .map(|&[t0, t1, p0, p1, id @ ..]| {
            let perm = u16::from_le_bytes([p0, p1]);
            let id = u32::from_le_bytes(id);
            let letter = match u16::from_le_bytes([t0, t1]) {
                posix_acl::USER_OBJ | posix_acl::USER => 'u',
                posix_acl::GROUP_OBJ | posix_acl::GROUP => 'g',
                posix_acl::MASK => 'm',
                posix_acl::OTHER => 'o',
                _ => return None,
            };
            let text = match id {
                posix_acl::UNDEFINED_ID => format!("{letter}{perm}"),
                id => format!("{letter}{id}:{perm}"),
            };
            (read_entry(&text)? == [&[t0, t1, p0, p1][..], &id.to_le_bytes()].concat())
                .then_some(text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        struct Shown(Value);
        impl fmt::Display for Shown {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                self.0.write(f)
            }
        }
        for word in ["acl:u7,u1000:5,g4,g50:6,m5,o0", "acl:", "x:0001ff", "abc", "''", "acl:o8"] {
            let value = Value::read(word).expect("a value");
            assert_eq!(Shown(value.clone()).to_string(), word);
            assert_eq!(Value::read(&Shown(value.clone()).to_string()), Some(value));
        }
    }
}
