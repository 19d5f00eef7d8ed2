//! What is mounted, as text: `/proc/PID/mountinfo`.
//!
//! ```text
//!   36 35 98:0 /part /mnt ro,noatime shared:1 master:2 - tmpfs none rw
//!   │  │  │    │     │    │          │                   │     │    └ of the superblock
//!   │  │  │    │     │    │          │                   │     └ source
//!   │  │  │    │     │    │          │                   └ type
//!   │  │  │    │     │    │          └ propagation
//!   │  │  │    │     │    └ of the mount
//!   │  │  │    │     └ where, as seen from the root
//!   │  │  │    └ what of the file system
//!   mount, parent, device
//! ```
//!
//! Linux: `show_mountinfo`; proc_pid_mountinfo(5).

use super::{MntFlags, MountId, NsId, tree::TreeGuard};
use crate::{
    dcache::{DentryId, IS_ROOT, path::Climbed},
    task::Task,
    topology::Still,
    vfs::Vfs,
    walk::HeldPath,
};
use pathwalk_abi::MountFlags;
use std::io::Write;

/// The mounts of a task's namespace that it can reach, one a line, the oldest first: `/proc/PID/mountinfo`.
pub fn mountinfo(task: &Task) -> Vec<u8> {
    let vfs = task.vfs();
    let (mnt, dentry) = task.fs.hold_root(vfs);
    let root = HeldPath::new(vfs, mnt, dentry);
    vfs.show_mounts(task.mount_namespace().ns(), &root, MountFormat::MountInfo)
}

/// How mounts are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountFormat {
    /// As `/proc/PID/mountinfo`.
    MountInfo,
    /// As `/proc/PID/mounts`, which is what fstab(5) looks like.
    Mounts,
}

impl Vfs {
    /// The mounts of a namespace that are reached from a root, one a line, the oldest first.
    pub(crate) fn show_mounts(
        &self,
        ns: NsId,
        root: &HeldPath<'_>,
        format: MountFormat,
    ) -> Vec<u8> {
        let root = (root.mnt(), root.dentry());
        let tree = self.mount_tree();
        let mounts = tree.mounts_in(ns);
        // Names and places are those of one moment.
        self.while_still(|still| {
            let mut out = Vec::new();
            for &id in &mounts {
                let at = (id, self.mount_slot(id).root());
                if !self.is_under(at, root, still) {
                    continue;
                }
                let Some(path) = tree.path_from(at, root)? else { continue };
                match format {
                    MountFormat::MountInfo => {
                        tree.mountinfo_line((id, &path), root, still, &mut out)?;
                    }
                    MountFormat::Mounts => tree.mounts_line((id, &path), &mut out),
                }
            }
            Some(out)
        })
    }
}

