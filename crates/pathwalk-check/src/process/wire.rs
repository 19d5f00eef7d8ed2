//! Calls and outcomes as bytes, between two processes of one program: numbers as they lie in memory, lists behind their length.
//!
//! A call goes as its text, of which the tables hold that it parses to the same.

use crate::{
    answer::{Raw, Said},
    call::Step,
    normal::{Known, Pace},
    subject::Outcome,
};
use pathwalk::{Errno, Event, InotifyMask, Stat, Statfs, Statx, abi::StatxTimestamp};

/// What can be said.
pub(super) trait Wire: Sized {
    /// Writes it.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads what [`put`](Wire::put) wrote, off the front.
    fn take(from: &mut &[u8]) -> Self;
}

/// A whole message.
pub(super) fn read<T: Wire>(mut message: &[u8]) -> T {
    let read = T::take(&mut message);
    assert!(message.is_empty(), "both sides are the same program");
    read
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_ne_bytes());
            }

            fn take(from: &mut &[u8]) -> Self {
                let (bytes, rest) = from.split_first_chunk().expect("both sides are the same program");
                *from = rest;
                Self::from_ne_bytes(*bytes)
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 usize i32 i64 }

/// Those with fields, what is only there to fill a struct left out.
macro_rules! structs {
    ($($type:ident { $($field:ident)* } $rest:expr;)*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(from: &mut &[u8]) -> Self {
                $(let $field = Wire::take(from);)*
                Self { $($field,)* ..$rest }
            }
        }
    )*};
}

structs! {
    Stat {
        st_dev st_ino st_nlink st_mode st_uid st_gid st_rdev st_size st_blksize st_blocks
        st_atime st_atime_nsec st_mtime st_mtime_nsec st_ctime st_ctime_nsec
    } Self::default();
    StatxTimestamp { tv_sec tv_nsec } Self::ZERO;
    Statx {
        stx_mask stx_blksize stx_attributes stx_nlink stx_uid stx_gid stx_mode stx_ino stx_size
        stx_blocks stx_attributes_mask stx_atime stx_btime stx_ctime stx_mtime stx_rdev_major
        stx_rdev_minor stx_dev_major stx_dev_minor stx_mnt_id stx_dio_mem_align
        stx_dio_offset_align stx_subvol stx_atomic_write_unit_min stx_atomic_write_unit_max
        stx_atomic_write_segments_max stx_dio_read_offset_align stx_atomic_write_unit_max_opt
    } Self::ZERO;
    Statfs {
        f_type f_bsize f_blocks f_bfree f_bavail f_files f_ffree f_fsid f_namelen f_frsize f_flags
    } Self::default();
}

impl Wire for [i32; 2] {
    fn put(&self, out: &mut Vec<u8>) {
        self[0].put(out);
        self[1].put(out);
    }

    fn take(from: &mut &[u8]) -> Self {
        [Wire::take(from), Wire::take(from)]
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Self {
        let len = usize::take(from);
        (0..len).map(|_| T::take(from)).collect()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(self.is_some()).put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Self {
        (u8::take(from) != 0).then(|| T::take(from))
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(from: &mut &[u8]) -> Self {
        Self::new(T::take(from))
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut &[u8]) -> Self {
        (A::take(from), B::take(from))
    }
}

impl<A: Wire, B: Wire, C: Wire> Wire for (A, B, C) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
        self.2.put(out);
    }

    fn take(from: &mut &[u8]) -> Self {
        (A::take(from), B::take(from), C::take(from))
    }
}

impl Wire for Known {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self == Self::Shown).put(out);
    }

    fn take(from: &mut &[u8]) -> Self {
        if u8::take(from) != 0 { Self::Shown } else { Self::Hidden }
    }
}

impl Wire for Pace {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self == Self::Slow).put(out);
    }

    fn take(from: &mut &[u8]) -> Self {
        if u8::take(from) != 0 { Self::Slow } else { Self::Fast }
    }
}

