//! What the supervisor writes and the program's process reads: keys, answers, and where they lie.
//!
//! ```text
//!   index   four places for each set of keys ──► where the answer begins, and its turn
//!   log     answer after answer, the oldest is overwritten:
//!             hash, base, arguments, number and lengths, result, what it hangs on, path, what is written
//!   counts  of each part of the tree, how often something was changed there
//! ```
//!
//! Rules:
//!
//! 1. An answer is what the supervisor answered to the same call: the same number, the same arguments that matter, the same path
//!    from the same directory. Nothing is decided here.
//! 2. It holds as long as the counts that it hangs on are what they were before it was found.
//! 3. One writes. Before it overwrites an answer it takes its place out of the index; who has read one looks whether the index
//!    still says what it said.
//!
//! This file is compiled twice: for the supervisor, and for the image, which has no library.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
    fence,
};

/// Where every process has the image: in front of where the kernel puts programs, in what sanitizers leave to programs.
pub const BASE: u64 = 0x5500_0000_0000;
/// How much room the image has, in bytes.
pub const IMAGE_BYTES: usize = 64 << 10;
/// What is written at `BASE` where a process is to find nothing any more.
pub const OFF: [u8; 2] = [0xeb, 0x02];
/// How it begins else: a jump to what is next. The second byte alone is another one.
pub(crate) const ON: [u8; 2] = [0xeb, 0x00];
/// Where the image makes all calls of its own but those without which it cannot come to an end.
pub const OWN: u64 = BASE + 8;
/// What is written there where it is to make none any more: a jump to where the carry is set. The first byte alone is not as in a call, for another
/// thread may be there while it is written.
pub const NO_CALL: [u8; 2] = [0xeb, 0x05];
/// The descriptor that says whether there is news of the host, in every process that has the image.
pub const NEWS: i32 = 1021;
/// The socket by which a process takes descriptors by itself.
pub const TAKES: i32 = 1020;
/// What an event says that `NEWS` always has, lest another descriptor be taken for it, or one that is looked at by somebody else for an
/// empty one. Without news it is the only one.
pub const NO_NEWS: u64 = 0x51d3_6fa2_c84e_0b97;
/// What stands in an argument that a call does not have, where the image makes it: then the kernel does it.
pub const MARK: u64 = 0x9e6d_1a5b_70c3_f48d;

/// A file's number in `fstat`: what is written is the host's but for the device, which is the result.
pub const AS_THE_HOST: u64 = 1;

/// The upper half of the answer of a call whose descriptor lies in `TAKES`: no descriptor and no error is such a number.
pub(crate) const TAKE: u64 = 0x51d3_6fa0;
/// In the upper half besides: it is closed by exec.
pub(crate) const TAKE_CLOEXEC: u64 = 1;
/// The call was `open`, and not `openat`.
pub(crate) const TAKE_OPEN: u64 = 2;

/// What a message in the socket says is its number, and this, lest it be taken for one in another socket.
pub const MESSAGE: u64 = 0x51d3_6fa1 << 32;

/// The answer of a call whose descriptor lies in the socket, with the message of this number.
pub const fn take_by(number: u32, nr: u32, cloexec: bool) -> i64 {
    let cloexec = if cloexec { TAKE_CLOEXEC } else { 0 };
    let open = if nr == OPEN { TAKE_OPEN } else { 0 };
    ((TAKE | cloexec | open) << 32 | number as u64).cast_signed()
}

/// Where a process has what its threads were given for what they asked for, by the number of the message: a handler that interrupted one before it
/// received that has set a filter, by which it may receive nothing. Each has two words, the result and the number; it is the process's own, as what
/// comes of it by fork has the descriptors, too, and nobody else has.
pub const GIVEN: u64 = BASE + IMAGE_BYTES as u64 - (GIVEN_MOST * 16) as u64;
/// So many there are.
pub const GIVEN_MOST: usize = 64;

/// In the place of a number where something was given.
pub const fn given(number: u32) -> u64 {
    MESSAGE | number as u64
}

/// Who takes a descriptor that lies ready, in the place of a second argument of the call that opens it: the thread that has the socket of
/// this number. The answer is the number of the message.
pub const fn ready_for(ino: u64, tid: u32) -> u64 {
    (tid as u64) << 32 | ino & 0xffff_ffff
}

/// The longest path that is found, with what stands behind it.
pub const MOST_TEXT: usize = 255;
/// The most that is written by an answer.
pub const MOST_WRITTEN: usize = 4 << 10;
/// On so much an answer may hang.
pub const MOST_PARTS: usize = 4;

