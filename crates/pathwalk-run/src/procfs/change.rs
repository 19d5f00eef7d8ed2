//! What is changed of a file of the view.
//!
//! ```text
//!   what a link leads to, .fd-PID-N    the host's, as far as it lets who started this
//!   a file of a process                its times on the host; its mode and owner are the process's
//!   the machine's                      noted here, and seen in this view alone
//! ```
//!
//! Linux: `proc_setattr`, `proc_notify_change`, `proc_sys_setattr`.

use super::{OnHost, ProcView, permission::Rule, process_of};
use crate::{
    hidden::{self, Hidden},
    sys::{answer, process},
};
use pathwalk::{Attr, Errno, FileType, InodeRef, Result, Timespec, abi::UTIME_OMIT, fs::Iattr};
use rustix::{
    fs::{self, AtFlags, Mode, OFlags, Timestamps},
    process::{Gid, Uid},
};
use std::convert::Infallible;

impl ProcView {
    /// Changes attributes, by who may. No file has a size, so any will do: it is opened to be written anew. But what is behind a hidden
    /// one may have.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: it is behind a hidden file and of no kind, as an epoll.
    /// - `EPERM`: nobody changes that.
    /// - those of [`ProcView::change_behind`].
    pub(super) fn change(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        let path = self.path(inode)?;
        let &Iattr { size, mtime, ctime, now, .. } = change;
        let hidden = Hidden::of(&path);
        if hidden.is_some() && FileType::from_mode(inode.attr().mode).is_none() {
            return Err(Errno::EOPNOTSUPP);
        }
        if *change == (Iattr { ctime, now, ..Iattr::default() }) {
            return Ok(());
        }
        let cut = *change == Iattr { size, mtime, ctime, now, ..Iattr::default() };
        match (size.filter(|_| cut), hidden) {
            (Some(_), None) => Ok(()),
            (Some(len), Some(hidden)) => {
                answer(fs::ftruncate(self.open_hidden(&hidden, OFlags::WRONLY)?, len))
            }
            (None, _) if change.flags.is_some() => Err(Errno::EPERM),
            (None, Some(Hidden::Descriptor(tid, number))) => {
                self.change_behind(tid, number, change, &inode.attr())
            }
            (None, Some(Hidden::Namespace(..))) => Err(Errno::EPERM),
            (None, None) => self.change_shown(inode, &path, change),
        }
    }

    /// # Errors
    ///
    /// - `EPERM`: nobody changes it.
    fn change_shown(&self, inode: InodeRef<'_>, path: &str, change: &Iattr) -> Result<()> {
        let owned = change.mode.is_some() || change.uid.is_some() || change.gid.is_some();
        if owned && Rule::of(path) == Rule::Setting {
            return Err(Errno::EPERM);
        }
        if process_of(path).is_none() {
            self.changed.lock().entry(path.to_owned()).or_default().add(change);
            let Ok(()) = inode.update(|attr| {
                change.copy_to(attr);
                Ok::<_, Infallible>(())
            });
            return Ok(());
        }
        if change.mode.is_some() || is_of_the_network(path) {
            return Err(Errno::EPERM);
        }
        // Whose it is is asked of the process whenever it is looked at.
        if change.atime.is_none() && change.mtime.is_none() {
            return Ok(());
        }
        let on_host = OnHost::new(path)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        answer(fs::utimensat(&on_host.dir, on_host.name, &times(change), flags))
    }

    /// Changes what a thread has open by this number, as far as the host lets who started this; whether the caller may was asked.
    ///
    /// # Errors
    ///
    /// - those of [`ProcView::fetched`].
    /// - `EPERM`: it is a directory, or has a name on the host and the caller is somebody whom the host does not know; or the host says so.
    fn change_behind(&self, tid: u32, number: u32, change: &Iattr, before: &Attr) -> Result<()> {
        let (pinned, stat) = self.fetched(tid, number)?;
        let kind = fs::FileType::from_raw_mode(stat.st_mode);
        if kind == fs::FileType::Directory || self.is_others(tid, &stat) {
            return Err(Errno::EPERM);
        }
        let at = process::by_number(&pinned);
        if let Some(mode) = change.mode {
            answer(fs::chmod(&at, Mode::from_raw_mode(mode)))?;
        }
        // Whose it is already is known here alone, where the host does not know who asks.
        let known = self.asker.credentials(tid).is_none();
        let uid = change.uid.filter(|uid| known || *uid != before.uid).map(Uid::from_raw);
        let gid = change.gid.filter(|gid| known || *gid != before.gid).map(Gid::from_raw);
        if uid.is_some() || gid.is_some() {
            answer(fs::chown(&at, uid, gid))?;
        }
        if change.atime.is_none() && change.mtime.is_none() {
            return Ok(());
        }
        answer(fs::utimensat(fs::CWD, &at, &times(change), AtFlags::empty()))
    }

    /// Whether what a thread has open has a name on the host, and the thread is somebody whom the host does not know.
    pub(super) fn is_others(&self, tid: u32, stat: &fs::Stat) -> bool {
        let nameless = hidden::is_nameless(stat.st_mode, stat.st_nlink);
        self.asker.credentials(tid).is_some() && !nameless
    }

    /// What was changed of a file here.
    pub(super) fn as_changed(&self, path: &str, mut attr: Attr) -> Attr {
        if let Some(Changed(changed)) = self.changed.lock().get(path) {
            changed.copy_to(&mut attr);
        }
        attr
    }
}

/// What was changed of a file, one change after the other.
#[derive(Debug, Default)]
pub(super) struct Changed(Iattr);

impl Changed {
    fn add(&mut self, change: &Iattr) {
        let Self(all) = self;
        all.mode = change.mode.or(all.mode);
        all.uid = change.uid.or(all.uid);
        all.gid = change.gid.or(all.gid);
        all.atime = change.atime.or(all.atime);
        all.mtime = change.mtime.or(all.mtime);
        all.ctime = change.ctime.or(all.ctime);
    }
}

/// Whether a process's file is the one of all who are in its network: `PID/net/NAME`.
fn is_of_the_network(path: &str) -> bool {
    let of_thread = path.split('/').nth(1) == Some("task");
    let mut below = path.split('/').skip(if of_thread { 3 } else { 1 });
    below.next() == Some("net") && below.next().is_some()
}

/// The times that are given.
fn times(change: &Iattr) -> Timestamps {
    let time = |time: Option<Timespec>| match time {
        Some(time) => fs::Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() },
        None => fs::Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    Timestamps { last_access: time(change.atime), last_modification: time(change.mtime) }
}
