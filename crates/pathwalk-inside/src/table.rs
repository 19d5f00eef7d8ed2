//! The table, as the supervisor writes it.

#![expect(unsafe_code, reason = "the table is memory that is shared with other processes")]

use crate::layout::{
    CLOSED, COUNTS, GIVEN_MOST, HEAD, IMAGE_BYTES, INDEX, Key, LOG, LOG_WORDS, MOST_PARTS,
    MOST_TEXT, MOST_WRITTEN, NO_PART, PARTS, SETS, TABLE_BYTES, WAYS, count, find, find_by, places,
    words,
};
use rustix::{
    fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create, open},
    io::{Result, pwrite},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    collections::VecDeque,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr::null_mut,
    slice,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, Release},
            fence,
        },
    },
};

/// What is put into a process, compiled for itself.
const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/image.bin"));

const _: () = assert!(IMAGE.len() <= IMAGE_BYTES - 16 * GIVEN_MOST);
const _: () = assert!(COUNTS + PARTS <= INDEX);

/// What a call answers.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// What it returns.
    pub result: i64,
    /// What it writes.
    pub written: &'a [u8],
    /// The parts of the tree that it hangs on, and how often something had been changed there before it was found.
    pub parts: &'a [(usize, u64)],
}

/// The table. Of each part of the tree it counts how often something was changed there; answers that hang on that part and were found
/// before are none any more.
#[derive(Debug)]
pub struct Table {
    shared: Arc<Shared>,
    /// The image and the table, to be mapped and not to be written.
    given: OwnedFd,
    /// The answers in the log, the oldest first.
    log: VecDeque<Entry>,
    /// Where the next one begins, in words from the beginning of the log.
    next: usize,
    turn: u32,
}

/// What an answer writes, and the parts of the tree that it hangs on with what had been changed there.
pub type Written = (Vec<u8>, Vec<(usize, u64)>);

/// The counts, for who changes something.
#[derive(Clone, Debug)]
pub struct Counts(Arc<Shared>);

