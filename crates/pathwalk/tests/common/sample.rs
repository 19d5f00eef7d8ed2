//! A file system that must be asked: a tree in a map, which counts the calls and can be told to answer late or wrongly.

use pathwalk::{
    AclEntry, AclKind, Acls, Attr, Errno, FileType, InodeRef, OpenFlags, Result, Subject, Timespec,
    acl_chmod,
    fs::{
        Access, CachedName, Emit, Features, FileSystem, Found, FsStat, Iattr, NewInode, OpenHandle,
        Rename,
    },
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

struct Node {
    attr: Attr,
    body: Vec<u8>,
    names: BTreeMap<Vec<u8>, u64>,
    acls: Acls,
    /// How often it was answered and not given back.
    answered: u64,
}

type Nodes = BTreeMap<u64, Node>;

/// How often each method was called.
#[derive(Default)]
pub(crate) struct Calls {
    pub(crate) lookup: AtomicU64,
    pub(crate) lookup_anew: AtomicU64,
    pub(crate) create: AtomicU64,
    pub(crate) revalidate: AtomicU64,
    pub(crate) revalidate_anew: AtomicU64,
    pub(crate) permission: AtomicU64,
    pub(crate) readlink: AtomicU64,
    pub(crate) evict: AtomicU64,
    pub(crate) acls: AtomicU64,
}

pub(crate) struct SampleFs {
    features: Features,
    /// Nothing is reserved but the names that a call changes: so what it checks and what it changes, in the cache as well, is one
    /// step under this lock.
    nodes: Mutex<Nodes>,
    next: AtomicU64,
    pub(crate) calls: Calls,
    /// The name on which every call waits, and whether one does.
    held: Mutex<(Option<Vec<u8>>, bool)>,
    moved: Condvar,
    /// So many lookups answer ESTALE.
    pub(crate) stale: AtomicU64,
    /// So many changes of attributes, of names and of sizes do.
    pub(crate) stale_changes: AtomicU64,
    /// So many openings do.
    pub(crate) stale_openings: AtomicU64,
    /// So many times another client makes a name right before it is made.
    pub(crate) raced: AtomicU64,
    /// So many times another client puts something else in the place of what was made.
    pub(crate) replaced: AtomicU64,
    /// Whether it takes it away at once.
    pub(crate) raced_away: AtomicBool,
    /// What revalidate answers.
    pub(crate) valid: AtomicBool,
    /// Whether others change each ACL while it is told.
    pub(crate) restless: AtomicBool,
    /// Whether no file can have one more name, and no directory one more subdirectory.
    pub(crate) full: AtomicBool,
    /// Whether it panics, whatever it is asked; it still takes back what it answered.
    pub(crate) panics: AtomicBool,
    /// Whether it panics when it has taken back what it answered.
    pub(crate) evict_panics: AtomicBool,
    /// What is done while it notes that something was read.
    when_read: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl SampleFs {
    pub(crate) fn new(features: Features) -> Arc<Self> {
        let fs = Self {
            features,
            nodes: Mutex::default(),
            next: AtomicU64::new(1),
            calls: Calls::default(),
            held: Mutex::default(),
            moved: Condvar::new(),
            stale: AtomicU64::new(0),
            stale_changes: AtomicU64::new(0),
            stale_openings: AtomicU64::new(0),
            raced: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            raced_away: AtomicBool::new(false),
            restless: AtomicBool::new(false),
            valid: AtomicBool::new(true),
            full: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            evict_panics: AtomicBool::new(false),
            when_read: Mutex::default(),
        };
        fs.add(FileType::Directory, 0o755, b"");
        Arc::new(fs)
    }

    /// Has something done while it notes that something was read.
    pub(crate) fn when_read(&self, then: Option<Box<dyn Fn() + Send>>) {
        *self.when_read.lock().unwrap() = then;
    }

    fn add(&self, kind: FileType, mode: u32, body: &[u8]) -> u64 {
        let (node, new) = self.new_node(kind, mode, body);
        self.nodes.lock().unwrap().insert(node, new);
        node
    }

    fn new_node(&self, kind: FileType, mode: u32, body: &[u8]) -> (u64, Node) {
        let node = self.next.fetch_add(1, Relaxed);
        let nlink = if kind == FileType::Directory { 2 } else { 1 };
        let size = body.len() as u64;
        let attr = Attr { mode: kind.to_mode() | mode, nlink, ino: node, size, ..Attr::default() };
        let (body, names) = (body.to_vec(), BTreeMap::new());
        (node, Node { attr, body, names, acls: Acls::default(), answered: 0 })
    }

    /// How many answers about a node were not given back.
    pub(crate) fn answered(&self, node: u64) -> u64 {
        self.nodes.lock().unwrap()[&node].answered
    }

    fn may_change(&self) -> Result<()> {
        let left = self.stale_changes.try_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if left.is_ok() { Err(Errno::ESTALE) } else { Ok(()) }
    }

    /// Whether there is room for one more link, if one is to be.
    fn may_gain_link(&self, gains: bool) -> Result<()> {
        if gains && self.full.load(Relaxed) { Err(Errno::EMLINK) } else { Ok(()) }
    }

    /// Puts a file into the root without anybody being told, as another client of a server would.
    pub(crate) fn appear(&self, name: &str, kind: FileType, mode: u32, body: &str) {
        let node = self.add(kind, mode, body.as_bytes());
        self.nodes.lock().unwrap().get_mut(&1).unwrap().names.insert(name.into(), node);
    }

    /// Gives a file in the root an access ACL without anybody being told.
    pub(crate) fn set_acls(&self, name: &str, access: Vec<AclEntry>) {
        let mut nodes = self.nodes.lock().unwrap();
        let node = nodes[&1].names[name.as_bytes()];
        let node = nodes.get_mut(&node).unwrap();
        node.attr.mode |= 0o070;
        node.acls.access = access;
    }

    /// Takes a name from the root without anybody being told.
    pub(crate) fn vanish(&self, name: &str) {
        self.nodes.lock().unwrap().get_mut(&1).unwrap().names.remove(name.as_bytes());
    }

    /// What it says of a node itself, whatever the cache holds.
    pub(crate) fn attr(&self, node: u64) -> Attr {
        self.nodes.lock().unwrap()[&node].attr
    }

    /// Gives what one name of the root stands for another name there without anybody being told.
    pub(crate) fn appear_as_well(&self, name: &str, other: &str) {
        let mut nodes = self.nodes.lock().unwrap();
        let names = &mut nodes.get_mut(&1).unwrap().names;
        let node = names[name.as_bytes()];
        names.insert(other.into(), node);
    }

    /// From now on calls about this name wait; `None` lets them go on.
    pub(crate) fn hold(&self, name: Option<&str>) {
        *self.held.lock().unwrap() = (name.map(Into::into), false);
        self.moved.notify_all();
    }

    /// Waits until a call waits.
    pub(crate) fn until_held(&self) {
        drop(self.moved.wait_while(self.held.lock().unwrap(), |held| !held.1).unwrap());
    }

    fn asked(&self) {
        assert!(!self.panics.load(Relaxed), "as the test wants it");
    }

    fn gate(&self, name: &[u8]) {
        self.asked();
        let mut held = self.held.lock().unwrap();
        while held.0.as_deref() == Some(name) {
            held.1 = true;
            self.moved.notify_all();
            held = self.moved.wait(held).unwrap();
        }
    }

    /// Changes an inode, here and in the cache.
    fn change(&self, inode: InodeRef<'_>, f: impl Fn(&mut Attr)) {
        change(&mut self.nodes.lock().unwrap(), inode, f);
    }
}

fn change(nodes: &mut Nodes, inode: InodeRef<'_>, f: impl Fn(&mut Attr)) {
    f(&mut nodes.get_mut(&inode.node()).unwrap().attr);
    let Ok(()) = inode.update(|attr| {
        f(attr);
        Ok::<_, std::convert::Infallible>(())
    });
}

fn lose_link(nodes: &mut Nodes, inode: InodeRef<'_>) {
    change(nodes, inode, |attr| attr.nlink -= 1);
}

/// Enters a name, or takes it out; answers what it stood for.
fn enter(
    nodes: &mut Nodes,
    dir: InodeRef<'_>,
    name: &[u8],
    node: Option<u64>,
) -> Result<Option<u64>> {
    let dir = nodes.get_mut(&dir.node()).filter(|dir| dir.attr.nlink != 0);
    let names = &mut dir.ok_or(Errno::ENOENT)?.names;
    Ok(match node {
        Some(node) => names.insert(name.to_vec(), node),
        None => names.remove(name),
    })
}

/// Takes a name out that the cache knows.
fn take_out(nodes: &mut Nodes, dir: InodeRef<'_>, name: &[u8], inode: InodeRef<'_>) -> Result<()> {
    assert_eq!(enter(nodes, dir, name, None)?, Some(inode.node()), "the cache is right");
    Ok(())
}

fn must_be_empty(nodes: &Nodes, inode: InodeRef<'_>) -> Result<()> {
    if nodes[&inode.node()].names.is_empty() { Ok(()) } else { Err(Errno::ENOTEMPTY) }
}

fn found(nodes: &mut Nodes, node: u64) -> Found {
    let known = nodes.get_mut(&node).unwrap();
    known.answered += 1;
    Found { node, attr: known.attr, body: None }
}

impl FileSystem for SampleFs {
    fn kind(&self) -> &str {
        "sample"
    }

    fn features(&self) -> Features {
        self.features
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        Ok(found(&mut self.nodes.lock().unwrap(), 1))
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        self.calls.lookup.fetch_add(1, Relaxed);
        self.gate(name);
        if self.stale.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            return Err(Errno::ESTALE);
        }
        let mut nodes = self.nodes.lock().unwrap();
        let node = nodes[&dir.node()].names.get(name).copied();
        Ok(node.map(|node| found(&mut nodes, node)))
    }

    fn lookup_anew(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        self.calls.lookup_anew.fetch_add(1, Relaxed);
        self.lookup(dir, name)
    }

    fn revalidate(
        &self,
        _dir: InodeRef<'_>,
        _name: &[u8],
        _cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        self.calls.revalidate.fetch_add(1, Relaxed);
        self.asked();
        Ok(self.valid.load(Relaxed))
    }

    fn revalidate_anew(
        &self,
        _dir: InodeRef<'_>,
        _name: &[u8],
        _cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        self.calls.revalidate_anew.fetch_add(1, Relaxed);
        self.asked();
        Ok(self.valid.load(Relaxed))
    }

    fn permission(&self, inode: InodeRef<'_>, access: Access, who: &Subject<'_>) -> Result<()> {
        self.calls.permission.fetch_add(1, Relaxed);
        self.asked();
        inode.generic_permission(access, who)
    }

    fn lookup_many(&self, _: InodeRef<'_>, _: &[CachedName<'_>]) -> Result<usize> {
        self.asked();
        Ok(0)
    }

    fn revalidate_path(
        &self,
        _: InodeRef<'_>,
        _: &[u8],
        _: Option<InodeRef<'_>>,
        _: bool,
    ) -> Result<bool> {
        self.asked();
        Ok(true)
    }

    fn getattr(&self, _: InodeRef<'_>) -> Result<()> {
        self.asked();
        Ok(())
    }

    fn open(&self, _: InodeRef<'_>, _: OpenFlags) -> Result<Option<Box<dyn OpenHandle>>> {
        self.asked();
        let left = self.stale_openings.try_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if left.is_ok() { Err(Errno::ESTALE) } else { Ok(None) }
    }

    fn tmpfile(&self, _: InodeRef<'_>, _: &NewInode<'_>) -> Result<Found> {
        self.asked();
        Err(Errno::EOPNOTSUPP)
    }

    fn exchange(&self, rename: &Rename<'_>) -> Result<()> {
        self.asked();
        let is_directory = |inode: InodeRef<'_>| inode.attr().file_type() == FileType::Directory;
        let replaced = rename.replaced.expect("there are two");
        self.may_gain_link(is_directory(rename.inode) != is_directory(replaced))?;
        Err(Errno::EINVAL)
    }

    fn rename_whiteout(&self, _: &Rename<'_>, _: &NewInode<'_>) -> Result<Option<Found>> {
        self.asked();
        Err(Errno::EINVAL)
    }

    fn create(&self, dir: InodeRef<'_>, name: &[u8], new: &NewInode<'_>) -> Result<Option<Found>> {
        self.calls.create.fetch_add(1, Relaxed);
        self.gate(name);
        self.may_change()?;
        if self.raced.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            let theirs = self.add(FileType::Regular, 0o644, b"theirs");
            if !self.raced_away.load(Relaxed) {
                enter(&mut self.nodes.lock().unwrap(), dir, name, Some(theirs))?;
            }
            return Err(Errno::EEXIST);
        }
        if self.replaced.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            let theirs = self.add(FileType::Regular, 0o644, b"theirs");
            enter(&mut self.nodes.lock().unwrap(), dir, name, Some(theirs))?;
            return Ok(None);
        }
        self.may_gain_link(new.file_type == FileType::Directory)?;
        let (node, mut made) = self.new_node(new.file_type, new.mode, new.body);
        made.acls = Acls { access: new.access_acl.to_vec(), default: new.default_acl.to_vec() };
        let mut nodes = self.nodes.lock().unwrap();
        let before = enter(&mut nodes, dir, name, Some(node))?;
        assert_eq!(before, None, "only a name that is not there is made");
        nodes.insert(node, made);
        if new.file_type == FileType::Directory {
            change(&mut nodes, dir, |attr| attr.nlink += 1);
        }
        Ok(Some(found(&mut nodes, node)))
    }

    fn link(&self, inode: InodeRef<'_>, dir: InodeRef<'_>, name: &[u8], _: Timespec) -> Result<()> {
        self.gate(name);
        self.may_gain_link(true)?;
        let mut nodes = self.nodes.lock().unwrap();
        if nodes[&inode.node()].attr.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        enter(&mut nodes, dir, name, Some(inode.node()))?;
        change(&mut nodes, inode, |attr| attr.nlink += 1);
        Ok(())
    }

    fn unlink(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        inode: InodeRef<'_>,
        _: Timespec,
    ) -> Result<()> {
        self.gate(name);
        let mut nodes = self.nodes.lock().unwrap();
        take_out(&mut nodes, dir, name, inode)?;
        lose_link(&mut nodes, inode);
        Ok(())
    }

    fn rmdir(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        inode: InodeRef<'_>,
        _: Timespec,
    ) -> Result<()> {
        self.gate(name);
        let mut nodes = self.nodes.lock().unwrap();
        must_be_empty(&nodes, inode)?;
        take_out(&mut nodes, dir, name, inode)?;
        change(&mut nodes, inode, |attr| attr.nlink = 0);
        lose_link(&mut nodes, dir);
        Ok(())
    }

    fn rename(&self, rename: &Rename<'_>) -> Result<()> {
        self.gate(rename.old_name);
        let node = rename.inode.node();
        let directory = rename.inode.attr().file_type() == FileType::Directory;
        let across = rename.old_dir.node() != rename.new_dir.node();
        self.may_gain_link(directory && across && rename.replaced.is_none())?;
        let nodes = &mut *self.nodes.lock().unwrap();
        if let Some(victim) = rename.replaced {
            must_be_empty(nodes, victim)?;
        }
        enter(nodes, rename.new_dir, rename.new_name, Some(node))?;
        take_out(nodes, rename.old_dir, rename.old_name, rename.inode)?;
        if let Some(victim) = rename.replaced {
            change(nodes, victim, |attr| attr.nlink = if directory { 0 } else { attr.nlink - 1 });
            if directory {
                lose_link(nodes, rename.new_dir);
            }
        }
        if directory {
            lose_link(nodes, rename.old_dir);
            change(nodes, rename.new_dir, |attr| attr.nlink += 1);
        }
        Ok(())
    }

    fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        self.gate(b"setattr");
        self.may_change()?;
        if change.size.is_some_and(|size| size != 0) {
            return Err(Errno::EFBIG);
        }
        if change.size.is_some() {
            self.nodes.lock().unwrap().get_mut(&inode.node()).unwrap().body.clear();
        }
        if let Some(mode) = change.mode {
            let mut nodes = self.nodes.lock().unwrap();
            acl_chmod(&mut nodes.get_mut(&inode.node()).unwrap().acls.access, mode);
        }
        self.change(inode, |attr| {
            attr.size = change.size.unwrap_or(attr.size);
            change.copy_to(attr);
        });
        Ok(())
    }

    fn update_time(&self, inode: InodeRef<'_>, atime: Timespec) {
        self.asked();
        if let Some(then) = &*self.when_read.lock().unwrap() {
            then();
        }
        self.change(inode, |attr| attr.atime = atime);
    }

    fn acls(&self, inode: InodeRef<'_>) -> Result<Acls> {
        self.calls.acls.fetch_add(1, Relaxed);
        self.asked();
        if self.restless.load(Relaxed) {
            inode.forget_acls();
        }
        Ok(self.nodes.lock().unwrap()[&inode.node()].acls.clone())
    }

    fn set_acl(
        &self,
        inode: InodeRef<'_>,
        kind: AclKind,
        acl: &[AclEntry],
        change: &mut Iattr,
    ) -> Result<()> {
        self.asked();
        let mut nodes = self.nodes.lock().unwrap();
        let node = nodes.get_mut(&inode.node()).unwrap();
        change.copy_to(&mut node.attr);
        match kind {
            AclKind::Access => node.acls.access = acl.to_vec(),
            AclKind::Default => node.acls.default = acl.to_vec(),
        }
        Ok(())
    }

    fn readlink(&self, inode: InodeRef<'_>) -> Result<Vec<u8>> {
        self.calls.readlink.fetch_add(1, Relaxed);
        self.asked();
        Ok(self.nodes.lock().unwrap()[&inode.node()].body.clone())
    }

    fn read(&self, inode: InodeRef<'_>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.asked();
        let nodes = self.nodes.lock().unwrap();
        let rest = nodes[&inode.node()].body.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write(
        &self,
        inode: InodeRef<'_>,
        offset: Option<u64>,
        data: &[u8],
        now: Timespec,
    ) -> Result<(u64, usize)> {
        self.asked();
        let mut nodes = self.nodes.lock().unwrap();
        let body = &mut nodes.get_mut(&inode.node()).unwrap().body;
        let start = offset.map_or(body.len(), |offset| offset as usize);
        let end = start + data.len();
        if end > 4096 {
            return Err(Errno::ENOSPC);
        }
        body.resize(body.len().max(end), 0);
        body[start..end].copy_from_slice(data);
        let size = body.len() as u64;
        drop(nodes);
        self.change(inode, |attr| (attr.size, attr.mtime, attr.ctime) = (size, now, now));
        Ok((end as u64, data.len()))
    }

    fn readdir(&self, dir: InodeRef<'_>, offset: u64, emit: &mut Emit<'_>) -> Result<()> {
        self.asked();
        let nodes = self.nodes.lock().unwrap();
        let names = nodes[&dir.node()].names.iter().map(|(name, node)| (name.clone(), *node));
        let mut listed: Vec<(u64, Vec<u8>)> = names.map(|(name, node)| (node, name)).collect();
        listed.sort();
        // A name's place is its node's number: it stays whatever else comes and goes.
        listed.retain(|(node, _)| *node > offset);
        let kinds: Vec<FileType> =
            listed.iter().map(|(node, _)| nodes[node].attr.file_type()).collect();
        drop(nodes);
        for ((node, name), kind) in listed.iter().zip(kinds) {
            if !emit(*node, *node, kind, name) {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat { bsize: 4096, ..FsStat::default() })
    }

    fn evict(&self, node: u64, unlinked: bool) {
        // Behind what it does: so no count is lost by it.
        let _panics = PanicsAfter(self.evict_panics.load(Relaxed));
        self.calls.evict.fetch_add(1, Relaxed);
        let mut nodes = self.nodes.lock().unwrap();
        let known =
            nodes.get_mut(&node).expect("what was answered is there until it was given back");
        known.answered = known.answered.checked_sub(1).expect("given back once each");
        if unlinked && known.answered == 0 {
            nodes.remove(&node);
        }
    }
}

/// Panics when it is dropped, if it is to.
struct PanicsAfter(bool);

impl Drop for PanicsAfter {
    fn drop(&mut self) {
        assert!(!self.0, "as it is to");
    }
}
