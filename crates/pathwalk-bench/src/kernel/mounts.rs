//! Mounts that nobody else sees and that cannot be left behind.
//!
//! fsmount(2) makes a mount in no mount namespace; its descriptor is the only way in, and when the
//! last descriptor closes, the mount goes. The loop device is detached while it is still in use,
//! which Linux takes as "with its last user", and its file has no name any more. So the kernel
//! cleans up all three, on return, on panic and on SIGKILL.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

use crate::Error;

/// The least room of an ext4; the file is sparse, so a small tree takes a few hundred kilobytes of it.
const EXT4_BYTES: u64 = 64 << 20;
/// The room for a file: its inode, twice its name, and what the tables want.
const BYTES_PER_FILE: u64 = 512;

/// Mounts a new tmpfs that may hold any number of files.
pub(super) fn tmpfs() -> Result<OwnedFd, Error> {
    mount("tmpfs", "nr_inodes", Path::new("0"))
}

/// Makes an ext4 for so many files on a loop device and mounts it.
pub(super) fn ext4(files: u64) -> Result<OwnedFd, Error> {
    let device = LoopDevice::attach(EXT4_BYTES + files * BYTES_PER_FILE)?;
    let mut mkfs = Command::new("mkfs.ext4");
    // Without lazy initialisation: a kernel thread would go on writing tables during the run.
    mkfs.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
    mkfs.args(["-N", &(files + 4096).to_string()]).arg(&device.path);
    output(&mut mkfs)?;
    mount("ext4", "source", &device.path)
}

fn mount(kind: &str, option: &str, value: &Path) -> Result<OwnedFd, Error> {
    let failed = |cause| Error::doing(format_args!("mounting {kind}"), cause);
    let config = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed)?;
    fsconfig_set_string(&config, option, value).map_err(failed)?;
    fsconfig_create(&config).map_err(failed)?;
    fsmount(&config, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).map_err(failed)
}

/// A block device over a file without a name; gone when it and the mount of it are closed.
struct LoopDevice {
    path: PathBuf,
    /// Keeps the device attached until the file system holds it.
    _open: File,
}

impl LoopDevice {
    fn attach(bytes: u64) -> Result<LoopDevice, Error> {
        let failed = |cause| Error::doing("making a loop device", cause);
        let file = tempfile::NamedTempFile::new().map_err(failed)?;
        file.as_file().set_len(bytes).map_err(failed)?;
        let path = output(Command::new("losetup").args(["--find", "--show"]).arg(file.path()))?;
        let path = PathBuf::from(path.trim_end());
        let opened = File::open(&path);
        output(Command::new("losetup").arg("--detach").arg(&path))?;
        Ok(LoopDevice { path, _open: opened.map_err(failed)? })
    }
}

/// Runs a program to its end and returns what it wrote to standard output.
fn output(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |cause: String| Error::doing(format_args!("running {program}"), cause);
    let output =
        command.stdin(Stdio::null()).output().map_err(|cause| failed(cause.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}: {}", output.status, said.trim().replace('\n', "; "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use std::{fs, thread};

    use super::*;
    use crate::left_out::left_out;

    /// Returns the file behind a loop device, as sysfs tells it, while there is one.
    fn backing_file(device: &Path) -> Option<String> {
        let name = device.file_name()?.to_str()?;
        fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()
    }

    #[test]
    fn a_loop_device_goes_with_its_last_user() {
        if !rustix::process::geteuid().is_root() {
            left_out("a loop device needs root");
            return;
        }
        let device = match LoopDevice::attach(EXT4_BYTES) {
            Ok(device) => device,
            Err(error) => return left_out(error),
        };
        let path = device.path.clone();
        let file = backing_file(&path).expect("the device is attached while it is open");
        assert!(file.trim_end().ends_with("(deleted)"), "{file} has no name");
        drop(device);
        // The kernel may finish after close has returned, and others may take the device again.
        for _ in 0..500 {
            if backing_file(&path).as_ref() != Some(&file) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{} is still attached to {file}", path.display());
    }
}
