//! What getdents64(2) writes, read again.

use std::ffi::CStr;

use pathwalk_abi::dirent;

/// The entries in a buffer: each name, and whether it is a directory.
pub(crate) struct Dirents<'b>(&'b [u8]);

impl<'b> Dirents<'b> {
    /// Reads what the call wrote.
    pub(crate) fn of(written: &'b [u8]) -> Self {
        Self(written)
    }
}

impl<'b> Iterator for Dirents<'b> {
    type Item = (&'b CStr, bool);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (low, high) = (self.0.get(dirent::D_RECLEN)?, self.0.get(dirent::D_RECLEN + 1)?);
        let (entry, rest) = self.0.split_at_checked(u16::from_ne_bytes([*low, *high]).into())?;
        self.0 = rest;
        let name = CStr::from_bytes_until_nul(entry.get(dirent::D_NAME..)?).ok()?;
        Some((name, entry[dirent::D_TYPE] == dirent::DT_DIR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_to_the_end_of_the_buffer() {
        let mut buf = Vec::new();
        for (name, kind) in [(&b"a"[..], dirent::DT_DIR), (b"bcdefgh", dirent::DT_REG)] {
            let mut record = vec![0; dirent::reclen(name.len())];
            let len = record.len() as u16;
            record[dirent::D_RECLEN..][..2].copy_from_slice(&len.to_ne_bytes());
            record[dirent::D_TYPE] = kind;
            record[dirent::D_NAME..][..name.len()].copy_from_slice(name);
            buf.extend(record);
        }
        let all: Vec<_> = Dirents::of(&buf).collect();
        assert_eq!(all, [(c"a", true), (c"bcdefgh", false)]);
        assert_eq!(Dirents::of(&[]).next(), None);
        assert_eq!(Dirents::of(&buf[..20]).next(), None);
    }
}