impl Wire for Step {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_string().into_bytes().put(out);
    }

    fn take(from: &mut &[u8]) -> Self {
        let text = String::from_utf8(Vec::take(from)).expect("the text of a call is ASCII");
        Self::parse(&text).expect("the text of a call parses")
    }
}

impl Wire for Event {
    fn put(&self, out: &mut Vec<u8>) {
        (self.wd, self.mask.bits(), self.cookie).put(out);
        self.name.to_vec().put(out);
    }

    fn take(from: &mut &[u8]) -> Self {
        let (wd, mask, cookie) = Wire::take(from);
        let (mask, name) = (InotifyMask::from_bits_retain(mask), Vec::take(from).into());
        Self { wd, mask, cookie, name }
    }
}

impl Wire for Errno {
    fn put(&self, out: &mut Vec<u8>) {
        self.raw().put(out);
    }

    fn take(from: &mut &[u8]) -> Self {
        Self::from_raw(i32::take(from)).expect("it was an errno")
    }
}

impl<F> Wire for Outcome<F> {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { said, events, slots, new_device } = self;
        assert!(new_device.is_none(), "numbers of devices are not used again here");
        said.put(out);
        events.put(out);
        slots.put(out);
    }

    fn take(from: &mut &[u8]) -> Self {
        let said = Wire::take(from);
        let (events, slots) = Wire::take(from);
        Self { said, events, slots, new_device: None }
    }
}

impl<F> Wire for Said<F> {
    fn put(&self, out: &mut Vec<u8>) {
        let answer = match self {
            Self::NotAsked => None,
            Self::Answer(answer) => Some(answer),
        };
        u8::from(answer.is_some()).put(out);
        match answer {
            None => {}
            Some(Err(errno)) => Some(*errno).put(out),
            Some(Ok(raw)) => {
                None::<Errno>.put(out);
                raw.put(out);
            }
        }
    }

    fn take(from: &mut &[u8]) -> Self {
        if u8::take(from) == 0 {
            return Self::NotAsked;
        }
        let failed = <Option<Errno> as Wire>::take(from);
        Self::Answer(failed.map_or_else(|| Ok(Raw::take(from)), Err))
    }
}

/// What goes first of an answer.
const DONE: u8 = 0;
const NUMBER: u8 = 1;
const BYTES: u8 = 2;
const NAMES: u8 = 3;
const EVENTS: u8 = 4;
const VALUE: u8 = 5;
const STATFS: u8 = 6;
const STAT: u8 = 7;
const STATX: u8 = 8;

impl<F> Wire for Raw<F> {
    fn put(&self, out: &mut Vec<u8>) {
        fn tagged(tag: u8, what: &impl Wire, out: &mut Vec<u8>) {
            tag.put(out);
            what.put(out);
        }
        match self {
            // It is in its slot, and stays in the process.
            Self::Done | Self::File(_) => DONE.put(out),
            Self::Number(number) => tagged(NUMBER, number, out),
            Self::Bytes(bytes) => tagged(BYTES, bytes, out),
            Self::Names(names) => tagged(NAMES, names, out),
            Self::Events(events) => tagged(EVENTS, events, out),
            Self::Value(value) => tagged(VALUE, value, out),
            Self::Statfs(stat) => tagged(STATFS, stat, out),
            Self::Stat(stat) => tagged(STAT, stat, out),
            Self::Statx(stat) => tagged(STATX, stat, out),
            Self::Mounts(_) | Self::Statmount(..) => {
                unreachable!("what lists mounts is left out: see `normal::notify`")
            }
        }
    }

