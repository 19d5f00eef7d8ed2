//! The calls as values, and their text.
//!
//! ```text
//!   u: openat h1 h0:a/b RDWR|CREAT 0644
//!   │  │      │  │      │          └ mode
//!   │  │      │  │      └ flags
//!   │  │      │  └ path, from the directory that slot h0 holds
//!   │  │      └ slot that gets the file
//!   │  └ call
//!   └ task; root if none is named
//! ```
//!
//! What is printed parses to the same call, so every finding can be replayed from its text.

use crate::{
    field::{Field, Fills, Int, Len, MakesQueue, Octal, Queue, Slot, Text, When, Where, Word},
    idmaps::Idmap,
    value::Value,
};
use pathwalk::{
    AccessMode, AtFlags, CapSet, InodeFlags, InotifyFlags, InotifyMask, ListmountFlags,
    MountAttrFlags, MountFlags, MoveMountFlags, OpenFlags, OpenTreeFlags, RenameFlags,
    ResolveFlags, StatmountMask, StatxMask, UmountFlags, XattrFlags,
};
use std::fmt;

/// Of what bounds can be put around: see `kernel/within.rs`.
pub(crate) const WITHIN: &[&str] = &[
    "openat",
    "openat2",
    "fstatat",
    "statx",
    "faccessat2",
    "fchmodat2",
    "fchownat",
    "utimensat",
    "readlinkat",
    "statfs",
    "truncate",
    "chdir",
    "chroot",
    "open_exec",
    "mkdirat",
    "mknodat",
    "symlinkat",
    "unlinkat",
    "linkat",
    "renameat2",
    "setxattrat",
    "getxattrat",
    "listxattrat",
    "removexattrat",
    "mount",
    "bind",
    "mount_tree",
    "umount2",
    "pivot_root",
    "open_tree",
    "open_tree_attr",
    "move_mount",
    "mount_setattr",
    "inotify_add_watch",
];

macro_rules! calls {
    ($($name:ident $text:literal { $($field:ident: $type:ty),* })*) => {
        /// A system call about files and what it is told.
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) enum Call {
            $($name { $($field: $type),* },)*
            /// A call within bounds, which Linux knows of openat2 only.
            Within { resolve: ResolveFlags, call: Box<Call> },
        }

        impl Call {
            /// Reads a call from its words.
            pub(crate) fn parse<'w>(mut words: impl Iterator<Item = &'w str>) -> Result<Self, String> {
                let name = words.next().ok_or("no call")?;
                let call = match name {
                    $($text => Self::$name {
                        $($field: {
                            let word = words.next()
                                .ok_or_else(|| format!("{name}: no {}", stringify!($field)))?;
                            <$type>::read(word)
                                .ok_or_else(|| format!("{name}: {} is not `{word}`{}", stringify!($field), <$type>::bounds()))?
                        }),*
                    },)*
                    "within" => {
                        let bounds = words.next().and_then(ResolveFlags::read);
                        let resolve = bounds.ok_or("within: no bounds")?;
                        let call = Self::parse(words)?;
                        if !WITHIN.contains(&call.name()) {
                            return Err(format!("within: no bounds can be put around `{}`", call.name()));
                        }
                        return Ok(Self::Within { resolve, call: Box::new(call) });
                    }
                    _ => return Err(format!("no call is named `{name}`")),
                };
                match words.next() {
                    Some(word) => Err(format!("{name}: too much: `{word}`")),
                    None => Ok(call),
                }
            }
        }

        impl Call {
            /// Its name.
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $text,)*
                    Self::Within { .. } => "within",
                }
            }

            /// The names of all calls.
            pub(crate) const NAMES: &[&str] = &[$($text),*, "within"];

            /// The words by which the call of this name can be told flags, with the names of these.
            pub(crate) fn known_flags(name: &str) -> Vec<(&'static str, Vec<&'static str>)> {
                let mut known: Vec<(&'static str, Vec<&'static str>)> = match name {
                    $($text => vec![$((stringify!($field), <$type>::known_flags())),*],)*
                    _ => vec![("bounds", ResolveFlags::known_flags()), ("call", WITHIN.to_vec())],
                };
                known.retain(|(_, flags)| !flags.is_empty());
                known
            }

            fn each_field(&self, each: &mut dyn FnMut(&'static str, &dyn Word)) {
                match self {
                    $(Self::$name { $($field),* } => { $(each(stringify!($field), $field);)* })*
                    Self::Within { call, .. } => call.each_field(each),
                }
            }

            /// The call with the numbers of descriptors where its paths name slots by `%`.
            pub(crate) fn with_numbers(&self) -> Self {
                let mut call = self.clone();
                match &mut call {
                    Self::Within { call, .. } => **call = call.with_numbers(),
                    $(Self::$name { $($field),* } => {
                        let texts: &mut [Option<&mut Vec<u8>>] = &mut [$($field.text()),*];
                        for text in texts.iter_mut().flatten() {
                            put_numbers(text);
                        }
                    })*
                }
                call
            }
        }

        impl fmt::Display for Call {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name { $($field),* } => {
                        f.write_str($text)?;
                        $(
                            f.write_str(" ")?;
                            $field.write(f)?;
                        )*
                        Ok(())
                    })*
                    Self::Within { resolve, call } => {
                        f.write_str("within ")?;
                        resolve.write(f)?;
                        write!(f, " {call}")
                    }
                }
            }
        }
    };
}

