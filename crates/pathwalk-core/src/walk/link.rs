//! Following a symlink: its body goes on top of the text, and the walk goes on with it.
//!
//! Linux: `pick_link`, `may_follow_link`, `atime_needs_update`, `nd_jump_root`.

use super::{
    HeldPath, Lookup, Place, Start, Stop, Walk,
    hold::Hold,
    observe::{Left, Observer, Spot},
    text::Text,
};
use crate::{
    cred::Subject,
    fs::LinkTarget,
    inode::{Attr, I_MAGIC_LINK, InodeId, Owner, must_be_a_body},
    mount::{MntFlags, MountId},
    security::Hooks,
    vfs::Vfs,
};
use pathwalk_abi::{
    Errno, FileType, InodeFlags, Result,
    mode::{S_ISVTX, S_IWOTH},
};
use pathwalk_sync::lock_order;
use smallvec::SmallVec;

/// After so many seconds relatime writes a time of last access all the same.
const DAY: i64 = 24 * 60 * 60;

impl<'a, H: Hold<'a>, O: Observer> Walk<'a, H, O> {
    /// Follows a symlink that the walk stands before; `last` says that it stood last in its path.
    ///
    /// The link is taken by value: nothing of the walk's state needs to live in memory for it.
    ///
    /// # Errors
    ///
    /// - `ELOOP`: it would be the 41st.
    /// - `EACCES`: it stands last, in a sticky directory that everyone may write, and is neither one's own nor the
    ///   directory owner's.
    /// - `ELOOP`: symlinks are not to be followed, by the call or by the mount.
    /// - whatever the file system answers for the body.
    /// - `EXDEV`: the body is absolute and the walk must not leave where it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn pick_link(
        &mut self,
        link: Place,
        text: &mut Text<'_>,
        last: bool,
    ) -> Result<(), Stop> {
        self.observer.before_link(Spot { vfs: self.vfs, place: &link });
        let counts = (!H::RCU).then(|| self.counts_of(&link));
        let mut to = None;
        let start = text.bodies().len();
        if let Err(stop) = self.read_link(&link, last, text.bodies(), &mut to) {
            text.bodies().truncate(start);
            return Err(stop);
        }
        drop(counts);
        let body = &text.bodies()[start..];
        match &to {
            Some(to) if O::LISTENS => {
                let (mnt, dentry) = self.fs.hold_root(self.vfs);
                let shown = self.vfs.d_path(to, &HeldPath::new(self.vfs, mnt, dentry));
                self.observer.link(&shown.unwrap_or_default(), self.links, last);
            }
            _ => self.observer.link(body, self.links, last),
        }
        let absolute = body.first() == Some(&b'/');
        text.push(start, last);
        if absolute {
            self.jump_root()?;
        }
        if let Some(to) = to {
            self.jump_link(to)?;
        }
        Ok(())
    }

    /// Copies the link's body behind what is in `body`; nothing, and `to`, where it leads to a place instead. It is counted before
    /// anyone is asked about it: who is asked may walk through the same link.
    fn read_link(
        &mut self,
        link: &Place,
        last: bool,
        body: &mut SmallVec<[u8; 192]>,
        to: &mut Option<HeldPath<'a>>,
    ) -> Result<(), Stop> {
        let vfs = self.vfs;
        self.point()?;
        if let Err(errno) = self.may_follow_one_more() {
            self.check_link(link)?;
            return Err(errno.into());
        }
        if !H::RCU {
            self.count_link();
        }
        let inode = InodeId(vfs.dentry(link.dentry).inode.get());
        let slot = vfs.inode(inode);
        let Some(attr) = (if H::RCU { slot.try_attr() } else { Some(slot.attr()) }) else {
            return Err(Stop::Leave(Left::Changed));
        };
        if last && vfs.config.protected_symlinks && !self.may_follow(&attr)? {
            self.check_link(link)?;
            self.must_be_sure()?;
            self.observer.may_not_follow();
            return Err(Errno::EACCES.into());
        }
        let flags = vfs.mount_slot(link.mnt).flags();
        if self.flags.contains(Lookup::NO_SYMLINKS) || flags.contains(MntFlags::NOSYMFOLLOW) {
            self.check_link(link)?;
            return Err(Errno::ELOOP.into());
        }
        if vfs.atime_needs_update(&attr, link.mnt, flags) {
            if H::RCU {
                return Err(Stop::Leave(Left::Atime));
            }
            self.in_hook(|_| vfs.touch_atime(inode, link.mnt, flags));
        }
        if !H::RCU {
            self.in_hook(|who| {
                vfs.ask(Hooks::INODE_FOLLOW_LINK, |module| {
                    module.inode_follow_link(who, vfs.inode_ref(inode))
                })
            })?;
        }
        if let Some(blob) = slot.body() {
            vfs.names.copy_str(blob, |piece| body.extend_from_slice(piece));
            // The copy is parsed only if it was the link's all the time.
            self.check_link(link)?;
        } else if H::RCU {
            return Err(Stop::Leave(Left::LinkBody));
        } else if slot.flags.get() & I_MAGIC_LINK == 0 {
            body.extend_from_slice(&self.in_hook(|_| vfs.link_body(inode))?);
        } else {
            match self.in_hook(|who| vfs.get_link(inode, who))? {
                LinkTarget::Body(text) => body.extend_from_slice(&text),
                LinkTarget::Jump(text) => {
                    self.may_jump(true)?;
                    body.extend_from_slice(&text);
                }
                LinkTarget::Place(place) => *to = Some(place.0),
            }
        }
        if H::RCU {
            // Not before: a walk that leaves comes to the link again.
            self.count_link();
        }
        Ok(())
    }

    /// Checks that what was read of a link, and of its mount, is still true.
    fn check_link(&self, link: &Place) -> Result<(), Stop> {
        if !H::RCU {
            return Ok(());
        }
        if !self.vfs.dentry(link.dentry).seq.unchanged(link.seq) {
            return Err(Stop::Leave(Left::Changed));
        }
        if !self.vfs.mount_slot(link.mnt).seq.unchanged(link.mnt_seq) {
            return Err(Stop::Leave(Left::Mount));
        }
        Ok(())
    }

    /// The rule of `fs.protected_symlinks`; the walk stands on the link's directory.
    fn may_follow(&mut self, link: &Attr) -> Result<bool, Stop> {
        let (directory, _) = self.vfs.inode(self.inode()).owner();
        self.check_at()?;
        let who = self.vfs.through(self.at.mnt, &self.who);
        if !is_shared(directory) || who.same_owner(directory, link) {
            return Ok(true);
        }
        self.observer.asked_who();
        Ok(who.owns(link.uid))
    }

    /// Goes where a magic link leads, of a walk that holds: no directory on the way there is searched, and there need not
    /// be a way.
    ///
    /// Linux: `nd_jump_link`.
    #[cold]
    fn jump_link(&mut self, to: HeldPath<'a>) -> Result<(), Stop> {
        let crosses = to.mnt() != self.at.mnt;
        self.may_jump(crosses)?;
        self.vfs.ask_about_held(to.inode(), self.flags)?;
        let (mnt, dentry) = to.into_raw();
        let place = self.vfs.sample(mnt, dentry);
        if !crosses {
            // The walk holds this mount already.
            self.vfs.mntput(mnt);
        }
        self.move_to(place);
        self.observer.jumped(Spot { vfs: self.vfs, place: &place });
        Ok(())
    }

    /// Whether a magic link may be followed, which leads into another mount or not.
    ///
    /// # Errors
    ///
    /// - `ELOOP`: none is wanted.
    /// - `EXDEV`: another mount is not wanted, or the walk must stay below where it began.
    fn may_jump(&self, crosses: bool) -> Result<()> {
        if self.flags.contains(Lookup::NO_MAGICLINKS) {
            return Err(Errno::ELOOP);
        }
        if self.flags.contains(Lookup::NO_XDEV) && crosses || self.flags.is_scoped() {
            return Err(Errno::EXDEV);
        }
        Ok(())
    }

    /// Goes to the root, for an absolute body.
    ///
    /// Linux: `nd_jump_root`.
    fn jump_root(&mut self) -> Result<(), Stop> {
        if self.flags.contains(Lookup::BENEATH) {
            return Err(Errno::EXDEV.into());
        }
        // Linux has not loaded the root of a relative walk yet, so that one fails even on the same mount.
        let crosses = self.root.is_none_or(|root| root.mnt != self.at.mnt);
        if self.flags.contains(Lookup::NO_XDEV) && crosses {
            return Err(Errno::EXDEV.into());
        }
        let root = self.load_root();
        if !H::RCU {
            self.vfs.dget(root.dentry);
            if root.mnt != self.at.mnt {
                self.vfs.mntget(root.mnt);
            }
        }
        self.move_to(root);
        self.observer.begin(Spot { vfs: self.vfs, place: &self.at });
        Ok(())
    }

    /// Where a walk begins.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: only cached answers are wanted, but the walk must hold its place.
    /// - `EXDEV`: an absolute path must not leave the starting place.
    /// - `ENOTDIR`: the starting place is no directory.
    ///
    /// Linux: `path_init`.
    #[inline(always)]
    pub(crate) fn path_init(request: &super::Request<'a>, observer: O) -> Result<Self, (Errno, O)> {
        let flags = request.flags;
        let start = match request.start() {
            Ok(start) => start,
            Err(errno) => return Err((errno, observer)),
        };
        let keep = matches!(start, Start::Root) || flags.is_scoped();
        let (at, hold) = H::start(request.vfs, request.fs, start, keep);
        if matches!(start, Start::Dir(..))
            && !request.path.is_empty()
            && at.flags & crate::dcache::DIRECTORY == 0
        {
            return Err((Errno::ENOTDIR, observer));
        }
        let mut walk = Walk {
            vfs: request.vfs,
            fs: request.fs,
            asker: request.asker,
            who: request.asker.subject(),
            flags,
            tables: request.vfs.tables(),
            at,
            root: keep.then_some(at),
            links: 0,
            topology: flags.is_scoped().then(|| request.vfs.topology_sample()),
            observer,
            hold,
        };
        walk.observer.begin(Spot { vfs: walk.vfs, place: &walk.at });
        Ok(walk)
    }
}

