//! Whether a process is alone: it has one thread, nobody else has its memory or its descriptors, and nobody but us looks at its calls.
//!
//! Who runs a program is alone then; and he stays that as long as no process or thread is made at all, by whomever. The kernel says which
//! was the last, but of one that is given a number by who makes it, for which one needs a capability (`set_tid` of clone3(2)): to ask that is one
//! call, where to look at all processes of the program takes dozens. Who sets up a filter is heard
//! of.
//!
//! Manual: proc_loadavg(5).

use super::MOST_COUNTED;
use crate::kin;
use rustix::io::pread;
use std::{collections::HashMap, fs::File};

/// What is known of processes.
#[derive(Debug)]
pub(super) struct Alone {
    /// `/proc/loadavg`, which ends with the number of the process that was made last.
    last: Option<File>,
    /// Which one that was when a process ran its program.
    since: HashMap<u32, u64>,
    /// Some process has a filter of its own, or had.
    filters: bool,
}

impl Default for Alone {
    fn default() -> Self {
        let last = File::open("/proc/loadavg").ok();
        Self { last, since: HashMap::new(), filters: false }
    }
}

impl Alone {
    /// The number of the process or thread that was made last.
    fn last(&self) -> Option<u64> {
        let mut text = [0; 128];
        let read = pread(self.last.as_ref()?, &mut text, 0).ok()?;
        last_in(&text[..read])
    }

    /// A process runs another program, of which no instruction ran yet.
    pub(super) fn runs_another(&mut self, process: u32) {
        if self.since.len() >= MOST_COUNTED {
            self.since.clear();
        }
        match self.last() {
            Some(last) => drop(self.since.insert(process, last)),
            None => drop(self.since.remove(&process)),
        }
    }

    /// Some process is about to have a filter of its own.
    pub(super) fn is_filtered(&mut self) {
        self.filters = true;
    }

    /// Whether a process has one thread, and nobody else has its memory or its descriptors.
    pub(super) fn has_no_other(&self, process: u32) -> bool {
        let since = self.since.get(&process);
        since.is_some_and(|since| self.last() == Some(*since)) || has_no_other_now(process)
    }

    /// The same, and its calls are looked at by no filter of its own.
    pub(super) fn is(&self, process: u32) -> bool {
        self.has_no_other(process) && !(self.filters && has_filters(process))
    }
}

/// `0.20 0.18 0.12 1/80 11206`
fn last_in(loadavg: &[u8]) -> Option<u64> {
    let number = loadavg.trim_ascii_end().rsplit(|&byte| byte == b' ').next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

fn has_no_other_now(process: u32) -> bool {
    kin::threads_of(process).is_ok_and(|threads| threads == [process])
        && !kin::shares_memory_with_others(process)
}

/// Whether a thread has filters beside the one of this process's making, and those that this process has itself.
fn has_filters(tid: u32) -> bool {
    let own = kin::filters(std::process::id());
    own.is_none_or(|own| kin::filters(tid) != Some(own + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, id};

    #[test]
    fn who_was_made_last_is_the_last_word() {
        assert_eq!(last_in(b"0.20 0.18 0.12 1/80 11206\n"), Some(11206));
        assert_eq!([b"".as_slice(), b"\n", b"1/80"].map(last_in), [None; 3]);
        let alone = Alone::default();
        let before = alone.last();
        let mut child = Command::new("true").spawn().expect("it runs");
        assert!(before.is_some() && alone.last() != before);
        child.wait().expect("it runs");
    }

    /// What it was when it ran its program is asked no more as soon as somebody was made. This process has several threads.
    #[test]
    fn who_was_alone_is_looked_at_again_when_somebody_was_made() {
        let mut alone = Alone::default();
        let several = std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(1)));
        // Others make processes, too.
        let believed = (0..1000).any(|_| {
            alone.runs_another(id());
            alone.has_no_other(id())
        });
        assert!(believed);
        let mut child = Command::new("true").spawn().expect("it runs");
        assert!(!alone.has_no_other(id()));
        child.wait().expect("it runs");
        several.join().expect("it ends");
    }
}