/// Words of the table: whether nothing is to be found, counts, the index, the log.
pub(crate) const CLOSED: usize = 0;
pub(crate) const COUNTS: usize = 8;
/// How many parts of the tree are told apart.
pub const PARTS: usize = 64;
pub(crate) const INDEX: usize = 512;
pub(crate) const SETS: usize = 1 << 14;
pub(crate) const WAYS: usize = 4;
pub(crate) const LOG: usize = INDEX + SETS * WAYS;
pub(crate) const LOG_WORDS: usize = 2 << 20;
/// The whole table, in bytes.
pub const TABLE_BYTES: usize = (LOG + LOG_WORDS) * 8;

/// Words of an answer, in front of the path and what is written.
pub(crate) const HEAD: usize = 8 + MOST_PARTS;
/// In the place of a part, where there is none.
pub(crate) const NO_PART: u8 = u8::MAX;

/// Which arguments of a call matter, by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The directory that a path begins in; without one that is the current one.
    pub dir: Option<usize>,
    /// The path.
    pub path: usize,
    /// What else it hangs on.
    pub keys: [Option<usize>; 2],
    /// Where it writes to.
    pub out: Option<usize>,
    /// What of a file it asks about, by its name: that stands behind the path, and a NUL between them.
    pub name: Option<usize>,
}

const fn shape(
    dir: Option<usize>,
    path: usize,
    keys: [Option<usize>; 2],
    out: Option<usize>,
) -> Option<Shape> {
    Some(Shape { dir, path, keys, out, name: None })
}

/// A call with a path whose answers can be found, by its number on x86-64.
pub const fn shape_of(nr: u32) -> Option<Shape> {
    match nr {
        OPEN => shape(None, 0, [Some(1), None], None),
        STAT | LSTAT => shape(None, 0, [None, None], Some(1)),
        ACCESS => shape(None, 0, [Some(1), None], None),
        READLINK => shape(None, 0, [Some(2), None], Some(1)),
        OPENAT => shape(Some(0), 1, [Some(2), None], None),
        NEWFSTATAT => shape(Some(0), 1, [Some(3), None], Some(2)),
        READLINKAT => shape(Some(0), 1, [Some(3), None], Some(2)),
        FACCESSAT => shape(Some(0), 1, [Some(2), None], None),
        STATX => shape(Some(0), 1, [Some(2), Some(3)], Some(4)),
        FACCESSAT2 => shape(Some(0), 1, [Some(2), Some(3)], None),
        GETXATTR | LGETXATTR => {
            Some(Shape { dir: None, path: 0, keys: [None, None], out: None, name: Some(1) })
        }
        _ => None,
    }
}

/// The number of `open`.
pub const OPEN: u32 = 2;
/// The number of `stat`.
pub const STAT: u32 = 4;
/// The number of `fstat`.
pub const FSTAT: u32 = 5;
/// The number of `lstat`.
pub const LSTAT: u32 = 6;
/// The number of `access`.
pub const ACCESS: u32 = 21;
/// The number of `getcwd`. Found by the directory alone.
pub const GETCWD: u32 = 79;
/// The number of `readlink`.
pub const READLINK: u32 = 89;
/// The number of `getxattr`. Found where there is no such attribute alone: how much room there is for one does not matter then.
pub const GETXATTR: u32 = 191;
/// The number of `lgetxattr`. The same.
pub const LGETXATTR: u32 = 192;
/// The number of `getdents64`. Found by the directory alone: the process lists it itself.
pub const GETDENTS64: u32 = 217;
/// The number of `openat`.
pub const OPENAT: u32 = 257;
/// The number of `newfstatat`.
pub const NEWFSTATAT: u32 = 262;
/// The number of `readlinkat`.
pub const READLINKAT: u32 = 267;
/// The number of `faccessat`.
pub const FACCESSAT: u32 = 269;
/// The number of `statx`.
pub const STATX: u32 = 332;
/// The number of `faccessat2`.
pub const FACCESSAT2: u32 = 439;

/// The calls that are made by way of the image.
pub const CALLS: [u32; 16] = [
    OPEN, STAT, FSTAT, LSTAT, ACCESS, GETCWD, READLINK, GETXATTR, LGETXATTR, GETDENTS64, OPENAT,
    NEWFSTATAT, READLINKAT, FACCESSAT, STATX, FACCESSAT2,
];

/// By what an answer is found.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The call's number.
    pub nr: u32,
    /// The arguments that matter.
    pub args: [u64; 2],
    /// Device and inode number on the host of the descriptor that a path begins at, or that is asked about; zeroes for the root.
    pub base: [u64; 2],
    /// The path, and what stands behind it: see [`Shape::name`].
    pub text: &'a [u8],
}

impl Key<'_> {
    pub(crate) fn hash(&self) -> u64 {
        let head = [u64::from(self.nr), self.args[0], self.args[1], self.base[0], self.base[1]];
        let hash = head.into_iter().chain(words(self.text)).fold(0, |hash: u64, word| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x51_7c_c1_b7_27_22_0a_95)
        });
        // The lower bits of a product know nothing of the upper ones, where the ends of most names are. Nothing has the hash 0.
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash ^ (hash >> 32)) | 1 << 63
    }

    pub(crate) fn lengths(&self, written: usize) -> u64 {
        u64::from(self.nr) | (self.text.len() as u64) << 32 | (written as u64) << 48
    }
}

