//! Extended attributes: their names, and the layouts of the values that the kernel itself understands.
//!
//! ```text
//!   system.posix_acl_*      version │ tag perm id │ tag perm id │ …          4 bytes, then 8 an entry, little-endian
//!   security.capability     magic   │ permitted inheritable │ … │ rootid     revision 2: 20 bytes, revision 3: 24
//! ```
//!
//! Manual: xattr(7), acl(5), capabilities(7).

use crate::{Errno, Result};
use core::mem::offset_of;
use linux_raw_sys::general;

/// The names of one's own attributes begin so.
pub const XATTR_USER_PREFIX: &[u8] = b"user.";
/// The names of attributes that only `CAP_SYS_ADMIN` sees begin so.
pub const XATTR_TRUSTED_PREFIX: &[u8] = b"trusted.";
/// The names of attributes of security modules begin so.
pub const XATTR_SECURITY_PREFIX: &[u8] = b"security.";
/// The names of attributes that the kernel itself understands begin so.
pub const XATTR_SYSTEM_PREFIX: &[u8] = b"system.";
/// The name of a file's capabilities.
pub const XATTR_NAME_CAPS: &[u8] = b"security.capability";
/// The name of the ACL that says who may access a file.
pub const XATTR_NAME_POSIX_ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// The name of the ACL that new files in a directory get.
pub const XATTR_NAME_POSIX_ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// The argument of setxattrat(2) and getxattrat(2), `struct xattr_args`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct XattrArgs {
    /// The address of the value.
    pub value: u64,
    /// The size of the value, or of the room for it.
    pub size: u32,
    /// The bits of [`XattrFlags`](crate::XattrFlags); 0 for getxattrat(2).
    pub flags: u32,
}

impl XattrArgs {
    /// The size of the struct as it first was; a smaller one is `EINVAL`, and a larger one `E2BIG` unless what is beyond
    /// is zero.
    pub const SIZE_VER0: usize = 16;

    /// Reads the struct from the bytes that a caller passed; how many there are says which version of it the caller knows.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: it is smaller than it ever was.
    /// - `E2BIG`: it is larger than a page, or what is beyond is not zero.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        const PAGE: usize = 4096;
        let Some((&[v0, v1, v2, v3, v4, v5, v6, v7, s0, s1, s2, s3, flags @ ..], beyond)) =
            bytes.split_first_chunk::<{ Self::SIZE_VER0 }>()
        else {
            return Err(Errno::EINVAL);
        };
        if bytes.len() > PAGE || beyond.iter().any(|&byte| byte != 0) {
            return Err(Errno::E2BIG);
        }
        Ok(Self {
            value: u64::from_ne_bytes([v0, v1, v2, v3, v4, v5, v6, v7]),
            size: u32::from_ne_bytes([s0, s1, s2, s3]),
            flags: u32::from_ne_bytes(flags),
        })
    }
}

const _: () = assert!(size_of::<XattrArgs>() == XattrArgs::SIZE_VER0);
const _: () = assert!(offset_of!(XattrArgs, size) == 8);
const _: () = assert!(offset_of!(XattrArgs, flags) == 12);

/// The layout of ACLs; linux/posix_acl_xattr.h and linux/posix_acl.h, which are no part of `linux-raw-sys`.
pub mod posix_acl {
    /// The only version there is.
    pub const VERSION: u32 = 2;
    /// The size of what is in front of the entries.
    pub const HEADER: usize = 4;
    /// The size of an entry: tag and permission of 16 bits, an id of 32.
    pub const ENTRY: usize = 8;
    /// The tag of the owner.
    pub const USER_OBJ: u16 = 0x01;
    /// The tag of the user whose id is given.
    pub const USER: u16 = 0x02;
    /// The tag of the file's group.
    pub const GROUP_OBJ: u16 = 0x04;
    /// The tag of the group whose id is given.
    pub const GROUP: u16 = 0x08;
    /// The tag of what named users and all groups have at most.
    pub const MASK: u16 = 0x10;
    /// The tag of everyone else.
    pub const OTHER: u16 = 0x20;
    /// The id of an entry that needs none.
    pub const UNDEFINED_ID: u32 = u32::MAX;
}

/// The layout of file capabilities.
pub mod vfs_cap {
    use super::general;

    /// The bits of the magic number that tell the revision.
    pub const REVISION_MASK: u32 = general::VFS_CAP_REVISION_MASK;
    /// Two words of capabilities.
    pub const REVISION_2: u32 = general::VFS_CAP_REVISION_2;
    /// The same, and the user who is root where the capabilities count.
    pub const REVISION_3: u32 = general::VFS_CAP_REVISION_3;
    /// The capabilities are effective at once.
    pub const FLAGS_EFFECTIVE: u32 = general::VFS_CAP_FLAGS_EFFECTIVE;
    /// The size of revision 2.
    pub const SIZE_2: usize = 20;
    /// The size of revision 3.
    pub const SIZE_3: usize = 24;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_struct_are_versions_of_it() {
        let mut bytes = vec![0; 5000];
        bytes[..8].copy_from_slice(&7u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&3u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&2u32.to_ne_bytes());
        let args = XattrArgs { value: 7, size: 3, flags: 2 };
        // As Linux 6.18 answers.
        for (size, answer) in [
            (0, Err(Errno::EINVAL)),
            (15, Err(Errno::EINVAL)),
            (16, Ok(args)),
            (17, Ok(args)),
            (4096, Ok(args)),
            (4097, Err(Errno::E2BIG)),
        ] {
            assert_eq!(XattrArgs::from_bytes(&bytes[..size]), answer, "{size}");
        }
        bytes[19] = 1;
        assert_eq!(XattrArgs::from_bytes(&bytes[..19]), Ok(args));
        assert_eq!(XattrArgs::from_bytes(&bytes[..20]), Err(Errno::E2BIG));
    }
}
