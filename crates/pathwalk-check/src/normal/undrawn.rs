//! What is not drawn, and why. The rows of the scenarios have it.

use crate::{
    call::Call,
    field::{Int, Octal, Text},
};
use pathwalk::{
    MountFlags, OpenFlags, RenameFlags, ResolveFlags,
    abi::mode::{S_IFBLK, S_IFCHR, S_IFMT},
};

/// By the call: flags that it is not drawn with.
#[cfg(test)]
pub(crate) const UNDRAWN: &[(&str, &[&str], &str)] = &[
    ("mount_setattr", &["IDMAP"], "set by `idmap_mount`, which has the map"),
    ("mountproc", &["REMOUNT", "BIND", "MOVE", "REC"], "drawn of `mount`, where they do the same"),
    ("mountproc", &["UNBINDABLE", "PRIVATE", "SLAVE", "SHARED"], "as well"),
    ("mountproc", &["POSIXACL"], "then Linux finds no ACL where there can be none"),
    ("within", &["CACHED"], "of a name that is not there: what openat2 shows of it"),
];

/// What is not drawn in a run that has a procfs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BesideProcfs {
    /// A task that changes its user: a procfs has whose its files are from the effective user, which a `Cred` does not know.
    Credentials,
    /// openat2 of what is cached: Linux keeps what it has once shown of a task, a procfs of the library's shows it anew.
    Cached,
    /// A listing into little room: a name of the kernel's own may be the one that has none.
    Room,
    /// Watches: which inodes a procfs keeps, and so what it tells of them, is its own matter.
    Watches,
    /// A namespace of fewer rights: Linux mounts no procfs there that shows more than what can be seen of one.
    LessRights,
}

impl BesideProcfs {
    /// Whether it is drawn in this run.
    pub(crate) fn is_drawn(self, has_procfs: bool) -> bool {
        !has_procfs
    }
}

/// Takes from an openat2 of what is cached what it is not drawn with.
pub(crate) fn beside_cached(resolve: &mut ResolveFlags, flags: &mut OpenFlags) {
    // A symlink's time of last access is written when it is followed, unless it was a moment ago: not from what is cached.
    *resolve |= ResolveFlags::NO_SYMLINKS;
    // With this Linux takes a mountpoint of any namespace for something to wait for.
    *resolve -= ResolveFlags::NO_XDEV;
    // Linux refuses it at once; so a row of the scenarios says.
    *flags -= OpenFlags::TRUNC;
}

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
        Call::IdmapMount { .. } | Call::OpenTreeAttr { .. } | Call::UnshareLess {} => false,
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