/// Whether a directory is sticky and may be written by everyone.
fn is_shared(directory: Owner) -> bool {
    let shared = S_ISVTX | S_IWOTH;
    directory.mode & shared == shared
}

/// Reading is to be noted whatever the time is.
pub(super) const AT_ONCE: i64 = i64::MIN;

/// From which second on reading is to be noted; none if never.
///
/// Linux: `atime_needs_update`, `relatime_need_update`.
pub(super) fn atime_due(attr: &Attr, flags: MntFlags) -> Option<i64> {
    let directory = attr.file_type() == FileType::Directory;
    if attr.flags.contains(InodeFlags::NOATIME) || !notes_reading(flags, directory) {
        return None;
    }
    let changed_since = attr.atime <= attr.mtime || attr.atime <= attr.ctime;
    if changed_since || !flags.contains(MntFlags::RELATIME) {
        return Some(AT_ONCE);
    }
    Some(attr.atime.sec.saturating_add(DAY))
}

/// Whether a mount with these flags notes that something is read.
pub(crate) fn notes_reading(flags: MntFlags, directory: bool) -> bool {
    let noatime =
        flags.contains(MntFlags::NOATIME) || directory && flags.contains(MntFlags::NODIRATIME);
    !noatime && !flags.read_only()
}

impl Vfs {
    /// Whether reading is to be noted.
    ///
    /// Linux: `atime_needs_update`.
    pub(crate) fn atime_needs_update(&self, attr: &Attr, mnt: MountId, flags: MntFlags) -> bool {
        if flags.contains(MntFlags::IDMAPPED) && self.hides_owner(mnt, attr) {
            return false;
        }
        atime_due(attr, flags).is_some_and(|due| due == AT_ONCE || self.now_seconds() >= due)
    }

    /// Asks the file system where a magic link leads `who`; the caller holds it.
    ///
    /// # Errors
    ///
    /// - whatever the file system answers.
    /// - `ENAMETOOLONG`, `EIO`: it answers a body that no symlink can have.
    #[cold]
    pub(crate) fn get_link(&self, inode: InodeId, who: &Subject<'_>) -> Result<LinkTarget<'_>> {
        let sb = self.superblock(self.inode(inode).sb.get()).ok_or(Errno::ESTALE)?;
        lock_order::assert_none_held();
        let target = sb.fs.get_link(self.inode_ref(inode), who)?;
        if let LinkTarget::Body(body) | LinkTarget::Jump(body) = &target {
            must_be_a_body(body)?;
        }
        Ok(target)
    }
}
