//! Limits: how long a name, a path or a chain of links may be.

use linux_raw_sys::general;

/// The longest component, in bytes; a longer one is `ENAMETOOLONG`.
pub const NAME_MAX: usize = general::NAME_MAX as usize;
/// The longest path, in bytes, its terminator included; a longer one is `ENAMETOOLONG`.
pub const PATH_MAX: usize = general::PATH_MAX as usize;
/// The number of symbolic links one walk may follow; the next one is `ELOOP`.
pub const MAXSYMLINKS: u32 = 40; // include/linux/namei.h; not part of the user API, so typed here
/// The longest name of an extended attribute, in bytes; a longer one is `ERANGE`.
pub const XATTR_NAME_MAX: usize = general::XATTR_NAME_MAX as usize;
/// The longest value of an extended attribute, in bytes; a longer one is `E2BIG`.
pub const XATTR_SIZE_MAX: usize = general::XATTR_SIZE_MAX as usize;
/// The longest list of names that listxattr(2) returns, in bytes.
pub const XATTR_LIST_MAX: usize = general::XATTR_LIST_MAX as usize;