calls! {
    Openat "openat" { slot: Fills, path: Where, flags: OpenFlags, mode: Octal }
    Openat2 "openat2" { slot: Fills, path: Where, flags: OpenFlags, mode: Octal, resolve: ResolveFlags }
    Close "close" { slot: Slot }
    Read "read" { slot: Slot, len: Len }
    Write "write" { slot: Slot, data: Text }
    Pread "pread" { slot: Slot, len: Len, offset: Int }
    Pwrite "pwrite" { slot: Slot, data: Text, offset: Int }
    LseekSet "lseek_set" { slot: Slot, to: Int }
    LseekCur "lseek_cur" { slot: Slot, by: Int }
    LseekEnd "lseek_end" { slot: Slot, by: Int }
    Stat "stat" { path: Text }
    Lstat "lstat" { path: Text }
    Fstat "fstat" { slot: Slot }
    Fstatat "fstatat" { path: Where, flags: AtFlags }
    Statx "statx" { path: Where, flags: AtFlags, mask: StatxMask }
    Statfs "statfs" { path: Text }
    Fstatfs "fstatfs" { slot: Slot }
    StatxNull "statx_null" { slot: Slot, flags: AtFlags, mask: StatxMask }
    Access "access" { path: Text, mode: AccessMode }
    Faccessat2 "faccessat2" { path: Where, mode: AccessMode, flags: AtFlags }
    Mkdirat "mkdirat" { path: Where, mode: Octal }
    Mknodat "mknodat" { path: Where, mode: Octal, dev: Int }
    Symlinkat "symlinkat" { target: Text, path: Where }
    Linkat "linkat" { old: Where, new: Where, flags: AtFlags }
    Unlinkat "unlinkat" { path: Where, flags: AtFlags }
    Rmdir "rmdir" { path: Text }
    Renameat2 "renameat2" { old: Where, new: Where, flags: RenameFlags }
    Readlinkat "readlinkat" { path: Where, size: Len }
    Fchmodat2 "fchmodat2" { path: Where, mode: Octal, flags: AtFlags }
    Fchmod "fchmod" { slot: Slot, mode: Octal }
    Fchownat "fchownat" { path: Where, uid: Int, gid: Int, flags: AtFlags }
    Fchown "fchown" { slot: Slot, uid: Int, gid: Int }
    OpenExec "open_exec" { path: Where, flags: AtFlags }
    Getflags "getflags" { slot: Slot }
    Setflags "setflags" { slot: Slot, flags: InodeFlags }
    Utimensat "utimensat" { path: Where, atime: When, mtime: When, flags: AtFlags }
    Futimens "futimens" { slot: Slot, atime: When, mtime: When }
    Truncate "truncate" { path: Text, size: Int }
    Ftruncate "ftruncate" { slot: Slot, size: Int }
    Setxattr "setxattr" { path: Text, name: Text, value: Value, flags: XattrFlags }
    Lsetxattr "lsetxattr" { path: Text, name: Text, value: Value, flags: XattrFlags }
    Fsetxattr "fsetxattr" { slot: Slot, name: Text, value: Value, flags: XattrFlags }
    Setxattrat "setxattrat" { path: Where, at: AtFlags, name: Text, value: Value, flags: XattrFlags }
    Getxattr "getxattr" { path: Text, name: Text, size: Len }
    Lgetxattr "lgetxattr" { path: Text, name: Text, size: Len }
    Fgetxattr "fgetxattr" { slot: Slot, name: Text, size: Len }
    Getxattrat "getxattrat" { path: Where, at: AtFlags, name: Text, size: Len }
    Listxattr "listxattr" { path: Text, size: Len }
    Llistxattr "llistxattr" { path: Text, size: Len }
    Flistxattr "flistxattr" { slot: Slot, size: Len }
    Listxattrat "listxattrat" { path: Where, at: AtFlags, size: Len }
    Removexattr "removexattr" { path: Text, name: Text }
    Lremovexattr "lremovexattr" { path: Text, name: Text }
    Fremovexattr "fremovexattr" { slot: Slot, name: Text }
    Removexattrat "removexattrat" { path: Where, at: AtFlags, name: Text }
    Getdents64 "getdents64" { slot: Slot }
    Getdents64By "getdents64_by" { slot: Slot, size: Len }
    Chdir "chdir" { path: Text }
    Fchdir "fchdir" { slot: Slot }
    Chroot "chroot" { path: Text }
    Getcwd "getcwd" { }
    Umask "umask" { mask: Octal }
    Mount "mount" { path: Text, flags: MountFlags }
    Bind "bind" { source: Text, path: Text }
    Mountproc "mountproc" { path: Text, flags: MountFlags }
    Umount2 "umount2" { path: Text, flags: UmountFlags }
    InotifyInit1 "inotify_init1" { queue: MakesQueue, flags: InotifyFlags }
    InotifyAddWatch "inotify_add_watch" { queue: Queue, path: Text, mask: InotifyMask }
    InotifyRmWatch "inotify_rm_watch" { queue: Queue, wd: Int }
    InotifyRead "inotify_read" { queue: Queue, len: Len }
    MountTree "mount_tree" { source: Text, path: Text, flags: MountFlags }
    PivotRoot "pivot_root" { new_root: Text, put_old: Text }
    OpenTree "open_tree" { slot: Fills, path: Where, flags: OpenTreeFlags }
    MoveMount "move_mount" { from: Where, to: Where, flags: MoveMountFlags }
    MountSetattr "mount_setattr" { path: Where, flags: OpenTreeFlags, set: MountAttrFlags, clear: MountAttrFlags, propagation: MountFlags }
    IdmapMount "idmap_mount" { path: Where, flags: OpenTreeFlags, map: Idmap }
    OpenTreeAttr "open_tree_attr" { slot: Fills, path: Where, flags: OpenTreeFlags, set: MountAttrFlags, clear: MountAttrFlags, propagation: MountFlags, map: Idmap }
    Statmount "statmount" { path: Text, mask: StatmountMask }
    Listmount "listmount" { path: Text, flags: ListmountFlags }
    ListmountRoot "listmount_root" { flags: ListmountFlags }
    StatmountId "statmount_id" { id: Int, mask: StatmountMask }
    ListmountId "listmount_id" { id: Int, last: Int, max: Len, flags: ListmountFlags }
    StatmountOf "statmount_of" { of: Who, path: Where, mask: StatmountMask }
    ListmountOf "listmount_of" { of: Who, path: Where, flags: ListmountFlags }
    ListmountRootOf "listmount_root_of" { of: Who, flags: ListmountFlags }
    StatmountNs "statmount_ns" { ns: Int, id: Int, mask: StatmountMask }
    ListmountNs "listmount_ns" { ns: Int, id: Int, last: Int, max: Len, flags: ListmountFlags }
    UnshareMounts "unshare_mounts" { }
    UnshareLess "unshare_less" { }
    Setns "setns" { of: Who }
    Mounts "mounts" { }
    Setcred "setcred" { fsuid: Int, fsgid: Int, caps: CapSet }
    Setcaps "setcaps" { permitted: CapSet, caps: CapSet }
}

