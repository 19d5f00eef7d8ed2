//! The file system: what each call does to the attributes of the inodes it is about.
//!
//! Each method changes one inode at a time, in one step, and the step that can fail comes first: after it nothing is
//! left that could, so nothing has to be undone. (`link`, where two can, is the exception.)
//!
//! Linux: `shmem_mknod`, `shmem_link`, `shmem_unlink`, `shmem_rmdir`, `shmem_rename2`, `shmem_setattr`.

use crate::{
    builder::{Builder, ROOT_MODE},
    data::{File, Files},
    directory::{self, EMPTY_NLINK, EMPTY_SIZE},
    memfd::Opening,
    node::{Contents, Node},
    space::{Limits, PAGE, Space, Usage},
};
use pathwalk_abi::{
    Dev, Errno, FileType, InodeFlags, OpenFlags, Result, Timespec, XattrFlags,
    mode::{S_IALLUGO, S_IRWXUGO},
};
use pathwalk_core::{
    AclEntry, AclKind, Attr, InodeRef, Subject,
    fs::{Features, FileSystem, Found, FsStat, Iattr, NewInode, OpenHandle, Rename},
};
use pathwalk_sync::Numbers;
use std::{
    convert::Infallible,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The type's magic number in statfs(2).
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// The largest size of a file: the largest offset there is.
const MAX_SIZE: u64 = i64::MAX as u64;
/// What a new file has of its directory's flags.
const INHERITED: InodeFlags = InodeFlags::NODUMP.union(InodeFlags::NOATIME);
/// A symlink's body takes a page from this length on.
const LONG_BODY: usize = 128;

/// A file system in memory.
///
/// Its files live in the machine that it is mounted in: they go when it is unmounted. Mounted twice it shows two trees,
/// which share the limits; to show one tree twice, bind it.
pub struct MemFs {
    options: Builder,
    pub(crate) space: Arc<Space>,
    numbers: Numbers,
    files: Files,
    /// User and group of who mounted it first, in one word; [`NOBODY`] before.
    mounted_by: AtomicU64,
}

/// No user and no group: nobody has these numbers.
const NOBODY: u64 = u64::MAX;

impl MemFs {
    /// Makes an empty file system with the default limits, whose root belongs to user 0 and has mode 1777.
    pub fn new() -> Arc<Self> {
        Self::builder().build()
    }

    /// Makes an empty file system that holds no more than that.
    pub fn with_limits(limits: Limits) -> Arc<Self> {
        Self::builder().limits(limits).build()
    }

    /// Begins to make one that is different.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn made_as(options: Builder) -> Self {
        let space = Arc::new(Space::new(options.limits.unwrap_or_default()));
        let (numbers, files) = (Numbers::default(), Files::default());
        Self { options, space, numbers, files, mounted_by: AtomicU64::new(NOBODY) }
    }

    /// How much it holds.
    pub fn usage(&self) -> Usage {
        Usage { bytes: self.space.pages.used() * PAGE, inodes: self.space.used_inodes() }
    }

    /// A file as it is when it is new, with what it inherits from its directory. Its inode was taken from the limit before.
    pub(crate) fn new_attr(&self, new: &NewInode<'_>, inherited: InodeFlags) -> Attr {
        let directory = new.file_type == FileType::Directory;
        let (mode, size, blocks) = match new.file_type {
            FileType::Directory => (new.mode, EMPTY_SIZE, 0),
            FileType::Symlink => {
                (S_IRWXUGO, new.body.len() as u64, body_pages(new.body) * (PAGE / 512))
            }
            _ => (new.mode, 0, 0),
        };
        Attr {
            mode: new.file_type.to_mode() | mode & S_IALLUGO,
            uid: new.uid,
            gid: new.gid,
            nlink: if directory { EMPTY_NLINK } else { 1 },
            ino: self.numbers.next(),
            size,
            blocks,
            rdev: new.rdev,
            atime: new.now,
            mtime: new.now,
            ctime: new.now,
            btime: new.now,
            flags: inherited & INHERITED,
        }
    }

    /// The contents of a file that has a size; one that has none reads as nothing.
    fn file(&self, inode: InodeRef<'_>) -> Option<Arc<File>> {
        // The size first: whoever gave the file one had set the node before, so from here on we see it.
        if inode.attr().size == 0 {
            return None;
        }
        match Node(inode.node()).contents() {
            Contents::File(key) => Some(self.files.get(key)),
            Contents::None | Contents::Body => None,
        }
    }

    /// The attributes of a file, with its contents; one that has none has no attributes either.
    pub(crate) fn attributes(&self, inode: InodeRef<'_>) -> Option<Arc<File>> {
        match Node(inode.node()).contents() {
            Contents::File(key) => Some(self.files.get(key)),
            Contents::None | Contents::Body => None,
        }
    }

    /// The contents of a file that is about to have a size, or attributes.
    pub(crate) fn file_or_new(&self, inode: InodeRef<'_>) -> Arc<File> {
        if let Some(file) = self.attributes(inode) {
            return file;
        }
        let body_pages = u64::from(Node(inode.node()).contents() == Contents::Body);
        let new = Arc::new(File::new(body_pages));
        let key = self.files.insert(inode.attr().ino, Arc::clone(&new));
        let first = inode.update(|_| {
            let node = Node(inode.node());
            match node.contents() {
                Contents::File(other) => return Err(other),
                Contents::None | Contents::Body => inode.set_node(node.with_file(key).0),
            }
            Ok(())
        });
        match first {
            Ok(()) => new,
            // Another thread was first.
            Err(other) => {
                self.files.remove(key);
                self.files.get(other)
            }
        }
    }

    /// As setattr, where contents are in memfds.
    fn setattr_of_memfd(&self, inode: InodeRef<'_>, new: &Iattr) -> Result<()> {
        let file = match new.size {
            Some(size) if size > MAX_SIZE => return Err(Errno::EFBIG),
            Some(size) if size > 0 => Some(self.file_or_new(inode)),
            _ => self.in_memfd(inode),
        };
        match file {
            Some(file) => file.memfd_or_new()?.setattr(&self.space, inode, new),
            None => {
                change(inode, |attr| new.copy_to(attr));
                Ok(())
            }
        }
    }

    /// The contents of a file, where a memfd has them.
    fn in_memfd(&self, inode: InodeRef<'_>) -> Option<Arc<File>> {
        if !self.options.memfd {
            return None;
        }
        self.attributes(inode).filter(|file| file.memfd.get().is_some())
    }

    /// Notes what others did to contents that a memfd has; for before the file is stamped.
    ///
    /// # Errors
    ///
    /// None that a memfd answers.
    pub(crate) fn note_others(&self, inode: InodeRef<'_>) -> Result<()> {
        match self.in_memfd(inode) {
            Some(file) => file.memfd_or_new()?.refresh(&self.space, inode),
            None => Ok(()),
        }
    }

    /// Takes a name from a file that is no directory.
    pub(crate) fn drop_name(&self, inode: InodeRef<'_>, now: Timespec) {
        change(inode, |attr| {
            attr.nlink = attr.nlink.checked_sub(1).expect("what has a name has a link");
            attr.ctime = now;
            if let Some(node) = Node(inode.node()).without_name() {
                inode.set_node(node.0);
                self.space.give_inodes(1);
            }
        });
    }
}

