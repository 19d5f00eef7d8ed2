//! Whose the files are: as the host says, by a table, or as it is written beside them.

use crate::host::{Host, XattrFlags};
use pathwalk_abi::{Dev, Errno, FileType, Result, mode::S_IALLUGO};
use pathwalk_core::Attr;
use std::os::fd::BorrowedFd;

/// Whose the files of a directory of the host are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Identities {
    /// As the host says. To give a file to another takes the host's privilege. Where the host's file system decides itself whose a new file is,
    /// or which mode it has, as vfat and some servers do, it is as that decides.
    #[default]
    Host,
    /// Owners and groups are other numbers here than there; modes are the host's. There are no ACLs.
    Mapped(IdMap),
    /// Owner, group, mode and device number are kept in an extended attribute of the file, `user.pathwalk.stat`, and the
    /// file belongs to this process's user on the host: so an ordinary user can hold the files of another world. What that
    /// user may not make, as devices, and what can have no such attribute, as symlinks, is a regular file there. What has no
    /// such attribute is as the host says. There are no ACLs and no whiteouts.
    Kept,
}

/// Which numbers of users and groups are which on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap {
    /// Of users.
    pub users: Vec<IdRange>,
    /// Of groups.
    pub groups: Vec<IdRange>,
}

/// So many numbers from `inside` on are those from `host` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The first here.
    pub inside: u32,
    /// The first on the host.
    pub host: u32,
    /// How many.
    pub count: u32,
}

/// Whose a file is whose owner has no number here: `/proc/sys/kernel/overflowuid`.
const NOBODY: u32 = 65_534;

/// Begins the names of attributes that are not the files'.
pub(crate) const OWN_PREFIX: &[u8] = b"user.pathwalk.";

const STAT: &[u8] = b"user.pathwalk.stat";

fn to_inside(ranges: &[IdRange], id: u32) -> u32 {
    let inside = |range: &IdRange| {
        let at = id.checked_sub(range.host).filter(|at| *at < range.count)?;
        range.inside.checked_add(at)
    };
    ranges.iter().find_map(inside).unwrap_or(NOBODY)
}

fn to_host(ranges: &[IdRange], id: u32) -> Option<u32> {
    let host = |range: &IdRange| {
        let at = id.checked_sub(range.inside).filter(|at| *at < range.count)?;
        range.host.checked_add(at)
    };
    ranges.iter().find_map(host)
}

impl Identities {
    pub(crate) fn is_kept(&self) -> bool {
        *self == Self::Kept
    }

    /// The numbers of an owner and a group on the host; none where either has no such.
    pub(crate) fn to_host(&self, uid: u32, gid: u32) -> Option<(u32, u32)> {
        match self {
            Self::Mapped(map) => Some((to_host(&map.users, uid)?, to_host(&map.groups, gid)?)),
            _ => Some((uid, gid)),
        }
    }

    /// The same of those that a change gives.
    pub(crate) fn change_to_host(
        &self,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Option<(Option<u32>, Option<u32>)> {
        let Self::Mapped(map) = self else { return Some((uid, gid)) };
        let host = |ranges: &[IdRange], id: Option<u32>| match id {
            Some(id) => to_host(ranges, id).map(Some),
            None => Some(None),
        };
        Some((host(&map.users, uid)?, host(&map.groups, gid)?))
    }

    /// What the host says of a file, as it is here; `kept` reads what is written beside it.
    pub(crate) fn apply(&self, attr: &mut Attr, kept: impl FnOnce() -> Result<Kept>) -> Result<()> {
        match self {
            Self::Host => {}
            Self::Mapped(map) => {
                attr.uid = to_inside(&map.users, attr.uid);
                attr.gid = to_inside(&map.groups, attr.gid);
            }
            Self::Kept => {
                if !matches!(attr.file_type(), FileType::Regular | FileType::Directory) {
                    return Ok(());
                }
                match kept() {
                    Ok(kept) if kept.fits(attr.file_type()) => kept.apply(attr),
                    Ok(_) | Err(Errno::ENODATA | Errno::EOPNOTSUPP) => {}
                    Err(errno) => return Err(errno),
                }
            }
        }
        Ok(())
    }
}

/// What is written beside a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// With the type.
    mode: u32,
    uid: u32,
    gid: u32,
    rdev: Dev,
}

