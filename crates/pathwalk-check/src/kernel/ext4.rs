//! An ext4 image, mounted through a loop device, as the ground that worlds stand on.
//!
//! ```text
//!   Image, in the host's temporary directory ── mount -o loop ──► a handle on its root ── bind ──► /ext4 of the nursery
//!                                                                 each world's root is a directory of it: /ext4/7
//! ```
//!
//! Manual: mkfs.ext4(8), mount(8).

use super::sys::{Arg, own, syscall};
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