impl FileSystem for MemFs {
    fn kind(&self) -> &str {
        "tmpfs"
    }

    fn features(&self) -> Features {
        let mut features = Features::COMPLETE | Features::POSIX_ACL | Features::IDMAP;
        features.set(Features::SPECIAL, self.options.memfd);
        features.set(Features::NO_OPEN, !self.options.memfd);
        features
    }

    /// Tells what is not so by default: the limits, and the mode and the owner of the root as it was made.
    fn options(&self) -> Vec<Vec<u8>> {
        let Limits { bytes, inodes } = self.options.limits.unwrap_or_default();
        let size = bytes.map_or(0, |bytes| bytes.div_ceil(PAGE) * (PAGE / 1024));
        let mode = self.options.root_mode;
        let (uid, gid) = match self.mounted_by.load(Relaxed) {
            NOBODY => (0, 0),
            by => ((by >> 32) as u32, by as u32),
        };
        let shown = [
            (bytes != Limits::default().bytes).then(|| format!("size={size}k")),
            inodes.map(|inodes| format!("nr_inodes={inodes}")),
            (mode != ROOT_MODE).then(|| format!("mode={mode:03o}")),
            (uid != 0).then(|| format!("uid={uid}")),
            (gid != 0).then(|| format!("gid={gid}")),
        ];
        shown.into_iter().flatten().map(String::into_bytes).collect()
    }

