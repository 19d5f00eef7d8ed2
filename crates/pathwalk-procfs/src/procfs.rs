//! The file system: what is at the top, and what cannot be changed.

use crate::{
    node::{Kind, Node, number},
    task, text,
};
use pathwalk_abi::{Errno, FileType, Result, Timespec, XattrFlags};
use pathwalk_core::{
    Attr, InodeRef, Subject,
    fs::{Access, Emit, Features, FileSystem, Found, FsStat, Iattr, LinkTarget, NewInode, Rename},
    generic_permission,
};
use std::{convert::Infallible, sync::Arc};

/// A procfs. It shows the tasks of the machine that it is mounted in.
#[derive(Debug, Default)]
pub struct ProcFs(());

/// `PROC_SUPER_MAGIC`
const MAGIC: u64 = 0x9fa0;

/// What is at the top beside the processes.
const TOP: [(&[u8], Kind); 3] =
    [(b"mounts", Kind::OwnMounts), (b"self", Kind::OwnProcess), (b"thread-self", Kind::OwnThread)];

/// The positions of processes in a listing of the top begin behind those.
const FIRST_PROCESS: u64 = 8;

impl ProcFs {
    /// Makes one, to be mounted.
    #[expect(clippy::new_ret_no_self, reason = "file systems are shared from the start")]
    pub fn new() -> Arc<dyn FileSystem> {
        Arc::new(Self::default())
    }
}

/// What a name stands for, with these attributes.
pub(crate) fn found(node: Node, mode: u32, owner: (u32, u32), now: Timespec) -> Found {
    let directory = FileType::from_mode(mode) == Some(FileType::Directory);
    let attr = Attr {
        mode,
        uid: owner.0,
        gid: owner.1,
        nlink: if directory { 2 } else { 1 },
        ino: node.to_word(),
        size: match node.kind {
            // As wide as a number can be, for who allocates by it.
            Kind::Fd => 64,
            Kind::OwnMounts => text::OWN_MOUNTS.len() as u64,
            _ => 0,
        },
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        ..Attr::default()
    };
    Found { node: node.to_word(), attr, body: None }
}

fn node(inode: InodeRef<'_>) -> Result<Node> {
    Node::from_word(inode.node()).ok_or(Errno::ESTALE)
}

fn lookup_top(dir: InodeRef<'_>, name: &[u8]) -> Option<Found> {
    let now = dir.vfs().now();
    if let Some(&(_, kind)) = TOP.iter().find(|(top, _)| *top == name) {
        return Some(found(Node::top(kind), FileType::Symlink.to_mode() | 0o777, (0, 0), now));
    }
    // A thread is not listed here, but found.
    let number = number(name)?;
    let vfs = dir.vfs();
    vfs.process_info(number).or_else(|| vfs.task_info(number))?;
    task::found_at(dir, Node { task: number, ..Node::top(Kind::Task) })
}

impl FileSystem for ProcFs {
    fn kind(&self) -> &str {
        "proc"
    }

    fn features(&self) -> Features {
        Features::PERMISSION
            | Features::REVALIDATE
            | Features::MAGIC_LINKS
            | Features::COARSE_TIMES
            | Features::NODIRATIME
    }

    fn blksize(&self) -> u32 {
        1024
    }

    /// That a symlink was followed is noted, that a file was read is not.
    fn update_time(&self, inode: InodeRef<'_>, atime: Timespec) {
        if inode.attr().file_type() == FileType::Regular {
            return;
        }
        let Ok(()) = inode.update(|attr| {
            attr.atime = atime;
            Ok::<_, Infallible>(())
        });
    }

    /// As of all that says nothing else: `MAX_NON_LFS`.
    fn max_position(&self) -> u64 {
        i32::MAX as u64
    }

    fn long_name(&self) -> Errno {
        Errno::ENOENT
    }

    fn root(&self, _who: &Subject<'_>, now: Timespec) -> Result<Found> {
        let mode = FileType::Directory.to_mode() | 0o555;
        Ok(found(Node::top(Kind::Top), mode, (0, 0), now))
    }

