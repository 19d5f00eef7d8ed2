//! A file system of the host that decides itself whose its files are and what may be done with them, as vfat does, and sshfs.
//!
//! Linux: fuse(4).

use crate::left_out::left_out;
use fuser::{
    BsdFileFlags, Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyXattr, Request,
    TimeOrNow,
};
use parking_lot::Mutex;
use pathwalk_abi::mode::{S_IFIFO, S_IFMT, S_IFREG};
use rustix::{
    io::Errno,
    mount::{MountPropagationFlags, mount_change},
    thread::UnshareFlags,
};
use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What it decides; what it does not is as who makes a file wants it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) mode: Option<u32>,
    /// By which errno it changes no owner and no mode.
    pub(crate) refuses: Option<Errno>,
    /// By which it changes no owner.
    pub(crate) keeps: Option<Errno>,
}

/// Does something where such a file system is mounted, in a mount namespace of its own.
#[expect(deprecated, reason = "descriptors stay shared")]
pub(crate) fn mounted(rules: Rules, does: impl FnOnce(&Path) + Send) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let run = || {
        rustix::thread::unshare(UnshareFlags::NEWNS)?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let _mounted = fuser::spawn_mount(Decides::new(rules), dir, &Config::default())?;
        does(dir);
        Ok::<_, io::Error>(())
    };
    // What is mounted goes with the namespace.
    let done = thread::scope(|scope| scope.spawn(run).join());
    match done {
        Ok(Ok(())) => {}
        Ok(Err(error)) => left_out(format_args!("no file system of one's own: {error}")),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The kernel asks each time.
const TTL: Duration = Duration::ZERO;
const GENERATION: Generation = Generation(0);

struct Decides {
    rules: Rules,
    tree: Mutex<Tree>,
}

struct Tree {
    inodes: HashMap<INodeNo, Inode>,
    names: HashMap<(INodeNo, OsString), INodeNo>,
}

struct Inode {
    attr: FileAttr,
    body: Vec<u8>,
    xattrs: HashMap<OsString, Vec<u8>>,
}

impl Filesystem for Decides {
    fn lookup(&self, _: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let tree = self.tree.lock();
        match tree.names.get(&(dir, name.to_owned())) {
            Some(ino) => reply.entry(&TTL, &tree.inodes[ino].attr, GENERATION),
            None => reply.error(fuser::Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.tree.lock().inodes[&ino].attr);
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut tree = self.tree.lock();
        let attr = &mut tree.inodes.get_mut(&ino).unwrap().attr;
        let wanted = FileAttr {
            perm: mode.map_or(attr.perm, perm),
            uid: uid.unwrap_or(attr.uid),
            gid: gid.unwrap_or(attr.gid),
            ..*attr
        };
        let Rules { refuses, keeps, .. } = self.rules;
        let gives = (wanted.uid, wanted.gid) != (attr.uid, attr.gid);
        match refuses.filter(|_| wanted != *attr).or(keeps.filter(|_| gives)) {
            Some(errno) => reply.error(fuser::Errno::from_i32(errno.raw_os_error())),
            None => {
                *attr = wanted;
                reply.attr(&TTL, attr);
            }
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        reply.data(&self.tree.lock().inodes[&ino].body);
    }

    fn mknod(
        &self,
        asks: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let kind = match mode & S_IFMT {
            S_IFREG => FileType::RegularFile,
            S_IFIFO => FileType::NamedPipe,
            _ => return reply.error(fuser::Errno::EPERM),
        };
        reply.entry(&TTL, &self.make(asks, dir, name, (kind, mode), b""), GENERATION);
    }

    fn mkdir(
        &self,
        asks: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let asked = (FileType::Directory, mode);
        reply.entry(&TTL, &self.make(asks, dir, name, asked, b""), GENERATION);
    }

    fn unlink(&self, _: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.tree.lock().names.remove(&(dir, name.to_owned()));
        reply.ok();
    }

    fn rmdir(&self, asks: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(asks, dir, name, reply);
    }

    fn symlink(&self, asks: &Request, dir: INodeNo, name: &OsStr, to: &Path, reply: ReplyEntry) {
        let (asked, body) = ((FileType::Symlink, 0o777), to.as_os_str().as_bytes());
        reply.entry(&TTL, &self.make(asks, dir, name, asked, body), GENERATION);
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        _: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let mut tree = self.tree.lock();
        let xattrs = &mut tree.inodes.get_mut(&ino).unwrap().xattrs;
        xattrs.insert(name.to_owned(), value.to_owned());
        reply.ok();
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.tree.lock().inodes[&ino].xattrs.get(name) {
            _ if name.as_bytes().starts_with(b"system.") => {
                reply.error(fuser::Errno::EOPNOTSUPP);
            }
            None => reply.error(fuser::Errno::ENODATA),
            Some(value) if size == 0 => reply.size(value.len() as u32),
            Some(value) => reply.data(value),
        }
    }

    fn create(
        &self,
        asks: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let attr = self.make(asks, dir, name, (FileType::RegularFile, mode), b"");
        reply.created(&TTL, &attr, GENERATION, FileHandle(0), FopenFlags::empty());
    }
}

impl Decides {
    fn new(rules: Rules) -> Self {
        let attr = attr(INodeNo::ROOT, FileType::Directory, 0o777, (0, 0));
        let root = Inode { attr, body: Vec::new(), xattrs: HashMap::new() };
        let inodes = HashMap::from([(INodeNo::ROOT, root)]);
        Self { rules, tree: Mutex::new(Tree { inodes, names: HashMap::new() }) }
    }

    /// Makes a file, which is that of who asks as far as the rules say nothing.
    fn make(
        &self,
        asks: &Request,
        dir: INodeNo,
        name: &OsStr,
        (kind, mode): (FileType, u32),
        body: &[u8],
    ) -> FileAttr {
        let Rules { uid, gid, mode: decided, .. } = self.rules;
        let owner = (uid.unwrap_or(asks.uid()), gid.unwrap_or(asks.gid()));
        let mut tree = self.tree.lock();
        let ino = INodeNo(tree.inodes.len() as u64 + 1);
        let attr = attr(ino, kind, decided.unwrap_or(mode), owner);
        let inode = Inode { attr, body: body.to_owned(), xattrs: HashMap::new() };
        tree.inodes.insert(ino, inode);
        tree.names.insert((dir, name.to_owned()), ino);
        attr
    }
}

fn attr(ino: INodeNo, kind: FileType, mode: u32, (uid, gid): (u32, u32)) -> FileAttr {
    FileAttr {
        ino,
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: perm(mode),
        nlink: if kind == FileType::Directory { 2 } else { 1 },
        uid,
        gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn perm(mode: u32) -> u16 {
    mode as u16 & 0o7777
}
