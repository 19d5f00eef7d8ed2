//! statmount(2) and listmount(2).

use super::{
    calls::Caller,
    sys::{Arg, number_of_namespace, syscall},
};
use crate::{
    call::Who,
    field::Where,
    listing::{Lists, flags_of},
};
use pathwalk::{
    Dev, ListmountFlags, MountAttrFlags, MountFlags, MountIdRange, Result, StatMount,
    StatmountMask, StatxMask,
};
use std::ffi::c_long;

const SYS_STATMOUNT: c_long = 457;
const SYS_LISTMOUNT: c_long = 458;

/// Paths of strings follow so many bytes.
const HEAD: usize = 512;

impl Lists for Caller<'_> {
    fn namespace(&self, of: Who) -> u64 {
        number_of_namespace(&self.tasks.namespace_of(of))
    }

    fn mount_id(&self, path: &Where) -> Result<u64> {
        Ok(self.statx(path, flags_of(path), StatxMask::MNT_ID_UNIQUE)?.stx_mnt_id)
    }

    fn listmount(
        &self,
        ns: u64,
        id: u64,
        last: u64,
        max: usize,
        flags: ListmountFlags,
    ) -> Result<Vec<u64>> {
        let mut request = [32, id, last, ns];
        let mut ids = vec![0; max];
        let (size, flags) = (Arg::Int(max as i64), Arg::Int(flags.bits().into()));
        let args = [Arg::Words(&mut request), Arg::Words(&mut ids), size, flags];
        let listed = syscall(SYS_LISTMOUNT, args)?;
        ids.truncate(listed as usize);
        Ok(ids)
    }

    fn statmount(&self, ns: u64, id: u64, mask: StatmountMask) -> Result<StatMount> {
        statmount(ns, id, mask)
    }
}

fn statmount(ns: u64, id: u64, mask: StatmountMask) -> Result<StatMount> {
    let mut request = [32, id, mask.bits(), ns];
    let mut answer = vec![0; 1 << 11];
    let size = Arg::Int(8 * answer.len() as i64);
    let args = [Arg::Words(&mut request), Arg::Words(&mut answer), size, Arg::Int(0)];
    syscall(SYS_STATMOUNT, args)?;
    let bytes: Vec<u8> = answer.iter().flat_map(|word| word.to_le_bytes()).collect();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let text = |at: usize| {
        let text = &bytes[HEAD + half(at) as usize..];
        text[..text.iter().position(|&byte| byte == 0).unwrap_or(text.len())].to_vec()
    };
    // So many strings, one after the other.
    let texts = |count: u32, mut at: u32| -> Vec<&[u8]> {
        let next = |_| {
            let text = &bytes[HEAD + at as usize..];
            let end = text.iter().position(|&byte| byte == 0).expect("a zero ends each");
            at += end as u32 + 1;
            &text[..end]
        };
        (0..count).map(next).collect()
    };
    // Each of them `0 1000 2`.
    let ranges = |count: u32, at: u32| -> Vec<MountIdRange> {
        let range = |text: &[u8]| {
            let line = std::str::from_utf8(text).expect("numbers");
            let mut numbers = line.split(' ').map(|number| number.parse().expect("a number"));
            let mut number = || numbers.next().expect("three numbers");
            MountIdRange { stored: number(), seen: number(), count: number() }
        };
        texts(count, at).into_iter().map(range).collect()
    };
    // The offsets are those of struct statmount.
    Ok(StatMount {
        mask: StatmountMask::from_bits_retain(word(8)),
        sb_dev: Dev::new(half(16), half(20)),
        sb_magic: word(24),
        sb_flags: MountFlags::from_bits_retain(half(32).into()),
        fs_type: text(36),
        mnt_id: word(40),
        mnt_parent_id: word(48),
        mnt_id_old: half(56),
        mnt_parent_id_old: half(60),
        mnt_attr: MountAttrFlags::from_bits_retain(word(64)),
        mnt_propagation: MountFlags::from_bits_retain(word(72)),
        mnt_peer_group: word(80),
        mnt_master: word(88),
        propagate_from: word(96),
        mnt_root: text(104),
        mnt_point: text(108),
        mnt_ns_id: word(112),
        sb_source: text(124),
        mnt_opts: text(4),
        opt_array: texts(half(128), half(132)).into_iter().map(<[u8]>::to_vec).collect(),
        supported_mask: StatmountMask::from_bits_retain(word(144)),
        mnt_uidmap: ranges(half(152), half(156)),
        mnt_gidmap: ranges(half(160), half(164)),
    })
}