impl Kept {
    pub(crate) fn new(mode: u32, uid: u32, gid: u32, rdev: Dev) -> Self {
        Self { mode, uid, gid, rdev }
    }

    /// That of a file as the cache has it.
    pub(crate) fn of(attr: &Attr) -> Self {
        Self::new(attr.mode, attr.uid, attr.gid, attr.rdev)
    }

    /// As the attribute has it: the mode in octal, owner, group, device.
    fn parse(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let mode = u32::from_str_radix(words.next()?, 8).ok()?;
        let (uid, gid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (major, minor) = words.next()?.split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        let fits = major < 1 << 12 && minor < 1 << 20 && words.next().is_none();
        fits.then(|| Self::new(mode, uid, gid, Dev::new(major, minor)))
    }

    fn text(&self) -> String {
        let Self { mode, uid, gid, rdev } = self;
        format!("{mode:o} {uid} {gid} {}:{}", rdev.major(), rdev.minor())
    }

    /// Whether a file of this type on the host can be that: a directory is one, and nothing else is.
    fn fits(&self, host: FileType) -> bool {
        let kind = FileType::from_mode(self.mode);
        kind.is_some_and(|kind| (kind == FileType::Directory) == (host == FileType::Directory))
    }

    fn apply(&self, attr: &mut Attr) {
        (attr.mode, attr.uid, attr.gid, attr.rdev) = (self.mode, self.uid, self.gid, self.rdev);
    }

    /// The mode of the file on the host, which this process must be able to use: who may run it there may run it.
    pub(crate) fn host_mode(&self) -> u32 {
        match FileType::from_mode(self.mode) {
            Some(FileType::Directory) => 0o700,
            Some(FileType::Regular) => 0o600 | self.mode & 0o100,
            _ => 0o600,
        }
    }

    /// Reads it of a file that is held, or of a name in a directory that is.
    pub(crate) fn read(host: &Host, held: BorrowedFd<'_>, name: &[u8]) -> Result<Self> {
        let value = host.lgetxattr(held, name, STAT)?;
        // What somebody else wrote there says nothing.
        Self::parse(&value).ok_or(Errno::ENODATA)
    }

    /// Writes it beside a file that is held.
    pub(crate) fn write(&self, host: &Host, held: BorrowedFd<'_>) -> Result<()> {
        host.setxattr(held, STAT, self.text().as_bytes(), XattrFlags::empty())?;
        // What it is on the host is all the same where it has no mode.
        unless_refused(host.chmod(held, self.host_mode() & S_IALLUGO))
    }
}

/// The answer of a change to a file whose owner or mode this process may change: where it is refused, the file system has none that could be
/// changed, and that is no error.
pub(crate) fn unless_refused(answer: Result<()>) -> Result<()> {
    match answer {
        Err(Errno::EPERM | Errno::EACCES | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let kept = Kept::new(0o020_640, 7, u32::MAX - 1, Dev::new(5, 1 << 19));
        assert_eq!(Kept::parse(kept.text().as_bytes()), Some(kept));
        for text in ["", "0", "100644 0 0", "100644 0 0 1", "9 0 0 0:0", "1 -1 0 0:0", "1 0 0 0:0 "]
        {
            assert_eq!(Kept::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Kept::parse(b"100644 0 0 4096:0"), None, "no device has such a number");
    }

    #[test]
    fn numbers_go_both_ways() {
        let ranges = [
            IdRange { inside: 0, host: 1000, count: 1 },
            IdRange { inside: 1, host: 100_000, count: 65_535 },
        ];
        for (inside, host) in [(0, 1000), (1, 100_000), (65_535, 165_534)] {
            assert_eq!(to_host(&ranges, inside), Some(host));
            assert_eq!(to_inside(&ranges, host), inside);
        }
        assert_eq!(to_host(&ranges, 65_536), None);
        assert_eq!(to_inside(&ranges, 0), NOBODY);
        let end = [IdRange { inside: u32::MAX, host: 0, count: u32::MAX }];
        assert_eq!(to_inside(&end, 1), NOBODY, "there are no more numbers");
    }
}
