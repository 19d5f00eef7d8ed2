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

/// Leaves a descriptor that is about to be closed to somebody else, and puts one there instead that is closed at once. Where that cannot
/// be done it stays there.
pub(crate) fn let_go(fd: &mut OwnedFd) {
    if let Ok(end) = leave_behind(fd.as_fd()) {
        *fd = end;
    }
}

/// Puts a descriptor where nobody receives it, as soon as what is given back is closed.
fn leave_behind(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
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
    fn what_is_let_go_is_closed() {
        for _ in 0..20 {
            let mut queue = inotify::init(inotify::CreateFlags::CLOEXEC).expect("it can be made");
            inotify::add_watch(&queue, "/", inotify::WatchFlags::CREATE).expect("it can watch");
            let_go(&mut queue);
        }
        let (mut reader, writer) = rustix::pipe::pipe().expect("it can be made");
        let_go(&mut reader);
        drop(reader);
        let since = Instant::now();
        // Until nobody can read there any more.
        while rustix::io::write(&writer, b"x") != Err(io::Errno::PIPE) {
            assert!(since.elapsed() < Duration::from_secs(60), "it is never closed");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
