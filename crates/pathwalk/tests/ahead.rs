//! A file system that is asked about a run of names at a time: about which, and what becomes of what it says.

mod common;

use common::asking::{found, root_task};
use pathwalk::{
    Cred, Errno, FileType, InodeRef, Result, Subject, Task, Timespec,
    fs::{CachedName, Features, FileSystem, Found},
};
use std::sync::{Arc, Mutex};

/// Directories 1 to 9 in directories 1 to 9, as deep as anybody looks; a node is the names of its path. Of 12 only root may
/// search.
#[derive(Default)]
struct Digits {
    runs: Mutex<Vec<String>>,
    alone: Mutex<Vec<String>>,
    /// What it answers about a run that has the name 5.
    five: Mutex<Option<Errno>>,
}

const PRIVATE: u64 = 12;

fn text(name: &[u8]) -> String {
    String::from_utf8(name.to_vec()).unwrap()
}

impl Digits {
    fn directory(node: u64) -> Found {
        found(node, FileType::Directory, if node == PRIVATE { 0o700 } else { 0o755 })
    }

    /// The runs that it was asked about since this was last asked, and the names alone.
    fn asked(&self) -> (Vec<String>, Vec<String>) {
        let take = |asked: &Mutex<_>| std::mem::take(&mut *asked.lock().unwrap());
        (take(&self.runs), take(&self.alone))
    }
}

impl FileSystem for Digits {
    fn kind(&self) -> &str {
        "digits"
    }

    fn features(&self) -> Features {
        Features::REVALIDATE | Features::LOOKUP_MANY
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(Self::directory(0))
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let digit = text(name).parse::<u64>().ok().filter(|digit| (1..10).contains(digit));
        Ok(digit.map(|digit| Self::directory(dir.node() * 10 + digit)))
    }

    fn revalidate(&self, _: InodeRef<'_>, name: &[u8], _: Option<InodeRef<'_>>) -> Result<bool> {
        self.alone.lock().unwrap().push(text(name));
        Ok(true)
    }

    fn lookup_many(&self, _: InodeRef<'_>, run: &[CachedName<'_>]) -> Result<usize> {
        let names: Vec<_> = run.iter().map(|cached| text(cached.name)).collect();
        let five = names.contains(&"5".to_owned());
        self.runs.lock().unwrap().push(names.join("/"));
        match *self.five.lock().unwrap() {
            Some(errno) if five => Err(errno),
            _ => Ok(run.len()),
        }
    }
}

/// A machine that has these paths in the cache, and tasks of root and of somebody else.
fn machine(paths: &[&str]) -> (Arc<Digits>, Arc<Task>, Task) {
    let fs = Arc::new(Digits::default());
    let root = root_task(&fs);
    let user = root.vfs().task(Cred::user(1, 1));
    for path in paths {
        root.stat(path).unwrap();
    }
    fs.asked();
    (fs, root, user)
}

#[test]
fn a_run_is_asked_about_at_once() {
    let (fs, root, user) = machine(&["/1/3/4/5", "/1/3/6"]);
    for task in [&*root, &user] {
        assert_eq!(task.stat("/1/3/4/5").map(drop), Ok(()));
        assert_eq!(fs.asked(), (vec!["1/3/4/5".into()], vec![]));
        assert_eq!(task.stat("/1/3/4/../6").map(drop), Ok(()));
        assert_eq!(fs.asked(), (vec!["1/3/4/../6".into()], vec![]));
    }
}

#[test]
fn it_ends_at_a_directory_that_may_not_be_searched() {
    let (fs, root, user) = machine(&["/1/2/3/5"]);
    *fs.five.lock().unwrap() = Some(Errno::EIO);
    for path in ["/1/2/3/5", "/1/2/../2/3", "/1/2/./3"] {
        assert_eq!(user.stat(path).map(drop), Err(Errno::EACCES), "{path}");
        assert_eq!(fs.asked(), (vec!["1/2".into()], vec![]), "{path}");
    }
    assert_eq!(root.stat("/1/2/3").map(drop), Ok(()));
    assert_eq!(fs.asked(), (vec!["1/2/3".into()], vec![]));
}

#[test]
fn an_error_about_a_run_is_no_answer_about_its_first_name() {
    let (fs, root, _) = machine(&["/1/3/4/5"]);
    *fs.five.lock().unwrap() = Some(Errno::EIO);
    // Who fails is not asked about the rest of the run, name after name; the next walk asks again.
    for _ in 0..2 {
        assert_eq!(root.stat("/1/3/4/5").map(drop), Ok(()));
        let alone = ["1", "3", "4", "5"].map(String::from);
        assert_eq!(fs.asked(), (vec!["1/3/4/5".into()], alone.to_vec()));
    }
}
