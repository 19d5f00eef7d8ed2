//! Device numbers: a major, which names the driver, and a minor, which names the device.
//!
//! ```text
//! in the kernel, 32 bits        31      20 19                   0
//!                              │  major   │        minor         │
//!
//! in stat(2) and mknod(2)       31              20 19      8 7    0
//!                              │ minor, bits 8… │  major   │ minor │
//! ```
//!
//! Manual: makedev(3).

use core::fmt;

/// The bits of a minor in the kernel's form.
const MINOR_BITS: u32 = 20;
const MINOR_MASK: u32 = (1 << MINOR_BITS) - 1;
const MAJOR_MASK: u32 = u32::MAX >> MINOR_BITS;

/// A device number, 12 bits of major and 20 bits of minor.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Dev(u32);

impl Dev {
    /// Joins a major and a minor.
    ///
    /// Bits beyond 12 and 20 are dropped, as mknod(2) drops them from a makedev(3) number.
    pub const fn new(major: u32, minor: u32) -> Dev {
        Dev((major & MAJOR_MASK) << MINOR_BITS | minor & MINOR_MASK)
    }

    /// Returns the number of the driver.
    pub const fn major(self) -> u32 {
        self.0 >> MINOR_BITS
    }

    /// Returns the number of the device among those of its driver.
    pub const fn minor(self) -> u32 {
        self.0 & MINOR_MASK
    }

    /// Returns the kernel's own form, in which the minor is not split.
    pub const fn to_u32(self) -> u32 {
        self.0
    }

    /// Reads the kernel's own form.
    pub const fn from_u32(dev: u32) -> Dev {
        Dev(dev)
    }

    /// Returns the form of `st_dev` and `st_rdev`, which makedev(3) makes.
    pub const fn to_stat(self) -> u64 {
        let minor = self.minor();
        (minor & 0xff | self.major() << 8 | (minor & !0xff) << 12) as u64
    }

    /// Reads the form of `st_rdev` and of the argument of mknod(2).
    ///
    /// Bits beyond 32 are dropped: they do not reach the kernel.
    pub const fn from_stat(dev: u64) -> Dev {
        let dev = dev as u32;
        Dev::new(dev >> 8, dev & 0xff | dev >> 12 & !0xff)
    }
}

/// Writes `8:1`.
impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major(), self.minor())
    }
}

impl fmt::Debug for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dev({self})")
    }
}
