//! Files that were sent through a local socket, and may not have been received.
//!
//! ```text
//!   sendmsg ──► sent from here (`answer::message`) ──► lies in a socket ──► recvmsg: the kernel's, nobody is told
//!                 noted here                            in no list           in a list
//! ```
//!
//! Invariant: what lies in a socket is noted, unless more than [`MOST`] others were noted after it. What is noted may have been received
//! by now; it is noted no more where the kernel says so, of the socket that sent it or of all that there are.
//!
//! Who looks what is in use asks here before the lists: what is received meanwhile is in one of the two.
//!
//! Manual: unix(7), proc_pid_fdinfo(5).

use crate::{
    cookies::{HostId, look_at_all, open_of},
    kin,
    unseen::Unseen,
    watches::info_of,
};
use pathwalk::Result;
use rustc_hash::FxHashSet;
use rustix::fs;
use std::{collections::VecDeque, path::Path, sync::Weak};

/// So many are noted; those that were sent first are forgotten first.
const MOST: usize = 1024;

/// A file, and the socket that it was sent by.
#[derive(Debug)]
struct Sent {
    file: HostId,
    by: HostId,
    /// Somebody has it as long as it waits to be sent.
    waits: Weak<()>,
    /// It was sent before it was looked last.
    lay: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct AllSent {
    files: VecDeque<Sent>,
    /// Sockets that others send nothing by.
    own: Unseen,
}

/// The sockets that there are; nothing lay in any of them.
pub(crate) struct Empty(FxHashSet<HostId>);

impl AllSent {
    pub(crate) fn new(own: Unseen) -> Self {
        Self { own, ..Self::default() }
    }

    /// A file was sent by a socket, or is as long as somebody has `waits`.
    pub(crate) fn add(&mut self, file: HostId, by: HostId, waits: Weak<()>) {
        self.files.retain(|sent| (sent.file, sent.by) != (file, by) || sent.is_waiting());
        if self.files.len() >= MOST {
            self.files.pop_front();
        }
        self.files.push_back(Sent { file, by, waits, lay: false });
    }

    /// All that was sent by this socket was received.
    pub(crate) fn was_received(&mut self, by: HostId) {
        self.files.retain(|sent| sent.by != by || sent.is_waiting());
    }

    /// The files.
    pub(crate) fn ids(&self) -> impl Iterator<Item = HostId> {
        self.files.iter().map(|sent| sent.file)
    }

    /// Looks whether there is anything in a socket, before it is looked what is in use.
    pub(crate) fn look(&mut self) -> Option<Empty> {
        // Who waits may send into what was looked at already.
        self.files.iter_mut().for_each(|sent| sent.lay = !sent.is_waiting());
        self.files.iter().any(|sent| sent.lay).then_some(())?;
        let (mut sockets, mut lies) = (FxHashSet::default(), false);
        let all = look_at_all(|process| {
            for thread in kin::threads_with_files(process)? {
                for fd in open_of(process, thread)? {
                    if let Some(id) = socket(&fd)
                        && sockets.insert(id)
                        && !self.own.has_number(id.ino())
                    {
                        lies |= lies_in(&fd)? != Some(0) || socket(&fd) != Some(id);
                    }
                }
            }
            Ok(())
        });
        (all == Ok(true) && !lies).then_some(Empty(sockets))
    }

    /// Forgets what was received, as nothing lay anywhere. A socket that is among what is `used` and was not looked at was taken out of
    /// one of those: what lay there lies there still, or is in the lists.
    pub(crate) fn looked(&mut self, Empty(sockets): Empty, used: &FxHashSet<HostId>) {
        let Some(dev) = self.files.front().map(|sent| sent.by.dev()) else { return };
        if used.iter().all(|id| id.dev() != dev || sockets.contains(id)) {
            self.files.retain(|sent| !sent.lay);
        }
    }
}

impl Sent {
    fn is_waiting(&self) -> bool {
        self.waits.strong_count() > 0
    }
}

/// Which socket a descriptor is, if it is one.
fn socket(fd: &Path) -> Option<HostId> {
    let stat = fs::stat(fd).ok()?;
    let kind = fs::FileType::from_raw_mode(stat.st_mode);
    (kind == fs::FileType::Socket).then(|| HostId::of(&stat))
}

/// How many descriptors lie in a socket, also in those that wait to be accepted by it; none in any but a local one. `None` where it cannot
/// be told, as it was closed.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
fn lies_in(fd: &Path) -> Result<Option<u64>> {
    Ok(kin::read(info_of(fd))?.and_then(|text| {
        let text = String::from_utf8(text).ok()?;
        match text.lines().find_map(|line| line.strip_prefix("scm_fds:")) {
            Some(count) => count.trim().parse().ok(),
            None => Some(0),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const BY: u64 = 8;

    fn id(ino: u64) -> HostId {
        HostId::new(1, ino)
    }

    fn by(ino: u64) -> HostId {
        HostId::new(BY, ino)
    }

    fn files(sent: &AllSent) -> Vec<u64> {
        sent.ids().map(HostId::ino).collect()
    }

    #[test]
    fn what_was_sent_first_is_forgotten_first() {
        let mut sent = AllSent::default();
        for number in 0..2 * MOST as u64 {
            sent.add(id(number), by(number % 3), Weak::new());
            // This one is sent again and again.
            sent.add(id(0), by(0), Weak::new());
            assert!(sent.files.len() <= MOST);
        }
        let want: Vec<_> = (MOST as u64 + 1..2 * MOST as u64).chain([0]).collect();
        assert_eq!(files(&sent), want);
    }

    #[test]
    fn what_waits_is_not_taken_for_received() {
        let (mut sent, waits) = (AllSent::default(), Arc::new(()));
        sent.add(id(1), by(1), Weak::new());
        sent.add(id(2), by(1), Arc::downgrade(&waits));
        sent.add(id(3), by(2), Weak::new());
        sent.was_received(by(1));
        assert_eq!(files(&sent), [2, 3]);
        sent.files.iter_mut().for_each(|sent| sent.lay = !sent.is_waiting());
        drop(waits);
        sent.looked(Empty([by(1)].into_iter().collect()), &[id(7), by(1)].into_iter().collect());
        assert_eq!(files(&sent), [2]);
        sent.was_received(by(1));
        assert_eq!(files(&sent), [0; 0]);
    }

    #[test]
    fn a_socket_that_was_not_looked_at_may_have_had_something_in_it() {
        let mut sent = AllSent::default();
        sent.add(id(1), by(1), Weak::new());
        sent.files.iter_mut().for_each(|sent| sent.lay = true);
        sent.looked(Empty([by(1)].into_iter().collect()), &[by(1), by(2)].into_iter().collect());
        assert_eq!(files(&sent), [1]);
    }
}
