//! A directory of the host and a machine whose root it is.

use pathwalk_core::{Config, Cred, Task, Vfs};
use pathwalk_hostfs::{HostFs, HostOptions};
use std::{
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::PathBuf,
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

/// Each way of walking on the host.
pub(crate) fn both_ways(f: impl Fn(HostOptions)) {
    for openat2 in [true, false] {
        f(HostOptions { openat2, ..HostOptions::default() });
    }
}