#[derive(Debug)]
struct Shared(&'static [AtomicU64]);

impl Drop for Shared {
    fn drop(&mut self) {
        let at = self.0.as_ptr().cast_mut().cast();
        // SAFETY: it was mapped by `Table::new`, and nobody has the slice any more.
        let _ = unsafe { munmap(at, TABLE_BYTES) };
    }
}

#[derive(Debug)]
struct Entry {
    at: usize,
    len: usize,
    laid: Laid,
}

/// An answer that was laid down: where the index names it, and how.
#[derive(Clone, Copy, Debug)]
pub struct Laid {
    place: usize,
    entry: u64,
}

impl Table {
    /// Makes an empty one.
    ///
    /// # Errors
    ///
    /// Those of making memory that can be sealed: `EMFILE`, `ENFILE`, `ENOMEM`, `EACCES` where none may be executed
    /// (`vm.memfd_noexec`), `ENOENT` without `/proc`.
    pub fn new() -> Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know the flag, and may execute all.
        let memory = memfd_create(c"pathwalk", flags | MemfdFlags::EXEC)
            .or_else(|_| memfd_create(c"pathwalk", flags))?;
        let bytes = IMAGE_BYTES + TABLE_BYTES;
        ftruncate(&memory, bytes as u64)?;
        let mut written = 0;
        while written < IMAGE.len() {
            written += pwrite(&memory, &IMAGE[written..], written as u64)?;
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: it is put where nothing is.
        let at = unsafe {
            mmap(null_mut(), TABLE_BYTES, protection, flags, &memory, IMAGE_BYTES as u64)
        }?;
        // SAFETY: zeroed memory of that size is so many atomic words, for as long as it is mapped.
        let words = unsafe { slice::from_raw_parts(at.cast::<AtomicU64>(), TABLE_BYTES / 8) };
        let shared = Arc::new(Shared(words));
        fcntl_add_seals(
            &memory,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL,
        )?;
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let given = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { shared, given, log: VecDeque::new(), next: 0, turn: 0 })
    }

    /// The image, and behind it the table, as a file.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.given.as_fd()
    }

    /// The counts.
    pub fn counts(&self) -> Counts {
        Counts(Arc::clone(&self.shared))
    }

    /// Has nothing be found for the time being, or again what is there.
    pub fn close(&self, closed: bool) {
        self.words()[CLOSED].store(closed.into(), Relaxed);
    }

    fn words(&self) -> &'static [AtomicU64] {
        self.shared.0
    }

    /// Whether the answer of a call is there and holds.
    pub fn has(&self, key: &Key<'_>) -> bool {
        find(self.words(), key).is_some_and(|found| found.holds())
    }

    /// What the answer of a call writes, and the parts that it hangs on, if it is there and holds.
    pub fn get(&self, key: &Key<'_>) -> Option<Written> {
        let found = find(self.words(), key)?;
        let bytes = found.written().flat_map(u64::to_le_bytes).take(found.len()).collect();
        let parts = found.parts().collect();
        found.holds().then_some((bytes, parts))
    }

    /// Lays down what a call answers; none of what is longer than is found.
    pub fn put(&mut self, key: &Key<'_>, answer: &Answer<'_>) -> Option<Laid> {
        let (text, written) = (key.text.len(), answer.written.len());
        if text > MOST_TEXT || written > MOST_WRITTEN || answer.parts.len() > MOST_PARTS {
            return None;
        }
        let hash = key.hash();
        if let Some(before) = find_by(self.words(), key, hash) {
            self.words()[before.place()].store(0, Relaxed);
        }
        let len = HEAD + text.div_ceil(8) + written.div_ceil(8);
        if self.next + len > LOG_WORDS {
            self.make_room(self.next, LOG_WORDS);
            self.next = 0;
        }
        let at = self.next;
        self.make_room(at, at + len);
        let place = self.place_for(hash);
        // Release fence: who sees a word that is written from here on sees that the index does not name what was there before.
        // Pairs with the Acquire fence in `Found::holds`.
        fence(Release);
        let mut parts = [NO_PART; 8];
        let mut counts = [0; MOST_PARTS];
        for (index, &(part, count)) in answer.parts.iter().enumerate() {
            (parts[index], counts[index]) = (part as u8, count);
        }
        let head = [
            hash,
            key.base[0],
            key.base[1],
            key.args[0],
            key.args[1],
            key.lengths(written),
            answer.result.cast_unsigned(),
            u64::from_le_bytes(parts),
        ];
        let all =
            head.into_iter().chain(counts).chain(words(key.text)).chain(words(answer.written));
        for (to, word) in self.words()[LOG + at..].iter().zip(all) {
            to.store(word, Relaxed);
        }
        self.turn = self.turn.wrapping_add(1).max(1);
        let entry = u64::from(self.turn) << 32 | at as u64;
        // Release: what the answer says is written. Pairs with the Acquire load in `find`.
        self.words()[place].store(entry, Release);
        let laid = Laid { place, entry };
        self.log.push_back(Entry { at, len, laid });
        self.next = at + len;
        Some(laid)
    }

    /// Whether an answer that was laid down is there still.
    pub fn is_there(&self, laid: Laid) -> bool {
        self.words()[laid.place].load(Relaxed) == laid.entry
    }

    /// Takes it away, if it is there.
    pub fn take_away(&mut self, laid: Laid) {
        if self.is_there(laid) {
            self.words()[laid.place].store(0, Relaxed);
        }
    }

    /// Takes away the answers whose words are needed.
    fn make_room(&mut self, from: usize, to: usize) {
        while let Some(oldest) = self.log.front()
            && oldest.at < to
            && from < oldest.at + oldest.len
        {
            let laid = oldest.laid;
            self.take_away(laid);
            self.log.pop_front();
        }
    }

    /// A place in the index: one that is free, or the one that was taken first.
    fn place_for(&self, hash: u64) -> usize {
        let oldest = places(hash).min_by_key(|&place| self.words()[place].load(Relaxed) >> 32);
        let place = oldest.unwrap_or(INDEX);
        self.words()[place].store(0, Relaxed);
        place
    }
}

impl Counts {
    /// How often something was changed in a part of the tree.
    pub fn get(&self, part: usize) -> u64 {
        count(self.0.0, part)
    }

    /// Something is changed, or was. Answers that hang on this part hold no more.
    pub fn count(&self, part: usize) {
        // Release: what was changed is done. Pairs with the Acquire load in `layout::count`.
        self.0.0[COUNTS + part % PARTS].fetch_add(1, Release);
    }
}

