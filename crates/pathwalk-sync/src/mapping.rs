//! Zeroed memory of a fixed address: what arenas and bucket arrays lie in.
//!
//! The whole range is reserved at once and costs nothing until it is touched; it stays readable until the
//! mapping is dropped. The unsafe code of the arenas is here.

#[cfg(loom)]
use std::io;
use std::marker::PhantomData;

/// A type whose zeroed bytes are a valid value and that may be read by any thread at any time.
///
/// # Safety
///
/// All-zero bytes are a valid value of it; it has no drop; and whoever has a reference to it may read and change it, as with atomics and what
/// is guarded by them: nobody ever has another kind of access.
#[expect(unsafe_code, reason = "only the type's author can promise that zeroed memory is a value")]
pub unsafe trait Zeroed: Default + Send + Sync {}

/// A slot whose memory may be taken away while others look: then it reads as zeroes.
///
/// # Safety
///
/// It is made of words, each of which may be zeroed at any time, by anybody: what is guarded by one of them is other such words and no more.
#[expect(unsafe_code, reason = "only the type's author can promise what depends on a word")]
pub unsafe trait Words: Zeroed {
    /// What becomes of it then, for the model checker.
    #[cfg(loom)]
    fn zero(&self);
}

macro_rules! words {
    ($($name:ty)*) => {$(
        #[expect(unsafe_code, reason = "see the argument")]
        // SAFETY: a transparent atomic, or two; zero is a value; no drop.
        unsafe impl Zeroed for $name {}

        #[expect(unsafe_code, reason = "see the argument")]
        // SAFETY: as above. Nothing else is in them, and a lock of these guards no more.
        unsafe impl Words for $name {
            #[cfg(loom)]
            fn zero(&self) {
                <$name>::zero(self);
            }
        }
    )*};
}

words!(crate::Cell32 crate::Cell64 crate::Link crate::Seq crate::Lockref);

#[expect(unsafe_code, reason = "see the argument")]
// SAFETY: an array of values for which this holds.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] where [T; N]: Default {}

#[expect(unsafe_code, reason = "see the argument")]
// SAFETY: as above.
unsafe impl<T: Words, const N: usize> Words for [T; N]
where
    [T; N]: Default,
{
    #[cfg(loom)]
    fn zero(&self) {
        self.iter().for_each(Words::zero);
    }
}

