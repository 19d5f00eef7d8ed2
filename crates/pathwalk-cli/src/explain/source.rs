//! Where the files come from: this machine, a directory of it, or a `.tree` file.

use super::{
    copy::{copy, not_copied},
    host::Host,
};
use crate::error::{Error, in_words};
use indicatif::{ProgressBar, ProgressStyle};
use pathwalk::{
    Config, Cred, HostFs, HostOptions, MemFs, Task, Vfs,
    explain::{Cause, ExplainHow, Explanation},
};
use pathwalk_bench::tree::Tree;
use std::{
    collections::HashMap,
    env,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    time::Duration,
};
use walkdir::WalkDir;

/// Files in memory, and where to get more of them.
pub(super) enum Source {
    /// All there is.
    Loaded(Loaded),
    /// Of this machine only what was asked for.
    Host(Host),
}

/// Files that were loaded beforehand.
pub(super) struct Loaded {
    task: Task,
    /// Directories whose contents were not loaded, and why.
    skipped: Vec<(Vec<u8>, String)>,
}

/// Where the files are.
#[derive(Clone, Copy)]
pub(super) enum Beginning<'a> {
    /// On this machine.
    Here,
    /// In a directory of it, whose names are asked for as they come.
    Directory(&'a Path),
    /// In a directory or a `.tree` file that is loaded beforehand.
    Loaded(&'a Path),
}

impl Source {
    /// Loads what is to be loaded beforehand, and goes to where a relative path begins.
    pub(super) fn open(
        beginning: Beginning<'_>,
        cwd: Option<&Path>,
        path: &OsStr,
    ) -> Result<Self, Error> {
        let loaded = match beginning {
            Beginning::Here => {
                if let Some(cwd) = cwd {
                    env::set_current_dir(cwd).map_err(|cause| Error::at(cwd, &cause))?;
                }
                let mut host = Host::new(machine()?)?;
                if !path.as_bytes().starts_with(b"/") {
                    host.enter_cwd()?;
                }
                return Ok(Self::Host(host));
            }
            Beginning::Directory(dir) => Loaded { task: machine_on(dir)?, skipped: Vec::new() },
            Beginning::Loaded(load) => load_any(load)?,
        };
        if let Some(cwd) = cwd {
            let entered = loaded.task.chdir(cwd.as_os_str().as_bytes());
            let what = || format!("--cwd {}", cwd.display());
            entered.map_err(|errno| Error::doing(what(), errno))?;
        }
        Ok(Self::Loaded(loaded))
    }

    /// Explains a path for somebody: the first lookup of it, or a later one.
    pub(super) fn explain(
        &mut self,
        cred: Cred,
        path: &[u8],
        how: ExplainHow,
        first: bool,
    ) -> Result<Explanation, Error> {
        match self {
            Self::Host(host) => {
                let user = become_user(host.task(), cred);
                host.explain(&user, path, how)?;
                // That one filled caches: it followed symlinks that nobody had followed before.
                host.explain(&user, path, how)
            }
            Self::Loaded(loaded) => {
                let user = become_user(&loaded.task, cred);
                let mut explanation = user.explain(path, how);
                if !first {
                    explanation = user.explain(path, how);
                }
                loaded.must_be_known(&explanation)?;
                Ok(explanation)
            }
        }
    }
}

/// Loads a directory, or what a `.tree` file lists.
fn load_any(load: &Path) -> Result<Loaded, Error> {
    let metadata = fs::metadata(load).map_err(|cause| Error::at(load, &cause))?;
    if metadata.is_dir() {
        return load_directory(load);
    }
    let text = fs::read(load).map_err(|cause| Error::at(load, &cause))?;
    let failed = |cause: &dyn std::fmt::Display| Error::doing(load.display(), cause);
    let tree = Tree::parse(&text).map_err(|cause| failed(&cause))?;
    let mut task = machine()?;
    tree.load(&mut task).map_err(|cause| failed(&cause))?;
    Ok(Loaded { task, skipped: Vec::new() })
}

/// A machine whose root is a directory of the host, which it does not change.
fn machine_on(dir: &Path) -> Result<Task, Error> {
    let options = HostOptions { read_only: true, ..HostOptions::default() };
    let fs = HostFs::with_options(dir.as_os_str().as_bytes(), options);
    let made = fs.and_then(|fs| Vfs::new(Config::default(), fs));
    let vfs = made.map_err(|errno| Error::doing(dir.display(), errno))?;
    Ok(vfs.task(Cred::root()))
}

/// A machine with an empty file system, and a task that may do anything there.
fn machine() -> Result<Task, Error> {
    let fs = MemFs::builder().root_mode(0o755).build();
    let vfs = Vfs::new(Config::default(), fs)
        .map_err(|errno| Error::doing("making a file system in memory", errno))?;
    let task = vfs.task(Cred::root());
    task.umask(0);
    Ok(task)
}

/// Somebody in the same place.
fn become_user(task: &Task, cred: Cred) -> Task {
    let mut user = task.fork();
    user.set_cred(cred);
    user
}

/// Copies a directory with all below it, but not what is mounted there.
///
/// What cannot be read is skipped: a line each on standard error, and one that counts them.
fn load_directory(root: &Path) -> Result<Loaded, Error> {
    let mut loaded = Loaded { task: machine()?, skipped: Vec::new() };
    // Nobody sees it where standard error is no terminal.
    let progress = ProgressBar::new_spinner().with_style(
        ProgressStyle::with_template("{spinner} {pos} files {wide_msg}")
            .expect("the template is constant"),
    );
    progress.enable_steady_tick(Duration::from_millis(100));

    let mut device = None;
    // Files with several names, by number: the first name of each.
    let mut names: HashMap<u64, Vec<u8>> = HashMap::new();
    for entry in WalkDir::new(root).same_file_system(true).follow_root_links(true) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                loaded.skip(root, &error, &progress)?;
                continue;
            }
        };
        let to = below(root, entry.path());
        let metadata = match entry.depth() {
            // The root may have been named by a symlink.
            0 => fs::metadata(root).map_err(|cause| Error::at(root, &cause))?,
            _ => match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) => {
                    loaded.skip(root, &error, &progress)?;
                    continue;
                }
            },
        };
        let device = *device.get_or_insert(metadata.dev());
        if metadata.is_dir() && metadata.dev() != device {
            loaded.skipped.push((to.clone(), "another file system is mounted there".into()));
        }
        let several = !metadata.is_dir() && metadata.nlink() > 1;
        match names.get(&metadata.ino()).filter(|_| several && metadata.dev() == device) {
            Some(name) => {
                let linked = loaded.task.link(name, &to);
                linked.map_err(|errno| not_copied(entry.path(), errno))?;
            }
            None => {
                copy(&loaded.task, entry.path(), &metadata, &to)?;
                if several {
                    names.insert(metadata.ino(), to);
                }
            }
        }
        progress.inc(1);
    }
    let (files, skipped) = (progress.position(), loaded.skipped.len());
    progress.finish_and_clear();
    if skipped != 0 {
        let sum = format!(
            "{files} files loaded; skipped {skipped}, unreadable or not of this file system"
        );
        eprintln!("pathwalk: {}", Error::doing(root.display(), sum));
    }
    Ok(loaded)
}