/// The number of the descriptor that a slot has: higher than those of the process, which its worlds have too.
pub(crate) fn number(slot: Slot) -> i32 {
    1000 + slot.0 as i32
}

/// Puts the number of a slot's descriptor in the place of each `%h0`.
fn put_numbers(text: &mut Vec<u8>) {
    for slot in (0..SLOTS).map(Slot) {
        let name = format!("%h{}", slot.0);
        while let Some(at) = text.windows(name.len()).position(|part| part == name.as_bytes()) {
            text.splice(at..at + name.len(), number(slot).to_string().into_bytes());
        }
    }
}

/// How many files a run can hold open, the judge's among them.
pub(crate) const SLOTS: usize = 7;

/// Where the judge opens what it looks at between calls.
pub(crate) const JUDGES: Slot = Slot(SLOTS - 1);

/// How many queues of events a run can have, in the slots behind those: the first is read after each call, the other one
/// when a call says so.
pub(crate) const QUEUES: usize = 2;

impl Call {
    /// The call itself, without bounds.
    pub(crate) fn bare(&self) -> &Self {
        if let Self::Within { call, .. } = self { call } else { self }
    }

    /// The slots whose files the call is about.
    pub(crate) fn uses(&self) -> Vec<Slot> {
        let mut used = Vec::new();
        self.each_field(&mut |_, field| used.extend(field.uses()));
        used
    }