    /// Makes a new, empty tree, which belongs to who mounts it, unless [`Builder::root_owner`] says otherwise.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: there may be no inode more.
    fn root(&self, who: &Subject<'_>, now: Timespec) -> Result<Found> {
        let said = self.options.root_owner;
        let (uid, gid) = (said.0.unwrap_or(who.fsuid), said.1.unwrap_or(who.fsgid));
        self.space.take_inode(0)?;
        if self.mounted_by.load(Relaxed) == NOBODY {
            let us = u64::from(uid) << 32 | u64::from(gid);
            // Relaxed: it orders nothing. Who was faster is the first.
            _ = self.mounted_by.compare_exchange(NOBODY, us, Relaxed, Relaxed);
        }
        let root = NewInode {
            file_type: FileType::Directory,
            mode: self.options.root_mode,
            uid,
            gid,
            rdev: Dev::default(),
            body: b"",
            access_acl: &[],
            default_acl: &[],
            now,
        };
        Ok(Found {
            node: Node::EMPTY.0,
            attr: self.new_attr(&root, InodeFlags::empty()),
            body: None,
        })
    }

    /// Makes a file. It takes an inode, and a long symlink a page.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: the directory was removed.
    /// - `EMLINK`: it has 2³² - 1 links; tmpfs has no limit, and no room for so many.
    /// - `ENOSPC`: no inode is left, or no page.
    fn create(&self, dir: InodeRef<'_>, _name: &[u8], new: &NewInode<'_>) -> Result<Option<Found>> {
        let (node, body) = match new.file_type {
            FileType::Symlink if body_pages(new.body) != 0 => (Node::BODY, Some(new.body.to_vec())),
            FileType::Symlink => (Node::EMPTY, Some(new.body.to_vec())),
            _ => (Node::EMPTY, None),
        };
        let flags = dir.update(|dir| {
            directory::enter(dir, new.file_type == FileType::Directory, new.now)?;
            self.space.take_inode(body_pages(new.body))?;
            Ok(dir.flags)
        })?;
        Ok(Some(Found { node: node.0, attr: self.new_attr(new, flags), body }))
    }

    /// Makes a file without a name. It takes an inode; its first name will take none. The directory does not change.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: no inode is left.
    fn tmpfile(&self, dir: InodeRef<'_>, new: &NewInode<'_>) -> Result<Found> {
        self.space.take_inode(0)?;
        let attr = Attr { nlink: 0, ..self.new_attr(new, dir.attr().flags) };
        Ok(Found { node: Node::EMPTY.0, attr, body: None })
    }

    /// Gives a file one more name, which takes an inode from the limit, unless it is the first.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: the directory was removed.
    /// - `ENOENT`: the file has no name left, and may not get one.
    /// - `EMLINK`: it has 2³⁰ names; tmpfs has no limit, and no room for so many.
    /// - `ENOSPC`: no inode is left.
    fn link(
        &self,
        inode: InodeRef<'_>,
        dir: InodeRef<'_>,
        _name: &[u8],
        now: Timespec,
    ) -> Result<()> {
        directory::must_live(&dir.attr())?;
        self.note_others(inode)?;
        let before = inode.update(|attr| {
            if attr.nlink == 0 && !inode.is_linkable() {
                return Err(Errno::ENOENT);
            }
            // The first name is paid for by the inode itself.
            if attr.nlink != 0 {
                let node = Node(inode.node()).with_name()?;
                self.space.take_inodes(1)?;
                inode.set_node(node.0);
            }
            let before = attr.ctime;
            attr.nlink += 1;
            attr.ctime = now;
            Ok(before)
        })?;
        // The directory may have been removed since we looked.
        dir.update(|dir| directory::enter(dir, false, now))
            .inspect_err(|_| self.drop_name(inode, before))
    }

    /// Takes a name from a file.
    ///
    /// # Errors
    ///
    /// None.
    fn unlink(
        &self,
        dir: InodeRef<'_>,
        _name: &[u8],
        inode: InodeRef<'_>,
        now: Timespec,
    ) -> Result<()> {
        self.note_others(inode)?;
        self.drop_name(inode, now);
        change(dir, |dir| directory::leave(dir, false, now));
        Ok(())
    }

