//! An ext4 image, mounted through a loop device, as the ground that worlds stand on.
//!
//! ```text
//!   Image, in the host's temporary directory ── mount -o loop ──► a handle on its root ── bind ──► /ext4 of the nursery
//!                                                                 each world's root is a directory of it: /ext4/7
//! ```
//!
//! Manual: mkfs.ext4(8), mount(8).

use super::sys::{Arg, own, syscall};
use crate::{call::Call, field::Int};
use pathwalk::{
    MountFlags, OpenFlags, UmountFlags,
    abi::xattr::{XATTR_NAME_POSIX_ACL_ACCESS, posix_acl},
};
use std::{
    ffi::CString,
    fs,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::PathBuf,
    process::Command,
};
use tempfile::TempDir;

/// What the root of a world is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ground {
    /// An empty tmpfs.
    #[default]
    Tmpfs,
    /// An empty directory of an ext4.
    Ext4,
}

/// Files of an ext4 end before 16 TiB, those of a tmpfs nowhere; offsets may add up.
const FAR: i64 = 1 << 42;

impl Ground {
    /// Whether a call is about what an ext4 has too.
    pub(crate) fn knows(self, call: &Call) -> bool {
        if self == Self::Tmpfs {
            return true;
        }
        let near = |offset: Int| offset.0 < FAR;
        match call {
            Call::Within { call, .. } => self.knows(call),
            // To read no bytes is no use of a file there: its time of last access stays.
            Call::Read { len: Int(0), .. } | Call::Pread { len: Int(0), .. } => false,
            Call::Pwrite { offset, .. } | Call::Pread { offset, .. } => near(*offset),
            Call::LseekSet { to: by, .. }
            | Call::LseekCur { by, .. }
            | Call::LseekEnd { by, .. } => near(*by),
            // It stamps a file that keeps its size, which most often is none.
            Call::Truncate { size: Int(0), .. } => false,
            Call::Truncate { size, .. } | Call::Ftruncate { size, .. } => near(*size),
            // It leaves the set-group-id bit to who is not in the group when an ACL goes, a tmpfs takes it.
            Call::Removexattr { name, .. }
            | Call::Lremovexattr { name, .. }
            | Call::Fremovexattr { name, .. }
            | Call::Removexattrat { name, .. } => name.0 != XATTR_NAME_POSIX_ACL_ACCESS,
            Call::Setxattr { name, value, .. }
            | Call::Lsetxattr { name, value, .. }
            | Call::Fsetxattr { name, value, .. }
            | Call::Setxattrat { name, value, .. } => {
                name.0 != XATTR_NAME_POSIX_ACL_ACCESS || has_entries(&value.0)
            }
            // It has more flags than tmpfs has, and wants those back that say how blocks are found.
            Call::Setflags { .. } => false,
            // It wants buffers and lengths in units.
            Call::Openat { flags, .. } => !flags.contains(OpenFlags::DIRECT),
            Call::Openat2 { flags, .. } => !flags.contains(OpenFlags::DIRECT),
            // All worlds of a nursery stand on one.
            Call::Mount { flags, .. }
            | Call::Mountproc { flags, .. }
            | Call::MountTree { flags, .. } => {
                !flags.contains(MountFlags::REMOUNT) || flags.contains(MountFlags::BIND)
            }
            // Of a task's own root it makes that file system read-only.
            Call::Umount2 { flags, .. } => flags.contains(UmountFlags::DETACH),
            _ => true,
        }
    }
}

/// Whether it is more than a header, which alone takes the ACL away.
fn has_entries(acl: &[u8]) -> bool {
    acl.len() > posix_acl::HEADER
}

/// Of so many bytes most are never written.
const BYTES: u64 = 1 << 30;

/// A file with an ext4 in it, which goes when this does; a mount of it stays.
pub(super) struct Image {
    dir: TempDir,
}

impl Image {
    /// Makes the file.
    pub(super) fn make() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("no image: {error}");
        let dir = tempfile::tempdir().map_err(failed)?;
        let image = Self { dir };
        fs::create_dir(image.mountpoint()).map_err(failed)?;
        fs::File::create(image.file()).and_then(|file| file.set_len(BYTES)).map_err(failed)?;
        // Blocks as large as pages, as tmpfs has them; no journal, which only costs time.
        let mkfs = ["-q", "-F", "-b", "4096", "-I", "256", "-m", "0", "-O", "^has_journal"];
        run(Command::new("mkfs.ext4").args(mkfs).arg(image.file()))?;
        Ok(image)
    }

    /// Mounts it in the calling thread's namespace; its root.
    pub(super) fn mount(&self) -> Result<OwnedFd, String> {
        let at = self.mountpoint();
        run(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).arg(self.file()).arg(&at))?;
        // A world's root is empty.
        fs::remove_dir(at.join("lost+found")).map_err(|error| error.to_string())?;
        let at = CString::new(at.as_os_str().as_bytes()).expect("a path has no NUL");
        let path = Arg::Int((libc::O_PATH | libc::O_CLOEXEC).into());
        let root = syscall(libc::SYS_open, [Arg::Str(&at), path]);
        root.map(own).map_err(|errno| errno.to_string())
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn mountpoint(&self) -> PathBuf {
        self.dir.path().join("mount")
    }
}

/// Runs a program; what it says where it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| format!("{name}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!("{name}: {}", said.lines().next().unwrap_or("it failed")))
}
