//! What a file system is like, and what is asked of an inode.

use bitflags::{Flags, bitflags};

bitflags! {
    /// What a file system is like; asked once, when it is mounted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Features: u32 {
        /// The cache is the file system's only record of its names: every directory's children are all in it, a
        /// name that is not there does not exist, nothing is evicted, and [`FileSystem::lookup`](super::FileSystem::lookup) and
        /// [`FileSystem::readdir`](super::FileSystem::readdir) are never called.
        const COMPLETE = 1 << 0;
        /// [`FileSystem::permission`](super::FileSystem::permission) decides instead of the mode bits.
        const PERMISSION = 1 << 1;
        /// … but search in a directory whose three x bits are set needs not be asked (a promise that the answer
        /// would be yes).
        const MAY_EXEC = 1 << 2;
        /// [`FileSystem::revalidate`](super::FileSystem::revalidate) wants to be asked at each use of a cached name.
        const REVALIDATE = 1 << 3;
        /// … of a run of cached names at a time, by [`FileSystem::lookup_many`](super::FileSystem::lookup_many).
        const LOOKUP_MANY = 1 << 7;
        /// … which then says of each name by itself whether it holds, not only where all of them lead; and of a place to which no name
        /// led, with [`Features::REVALIDATE_PATH`], [`FileSystem::revalidate_path`](super::FileSystem::revalidate_path) brings up to
        /// date who may search and read it.
        const EACH_NAME = 1 << 16;
        /// … and of all cached names of a path at once, by [`FileSystem::revalidate_path`](super::FileSystem::revalidate_path), where
        /// a thread walked it before.
        const REVALIDATE_PATH = 1 << 15;
        /// [`FileSystem::getattr`](super::FileSystem::getattr) wants to be asked at each stat and each
        /// change of attributes, whatever the cache has.
        const GETATTR = 1 << 10;
        /// Its symlinks lead to different places for different tasks, or to places without a path:
        /// [`FileSystem::get_link`](super::FileSystem::get_link) is asked at each use, and no body is kept.
        const MAGIC_LINKS = 1 << 4;
        /// Its stamps are no finer than a tick of the clock, and it knows no births: statx(2) shows so.
        const COARSE_TIMES = 1 << 5;
        /// Listing a directory is not noted in its time of last access.
        const NODIRATIME = 1 << 6;
        /// ACLs take part in permission, and default ACLs take the umask's place: [`FileSystem::acls`](super::FileSystem::acls) and
        /// [`FileSystem::set_acl`](super::FileSystem::set_acl) know them. Those of a complete file system are kept in the cache alone.
        const POSIX_ACL = 1 << 8;
        /// Its mounts may show owners otherwise than they are: it looks at owners only through what it is handed.
        const IDMAP = 1 << 11;
        /// It mounts things by itself, or holds walks back: [`FileSystem::managed`](super::FileSystem::managed) says where.
        const MANAGED = 1 << 12;
        /// Its fifos and devices can be opened: [`FileSystem::open`](super::FileSystem::open) is asked of them too. Where it is
        /// not set they cannot, as there is nothing behind them here.
        const SPECIAL = 1 << 13;
        /// [`FileSystem::open`](super::FileSystem::open) would say nothing: it is not asked.
        const NO_OPEN = 1 << 14;
        /// It makes and opens a file at once: [`FileSystem::atomic_open`](super::FileSystem::atomic_open) is asked where a call wants both.
        const ATOMIC_OPEN = 1 << 17;
    }
}

const _: () = {
    // Each is a bit of its own.
    let (mut at, mut seen) = (0, 0);
    while at < Features::FLAGS.len() {
        let bit = Features::FLAGS[at].value().bits();
        assert!(bit & seen == 0);
        (at, seen) = (at + 1, seen | bit);
    }
};

bitflags! {
    /// What is asked of an inode.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u32 {
        /// Execute a file, search a directory.
        const EXEC = 1;
        /// Write.
        const WRITE = 2;
        /// Read.
        const READ = 4;
    }
}