    /// The flags that it is told: by which word, and their names. A call within bounds is told these, and the call.
    pub(crate) fn flags(&self) -> Vec<(&'static str, &'static str)> {
        let mut flags = Vec::new();
        if let Self::Within { resolve, call } = self {
            flags.extend(resolve.flags().into_iter().map(|flag| ("bounds", flag)));
            flags.push(("call", call.name()));
            return flags;
        }
        self.each_field(&mut |word, field| {
            flags.extend(field.flags().into_iter().map(|flag| (word, flag)));
        });
        flags
    }

    /// Whether it mounts a new file system, and which: of mount(2)'s flags some make it another call.
    pub(crate) fn mounts_new(&self) -> Option<NewMount> {
        let other = MountFlags::REMOUNT
            | MountFlags::BIND
            | MountFlags::MOVE
            | MountFlags::SHARED
            | MountFlags::SLAVE
            | MountFlags::PRIVATE
            | MountFlags::UNBINDABLE;
        match self.bare() {
            Self::Mount { flags, .. } if !flags.intersects(other) => Some(NewMount::Tmpfs),
            Self::Mountproc { flags, .. } if !flags.intersects(other) => Some(NewMount::Procfs),
            _ => None,
        }
    }

    /// The slot that gets the file which the call opens.
    pub(crate) fn fills(&self) -> Option<Slot> {
        let mut filled = None;
        self.each_field(&mut |_, field| filled = filled.or(field.fills()));
        filled
    }
}

/// A file system that a call mounts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NewMount {
    /// An empty one.
    Tmpfs,
    /// One that shows tasks.
    Procfs,
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// User 0 with all capabilities.
    Root,
    /// User 1000, group 1000.
    U,
    /// User 1001, group 1001 and, beside it, 1000.
    V,
    /// Real user 1000 with user 0's powers: what access(2) is for.
    S,
    /// As `Root`, but never moves: it looks at what the others left.
    Judge,
}

impl Who {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [Self::Root, Self::U, Self::V, Self::S, Self::Judge];

    /// The name before the colon.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::U => "u",
            Self::V => "v",
            Self::S => "s",
            Self::Judge => "judge",
        }
    }

    /// Real user and group, effective user and group, supplementary groups.
    pub(crate) fn ids(self) -> (u32, u32, u32, u32, &'static [u32]) {
        match self {
            Self::Root | Self::Judge => (0, 0, 0, 0, &[]),
            Self::U => (1000, 1000, 1000, 1000, &[]),
            Self::V => (1001, 1001, 1001, 1001, &[1000]),
            Self::S => (1000, 1000, 0, 0, &[]),
        }
    }
}

/// A call and who makes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// Who.
    pub(crate) who: Who,
    /// What.
    pub(crate) call: Call,
}

impl Step {
    /// Reads `u: openat …`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace().peekable();
        let named = words.peek().and_then(|word| {
            Who::ALL.into_iter().find(|who| word.strip_suffix(':') == Some(who.name()))
        });
        if named.is_some() {
            words.next();
        }
        Ok(Self { who: named.unwrap_or(Who::Root), call: Call::parse(words)? })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who.name(), self.call)
    }
}
