//! A directory of the host and a machine whose root it is.

pub(crate) use crate::left_out::left_out;
use pathwalk_core::{Config, Cred, Task, Vfs};
use pathwalk_hostfs::{HostFs, HostOptions};
use rustix::process::geteuid;
use std::{
    os::unix::{ffi::OsStrExt, fs::MetadataExt, process::CommandExt},
    path::PathBuf,
    process::Command,
    sync::Arc,
};
use tempfile::TempDir;

/// Both; the directory goes last.
pub(crate) struct Ground {
    pub(crate) task: Task,
    pub(crate) fs: Arc<HostFs>,
    dir: TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self::with(HostOptions::default())
    }

    pub(crate) fn with(options: HostOptions) -> Self {
        Self::on(tempfile::tempdir().unwrap(), options, Config::default())
    }

    /// On a directory that has something in it.
    pub(crate) fn on(dir: TempDir, options: HostOptions, config: Config) -> Self {
        let fs = HostFs::with_options(dir.path().as_os_str().as_bytes(), options).unwrap();
        let owner = dir.path().metadata().unwrap();
        let cred =
            if owner.uid() == 0 { Cred::root() } else { Cred::user(owner.uid(), owner.gid()) };
        let vfs = Vfs::new(config, fs.clone()).unwrap();
        Self { task: vfs.task(cred), fs, dir }
    }

    /// A path of the host.
    pub(crate) fn host(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// How many calls to the host `f` makes.
    pub(crate) fn calls(&self, f: impl FnOnce()) -> u64 {
        let before = self.fs.host_calls();
        f();
        self.fs.host_calls() - before
    }
}

/// As an ordinary user of the host, in a process of its own if this one is root.
pub(crate) fn as_ordinary_user(uid: u32, test: &str, f: impl FnOnce()) {
    if !geteuid().is_root() {
        return f();
    }
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", test, "--test-threads=1"]).uid(uid).gid(uid).current_dir("/");
    // What cannot be run by others is not run.
    match command.env("TMPDIR", "/tmp").status() {
        Ok(status) => assert!(status.success()),
        Err(error) => left_out(format_args!("no process of another user: {error}")),
    }
}

/// Each way of walking on the host.
pub(crate) fn both_ways(f: impl Fn(HostOptions)) {
    for openat2 in [true, false] {
        f(HostOptions { openat2, ..HostOptions::default() });
    }
}
