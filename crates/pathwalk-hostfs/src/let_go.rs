//! Closing what takes the kernel long to close.
//!
//! ```text
//!   socket ── its own other end, and the descriptor, lie in its queue ──► both ends are closed
//!      nobody can ever receive them: a worker of the kernel finds that, and closes what lies there
//! ```
//!
//! Who closes a queue of inotify(7) waits until no processor looks at what it watched: some 10 ms, at the end of a process one after
//! the other. So it is done by somebody for whom nobody waits. Before Linux 6.9 no worker does it, and it takes as long as by close(2).
//!
//! Manual: unix(7), `SCM_RIGHTS`.

use rustix::{
    io::{self, IoSlice},
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socketpair,
    },
};
use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// Leaves to somebody else to close what this process, which is about to end, has by a descriptor. Where that cannot be done it closes it
/// itself.
pub(crate) fn leave_behind(fd: BorrowedFd<'_>) {
    if let Ok(end) = put_away(fd) {
        // It is looked for what nobody receives when this is closed: after the descriptor, which has a lower number.
        std::mem::forget(end);
    }
}

/// Puts a descriptor where nobody receives it, as soon as what is given back is closed.
fn put_away(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let left = [other.as_fd(), fd];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    message.push(SendAncillaryMessage::ScmRights(&left));
    sendmsg(&one, &[IoSlice::new(b"\0")], &mut message, SendFlags::DONTWAIT)?;
    Ok(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::inotify;
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_put_away_is_closed() {
        for _ in 0..20 {
            let queue = inotify::init(inotify::CreateFlags::CLOEXEC).expect("it can be made");
            inotify::add_watch(&queue, "/", inotify::WatchFlags::CREATE).expect("it can watch");
            let end = put_away(queue.as_fd()).expect("it can be");
            drop((queue, end));
        }
        let (reader, writer) = rustix::pipe::pipe().expect("it can be made");
        let end = put_away(reader.as_fd()).expect("it can be");
        drop((reader, end));
        let since = Instant::now();
        // Until nobody can read there any more.
        while rustix::io::write(&writer, b"x") != Err(io::Errno::PIPE) {
            assert!(since.elapsed() < Duration::from_secs(60), "it is never closed");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