/// A path of the host as seen from `root`.
fn below(root: &Path, path: &Path) -> Vec<u8> {
    let rest = path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes();
    [b"/", rest].concat()
}

impl Loaded {
    /// Notes a file or directory that could not be read, and says so; the root must be readable.
    fn skip(
        &mut self,
        root: &Path,
        error: &walkdir::Error,
        progress: &ProgressBar,
    ) -> Result<(), Error> {
        let path = error.path().unwrap_or(root);
        let why = match error.io_error() {
            Some(cause) => in_words(cause),
            None => error.to_string(),
        };
        let said = Error::doing(path.display(), &why);
        if path == root {
            return Err(said);
        }
        progress.suspend(|| eprintln!("pathwalk: skipped {said}"));
        self.skipped.push((below(root, path), why));
        Ok(())
    }

    /// Refuses an answer about what was not loaded.
    fn must_be_known(&self, explanation: &Explanation) -> Result<(), Error> {
        let Err(failure) = explanation.outcome else { return Ok(()) };
        let (Cause::Absent, Some(step)) = (failure.cause, failure.step) else { return Ok(()) };
        let path = explanation.path_of(step);
        let unknown = |(skipped, _): &&(Vec<u8>, String)| {
            path.strip_prefix(&skipped[..])
                .is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
        };
        match self.skipped.iter().find(unknown) {
            None => Ok(()),
            Some((skipped, why)) => {
                let skipped = String::from_utf8_lossy(skipped);
                Err(Error::doing(format_args!("{skipped} was not loaded"), why))
            }
        }
    }
}