/// Declares a struct all of whose fields are [`Slot`](crate::Slot)s, which makes it one; with `: Words` behind its name, of [`Words`](crate::Words).
#[macro_export]
macro_rules! slot {
    ($(#[$meta:meta])* $vis:vis struct $name:ident: Words {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty,)*
    }) => {
        $crate::slot! { $(#[$meta])* $vis struct $name { $($(#[$field_meta])* $field_vis $field: $type,)* } }

        const _: () = {
            const fn is_of_words<T: $crate::Words>() {}
            $(is_of_words::<$type>();)*
        };

        // SAFETY: every field is, as checked above.
        unsafe impl $crate::Words for $name {
            #[cfg(loom)]
            fn zero(&self) {
                $($crate::Words::zero(&self.$field);)*
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        #[repr(C)]
        $vis struct $name { $($(#[$field_meta])* $field_vis $field: $type,)* }

        const _: () = {
            const fn is_slot<T: $crate::Slot>() {}
            $(is_slot::<$type>();)*
        };

        // SAFETY: every field is a slot, as checked above: atomics of which zero is a value, and no drop.
        unsafe impl $crate::Slot for $name {}
    };
}

/// The values of a mapping, to be looked at many times: address and mask stand in registers.
#[derive(Debug)]
pub struct Slots<'a, T> {
    first: *const T,
    /// Their number less one; they are a power of two, at least one.
    mask: u32,
    values: PhantomData<&'a [T]>,
}

impl<T> Clone for Slots<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slots<'_, T> {}

impl<'a, T> Slots<'a, T> {
    /// The values of a mapping: a power of two of them.
    #[inline(always)]
    fn of(values: &'a [T], mask: u32) -> Self {
        debug_assert!(values.len().is_power_of_two(), "or the mask would not say how many");
        debug_assert_eq!(mask, mask_of(values.len()), "the mask of these");
        Self { first: values.as_ptr(), mask, values: PhantomData }
    }

    /// All of them, as far as an index reaches.
    #[inline(always)]
    #[expect(unsafe_code, reason = "a mask is less to look at than a length")]
    fn values(self) -> &'a [T] {
        // SAFETY: it was made of a slice of that lifetime, which has no fewer values.
        unsafe { std::slice::from_raw_parts(self.first, self.mask as usize + 1) }
    }

    /// The value at `index`, modulo the length: any index is safe, only true ones are meaningful.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the mask is the bounds check")]
    pub fn get(self, index: u32) -> &'a T {
        let index = (index & self.mask) as usize;
        // SAFETY: there is one value more than the mask says.
        unsafe { self.values().get_unchecked(index) }
    }

    /// The index, modulo the length.
    #[inline(always)]
    pub(crate) fn wrapped(self, index: u32) -> u32 {
        index & self.mask
    }

    /// Brings the value at `index`, modulo the length, towards the processor, which goes on meanwhile.
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[expect(unsafe_code, reason = "an instruction that the language has no other word for")]
    pub fn prefetch(self, index: u32) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let value: *const i8 = std::ptr::from_ref(self.get(index)).cast();
        for line in (0..size_of::<T>()).step_by(64) {
            // SAFETY: the address is within the value; to prefetch reads and writes nothing that the program can see.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(value.wrapping_add(line)) }
        }
    }

    /// Does nothing: it is a hint only.
    #[inline(always)]
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    pub fn prefetch(self, _index: u32) {}

    /// All values from the one at `index`, modulo the length.
    #[inline(always)]
    pub fn from(self, index: u32) -> &'a [T] {
        &self.values()[(index & self.mask) as usize..]
    }
}

/// The mask that keeps an index below a length, which is a power of two.
fn mask_of(len: usize) -> u32 {
    u32::try_from(len - 1).unwrap_or(u32::MAX)
}

/// So many bytes are translated in one piece where a processor has pages of 4 KiB. Random looks into a large table mostly wait for the
/// translation of addresses, else.
pub(crate) const HUGE: usize = 2 << 20;

/// Mappings begin at pages that differ in so many ways.
///
/// What is made together has the same number in several tables: a dentry and its inode. If the tables began at addresses that are
/// equal in their lower bits, as those of large mappings are, two such values would stand for the same place of the processor's
/// cache: its sets are chosen by the bits 6 to 11, and AMD's guesses which of a set's lines it is by a hash of the bits 12 to 27. Each would
/// drive out the other, every time.
#[cfg(not(loom))]
const COLOURS: usize = 256;
/// No page is larger on systems that are in use.
#[cfg(not(loom))]
const PAGE: usize = if cfg!(target_arch = "x86_64") { 4 << 10 } else { 64 << 10 };

/// A power of two of `T`s in zeroed memory.
pub(crate) struct Mapping<T> {
    #[cfg(not(loom))]
    base: std::ptr::NonNull<T>,
    #[cfg(loom)]
    base: Box<[T]>,
    len: usize,
    mask: u32,
    /// How many were asked for.
    #[cfg(not(loom))]
    wanted: usize,
    /// So many bytes are left out in front of them, of so many in all.
    #[cfg(not(loom))]
    before: usize,
    #[cfg(not(loom))]
    reserved: usize,
}

#[cfg(loom)]
impl<T: Zeroed> Mapping<T> {
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let len = len.next_power_of_two();
        Ok(Self { base: (0..len).map(|_| T::default()).collect(), len, mask: mask_of(len) })
    }

    pub(crate) fn slots(&self) -> Slots<'_, T> {
        debug_assert_eq!(self.base.len(), self.len, "one box");
        Slots::of(&self.base, self.mask)
    }

    /// Does nothing: there are no pages.
    pub(crate) fn grows(&self, _from: usize, _to: usize) {}

    /// None does.
    pub(crate) fn first_large(&self) -> usize {
        self.len
    }
}