const _: () = assert!(SETS.is_power_of_two() && WAYS > 0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{NEWFSTATAT, READLINK};

    fn key(text: &[u8]) -> Key<'_> {
        Key { nr: READLINK, args: [4096, 0], base: [0, 0], text }
    }

    fn read(table: &Table, key: &Key<'_>) -> Option<(i64, Vec<u8>)> {
        let found = find(table.words(), key)?;
        let bytes: Vec<u8> = found.written().flat_map(u64::to_le_bytes).take(found.len()).collect();
        found.holds().then(|| (found.result(), bytes))
    }

    /// Names that differ in their ends alone do not drive each other out.
    #[test]
    fn a_directory_of_like_names_is_found() {
        let mut table = Table::new().expect("memory");
        let names: Vec<_> = (0..4000).map(|n| format!("/a/directory/of/file{n}")).collect();
        for (result, name) in (0..).zip(&names) {
            table.put(&key(name.as_bytes()), &Answer { result, written: b"", parts: &[] });
        }
        let found = names.iter().filter(|name| read(&table, &key(name.as_bytes())).is_some());
        assert!(found.count() > 3900);
    }

    #[test]
    fn what_was_put_is_found_until_what_it_hangs_on_changes() {
        let mut table = Table::new().expect("memory");
        let counts = table.counts();
        let parts = [(3, counts.get(3)), (5, counts.get(5))];
        let body = b"to somewhere else";
        table.put(&key(b"/a/link"), &Answer { result: 17, written: body, parts: &parts });
        assert_eq!(read(&table, &key(b"/a/link")), Some((17, body.to_vec())));
        let others = [
            key(b"/a/lin"),
            key(b"/a/link\0"),
            Key { args: [4095, 0], ..key(b"/a/link") },
            Key { base: [0, 1], ..key(b"/a/link") },
            Key { nr: NEWFSTATAT, ..key(b"/a/link") },
        ];
        assert!(others.iter().all(|key| read(&table, key).is_none()));
        assert_eq!(table.get(&key(b"/a/link")), Some((body.to_vec(), parts.to_vec())));
        counts.count(4);
        assert!(table.has(&key(b"/a/link")));
        counts.count(5);
        assert!(!table.has(&key(b"/a/link")) && table.get(&key(b"/a/link")).is_none());
        // Found before the change, and laid down after it.
        table.put(&key(b"/a/link"), &Answer { result: 17, written: body, parts: &parts });
        assert!(!table.has(&key(b"/a/link")));
        let absent = Answer { result: -2, written: b"", parts: &[] };
        let first = table.put(&key(b"/a/link"), &absent).expect("it has room");
        let laid = table.put(&key(b"/a/link"), &absent).expect("it has room");
        // What was laid down before is not there any more, and takes nothing away.
        table.take_away(first);
        assert!(!table.is_there(first) && table.is_there(laid));
        assert_eq!(read(&table, &key(b"/a/link")), Some((-2, Vec::new())));
        table.take_away(laid);
        assert_eq!(read(&table, &key(b"/a/link")), None);
    }

    /// More than the table has room for, of many lengths: what is found is what was put, and the latest is.
    #[test]
    fn the_oldest_makes_room() {
        let mut table = Table::new().expect("memory");
        let text = |number: usize| format!("/{number:0width$}", width = 1 + number % 250);
        let written = |number: usize| vec![number as u8; number * 7 % (MOST_WRITTEN + 1)];
        let all = 3 * LOG_WORDS * 8 / (MOST_WRITTEN / 2);
        for number in 0..all {
            let (text, written) = (text(number), written(number));
            let answer = Answer { result: number as i64, written: &written, parts: &[] };
            table.put(&key(text.as_bytes()), &answer);
            assert!(table.has(&key(text.as_bytes())));
        }
        let found: Vec<usize> =
            (0..all).filter(|&number| table.has(&key(text(number).as_bytes()))).collect();
        assert!(found.len() > 100 && found.len() < all && !found.contains(&0));
        for number in found {
            let answer = read(&table, &key(text(number).as_bytes()));
            assert_eq!(answer, Some((number as i64, written(number))));
        }
    }

    #[test]
    fn nobody_who_is_given_the_table_can_write_to_it() {
        let table = Table::new().expect("memory");
        let (bytes, flags) = (IMAGE_BYTES + TABLE_BYTES, MapFlags::SHARED);
        for protection in [ProtFlags::WRITE, ProtFlags::READ | ProtFlags::WRITE] {
            // SAFETY: it is put where nothing is; it is not put anywhere.
            let mapped = unsafe { mmap(null_mut(), bytes, protection, flags, table.fd(), 0) };
            assert!(mapped.is_err());
        }
        let path = format!("/proc/self/fd/{}", table.fd().as_raw_fd());
        let again = open(path, OFlags::RDWR, Mode::empty()).expect("it is one's own");
        assert_eq!(rustix::io::write(&again, b"x"), Err(rustix::io::Errno::PERM));
        // SAFETY: as above.
        let mapped = unsafe { mmap(null_mut(), bytes, ProtFlags::WRITE, flags, &again, 0) };
        assert!(mapped.is_err());
    }

    /// One overwrites while another reads: what is found and holds is never half of one and half of another.
    #[test]
    fn who_reads_sees_whole_answers() {
        let mut table = Table::new().expect("memory");
        let words = table.words();
        let paths: Vec<Vec<u8>> = (0..8).map(|n| format!("/path/{n}").into_bytes()).collect();
        let seen = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                for round in 0..400_000 {
                    let Some(found) = find(words, &key(&paths[round % 8])) else { continue };
                    let mut bytes = found.written().flat_map(u64::to_le_bytes);
                    let first = bytes.next();
                    let same = bytes.all(|byte| Some(byte) == first);
                    let result = found.result();
                    if found.holds() {
                        assert!(same && first == Some(result as u8));
                        seen += 1;
                    }
                }
                seen
            });
            let mut round = 0_usize;
            while !reader.is_finished() {
                // The log goes round often.
                let written = vec![round as u8; MOST_WRITTEN];
                let answer =
                    Answer { result: i64::from(round as u8), written: &written, parts: &[] };
                table.put(&key(&paths[round % 8]), &answer);
                round += 1;
            }
            reader.join().expect("it saw whole answers")
        });
        assert!(seen > 0);
    }
}
