//! Draws calls about watches.

use super::Generator;
use crate::{
    call::Call,
    field::{Int, Len, MakesQueue, Queue},
};
use pathwalk::{InotifyFlags, InotifyMask};

impl Generator {
    /// A call that makes a queue: the first, which is read after each call, or the other one.
    pub(super) fn inotify_init(&mut self, queue: usize) -> Call {
        let flags = match self.rng.u8(..12) {
            0 => InotifyFlags::CLOEXEC,
            1 => InotifyFlags::NONBLOCK,
            _ => InotifyFlags::empty(),
        };
        Call::InotifyInit1 { queue: MakesQueue(Queue(queue)), flags }
    }

    /// A call about watches.
    pub(super) fn inotify(&mut self) -> Call {
        let queue = Queue(if self.plain && self.one_in(3) { 1 } else { 0 });
        match self.rng.u8(..20) {
            0 => self.inotify_init(queue.0),
            1..4 => Call::InotifyRmWatch { queue, wd: Int(self.pick(&[1, 1, 2, 2, 3, 4, 0, -1])) },
            4..8 if queue.0 == 1 => Call::InotifyRead {
                queue,
                len: Len(self.pick(&[0, 15, 16, 31, 32, 48, 1000, 4096])),
            },
            _ => {
                let path = self.path();
                Call::InotifyAddWatch { queue, path, mask: self.inotify_mask() }
            }
        }
    }

    pub(super) fn inotify_mask(&mut self) -> InotifyMask {
        let mut mask = match self.rng.u8(..8) {
            0..5 => InotifyMask::ALL_EVENTS,
            5 => InotifyMask::from_bits_retain(self.rng.u32(..) & InotifyMask::ALL_EVENTS.bits()),
            6 => self.pick(&[
                InotifyMask::ATTRIB,
                InotifyMask::CLOSE,
                InotifyMask::MOVE,
                InotifyMask::DELETE_SELF,
                InotifyMask::ISDIR,
                InotifyMask::MODIFY,
            ]),
            _ => self.pick(&[
                InotifyMask::empty(),
                InotifyMask::from_bits_retain(1 << 20),
                InotifyMask::UNMOUNT,
                InotifyMask::Q_OVERFLOW,
                InotifyMask::IGNORED,
            ]),
        };
        for (flag, times) in [
            (InotifyMask::ONLYDIR, 8),
            (InotifyMask::DONT_FOLLOW, 4),
            (InotifyMask::EXCL_UNLINK, 4),
            (InotifyMask::MASK_CREATE, 10),
            (InotifyMask::MASK_ADD, 8),
        ] {
            if self.one_in(times) {
                mask |= flag;
            }
        }
        if self.plain && self.one_in(8) {
            // The kernel opens fifos and devices before it is known that nothing is behind them here; that is no event, but
            // would be the only one that such a watch waits for. The tables have those that wait for it.
            mask -= InotifyMask::OPEN | InotifyMask::CLOSE;
            mask |= InotifyMask::ONESHOT;
        }
        mask
    }
}
