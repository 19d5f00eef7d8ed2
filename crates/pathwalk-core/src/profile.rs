//! What differs between versions of Linux, as values: the calls ask for the difference, not for the version.
//!
//! A field stands for one difference. 6.18 is held against the running kernel; the others are what is known of those versions,
//! of which none was asked.

/// How the calls answer where versions of Linux differ: just what the fields say. 6.18 if nothing is said.
///
/// What only costs differently, or is only seen in races, is not in it, nor what no version between 6.12 and 7.2 changes. All
/// calls are there in each: what came between two versions, and what it brought to calls of before, is in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinuxProfile {
    /// rename(2) finds a slash behind what is no directory (`ENOTDIR`) before it finds that one name lies below the other
    /// (`EINVAL`, `ENOTEMPTY`).
    pub rename_slash_first: bool,
    /// statx(2) and fstatat(2) of an open file by `AT_EMPTY_PATH` look at no other flag, unknown ones too.
    pub empty_path_hides_flags: bool,
    /// Sockets have `user.*` attributes.
    pub sockets_have_user_xattrs: bool,
    /// `O_EMPTYPATH`: an empty path opens the directory handle itself, anew.
    pub open_empty_path: bool,
}

impl LinuxProfile {
    /// Linux 6.12, but for what came after it: `setxattrat` and its family, `AT_EXECVE_CHECK`, `open_tree_attr` and the younger
    /// bits of `statmount` are there; trees that are mounted nowhere can be copied and mounted upon, which was `EINVAL` before
    /// 6.15; a map of owners can be changed in a copy; statx(2) leaves out times of change that nobody asked for; umount(2)
    /// finds the copies of a mount as it does since 6.17.
    pub const V6_12: Self = Self { empty_path_hides_flags: false, ..Self::V6_18 };
    /// Linux 6.18.
    pub const V6_18: Self = Self {
        rename_slash_first: true,
        empty_path_hides_flags: true,
        sockets_have_user_xattrs: false,
        open_empty_path: false,
    };
    /// Linux 7.2.
    pub const V7_2: Self = Self {
        rename_slash_first: false,
        sockets_have_user_xattrs: true,
        open_empty_path: true,
        ..Self::V6_18
    };
}

impl Default for LinuxProfile {
    /// Linux 6.18.
    fn default() -> Self {
        Self::V6_18
    }
}
