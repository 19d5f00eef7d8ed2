//! ACLs as getxattr and setxattr carry them.
//!
//! Linux: `posix_acl_from_xattr`, `posix_acl_to_xattr`; the layout is [`posix_acl`]'s.

use super::{AclEntry, AclTag};
use crate::fs::Access;
use pathwalk_abi::{Errno, Result, xattr::posix_acl};

/// Reads the value of `system.posix_acl_access` or `system.posix_acl_default`; without entries it is no ACL. Order and completeness are checked elsewhere.
///
/// # Errors
///
/// - `EINVAL`: it is shorter than the header.
/// - `EOPNOTSUPP`: it has another version.
/// - `EINVAL`: an entry is incomplete, its tag is unknown, or an id is missing.
pub fn from_xattr(value: &[u8]) -> Result<Vec<AclEntry>> {
    if value.is_empty() {
        return Ok(Vec::new());
    }
    let (version, entries) =
        value.split_first_chunk::<{ posix_acl::HEADER }>().ok_or(Errno::EINVAL)?;
    if u32::from_le_bytes(*version) != posix_acl::VERSION {
        return Err(Errno::EOPNOTSUPP);
    }
    let (entries, []) = entries.as_chunks::<{ posix_acl::ENTRY }>() else {
        return Err(Errno::EINVAL);
    };
    entries
        .iter()
        .map(|&[t0, t1, p0, p1, id @ ..]| {
            let id = u32::from_le_bytes(id);
            let named = || if id == posix_acl::UNDEFINED_ID { Err(Errno::EINVAL) } else { Ok(id) };
            let tag = match u16::from_le_bytes([t0, t1]) {
                posix_acl::USER_OBJ => AclTag::UserObj,
                posix_acl::USER => AclTag::User(named()?),
                posix_acl::GROUP_OBJ => AclTag::GroupObj,
                posix_acl::GROUP => AclTag::Group(named()?),
                posix_acl::MASK => AclTag::Mask,
                posix_acl::OTHER => AclTag::Other,
                _ => return Err(Errno::EINVAL),
            };
            let bits = u16::from_le_bytes([p0, p1]);
            Ok(AclEntry { tag, access: Access::from_bits_retain(bits.into()) })
        })
        .collect()
}

/// Writes the value of `system.posix_acl_access` or `system.posix_acl_default`.
pub fn to_xattr(acl: &[AclEntry]) -> Vec<u8> {
    let mut value = Vec::with_capacity(posix_acl::HEADER + acl.len() * posix_acl::ENTRY);
    value.extend(posix_acl::VERSION.to_le_bytes());
    for entry in acl {
        let (tag, id) = split(entry.tag);
        value.extend(tag.to_le_bytes());
        value.extend((entry.access.bits() as u16).to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// The tag as a number, and the id beside it.
pub(super) fn split(tag: AclTag) -> (u16, u32) {
    match tag {
        AclTag::UserObj => (posix_acl::USER_OBJ, posix_acl::UNDEFINED_ID),
        AclTag::User(id) => (posix_acl::USER, id),
        AclTag::GroupObj => (posix_acl::GROUP_OBJ, posix_acl::UNDEFINED_ID),
        AclTag::Group(id) => (posix_acl::GROUP, id),
        AclTag::Mask => (posix_acl::MASK, posix_acl::UNDEFINED_ID),
        AclTag::Other => (posix_acl::OTHER, posix_acl::UNDEFINED_ID),
    }
}

/// An entry in a word: 16 bits of tag, 16 of permission, 32 of id. The word is that of an inode's own memory, so it is one
/// that [`to_word`] made, or the reader is late and believes nothing of it.
pub(super) fn from_word(word: u64) -> AclEntry {
    let id = word as u32;
    let tag = match (word >> 48) as u16 {
        posix_acl::USER_OBJ => AclTag::UserObj,
        posix_acl::USER => AclTag::User(id),
        posix_acl::GROUP_OBJ => AclTag::GroupObj,
        posix_acl::GROUP => AclTag::Group(id),
        posix_acl::MASK => AclTag::Mask,
        _ => AclTag::Other,
    };
    AclEntry { tag, access: Access::from_bits_truncate((word >> 32) as u32 & 7) }
}

/// The word of an entry.
pub(super) fn to_word(entry: AclEntry) -> u64 {
    let (tag, id) = split(entry.tag);
    u64::from(tag) << 48 | u64::from(entry.access.bits()) << 32 | u64::from(id)
}
