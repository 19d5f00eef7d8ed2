//! What is not drawn, and why. The rows of the scenarios have it.

use crate::{
    call::Call,
    field::{Int, Octal, Text},
};
use pathwalk::{
    MountFlags, RenameFlags,
    abi::mode::{S_IFBLK, S_IFCHR, S_IFMT},
};

/// By the call: flags that it is not drawn with.
#[cfg(test)]
pub(crate) const UNDRAWN: &[(&str, &[&str], &str)] = &[
    ("mount_setattr", &["IDMAP"], "set by `idmap_mount`, which has the map"),
    ("mountproc", &["REMOUNT", "BIND", "MOVE", "REC"], "drawn of `mount`, where they do the same"),
    ("mountproc", &["UNBINDABLE", "PRIVATE", "SLAVE", "SHARED"], "as well"),
    ("mountproc", &["POSIXACL"], "then Linux finds no ACL where there can be none"),
];

/// Whether a call is drawn where one user asks, in a user namespace that has no other.
pub(crate) fn is_of_one_user(call: &Call) -> bool {
    let known = |Int(id): &Int| matches!(id, -1 | 0);
    let plain = |Text(name): &Text| name.starts_with(b"user.");
    match call {
        Call::Within { call, .. } => is_of_one_user(call),
        Call::Mknodat { mode: Octal(mode), .. } => !matches!(mode & S_IFMT, S_IFBLK | S_IFCHR),
        Call::Fchownat { uid, gid, .. } | Call::Fchown { uid, gid, .. } => known(uid) && known(gid),
        Call::Setflags { .. } | Call::Mountproc { .. } => false,
        Call::Setcred { .. } | Call::Setcaps { .. } => false,
        Call::IdmapMount { .. } | Call::OpenTreeAttr { .. } => false,
        // The root is locked in its place: mount_namespaces(7).
        Call::Umount2 { .. } | Call::PivotRoot { .. } | Call::MoveMount { .. } => false,
        Call::MountTree { flags, .. } => !flags.contains(MountFlags::MOVE),
        // It is a device, and those cannot be opened.
        Call::Renameat2 { flags, .. } => !flags.contains(RenameFlags::WHITEOUT),
        Call::Mount { flags, .. } => *flags == MountFlags::empty(),
        Call::Setxattr { name, .. }
        | Call::Lsetxattr { name, .. }
        | Call::Fsetxattr { name, .. }
        | Call::Setxattrat { name, .. }
        | Call::Removexattr { name, .. }
        | Call::Lremovexattr { name, .. }
        | Call::Fremovexattr { name, .. }
        | Call::Removexattrat { name, .. }
        | Call::Getxattr { name, .. }
        | Call::Lgetxattr { name, .. }
        | Call::Fgetxattr { name, .. }
        | Call::Getxattrat { name, .. } => plain(name),
        _ => true,
    }
}