/// The places of the index where an answer may be whose key has this hash.
pub(crate) fn places(hash: u64) -> core::ops::Range<usize> {
    let set = hash as usize % SETS;
    INDEX + set * WAYS..INDEX + set * WAYS + WAYS
}

/// Bytes as words, the last one filled up with zeroes.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        if let Some(&whole) = chunk.first_chunk() {
            return u64::from_le_bytes(whole);
        }
        let mut word = 0;
        for (index, &byte) in chunk.iter().enumerate() {
            word |= u64::from(byte) << (8 * index);
        }
        word
    })
}

/// An answer that was found. It is one as long as [`Found::holds`] says so.
#[derive(Clone, Copy)]
pub(crate) struct Found<'t> {
    table: &'t [AtomicU64],
    place: usize,
    entry: u64,
    at: usize,
    text: usize,
}

/// Finds the answer of a call.
pub(crate) fn find<'t>(table: &'t [AtomicU64], key: &Key<'_>) -> Option<Found<'t>> {
    find_by(table, key, key.hash())
}

/// The same, by the hash of the key.
pub(crate) fn find_by<'t>(table: &'t [AtomicU64], key: &Key<'_>, hash: u64) -> Option<Found<'t>> {
    for place in places(hash) {
        // Acquire: what the answer says was written before. Pairs with the Release store in `Table::put`.
        let entry = table.get(place)?.load(Acquire);
        if entry == 0 {
            continue;
        }
        let at = LOG + entry as u32 as usize;
        let found = Found { table, place, entry, at, text: key.text.len() };
        if found.word(0) == hash && found.is_of(key) {
            return Some(found);
        }
    }
    None
}

impl<'t> Found<'t> {
    fn word(&self, index: usize) -> u64 {
        self.table.get(self.at + index).map_or(0, |word| word.load(Relaxed))
    }

    fn is_of(&self, key: &Key<'_>) -> bool {
        let lengths = self.word(5);
        let same = [self.word(1), self.word(2)] == key.base
            && [self.word(3), self.word(4)] == key.args
            && lengths & ((1 << 48) - 1) == key.lengths(0);
        same && words(key.text).enumerate().all(|(index, word)| self.word(HEAD + index) == word)
    }

    /// What the call answers.
    pub(crate) fn result(&self) -> i64 {
        self.word(6).cast_signed()
    }

    /// Where the index names it.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// How many bytes are written.
    pub(crate) fn len(&self) -> usize {
        ((self.word(5) >> 48) as usize).min(MOST_WRITTEN)
    }

    /// The words that are written.
    pub(crate) fn written(self) -> impl Iterator<Item = u64> + 't {
        let first = HEAD + self.text.div_ceil(8);
        (0..self.len().div_ceil(8)).map(move |index| self.word(first + index))
    }

    /// The parts of the tree that it hangs on, and how often something had been changed there before it was found.
    pub(crate) fn parts(self) -> impl Iterator<Item = (usize, u64)> + 't {
        let parts = self.word(7).to_le_bytes().into_iter().take(MOST_PARTS).enumerate();
        let there = parts.filter(|(_, part)| *part != NO_PART);
        there.map(move |(index, part)| (part.into(), self.word(8 + index)))
    }

    /// Whether it hangs on anything that the host does.
    pub(crate) fn hangs_on_news(&self) -> bool {
        self.word(7) as u8 != NO_PART
    }

    /// Whether what was read of it until now was the answer, and is.
    pub(crate) fn holds(&self) -> bool {
        let parts = self.word(7).to_le_bytes();
        let unchanged = parts.iter().take(MOST_PARTS).enumerate().all(|(index, &part)| {
            part == NO_PART || count(self.table, part.into()) == self.word(8 + index)
        });
        // Acquire: who read a word that was written later sees that the index had changed before. Pairs with the Release fence in
        // `Table::put`.
        fence(Acquire);
        unchanged
            && self.table.get(self.place).is_some_and(|entry| entry.load(Relaxed) == self.entry)
    }
}

/// How often something was changed in a part of the tree.
pub(crate) fn count(table: &[AtomicU64], part: usize) -> u64 {
    // Acquire: what was changed is done. Pairs with the increment in `Table::count`.
    table.get(COUNTS + part % PARTS).map_or(0, |count| count.load(Acquire))
}

/// Whether nothing is to be found for the time being.
pub(crate) fn is_closed(table: &[AtomicU64]) -> bool {
    table.get(CLOSED).is_none_or(|closed| closed.load(Relaxed) != 0)
}