    /// What is not there cannot be made, so that is an error, and is not remembered.
    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let found = match node(dir)? {
            Node { kind: Kind::Top, .. } => lookup_top(dir, name),
            node => task::lookup(dir, node, name),
        };
        found.map(Some).ok_or(Errno::ENOENT)
    }

    /// What a name stands for comes and goes without anybody being told. Who owns it changes too, and is noted here.
    fn revalidate(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        let Some(cached) = cached else { return Ok(false) };
        let Ok(Some(found)) = self.lookup(dir, name) else { return Ok(false) };
        if found.node != cached.node() {
            return Ok(false);
        }
        if node(cached)?.task == 0 {
            return Ok(true);
        }
        let Ok(()) = cached.update(|attr| {
            (attr.mode, attr.uid, attr.gid) = (found.attr.mode, found.attr.uid, found.attr.gid);
            Ok::<_, std::convert::Infallible>(())
        });
        Ok(true)
    }

    fn permission(&self, inode: InodeRef<'_>, access: Access, who: &Subject<'_>) -> Result<()> {
        let node = node(inode)?;
        let generic = || generic_permission(&inode.attr(), access, who);
        match node.kind {
            // The kernel has these immutable.
            Kind::Task if access.contains(Access::WRITE) => Err(Errno::EPERM),
            Kind::Fds => generic()
                .or_else(|errno| if task::is_own(inode, node, who) { Ok(()) } else { Err(errno) }),
            Kind::Task | Kind::Threads | Kind::FdInfos if task::info(inode, node).is_none() => {
                Err(Errno::ESRCH)
            }
            Kind::FdInfos => {
                task::may_read(inode, node, who)?;
                generic()
            }
            _ => generic(),
        }
    }

    fn get_link<'v>(&self, inode: InodeRef<'v>, who: &Subject<'_>) -> Result<LinkTarget<'v>> {
        let node = node(inode)?;
        let own = || inode.vfs().task_info(who.task).ok_or(Errno::ENOENT);
        let body = match node.kind {
            Kind::OwnProcess => own()?.process().to_string(),
            Kind::OwnThread => {
                let own = own()?;
                format!("{}/task/{}", own.process(), own.number())
            }
            Kind::OwnMounts => text::OWN_MOUNTS.to_owned(),
            _ => {
                task::info(inode, node).ok_or(Errno::ENOENT)?;
                task::may_read(inode, node, who)?;
                return task::target(inode, node).map(LinkTarget::Place).ok_or(Errno::ENOENT);
            }
        };
        Ok(LinkTarget::Body(body.into()))
    }

    fn read(&self, inode: InodeRef<'_>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let node = node(inode)?;
        let gone = if node.kind == Kind::FdInfo { Errno::ENOENT } else { Errno::ESRCH };
        let text = text::of(inode.vfs(), &*task::info(inode, node).ok_or(gone)?, node)?;
        let rest = usize::try_from(offset).ok().and_then(|offset| text.get(offset..));
        let rest = rest.unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn readdir(&self, dir: InodeRef<'_>, offset: u64, emit: &mut Emit<'_>) -> Result<()> {
        let own = node(dir)?;
        if own.kind != Kind::Top {
            return task::list(dir, own, offset, emit);
        }
        for (index, (name, kind)) in (1..).zip(TOP) {
            let ino = Node::top(kind).to_word();
            if index > offset && !emit(index, ino, FileType::Symlink, name) {
                return Ok(());
            }
        }
        let from = offset.saturating_sub(FIRST_PROCESS) + 1;
        for number in dir.vfs().processes(from as u32) {
            let ino = Node { task: number, ..Node::top(Kind::Task) }.to_word();
            let next = u64::from(number) + FIRST_PROCESS;
            if !emit(next, ino, FileType::Directory, number.to_string().as_bytes()) {
                break;
            }
        }
        Ok(())
    }

    /// A file has no size here, so any will do.
    fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        let may = match node(inode)? {
            Node { task: 0, .. } => true,
            // Immutable: to change nothing is allowed.
            Node { kind: Kind::Task, .. } => {
                *change == Iattr { ctime: change.ctime, now: change.now, ..Iattr::default() }
            }
            _ => change.mode.is_none(),
        };
        if !may {
            return Err(Errno::EPERM);
        }
        inode.update(|attr| {
            change.copy_to(attr);
            Ok(())
        })
    }

    fn setxattr(
        &self,
        inode: InodeRef<'_>,
        name: &[u8],
        _: &[u8],
        _: XattrFlags,
        now: Timespec,
    ) -> Result<()> {
        self.removexattr(inode, name, now)
    }

    /// There are no extended attributes.
    fn removexattr(&self, inode: InodeRef<'_>, _: &[u8], _: Timespec) -> Result<()> {
        let immutable = node(inode)?.kind == Kind::Task;
        Err(if immutable { Errno::EPERM } else { Errno::EOPNOTSUPP })
    }

    fn may_be_covered(&self, inode: InodeRef<'_>) -> bool {
        node(inode).is_ok_and(|node| !matches!(node.kind, Kind::Fd | Kind::FdInfo))
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat { magic: MAGIC, bsize: 4096, ..FsStat::default() })
    }

    fn create(&self, _: InodeRef<'_>, _: &[u8], _: &NewInode<'_>) -> Result<Option<Found>> {
        Err(Errno::EPERM)
    }

    fn rename_whiteout(&self, _: &Rename<'_>, _: &NewInode<'_>) -> Result<Option<Found>> {
        Err(Errno::EPERM)
    }

    fn exchange(&self, _: &Rename<'_>) -> Result<()> {
        Err(Errno::EPERM)
    }

    /// What is shown has no writer.
    fn write(
        &self,
        _: InodeRef<'_>,
        _: Option<u64>,
        _: &[u8],
        _: Timespec,
    ) -> Result<(u64, usize)> {
        Err(Errno::EINVAL)
    }
}