    /// Removes a directory.
    ///
    /// # Errors
    ///
    /// - `ENOTEMPTY`: it has names.
    fn rmdir(
        &self,
        dir: InodeRef<'_>,
        _name: &[u8],
        inode: InodeRef<'_>,
        now: Timespec,
    ) -> Result<()> {
        inode.update(|victim| directory::remove(victim, now))?;
        change(dir, |dir| directory::leave(dir, true, now));
        Ok(())
    }

    /// Renames.
    fn rename(&self, rename: &Rename<'_>) -> Result<()> {
        self.move_name(rename)
    }

    /// Renames, and leaves a whiteout, which takes an inode.
    fn rename_whiteout(
        &self,
        rename: &Rename<'_>,
        whiteout: &NewInode<'_>,
    ) -> Result<Option<Found>> {
        self.leave_whiteout(rename, whiteout).map(Some)
    }

    /// Exchanges two names.
    fn exchange(&self, rename: &Rename<'_>) -> Result<()> {
        self.exchange_names(rename)
    }

    /// ACLs are kept in the machine's inode table alone.
    ///
    /// # Errors
    ///
    /// None.
    fn set_acl(
        &self,
        inode: InodeRef<'_>,
        _kind: AclKind,
        _acl: &[AclEntry],
        _change: &mut Iattr,
    ) -> Result<()> {
        self.note_others(inode)
    }

    fn inode_flags(&self) -> Option<InodeFlags> {
        Some(InodeFlags::all())
    }

    /// Tells an extended attribute: `user.`, `trusted.` or `security.`.
    fn getxattr(&self, inode: InodeRef<'_>, name: &[u8]) -> Result<Vec<u8>> {
        self.xattr(inode, name)
    }

    /// Sets an extended attribute, which takes room: see [`Limits::inodes`].
    fn setxattr(
        &self,
        inode: InodeRef<'_>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timespec,
    ) -> Result<()> {
        self.set_xattr(inode, name, value, flags, now)
    }

    /// Removes an extended attribute.
    fn removexattr(&self, inode: InodeRef<'_>, name: &[u8], now: Timespec) -> Result<()> {
        self.remove_xattr(inode, name, now)
    }

    /// Tells the names of all extended attributes.
    fn listxattr(&self, inode: InodeRef<'_>) -> Result<Vec<Vec<u8>>> {
        Ok(self.xattr_names(inode))
    }

    /// Opens a file whose contents a memfd has; of others nothing is kept.
    ///
    /// # Errors
    ///
    /// - `EMFILE`, `ENFILE`, `ENOMEM`: there is no room for one more.
    fn open(&self, inode: InodeRef<'_>, flags: OpenFlags) -> Result<Option<Box<dyn OpenHandle>>> {
        if !self.options.memfd || inode.attr().file_type() != FileType::Regular {
            return Ok(None);
        }
        let opening = Opening::open(&self.space, self.file_or_new(inode), flags)?;
        Ok(Some(Box::new(opening)))
    }

    /// Says what others did to contents that a memfd has.
    fn getattr(&self, inode: InodeRef<'_>) -> Result<()> {
        self.note_others(inode)
    }

