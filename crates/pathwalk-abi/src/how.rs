//! The argument of openat2(2).

use core::mem::offset_of;

/// How a file is to be opened.
///
/// The fields are plain numbers, so that a bit without a meaning reaches the call and is answered
/// with `EINVAL`. Manual: openat2(2), `struct open_how`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct OpenHow {
    /// The bits of [`OpenFlags`](crate::OpenFlags).
    pub flags: u64,
    /// The mode of a file that is created; otherwise it must be zero.
    pub mode: u64,
    /// The bits of [`ResolveFlags`](crate::ResolveFlags).
    pub resolve: u64,
}

const _: () = assert!(size_of::<OpenHow>() == 24);
const _: () = assert!(offset_of!(OpenHow, flags) == 0);
const _: () = assert!(offset_of!(OpenHow, mode) == 8);
const _: () = assert!(offset_of!(OpenHow, resolve) == 16);