    fn take(from: &mut &[u8]) -> Self {
        match u8::take(from) {
            DONE => Self::Done,
            NUMBER => Self::Number(Wire::take(from)),
            BYTES => Self::Bytes(Wire::take(from)),
            NAMES => Self::Names(Wire::take(from)),
            EVENTS => Self::Events(Wire::take(from)),
            VALUE => Self::Value(Wire::take(from)),
            STATFS => Self::Statfs(Wire::take(from)),
            STAT => Self::Stat(Wire::take(from)),
            STATX => Self::Statx(Wire::take(from)),
            tag => unreachable!("no answer begins with {tag}: both sides are the same program"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn comes_back<T: Wire + Debug>(what: T) {
        let mut message = Vec::new();
        what.put(&mut message);
        assert_eq!(format!("{:?}", read::<T>(&message)), format!("{what:?}"));
    }

    /// Each number another one, so that none can stand for its neighbour.
    #[test]
    fn what_is_sent_is_what_comes() {
        let time = |tv_sec| StatxTimestamp { tv_sec, tv_nsec: 999, ..StatxTimestamp::ZERO };
        let stat = Stat {
            st_dev: 1,
            st_ino: 2,
            st_nlink: 3,
            st_mode: 4,
            st_uid: 5,
            st_gid: 6,
            st_rdev: 7,
            st_size: -8,
            st_blksize: 9,
            st_blocks: 10,
            st_atime: -11,
            st_atime_nsec: 12,
            st_mtime: 13,
            st_mtime_nsec: 14,
            st_ctime: 15,
            st_ctime_nsec: 16,
            ..Stat::default()
        };
        let statx = Statx {
            stx_mask: 1,
            stx_blksize: 2,
            stx_attributes: 3,
            stx_nlink: 4,
            stx_uid: 5,
            stx_gid: 6,
            stx_mode: 7,
            stx_ino: 8,
            stx_size: 9,
            stx_blocks: 10,
            stx_attributes_mask: 11,
            stx_atime: time(12),
            stx_btime: time(13),
            stx_ctime: time(14),
            stx_mtime: time(15),
            stx_rdev_major: 16,
            stx_rdev_minor: 17,
            stx_dev_major: 18,
            stx_dev_minor: 19,
            stx_mnt_id: 20,
            stx_dio_mem_align: 21,
            stx_dio_offset_align: 22,
            stx_subvol: 23,
            stx_atomic_write_unit_min: 24,
            stx_atomic_write_unit_max: 25,
            stx_atomic_write_segments_max: 26,
            stx_dio_read_offset_align: 27,
            stx_atomic_write_unit_max_opt: 28,
            ..Statx::ZERO
        };
        let statfs = Statfs {
            f_type: 1,
            f_bsize: 2,
            f_blocks: 3,
            f_bfree: 4,
            f_bavail: 5,
            f_files: 6,
            f_ffree: 7,
            f_fsid: [8, 9],
            f_namelen: 10,
            f_frsize: 11,
            f_flags: 12,
            ..Statfs::default()
        };
        let event =
            Event { wd: 1, mask: InotifyMask::CREATE, cookie: 2, name: Box::from(*b"name") };
        let raws: Vec<Raw<()>> = vec![
            Raw::Done,
            Raw::Number(-1),
            Raw::Bytes(b"\0\xff".into()),
            Raw::Names(vec![(b"a".into(), 4), (b"b".into(), 8)]),
            Raw::Events(vec![event.clone()]),
            Raw::Value(b"value".into()),
            Raw::Statfs(Box::new(statfs)),
            Raw::Stat(Box::new(stat)),
            Raw::Statx(Box::new(statx)),
        ];
        let answers = raws.into_iter().map(|raw| Said::Answer(Ok(raw)));
        let others = [Said::NotAsked, Said::Answer(Err(Errno::ENOENT))];
        let outcome = |said| Outcome {
            said,
            events: vec![event.clone()],
            slots: vec![None, Some(stat)],
            new_device: None,
        };
        comes_back(answers.chain(others).map(outcome).collect::<Vec<_>>());
        let step = Step::parse("v: openat2 h1 h0:a\\x20b CREAT|RDWR 0644 BENEATH").expect("a call");
        comes_back((Known::Shown, Pace::Slow, vec![step]));
    }
}
