//! A queue of events, and who waits for it.
//!
//! Invariant: the queue is bounded; what comes to a full one is lost, and one `Q_OVERFLOW` at its end says so.
//!
//! Linux: `struct fsnotify_group`, `fsnotify_insert_event`, `inotify_merge`.

use super::{OPEN_EXEC, inotify::Event};
use parking_lot::{Condvar, Mutex};
use pathwalk_abi::{Errno, InotifyMask, Result};
use pathwalk_sync::Cell32;
use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
    time::Instant,
};

/// A queue of events.
pub(super) struct Group {
    /// Of all groups of the machine, none has the same.
    pub(super) number: u64,
    /// Whose budget it and its watches count in.
    pub(super) uid: u32,
    /// The watch that was made last; under the marks' lock.
    pub(super) last_wd: Cell32,
    max_events: usize,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// `Q_OVERFLOW` is in the queue.
    overflowed: bool,
    wakers: Vec<Waker>,
}

impl Group {
    pub(super) fn new(number: u64, uid: u32, max_events: usize) -> Self {
        let last_wd = Cell32::default();
        let (queue, arrived) = (Mutex::default(), Condvar::new());
        Self { number, uid, last_wd, max_events, queue, arrived }
    }

    /// Queues an event, unless it is the same as the last one; who is to be woken is added to `woken`.
    pub(super) fn add(&self, event: Event, woken: &mut Vec<Waker>) {
        let mut queue = self.queue.lock();
        if queue.events.len() >= self.max_events {
            if queue.overflowed {
                return;
            }
            queue.overflowed = true;
            queue.events.push_back(Event::overflow());
        } else {
            if queue.events.back().is_some_and(|last| merges(last, &event)) {
                return;
            }
            queue.events.push_back(event);
        }
        woken.append(&mut queue.wakers);
        drop(queue);
        self.arrived.notify_all();
    }

    /// Moves the first events into `buf`, as many as fit; returns how many bytes that are. Waits for one if `wait`.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the first one does not fit.
    /// - `EAGAIN`: there is none, and it is not to be waited for one.
    pub(super) fn read(&self, buf: &mut [u8], wait: bool) -> Result<usize> {
        let mut queue = self.queue.lock();
        while queue.events.is_empty() {
            if !wait {
                return Err(Errno::EAGAIN);
            }
            self.arrived.wait(&mut queue);
        }
        let mut filled = 0;
        while let Some(first) = queue.events.front() {
            let mut first = first.as_abi();
            first.mask.remove(OPEN_EXEC);
            let Some(len) = first.write(&mut buf[filled..]) else { break };
            filled += len;
            queue.take();
        }
        if filled == 0 { Err(Errno::EINVAL) } else { Ok(filled) }
    }

    /// The first event.
    pub(super) fn take(&self) -> Option<Event> {
        self.queue.lock().take()
    }

    /// Waits until there is an event, or until then; says whether there is one.
    pub(super) fn wait_until(&self, until: Option<Instant>) -> bool {
        let mut queue = self.queue.lock();
        while queue.events.is_empty() {
            match until {
                None => self.arrived.wait(&mut queue),
                Some(until) => {
                    if self.arrived.wait_until(&mut queue, until).timed_out() {
                        return !queue.events.is_empty();
                    }
                }
            }
        }
        true
    }

    /// Says whether there is an event, or has the waker called when there is one.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut queue = self.queue.lock();
        if !queue.events.is_empty() {
            return Poll::Ready(());
        }
        if !queue.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            queue.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// How many bytes all events take: `FIONREAD`.
    pub(super) fn bytes(&self) -> usize {
        self.queue.lock().events.iter().map(|event| event.as_abi().reclen()).sum()
    }
}

impl Queue {
    fn take(&mut self) -> Option<Event> {
        let mut first = self.events.pop_front()?;
        first.mask.remove(OPEN_EXEC);
        if first.mask == InotifyMask::Q_OVERFLOW {
            self.overflowed = false;
        }
        Some(first)
    }
}

/// Whether an event says nothing that the one before it did not. The cookie does not count.
fn merges(last: &Event, next: &Event) -> bool {
    last.mask != InotifyMask::IGNORED
        && (last.mask, last.wd, &last.name) == (next.mask, next.wd, &next.name)
}