#[cfg(loom)]
impl<T: Words> Mapping<T> {
    /// Zeroes the values, one word after the other.
    pub(crate) fn take_memory(&self, values: std::ops::Range<usize>) -> bool {
        values.for_each(|value| self.slots().get(value as u32).zero());
        true
    }
}

#[cfg(not(loom))]
#[expect(unsafe_code, reason = "the one place that turns mapped memory into slots")]
mod imp {
    use super::{COLOURS, HUGE, Mapping, PAGE, Slots, Words, Zeroed, mask_of};
    use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::{
        io,
        ops::Range,
        ptr::NonNull,
        sync::atomic::{AtomicUsize, Ordering},
    };

    // SAFETY: the memory is reached only as `&T`, and `T` is `Sync` (`Zeroed`); the mapping is owned.
    unsafe impl<T: Zeroed> Send for Mapping<T> {}
    // SAFETY: as above.
    unsafe impl<T: Zeroed> Sync for Mapping<T> {}

    /// The number of the next mapping.
    static NEXT: AtomicUsize = AtomicUsize::new(0);

    /// How many pages after `start` the mapping of that number begins.
    pub(super) fn colour(start: usize, number: usize) -> usize {
        // Odd, so that all colours come before one comes again; and no two that follow each other are near.
        let wanted = number.wrapping_mul(37);
        wanted.wrapping_sub(start / PAGE) % COLOURS
    }

    impl<T: Zeroed> Mapping<T> {
        /// Reserves room for `len` values, rounded up to a power of two.
        pub(crate) fn new(len: usize) -> io::Result<Self> {
            const { assert!(align_of::<T>() <= 4096, "pages are aligned to 4096 bytes") };
            const { assert!(size_of::<T>() != 0, "a slot has a size") };
            let (wanted, len) = (len, len.next_power_of_two());
            let bytes = len.checked_mul(size_of::<T>());
            let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
            let reserved = bytes.and_then(|bytes| bytes.checked_add(COLOURS * PAGE));
            let reserved = reserved.ok_or(io::ErrorKind::OutOfMemory)?;
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
            let start = unsafe { mmap_anonymous(std::ptr::null_mut(), reserved, access, flags)? };
            let before = colour(start.addr(), NEXT.fetch_add(1, Ordering::Relaxed)) * PAGE;
            // SAFETY: it lies within the mapping, of which `COLOURS` pages at most are left out.
            let base = unsafe { start.byte_add(before) };
            let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Self { base, len, mask: mask_of(len), wanted, before, reserved })
        }