    /// Reads; a hole reads as zeros.
    ///
    /// # Errors
    ///
    /// None.
    fn read(&self, inode: InodeRef<'_>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if let Some(file) = self.in_memfd(inode) {
            return file.memfd_or_new()?.read(&self.space, inode, offset, buf);
        }
        let Some(file) = self.file(inode) else { return Ok(0) };
        let pages = file.read();
        let left = inode.attr().size.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        pages.read(offset, &mut buf[..len]);
        Ok(len)
    }

    /// Writes; behind the end it leaves a hole. Writing nothing changes nothing.
    ///
    /// The times change even if there is no room: the one way in which a call that fails leaves a trace, as on tmpfs.
    ///
    /// # Errors
    ///
    /// - `EFBIG`: the offset is 2⁶³ - 1 or more; what would cross it is cut off.
    /// - `ENOSPC`: no page is left for the first byte.
    fn write(
        &self,
        inode: InodeRef<'_>,
        offset: Option<u64>,
        data: &[u8],
        now: Timespec,
    ) -> Result<(u64, usize)> {
        if data.is_empty() {
            return Ok((offset.unwrap_or_else(|| inode.attr().size), 0));
        }
        let file = self.file_or_new(inode);
        if self.options.memfd {
            return file.memfd_or_new()?.write(&self.space, inode, offset, data, now);
        }
        let mut pages = file.write();
        let offset = offset.unwrap_or_else(|| inode.attr().size);
        let left = MAX_SIZE.saturating_sub(offset);
        if left == 0 {
            return Err(Errno::EFBIG);
        }
        let data = &data[..usize::try_from(left).unwrap_or(usize::MAX).min(data.len())];
        let room = self.space.pages.take_up_to(pages.missing(offset, data.len()));
        // Less room than was missing is used up: the write ends where the next page would be needed.
        let written = pages.write(offset, data, room);
        if written == 0 {
            change(inode, |attr| (attr.mtime, attr.ctime) = (now, now));
            return Err(Errno::ENOSPC);
        }
        let end = offset + written as u64;
        change(inode, |attr| {
            attr.size = attr.size.max(end);
            attr.blocks = pages.blocks();
            attr.mtime = now;
            attr.ctime = now;
        });
        Ok((end, written))
    }

    /// Changes attributes. A size that is given stamps the file if it is another one, or if there are contents.
    ///
    /// # Errors
    ///
    /// - `EFBIG`: the size is above 2⁶³ - 1.
    fn setattr(&self, inode: InodeRef<'_>, new: &Iattr) -> Result<()> {
        if self.options.memfd {
            return self.setattr_of_memfd(inode, new);
        }
        let file = match new.size {
            Some(size) if size > MAX_SIZE => return Err(Errno::EFBIG),
            None => None,
            Some(0) => self.file(inode),
            Some(_) => Some(self.file_or_new(inode)),
        };
        let (Some(size), Some(file)) = (new.size, file) else {
            change(inode, |attr| new.copy_to(attr));
            return Ok(());
        };
        let mut pages = file.write();
        let gone = pages.truncate(size);
        change(inode, |attr| {
            if attr.size != size || attr.blocks != 0 {
                attr.mtime = new.now;
                attr.ctime = new.now;
            }
            attr.size = size;
            attr.blocks = pages.blocks();
            new.copy_to(attr);
        });
        self.space.pages.give(gone.len());
        Ok(())
    }

    /// Tells the limits and what is left of them: 0 and 0 where there is none. What others wrote to contents that memfds have is
    /// counted before.
    ///
    /// # Errors
    ///
    /// None that a memfd answers.
    fn statfs(&self) -> Result<FsStat> {
        if self.options.memfd {
            self.files
                .each(|file| file.memfd.get().map_or(Ok(()), |memfd| memfd.count(&self.space)))?;
        }
        let (blocks, bfree) = self.space.pages.total_and_free();
        let (files, ffree) = self.space.total_and_free_inodes();
        Ok(FsStat { magic: TMPFS_MAGIC, bsize: PAGE, blocks, bfree, files, ffree })
    }

    /// Frees all that the inode took. An evicted inode is gone for good, with a name or without.
    fn evict(&self, node: u64, _unlinked: bool) {
        let node = Node(node);
        match node.contents() {
            Contents::None => {}
            Contents::Body => self.space.pages.give(1),
            Contents::File(key) => {
                let file = self.files.remove(key);
                self.space.pages.give(file.read().len() + file.body_pages);
                self.space.give_xattr(file.xattrs.read().room());
                if let Some(memfd) = file.memfd.get() {
                    memfd.forget(&self.space);
                }
            }
        }
        self.space.give_inodes(1 + node.more_names());
    }
}

impl fmt::Debug for MemFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemFs")
            .field("usage", &self.usage())
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

/// Changes an inode in a way that cannot fail.
pub(crate) fn change(inode: InodeRef<'_>, f: impl FnOnce(&mut Attr)) {
    let Ok(()) = inode.update(|attr| {
        f(attr);
        Ok::<_, Infallible>(())
    });
}

/// The pages that a symlink's body takes.
fn body_pages(body: &[u8]) -> u64 {
    u64::from(body.len() >= LONG_BODY)
}
