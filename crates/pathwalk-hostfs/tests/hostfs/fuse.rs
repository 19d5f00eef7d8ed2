//! A file system of the host that decides itself whose its files are and what may be done with them, as vfat does, and sshfs.
//!
//! Linux: `struct fuse_in_header` and what follows it, `include/uapi/linux/fuse.h`; fuse(4).

use crate::left_out::left_out;
use pathwalk_abi::mode::{S_IFDIR, S_IFLNK, S_IFMT};
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::UnshareFlags,
};
use std::{
    collections::HashMap,
    ffi::CString,
    fs::File,
    io::{Read, Write},
    os::fd::AsRawFd,
    path::Path,
    thread,
};

/// What it decides; what it does not is as who makes a file wants it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) mode: Option<u32>,
    /// By which errno it changes no owner and no mode.
    pub(crate) refuses: Option<Errno>,
}

/// Does something where such a file system is mounted, in a mount namespace of its own.
#[expect(deprecated, reason = "descriptors stay shared")]
pub(crate) fn mounted(rules: Rules, does: impl FnOnce(&Path) + Send) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let run = || {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = open("/dev/fuse", flags, Mode::empty()).map(File::from)?;
        rustix::thread::unshare(UnshareFlags::NEWNS)?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let data = CString::new(data).unwrap();
        mount("test", dir, "fuse", MountFlags::empty(), data.as_c_str())?;
        thread::spawn(move || Server::new(rules).serve(device));
        does(dir);
        Ok::<_, Errno>(())
    };
    // What is mounted goes with the namespace.
    let done = thread::scope(|scope| scope.spawn(run).join());
    match done {
        Ok(Ok(())) => {}
        Ok(Err(errno)) => left_out(format_args!("no file system of one's own: {errno}")),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

const ROOT: u64 = 1;

#[derive(Default)]
struct Inode {
    mode: u32,
    uid: u32,
    gid: u32,
    rdev: u32,
    body: Vec<u8>,
    xattrs: HashMap<Vec<u8>, Vec<u8>>,
}

struct Server {
    rules: Rules,
    inodes: HashMap<u64, Inode>,
    names: HashMap<(u64, Vec<u8>), u64>,
    next: u64,
}

/// A request, or what follows its header.
struct Request<'a>(&'a [u8]);