        /// The values.
        #[inline(always)]
        pub(crate) fn slots(&self) -> Slots<'_, T> {
            // SAFETY: `len` values are mapped while `self` lives, began as zeroes, which are a `T`, and are only ever
            // changed through references to it, by what `T` is made of.
            Slots::of(
                unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) },
                self.mask,
            )
        }

        /// Hears that the values `from..to` are used from now on, after those before them. Beyond the first two to four MiB, which stay of
        /// small pages so that a small table has no more than it needs, the system is asked for pages of that size, as far as no value is
        /// left out of one. It need not have any; and it may take a moment for the first store to one.
        pub(crate) fn grows(&self, from: usize, to: usize) {
            let base = self.base.as_ptr().addr();
            let [from, to, end] =
                [from, to, self.wanted].map(|values| base + values * size_of::<T>());
            let mut at = from.max(base + HUGE).next_multiple_of(HUGE);
            while at < to && at + HUGE <= end {
                // SAFETY: the start lies within the mapping.
                let start = unsafe { self.base.as_ptr().cast::<u8>().add(at - base) };
                // SAFETY: the range is ours, and the advice changes nothing that can be read there.
                let _: Result<(), _> =
                    unsafe { madvise(start.cast(), HUGE, Advice::LinuxHugepage) };
                at += HUGE;
            }
        }

        /// The first value that lies in a large page, if the system has such.
        pub(crate) fn first_large(&self) -> usize {
            let base = self.base.as_ptr().addr();
            ((base + HUGE).next_multiple_of(HUGE) - base) / size_of::<T>()
        }

        /// The addresses that it lies at.
        pub(crate) fn range(&self) -> Range<usize> {
            let start = self.base.as_ptr().addr();
            start..start + self.len * size_of::<T>()
        }

        /// Lets the memory be written, or not. A store to memory that may not be written ends the process.
        pub(crate) fn set_writable(&self, writable: bool) -> io::Result<()> {
            let access = if writable {
                MprotectFlags::READ | MprotectFlags::WRITE
            } else {
                MprotectFlags::READ
            };
            // SAFETY: the range is ours; reads stay valid, and a store that is now forbidden faults.
            unsafe {
                rustix::mm::mprotect(self.base.as_ptr().cast(), self.len * size_of::<T>(), access)?;
            }
            Ok(())
        }
    }

    impl<T: Words> Mapping<T> {
        /// Gives the memory of some values back to the system: they read as zeroes until they are written again. Whether it did; it does not
        /// where these are no whole pages, nor where memory is locked.
        ///
        /// Others may look meanwhile, and store: a thread finds all of a page as it was or all zeroes, and what it stores to one that goes is
        /// lost.
        pub(crate) fn take_memory(&self, values: Range<usize>) -> bool {
            assert!(values.end <= self.len, "{values:?} is within");
            let bytes = values.start * size_of::<T>()..values.end * size_of::<T>();
            if !bytes.start.is_multiple_of(PAGE) || !bytes.end.is_multiple_of(PAGE) {
                return false;
            }
            // SAFETY: the start lies within the mapping.
            let start = unsafe { self.base.as_ptr().cast::<u8>().add(bytes.start) };
            // SAFETY: the range is ours, anonymous and of whole pages: it stays readable, as zeroes, which are a `T`; that they come while
            // others look is as if each word had been stored, as it may be at any time.
            unsafe { madvise(start.cast(), bytes.len(), Advice::LinuxDontNeed) }.is_ok()
        }
    }

    impl<T> Drop for Mapping<T> {
        fn drop(&mut self) {
            // SAFETY: that is where the mapping of `new` begins.
            let start = unsafe { self.base.as_ptr().byte_sub(self.before) };
            // SAFETY: the range was mapped by `new` with this length, and no reference to it outlives `self`.
            let unmapped = unsafe { munmap(start.cast(), self.reserved) };
            debug_assert!(unmapped.is_ok(), "an owned mapping can be given back");
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{COLOURS, Mapping, PAGE, imp::colour};
    use crate::Cell64;
    use std::collections::HashSet;

    #[test]
    fn mappings_begin_at_pages_that_differ() {
        for start in [0, 0x7f12_3456_0000, 0x7fff_ffff_0000] {
            let page_of = |number| (start / PAGE + colour(start, number)) % COLOURS;
            let pages: Vec<_> = (0..COLOURS).map(page_of).collect();
            assert_eq!(pages.iter().collect::<HashSet<_>>().len(), COLOURS, "{start:#x}");
            for two in pages.windows(2) {
                let apart = two[0].abs_diff(two[1]);
                assert!(apart.min(COLOURS - apart) >= 16, "{two:?}");
            }
        }
    }

    #[test]
    fn a_mapping_is_as_large_as_it_was_asked_to_be_wherever_it_begins() {
        let len = 4 * PAGE / 8;
        for _ in 0..8 {
            let mapping: Mapping<Cell64> = Mapping::new(len).unwrap();
            let range = mapping.range();
            assert!(range.start.is_multiple_of(4096) && range.len() == 4 * PAGE);
            let values = mapping.slots();
            (0..len as u32).for_each(|index| values.get(index).set(1 + u64::from(index)));
            let second = PAGE / 8..2 * PAGE / 8;
            assert!(mapping.take_memory(second.clone()));
            assert!(!mapping.take_memory(1..second.end), "of whole pages alone");
            let there = |index: u32| !second.contains(&(index as usize));
            let said = (0..len as u32).map(|index| values.get(index).get());
            let wanted = (0..len as u32).map(|index| there(index).then_some(1 + u64::from(index)));
            assert!(said.eq(wanted.map(Option::unwrap_or_default)));
            mapping.set_writable(false).unwrap();
            assert_eq!(values.get(0).get(), 1);
            mapping.set_writable(true).unwrap();
            values.get(0).set(7);
        }
    }
}
