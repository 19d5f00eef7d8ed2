//! Descriptors that programs send each other by sockets: one that was sent and not received yet is in no process's list.
//!
//! Who sends it is heard of, who receives it is not. So what was sent last is kept until no socket of the program has a descriptor in it.
//!
//! Linux: `SCM_RIGHTS`, unix(7); `scm_fds` in proc_pid_fdinfo(5).

use crate::{
    cookies::{HostId, look_at_all, open_of},
    kin::{self, threads_of},
};
use pathwalk::Result;
use rustix::fs;
use std::{
    collections::VecDeque,
    path::Path,
    time::{Duration, Instant},
};

/// So many are kept.
const MOST: usize = 512;
/// Before that it may be about to be sent.
const SENDS: Duration = Duration::from_secs(1);

/// What was sent, the last ones, and when.
#[derive(Debug, Default)]
pub(crate) struct Sent(VecDeque<(Instant, HostId)>);

impl Sent {
    pub(crate) fn add(&mut self, id: HostId) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((Instant::now(), id));
    }

    /// What may be on its way.
    pub(crate) fn on_its_way(&mut self) -> impl Iterator<Item = HostId> {
        let due = |at: &Instant| at.elapsed() >= SENDS;
        // If it cannot be looked at, it is kept.
        if self.0.front().is_some_and(|(at, _)| due(at)) && matches!(is_any_carried(), Ok(false)) {
            self.0.retain(|(at, _)| !due(at));
        }
        self.0.iter().map(|(_, id)| *id)
    }
}

/// Whether a socket that a process of the program has carries a descriptor; also where processes are made as fast as they can be looked at.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
fn is_any_carried() -> Result<bool> {
    let mut carried = false;
    let all = look_at_all(|process| {
        for thread in threads_of(process)? {
            for fd in open_of(process, thread)? {
                carried |= !carried && is_socket(&fd) && carries(&fd)?;
            }
        }
        Ok(())
    })?;
    Ok(carried || !all)
}

fn is_socket(fd: &Path) -> bool {
    // By that number it is one of those by which descriptors are handed over here.
    !fd.ends_with(pathwalk_inside::TAKES.to_string())
        && fs::readlink(fd, Vec::new()).is_ok_and(|link| link.to_bytes().starts_with(b"socket:"))
}

fn carries(fd: &Path) -> Result<bool> {
    let mut parts = fd.to_path_buf();
    let number = parts.file_name().map(ToOwned::to_owned).unwrap_or_default();
    parts.pop();
    let info = kin::read(parts.with_file_name("fdinfo").join(number))?.unwrap_or_default();
    Ok(says_carried(&info))
}

fn says_carried(info: &[u8]) -> bool {
    let count = info.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"scm_fds:"));
    count.is_some_and(|count| count.trim_ascii() != b"0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{
        self, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType,
    };
    use std::{
        io::IoSlice,
        mem::MaybeUninit,
        os::fd::{AsFd, AsRawFd},
    };

    #[test]
    fn the_kernel_says_what_a_socket_carries() {
        let (from, to) =
            net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        let carried = || carries(Path::new(&format!("/proc/self/fd/{}", to.as_raw_fd()))).unwrap();
        assert!(!carried());
        let fds = [from.as_fd()];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        net::sendmsg(&from, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        assert!(carried());
        let mut byte = [0];
        rustix::io::read(&to, &mut byte).unwrap();
        assert!(!carried());
    }

    #[test]
    fn the_last_ones_are_kept() {
        let mut sent = Sent::default();
        for number in 0..3 * MOST as u64 {
            sent.add(HostId::new(1, number));
        }
        let kept: Vec<HostId> = sent.on_its_way().collect();
        assert_eq!(kept.len(), MOST);
        assert_eq!(kept.last(), Some(&HostId::new(1, 3 * MOST as u64 - 1)));
    }
}
