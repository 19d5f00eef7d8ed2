//! What cache and file system say to each other.

use crate::{
    acl::AclEntry,
    inode::{Attr, InodeRef},
    tasks::HeldPlace,
};
use pathwalk_abi::{Dev, Errno, FileType, Timespec};

/// What a name stands for, as the file system says it. Each is given back once, by
/// [`FileSystem::evict`](super::FileSystem::evict).
#[derive(Clone, Debug)]
pub struct Found {
    /// The file system's own word for the inode; equal for two names of one file.
    pub node: u64,
    /// The attributes.
    pub attr: Attr,
    /// Of a symlink: its body, if it is at hand; else it is asked for by [`FileSystem::readlink`](super::FileSystem::readlink). It has 1 to 4095 bytes,
    /// none of them NUL; the size in `attr` is only what stat shows.
    pub body: Option<Vec<u8>>,
}

/// What a name stands for: see [`FileSystem::peek`](super::FileSystem::peek).
#[derive(Clone, Debug)]
pub struct Peeked {
    /// The attributes.
    pub attr: Attr,
    /// They would be told so of a name that is not cached.
    pub as_told: bool,
    /// Of each extended attribute that was asked about, the errno of one that is not there; none where it may be.
    pub lacks: Vec<Option<Errno>>,
}

/// A name as the cache has it.
#[derive(Clone, Copy, Debug)]
pub struct CachedName<'a> {
    /// The name.
    pub name: &'a [u8],
    /// What it stands for; none is a name that was not there.
    pub inode: Option<InodeRef<'a>>,
}

/// A file that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewInode<'a> {
    /// Its type.
    pub file_type: FileType,
    /// Its permission bits, umask or default ACL applied.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Of a device: its number.
    pub rdev: Dev,
    /// Of a symlink: its body.
    pub body: &'a [u8],
    /// Who may access it beside what the mode says; empty if there is no such.
    pub access_acl: &'a [AclEntry],
    /// Of a directory: what new files in it begin with; empty if there is no such.
    pub default_acl: &'a [AclEntry],
    /// The time.
    pub now: Timespec,
}

/// A rename.
#[derive(Clone, Copy, Debug)]
pub struct Rename<'a> {
    /// The directory that has the name now.
    pub old_dir: InodeRef<'a>,
    /// The name now.
    pub old_name: &'a [u8],
    /// What is renamed.
    pub inode: InodeRef<'a>,
    /// The directory that gets the name; perhaps the same.
    pub new_dir: InodeRef<'a>,
    /// The new name.
    pub new_name: &'a [u8],
    /// What the new name stood for, which loses it.
    pub replaced: Option<InodeRef<'a>>,
    /// `RENAME_NOREPLACE`: what others gave the new name since it was looked up keeps it, and the answer is `EEXIST`.
    pub no_replace: bool,
    /// The time.
    pub now: Timespec,
}

/// What statfs(2) asks the file system; the rest is the mount's.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsStat {
    /// The magic number of the type.
    pub magic: u64,
    /// The size of a block.
    pub bsize: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub bfree: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
}

/// Where a symlink leads.
#[derive(Debug)]
pub enum LinkTarget<'v> {
    /// To what this path leads to, from the symlink's directory.
    Body(Vec<u8>),
    /// As a magic link does, in another mount, to what this path leads to: who wants no magic links, or to stay where the walk
    /// began, is refused.
    Jump(Vec<u8>),
    /// As a magic link does, to this very place, whatever path leads there, if any does.
    Place(HeldPlace<'v>),
}

/// Takes one entry of a listing: the offset behind it, its inode number, type and name. Says whether more is wanted.
pub type Emit<'a> = dyn FnMut(u64, u64, FileType, &[u8]) -> bool + 'a;
