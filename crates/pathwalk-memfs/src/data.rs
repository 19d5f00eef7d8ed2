//! What files contain: pages by number, only those that were ever written; and their extended attributes.
//!
//! ```text
//!   Files    stripe 0 │ File, File, …        a key is the place in a stripe's slab, and the stripe
//!            stripe 1 │ File, …
//!               ⋮     │    └──► lock ► Pages: 0 ▒▒▒▒  7 ▒▒▒▒  8 ▒▒          7 was written, 1 to 6 never were
//! ```
//!
//! Invariants:
//!
//! 1. Size and blocks of a file change only under its lock, held for writing.
//! 2. No page lies wholly behind the size, and what the last one has behind it is zero.
//!
//! Locks: a stripe's is held for the look-up alone; a file's is taken before its inode's.

use crate::{memfd::Memfd, space::PAGE, xattr::Xattrs};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use pathwalk_abi::Result;
use slab::Slab;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, OnceLock},
};

/// What is kept here of a file, each part under a lock that readers share and a writer has alone.
#[derive(Debug, Default)]
pub(crate) struct File {
    pages: RwLock<Pages>,
    pub(crate) xattrs: RwLock<Xattrs>,
    /// Where the contents are instead of in pages, if they are.
    pub(crate) memfd: OnceLock<Memfd>,
    /// The pages that a symlink's body takes: it was counted before there was a `File`.
    pub(crate) body_pages: u64,
}

impl File {
    /// A file that has nothing yet, but may be a symlink whose body takes pages.
    pub(crate) fn new(body_pages: u64) -> Self {
        Self { body_pages, ..Self::default() }
    }

    /// The memfd that has the contents, made where there is none yet.
    ///
    /// # Errors
    ///
    /// - `EMFILE`, `ENFILE`, `ENOMEM`: there is no room for one.
    pub(crate) fn memfd_or_new(&self) -> Result<&Memfd> {
        if let Some(memfd) = self.memfd.get() {
            return Ok(memfd);
        }
        let new = Memfd::new()?;
        Ok(self.memfd.get_or_init(|| new))
    }

    /// The pages, shared.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read()
    }

    /// The pages, alone.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Pages> {
        self.pages.write()
    }
}

/// The name of a file's pages in [`Files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) u64);

const STRIPES: usize = 16;

/// All files that ever had a size or an extended attribute. The stripes are made for the first of them: many a file system
/// never has one.
#[derive(Debug, Default)]
pub(crate) struct Files(OnceLock<Box<[Stripe; STRIPES]>>);

/// Every sixteenth file, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(RwLock<Slab<Arc<File>>>);

impl Files {
    /// Adds a file, in a stripe that its inode number chooses.
    pub(crate) fn insert(&self, ino: u64, file: Arc<File>) -> Key {
        let stripe = ino as usize % STRIPES;
        let place = self.0.get_or_init(Box::default)[stripe].0.write().insert(file);
        Key((place * STRIPES + stripe) as u64)
    }

    /// The file of a key that is in use.
    pub(crate) fn get(&self, key: Key) -> Arc<File> {
        let (stripe, place) = self.place(key);
        Arc::clone(&stripe.0.read()[place])
    }

    /// Takes out the file of a key that is in use.
    pub(crate) fn remove(&self, key: Key) -> Arc<File> {
        let (stripe, place) = self.place(key);
        let mut slab = stripe.0.write();
        let file = slab.remove(place);
        if slab.is_empty() {
            // An emptied slab would keep its largest size for good.
            *slab = Slab::new();
        }
        file
    }

    /// Does this with each file: with those that come or go meanwhile, or without.
    ///
    /// # Errors
    ///
    /// The first that one answers.
    pub(crate) fn each(&self, does: impl Fn(&File) -> Result<()>) -> Result<()> {
        for stripe in self.0.get().into_iter().flat_map(|stripes| stripes.iter()) {
            let files: Vec<Arc<File>> =
                stripe.0.read().iter().map(|(_, file)| Arc::clone(file)).collect();
            files.iter().try_for_each(|file| does(file))?;
        }
        Ok(())
    }

    /// The number of files.
    pub(crate) fn len(&self) -> usize {
        self.0.get().map_or(0, |stripes| stripes.iter().map(|stripe| stripe.0.read().len()).sum())
    }

    fn place(&self, Key(key): Key) -> (&Stripe, usize) {
        let stripes = self.0.get().expect("a key is of a file that was added");
        (&stripes[key as usize % STRIPES], key as usize / STRIPES)
    }
}

/// What a file contains.
#[derive(Debug, Default)]
pub(crate) struct Pages(BTreeMap<u64, Page>);

type Page = Box<[u8; PAGE as usize]>;

impl Pages {
    /// Fills `buf` with what stands from `offset` on; holes are zeros.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) {
        let mut read = 0;
        while read < buf.len() {
            let (index, within, len) = piece(offset + read as u64, buf.len() - read);
            let to = &mut buf[read..read + len];
            match self.0.get(&index) {
                Some(page) => to.copy_from_slice(&page[within..within + len]),
                None => to.fill(0),
            }
            read += len;
        }
    }

    /// How many pages a write would add.
    pub(crate) fn missing(&self, offset: u64, len: usize) -> u64 {
        let Some(last) = (len as u64).checked_sub(1) else { return 0 };
        let (first, last) = (offset / PAGE, (offset + last) / PAGE);
        last - first + 1 - self.0.range(first..=last).count() as u64
    }

    /// Writes until all is written or one page more than `room` would be needed, and says how much that was.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8], mut room: u64) -> usize {
        let mut written = 0;
        while written < data.len() {
            let (index, within, len) = piece(offset + written as u64, data.len() - written);
            let page = match self.0.entry(index) {
                Entry::Occupied(page) => page.into_mut(),
                Entry::Vacant(_) if room == 0 => break,
                Entry::Vacant(hole) => {
                    room -= 1;
                    hole.insert(Box::new([0; _]))
                }
            };
            page[within..within + len].copy_from_slice(&data[written..written + len]);
            written += len;
        }
        written
    }

    /// Cuts the contents off at `size`, and returns the pages that are none of it any more.
    #[must_use = "their room is to be given back"]
    pub(crate) fn truncate(&mut self, size: u64) -> Pages {
        let gone = self.0.split_off(&size.div_ceil(PAGE));
        let (index, within) = (size / PAGE, (size % PAGE) as usize);
        // What a later growth uncovers reads as zero.
        if within != 0
            && let Some(page) = self.0.get_mut(&index)
        {
            page[within..].fill(0);
        }
        Pages(gone)
    }

    /// The number of pages.
    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The room taken, as stat(2) counts it.
    pub(crate) fn blocks(&self) -> u64 {
        self.len() * (PAGE / 512)
    }
}

/// Of `len` bytes at `offset` those in the first page: its number, where in it, how many.
fn piece(offset: u64, len: usize) -> (u64, usize, usize) {
    let within = (offset % PAGE) as usize;
    (offset / PAGE, within, len.min(PAGE as usize - within))
}