impl Request<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    /// The name that begins there, and what follows it.
    fn name(&self, at: usize) -> (&[u8], &[u8]) {
        let end = at + self.0[at..].iter().position(|&byte| byte == 0).unwrap();
        (&self.0[at..end], &self.0[end + 1..])
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

impl Server {
    fn new(rules: Rules) -> Self {
        let root = Inode { mode: S_IFDIR | 0o777, ..Inode::default() };
        let inodes = HashMap::from([(ROOT, root)]);
        Self { rules, inodes, names: HashMap::new(), next: ROOT + 1 }
    }

    /// Until it is unmounted.
    fn serve(mut self, mut device: File) {
        let mut buf = vec![0; 1 << 17];
        while let Ok(len) = device.read(&mut buf) {
            let header = Request(&buf[..len]);
            let (opcode, unique, node) = (header.u32(4), header.u64(8), header.u64(16));
            let owner = (header.u32(24), header.u32(28));
            let Some(answer) = self.answer(opcode, node, owner, &Request(&buf[40..len])) else {
                continue;
            };
            let (error, body) = match answer {
                Ok(body) => (0, body),
                Err(errno) => (errno.raw_os_error().wrapping_neg(), Vec::new()),
            };
            let mut reply = words(&[16 + body.len() as u32, error as u32]);
            reply.extend(unique.to_ne_bytes());
            reply.extend(body);
            // Who asked may have gone.
            let _ = device.write(&reply);
        }
    }

    /// None where nothing is to be answered.
    fn answer(
        &mut self,
        opcode: u32,
        node: u64,
        owner: (u32, u32),
        request: &Request<'_>,
    ) -> Option<Result<Vec<u8>, Errno>> {
        Some(match opcode {
            // LOOKUP
            1 => {
                let found = self.names.get(&(node, request.name(0).0.to_vec()));
                found.map(|&node| self.entry(node)).ok_or(Errno::NOENT)
            }
            // FORGET, INTERRUPT, BATCH_FORGET
            2 | 36 | 42 => return None,
            // GETATTR
            3 => Ok(self.attr_out(node)),
            // SETATTR
            4 => self.setattr(node, request),
            // READLINK
            5 => Ok(self.inodes[&node].body.clone()),
            // SYMLINK
            6 => {
                let (name, body) = request.name(0);
                let made = self.make(node, name, (S_IFLNK | 0o777, 0), owner);
                let body = body.strip_suffix(b"\0").unwrap().to_vec();
                self.inodes.get_mut(&(self.next - 1)).unwrap().body = body;
                Ok(made)
            }
            // MKNOD
            8 => Ok(self.make(node, request.name(16).0, (request.u32(0), request.u32(4)), owner)),
            // MKDIR
            9 => Ok(self.make(node, request.name(8).0, (S_IFDIR | request.u32(0), 0), owner)),
            // UNLINK, RMDIR
            10 | 11 => {
                self.names.remove(&(node, request.name(0).0.to_vec()));
                Ok(Vec::new())
            }
            // OPEN, OPENDIR
            14 | 27 => Ok(words(&[0; 4])),
            // STATFS
            17 => Ok(words(&[0; 20])),
            // RELEASE, RELEASEDIR
            18 | 29 => Ok(Vec::new()),
            // SETXATTR
            21 => {
                let (name, value) = request.name(8);
                let (name, value) = (name.to_vec(), value.to_vec());
                self.inodes.get_mut(&node).unwrap().xattrs.insert(name, value);
                Ok(Vec::new())
            }
            // GETXATTR
            22 => self.getxattr(node, request),
            // INIT, by protocol 7.31 and pages of 4 KiB
            26 => {
                let mut init = words(&[7, 31, 0, 0, 0, 4096, 1]);
                init.resize(64, 0);
                Ok(init)
            }
            // CREATE
            35 => {
                let mut made = self.make(node, request.name(16).0, (request.u32(4), 0), owner);
                made.extend(words(&[0; 4]));
                Ok(made)
            }
            _ => Err(Errno::NOSYS),
        })
    }

    fn make(
        &mut self,
        dir: u64,
        name: &[u8],
        (asked, rdev): (u32, u32),
        (uid, gid): (u32, u32),
    ) -> Vec<u8> {
        let mode = self.rules.mode.map_or(asked, |mode| asked & !0o7777 | mode);
        let (uid, gid) = (self.rules.uid.unwrap_or(uid), self.rules.gid.unwrap_or(gid));
        let node = self.next;
        self.next += 1;
        self.inodes.insert(node, Inode { mode, uid, gid, rdev, ..Inode::default() });
        self.names.insert((dir, name.to_vec()), node);
        self.entry(node)
    }

    fn setattr(&mut self, node: u64, request: &Request<'_>) -> Result<Vec<u8>, Errno> {
        let inode = self.inodes.get_mut(&node).unwrap();
        let valid = request.u32(0);
        let given = [(1, 68, &mut inode.mode), (2, 76, &mut inode.uid), (4, 80, &mut inode.gid)];
        for (bit, at, has) in given {
            if valid & bit != 0 {
                let wanted = request.u32(at);
                if let Some(errno) = self.rules.refuses.filter(|_| wanted != *has) {
                    return Err(errno);
                }
                *has = wanted;
            }
        }
        Ok(self.attr_out(node))
    }

    fn getxattr(&self, node: u64, request: &Request<'_>) -> Result<Vec<u8>, Errno> {
        let name = request.name(8).0;
        if name.starts_with(b"system.") {
            return Err(Errno::OPNOTSUPP);
        }
        let value = self.inodes[&node].xattrs.get(name).ok_or(Errno::NODATA)?;
        Ok(if request.u32(0) == 0 { words(&[value.len() as u32, 0]) } else { value.clone() })
    }

    fn entry(&self, node: u64) -> Vec<u8> {
        let mut entry = node.to_ne_bytes().to_vec();
        entry.resize(40, 0);
        entry.extend(self.attr(node));
        entry
    }

    fn attr_out(&self, node: u64) -> Vec<u8> {
        let mut out = vec![0; 16];
        out.extend(self.attr(node));
        out
    }

    fn attr(&self, node: u64) -> Vec<u8> {
        let Inode { mode, uid, gid, rdev, .. } = self.inodes[&node];
        let mut attr = node.to_ne_bytes().to_vec();
        attr.resize(60, 0);
        let nlink = if mode & S_IFMT == S_IFDIR { 2 } else { 1 };
        attr.extend(words(&[mode, nlink, uid, gid, rdev, 4096, 0]));
        attr
    }
}