impl TreeGuard<'_> {
    /// The mounts of a namespace, the oldest first.
    pub(super) fn mounts_in(&self, ns: NsId) -> Vec<MountId> {
        let Some(namespace) = self.namespaces.get(&ns) else { return Vec::new() };
        namespace.mounts.values().collect()
    }

    /// Nothing where a name changed meanwhile.
    fn mountinfo_line(
        &self,
        (id, path): (MountId, &[u8]),
        root: (MountId, DentryId),
        still: &Still,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let vfs = self.vfs;
        let mount = vfs.mount_slot(id);
        let sb = vfs.superblock(mount.sb.get()).expect("a mount keeps its superblock");
        let parent = vfs.mount_slot(mount.place().0).mnt_id.get();
        let parent = if mount.place().0 == MountId::NONE { mount.mnt_id.get() } else { parent };
        let dev = sb.dev;
        let numbers = (mount.mnt_id.get(), parent, dev.major(), dev.minor());
        put(out, format_args!("{} {} {}:{} ", numbers.0, numbers.1, numbers.2, numbers.3));
        mangle(out, &self.dentry_path(mount.root())?, b" \t\n\\");
        out.push(b' ');
        mangle(out, path, b" \t\n\\");
        put(out, format_args!(" {}", mount.flags().options()));
        let node = self.node(id);
        if node.shared != 0 {
            put(out, format_args!(" shared:{}", node.shared));
        }
        let master = self.master_group(id);
        if master != 0 {
            put(out, format_args!(" master:{master}"));
            let from = self.dominating(id, root, still);
            if from != 0 && from != master {
                put(out, format_args!(" propagate_from:{from}"));
            }
        }
        if node.unbindable {
            out.extend_from_slice(b" unbindable");
        }
        out.extend_from_slice(b" - ");
        mangle(out, sb.fs.kind().as_bytes(), b" \t\n\\#");
        out.push(b' ');
        mangle(out, sb.fs.source(), b" \t\n\\#");
        let flags = sb.flags();
        let mode = if flags.contains(MountFlags::RDONLY) { "ro" } else { "rw" };
        put(out, format_args!(" {mode}{}", sb_options(flags)));
        out.extend(show_options(&sb.fs.options()));
        out.push(b'\n');
        Some(())
    }

    /// Linux: `show_vfsmnt`.
    fn mounts_line(&self, (id, path): (MountId, &[u8]), out: &mut Vec<u8>) {
        let mount = self.vfs.mount_slot(id);
        let sb = self.vfs.superblock(mount.sb.get()).expect("a mount keeps its superblock");
        mangle(out, sb.fs.source(), b" \t\n\\#");
        out.push(b' ');
        mangle(out, path, b" \t\n\\");
        out.push(b' ');
        mangle(out, sb.fs.kind().as_bytes(), b" \t\n\\#");
        let flags = mount.flags();
        let mode = if flags.read_only() { "ro" } else { "rw" };
        let options = flags.options();
        // The first of them is that of the mount alone.
        let rest = options.get(2..).unwrap_or_default();
        put(out, format_args!(" {mode}{}{rest}", sb_options(sb.flags())));
        out.extend(show_options(&sb.fs.options()));
        out.extend_from_slice(b" 0 0\n");
    }

    /// The nearest group that a mount receives from, directly or not, of which a member in the mount's namespace lies below
    /// the root. The root may lie in another namespace: then none does.
    ///
    /// Linux: `get_dominating_id`.
    pub(super) fn dominating(&self, id: MountId, root: (MountId, DentryId), still: &Still) -> u32 {
        let mut group = self.master_group(id);
        while group != 0 {
            let ns = self.vfs.mount_slot(id).ns();
            let visible = |&member: &MountId| {
                let mount = self.vfs.mount_slot(member);
                mount.ns() == ns && self.vfs.is_under((member, mount.root()), root, still)
            };
            if self.members(group).iter().any(visible) {
                return group;
            }
            group = self.members(group).first().map_or(0, |&member| self.master_group(member));
        }
        0
    }

    /// The path of a dentry in its file system.
    pub(super) fn dentry_path(&self, dentry: DentryId) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        let mut at = dentry;
        while !self.vfs.dentry(at).is(IS_ROOT) {
            let dentry = self.vfs.dentry(at);
            let seq = dentry.seq.sample();
            let mut name = Vec::new();
            self.vfs.copy_name(dentry, &mut name);
            names.push(name);
            at = DentryId(dentry.parent.get());
            if !dentry.seq.unchanged(seq) {
                return None;
            }
        }
        let mut path = in_order(&names);
        if !self.is_linked(dentry) {
            path.extend_from_slice(b"//deleted");
        }
        Some(path)
    }

    /// The path of a place below another; none where a directory on the way was moved out of the part that its mount shows.
    /// Nothing where a name changed meanwhile.
    pub(super) fn path_from(
        &self,
        at: (MountId, DentryId),
        root: (MountId, DentryId),
    ) -> Option<Option<Vec<u8>>> {
        let mut names = Vec::new();
        let climbed = self.vfs.climb(at, root, |id, _| {
            let mut name = Vec::new();
            self.vfs.copy_name(self.vfs.dentry(id), &mut name);
            names.push(name);
            Some(())
        })?;
        Some((climbed != Climbed::Lost).then(|| in_order(&names)))
    }
}

/// The options of a superblock, but for whether it is read-only.
fn sb_options(flags: MountFlags) -> String {
    let names = [
        (MountFlags::SYNCHRONOUS, ",sync"),
        (MountFlags::DIRSYNC, ",dirsync"),
        (MountFlags::MANDLOCK, ",mand"),
        (MountFlags::LAZYTIME, ",lazytime"),
    ];
    names.into_iter().filter(|&(flag, _)| flags.contains(flag)).map(|(_, name)| name).collect()
}

/// A file system's own options, each with a comma in front.
pub(super) fn show_options(options: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for option in options {
        out.push(b',');
        mangle(&mut out, option, b", \t\n\\");
    }
    out
}

impl MntFlags {
    /// The options as mountinfo has them.
    fn options(self) -> String {
        let mut text = String::from(if self.contains(Self::RDONLY) { "ro" } else { "rw" });
        for (flag, name) in [
            (Self::NOSUID, ",nosuid"),
            (Self::NODEV, ",nodev"),
            (Self::NOEXEC, ",noexec"),
            (Self::NOATIME, ",noatime"),
            (Self::NODIRATIME, ",nodiratime"),
            (Self::RELATIME, ",relatime"),
            (Self::NOSYMFOLLOW, ",nosymfollow"),
            (Self::IDMAPPED, ",idmapped"),
        ] {
            if self.contains(flag) {
                text.push_str(name);
            }
        }
        text
    }
}

/// Names from the last to the first, as a path.
fn in_order(names: &[Vec<u8>]) -> Vec<u8> {
    if names.is_empty() {
        return b"/".to_vec();
    }
    let mut path = Vec::new();
    for name in names.iter().rev() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    path
}

/// Appends a string, with what would break the line as octal numbers.
fn mangle(out: &mut Vec<u8>, text: &[u8], escaped: &[u8]) {
    for &byte in text {
        if escaped.contains(&byte) {
            put(out, format_args!("\\{byte:03o}"));
        } else {
            out.push(byte);
        }
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory does not fail");
}
