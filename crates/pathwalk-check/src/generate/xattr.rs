//! Draws calls about extended attributes, ACLs above all: with three users and two groups most of them decide about
//! somebody.

use super::Generator;
use crate::{
    call::Call,
    field::{Field, Len, Text},
    value::Value,
};
use pathwalk::{
    AtFlags, XattrFlags,
    abi::xattr::{XATTR_NAME_CAPS, XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT},
};

impl Generator {
    /// Any of the sixteen calls.
    pub(super) fn xattr_call(&mut self) -> Call {
        let (slot, at) = (self.slot(), self.xattr_flags());
        match self.rng.u8(..32) {
            0..14 => {
                let name = self.xattr_name();
                let value = self.xattr_value(&name);
                let flags = self.pick(&[
                    XattrFlags::empty(),
                    XattrFlags::empty(),
                    XattrFlags::empty(),
                    XattrFlags::CREATE,
                    XattrFlags::REPLACE,
                ]);
                let flags = if self.one_in(40) { XattrFlags::from_bits_retain(7) } else { flags };
                match self.rng.u8(..4) {
                    0 => Call::Setxattr { path: self.path(), name, value, flags },
                    1 => Call::Lsetxattr { path: self.path(), name, value, flags },
                    2 => Call::Fsetxattr { slot, name, value, flags },
                    _ => Call::Setxattrat { path: self.place(), at, name, value, flags },
                }
            }
            14..20 => {
                let (name, size) = (self.xattr_name(), self.room());
                match self.rng.u8(..4) {
                    0 => Call::Getxattr { path: self.path(), name, size },
                    1 => Call::Lgetxattr { path: self.path(), name, size },
                    2 => Call::Fgetxattr { slot, name, size },
                    _ => Call::Getxattrat { path: self.place(), at, name, size },
                }
            }
            20..25 => {
                let size = self.room();
                match self.rng.u8(..4) {
                    0 => Call::Listxattr { path: self.path(), size },
                    1 => Call::Llistxattr { path: self.path(), size },
                    2 => Call::Flistxattr { slot, size },
                    _ => Call::Listxattrat { path: self.place(), at, size },
                }
            }
            _ => {
                let name = self.xattr_name();
                match self.rng.u8(..4) {
                    0 => Call::Removexattr { path: self.path(), name },
                    1 => Call::Lremovexattr { path: self.path(), name },
                    2 => Call::Fremovexattr { slot, name },
                    _ => Call::Removexattrat { path: self.place(), at, name },
                }
            }
        }
    }

    fn xattr_name(&mut self) -> Text {
        let name: &[u8] = match self.rng.u8(..64) {
            0..18 => XATTR_NAME_POSIX_ACL_ACCESS,
            18..28 => XATTR_NAME_POSIX_ACL_DEFAULT,
            28..36 => XATTR_NAME_CAPS,
            36..46 => b"user.a",
            46..50 => b"user.b",
            50..54 => b"trusted.a",
            54..57 => b"security.a",
            57 => b"user.",
            58 => b"user",
            59 => b"system.a",
            60 => b"a.b",
            61 => b"system.posix_acl_access.",
            62 => return Text(Vec::new()),
            _ => {
                let len = self.pick(&[249, 250, 251, 252]);
                return Text([b"user.", &vec![b'n'; len][..]].concat());
            }
        };
        Text(name.to_vec())
    }

    pub(super) fn xattr_value(&mut self, name: &Text) -> Value {
        let acl = name.0.starts_with(b"system.posix_acl");
        if acl != self.one_in(20) {
            return self.acl();
        }
        if (name.0 == XATTR_NAME_CAPS) != self.one_in(20) {
            let value = self.pick(&[
                "x:0000000201000000000000000000000000000000",
                "x:0100000201000000000000000000000000000000",
                "x:000000030100000000000000000000000000000000000000",
                "x:0100000301000000000000000000000000000000e8030000",
                "x:010000030100000000000000000000000000000000000000",
                "x:0000000301000000000000000000000000000000ffffffff",
                "x:000000010100000000000000",
                "x:00000002",
                "''",
            ]);
            return Value::read(value).expect("a value");
        }
        let value = self.pick(&["''", "1", "abc", "{v*200}", "{v*4096}", "{v*65536}", "{v*65537}"]);
        Value::read(value).expect("a value")
    }

    fn acl(&mut self) -> Value {
        let odd = self.pick(&[
            "''",
            "acl:",
            "x:02",
            "x:03000000",
            "acl:u7,g5,o0",
            "acl:u7,g5",
            "acl:u7,u1000:7,g5,o5",
            "acl:g7,u5,o0",
            "acl:u8,g5,o0",
            "acl:u7,g5,m7,m7,o0",
        ]);
        if self.one_in(6) {
            return Value::read(odd).expect("a value");
        }
        let mut text = format!("acl:u{}", self.perm());
        for user in ["u1000", "u1001", "u1000", "u0"] {
            if self.one_in(2) {
                text += &format!(",{user}:{}", self.perm());
            }
        }
        text += &format!(",g{}", self.perm());
        for group in ["g1000", "g1001", "g0"] {
            if self.one_in(3) {
                text += &format!(",{group}:{}", self.perm());
            }
        }
        text += &format!(",m{},o{}", self.perm(), self.perm());
        Value::read(&text).expect("a value")
    }

    fn perm(&mut self) -> u32 {
        self.pick(&[0, 1, 2, 4, 5, 5, 6, 7, 7, 7])
    }

    fn xattr_flags(&mut self) -> AtFlags {
        match self.rng.u8(..16) {
            0..8 => AtFlags::empty(),
            8..11 => AtFlags::SYMLINK_NOFOLLOW,
            11..14 => AtFlags::EMPTY_PATH,
            14 => AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW,
            _ => self.pick(&[
                AtFlags::REMOVEDIR,
                AtFlags::SYMLINK_FOLLOW,
                AtFlags::NO_AUTOMOUNT,
                AtFlags::STATX_FORCE_SYNC,
                AtFlags::STATX_DONT_SYNC,
            ]),
        }
    }

    fn room(&mut self) -> Len {
        Len(self.pick(&[0, 0, 1, 4, 24, 60, 1000, 65536, 65536, 65536, 70000]))
    }
}
