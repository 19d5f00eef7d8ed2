//! A file system that is asked about a run of names at a time, or about a whole path: about which, and what becomes of what it
//! says.

mod common;

use common::asking::{found, root_task};
use pathwalk::{
    AccessMode, AtFlags, Config, Cred, Errno, FileType, InodeRef, MemFs, MountFlags, OpenFlags,
    Result, Subject, Task, Timespec, Vfs,
    fs::{CachedName, Features, FileSystem, Found},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Directories 1 to 9 in directories 1 to 9, as deep as anybody looks; a node is the names of its path. Of 12 only root may
/// search. In each there are the symlinks `low` to 3/4 and `high` to /1/low.
#[derive(Default)]
struct Digits {
    runs: Mutex<Vec<String>>,
    alone: Mutex<Vec<String>>,
    /// The paths that it was asked about; none where it is not to be asked about any.
    paths: Option<Mutex<Vec<String>>>,
    /// It does not say of paths that they hold.
    knows_no_path: AtomicBool,
    /// It knows each name.
    each_name: bool,
    /// What it answers about a run that has the name 5.
    five: Mutex<Option<Errno>>,
}

const PRIVATE: u64 = 12;
/// The nodes of symlinks are these behind the directory's.
const LOW: u64 = 100;
const HIGH: u64 = 101;

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
        let mut features = Features::REVALIDATE | Features::LOOKUP_MANY;
        features.set(Features::REVALIDATE_PATH, self.paths.is_some());
        features.set(Features::EACH_NAME, self.each_name);
        features
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(Self::directory(0))
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let body = match name {
            b"low" => Some((LOW, "3/4")),
            b"high" => Some((HIGH, "/1/low")),
            _ => None,
        };
        if let Some((number, body)) = body {
            let link = found(dir.node() * 1000 + number, FileType::Symlink, 0o777);
            return Ok(Some(Found { body: Some(body.as_bytes().into()), ..link }));
        }
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

    fn revalidate_path(
        &self,
        dir: InodeRef<'_>,
        path: &[u8],
        cached: Option<InodeRef<'_>>,
        _attributes: bool,
    ) -> Result<bool> {
        let to = cached.map_or("nothing".into(), |inode| inode.node().to_string());
        let asked = format!("{} from {} to {to}", text(path), dir.node());
        self.paths.as_ref().expect("it wants to be asked").lock().unwrap().push(asked);
        Ok(!self.knows_no_path.load(Relaxed))
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

/// A machine whose root is asked about whole paths.
fn asked_about_paths() -> (Arc<Digits>, Arc<Task>) {
    let fs = Arc::new(Digits { paths: Some(Mutex::default()), ..Digits::default() });
    let task = root_task(&fs);
    (fs, task)
}

impl Digits {
    /// The paths that it was asked about by a call, if that came to be remembered, and nothing else.
    #[track_caller]
    fn paths_of(&self, call: impl Fn()) -> Vec<String> {
        // Met, remembered, asked about.
        call();
        call();
        self.asked();
        let paths = self.paths.as_ref().unwrap();
        paths.lock().unwrap().clear();
        call();
        let paths = std::mem::take(&mut *paths.lock().unwrap());
        assert!(
            paths.is_empty() || self.asked() == (vec![], vec![]),
            "it is asked about {paths:?} once"
        );
        paths
    }
}

#[test]
fn a_path_that_was_walked_before_is_asked_about_whole() {
    let (fs, task) = asked_about_paths();
    let stat = |path: &'static str| {
        let task = &task;
        move || assert!(task.stat(path).is_ok(), "{path}")
    };
    let absent = |path: &'static str| {
        let task = &task;
        move || assert_eq!(task.stat(path).map(drop), Err(Errno::ENOENT), "{path}")
    };
    assert_eq!(fs.paths_of(stat("/1/3/4/6")), ["1/3/4/6 from 0 to 1346"]);
    assert_eq!(fs.paths_of(stat("//1/./3//4/../6")), ["1/./3/4/../6 from 0 to 136"]);
    assert_eq!(fs.paths_of(absent("/1/3/none")), ["1/3/none from 0 to nothing"]);
    assert_eq!(fs.paths_of(absent("/1/none/3")), ["1/none from 0 to nothing"]);
    let both = ["1/low from 0 to 1100", "1/3/4/6 from 0 to 1346"];
    assert_eq!(fs.paths_of(stat("/1/low/6")), both, "a symlink is asked about on its own");
    let all = ["2/high from 0 to 2101", both[0], both[1]];
    assert_eq!(fs.paths_of(stat("/2/high/6")), all);
    assert_eq!(
        fs.paths_of(stat("/2/../1/./low/6")),
        ["2/../1/./low from 0 to 1100", "2/../1/./3/4/6 from 0 to 1346"]
    );
    // By its directory `fs.protected_symlinks` decides whether the last one is followed.
    let last = [both[0], "1 from 0 to 1", "1/3/4 from 0 to 134"];
    assert_eq!(fs.paths_of(stat("/1/low")), last);
    // Above the root there is nothing to be asked about.
    assert_eq!(fs.paths_of(stat("/../1/3")), Vec::<String>::new());
    assert_eq!(fs.paths_of(stat("/1/../../1/low")), Vec::<String>::new());
    let is_link = || {
        let mode = task.lstat("/1/low").unwrap().st_mode;
        assert_eq!(FileType::from_mode(mode), Some(FileType::Symlink), "it is not followed");
    };
    assert_eq!(fs.paths_of(is_link), Vec::<String>::new());
    assert_eq!(fs.paths_of(absent("/1/low/none")), [both[0], "1/3/4/none from 0 to nothing"]);
    let open = || assert!(task.open("/1/3/4", OpenFlags::DIRECTORY, 0).is_ok());
    assert_eq!(fs.paths_of(open), ["1/3/4 from 0 to 134"]);
    // Who looks for a name to change it asks about its directory, and then about the name.
    let make = || assert_eq!(task.mkdir("/1/3/4/6", 0o755), Err(Errno::EEXIST));
    for _ in 0..2 {
        make();
    }
    fs.asked();
    fs.paths.as_ref().unwrap().lock().unwrap().clear();
    make();
    assert_eq!(*fs.paths.as_ref().unwrap().lock().unwrap(), ["1/3/4 from 0 to 134"]);
    assert_eq!(fs.asked(), (vec![], vec!["6".into()]));
}

/// Places to which no name leads: where a walk begins, or begins anew, and where it enters a mount or leaves it upwards.
#[test]
fn who_knows_each_name_is_asked_about_places_that_have_none() {
    for each_name in [true, false] {
        let digits = || Digits { paths: Some(Mutex::default()), each_name, ..Digits::default() };
        let (lower, upper) = (Arc::new(digits()), Arc::new(digits()));
        let task = root_task(&lower);
        task.mount(Arc::clone(&upper) as _, "/1/2", MountFlags::empty()).unwrap();
        let dir = task.open("/1/3", OpenFlags::DIRECTORY | OpenFlags::PATH, 0).unwrap();
        task.chdir("/1/3/4").unwrap();
        let asked = || {
            let of = |fs: &Digits| std::mem::take(&mut *fs.paths.as_ref().unwrap().lock().unwrap());
            // Not of paths, which are asked about where they are remembered.
            let places = |fs| {
                of(fs).into_iter().filter_map(|it| it.strip_prefix(" from ").map(str::to_owned))
            };
            (places(&lower).collect::<Vec<_>>(), places(&upper).collect::<Vec<_>>())
        };
        let check = |call: &dyn Fn() -> Result<()>, below: &[&str], above: &[&str]| {
            let owned = |places: &[&str]| -> Vec<String> {
                let wanted = places.iter().filter(|_| each_name);
                wanted.map(|node| format!("{node} to {node}")).collect()
            };
            asked();
            assert_eq!(call(), Ok(()));
            assert_eq!(asked(), (owned(below), owned(above)));
        };
        let access = |path: &'static str| {
            let task = &task;
            move || task.access(path, AccessMode::empty())
        };
        let held = |path: &'static str| {
            let (task, dir) = (&task, &dir);
            move || task.faccessat2(dir, path, AccessMode::empty(), AtFlags::EMPTY_PATH)
        };
        check(&access("/1/3/6"), &["0"], &[]);
        check(&access("/"), &["0"], &[]);
        check(&access("6/7"), &["134"], &[]);
        check(&access("."), &["134"], &[]);
        check(&access("6/../7"), &["134"], &[]);
        check(&access("../6"), &["134", "13"], &[]);
        check(&access("6/../../6/7"), &["134", "13"], &[]);
        check(&held("6"), &["13"], &[]);
        check(&held(""), &["13"], &[]);
        check(&access("high"), &["134", "0"], &[]);
        check(&access("/1/2"), &["0"], &["0"]);
        check(&access("/1/2/3/../4"), &["0"], &["0"]);
        check(&access("/1/2/../3"), &["0", "1"], &["0"]);
        // Out of what is in memory, where a walk holds nothing.
        task.mount(MemFs::new(), "/1/5", MountFlags::empty()).unwrap();
        for (to, at) in [("/", "root"), ("/1/3", "abs"), ("/1/2", "mount")] {
            task.symlink(to, format!("/1/5/{at}")).unwrap();
        }
        task.chdir("/1/5").unwrap();
        check(&access("root"), &["0"], &[]);
        check(&access("root/."), &["0"], &[]);
        check(&access("root/1"), &["0"], &[]);
        check(&access("abs"), &["0"], &[]);
        check(&access("mount"), &["0"], &["0"]);
        check(&access("../3"), &["1"], &[]);
        check(&access("abs/../../1/5/root"), &["0", "0"], &[]);
        check(&|| task.fchdir(&dir), &["13"], &[]);
        check(&|| task.mkdirat(&dir, "6", 0o755).or_else(only(Errno::EEXIST)), &["13"], &[]);
    }
}

/// That errno is as good as an answer.
fn only(errno: Errno) -> impl Fn(Errno) -> Result<()> {
    move |other| if other == errno { Ok(()) } else { Err(other) }
}

#[test]
fn a_path_begins_at_the_last_mount() {
    let (_, task) = asked_about_paths();
    let upper = Arc::new(Digits { paths: Some(Mutex::default()), ..Digits::default() });
    task.mount(MemFs::new(), "/1/2", MountFlags::empty()).unwrap();
    task.mkdir("/1/2/m", 0o755).unwrap();
    task.mount(Arc::clone(&upper) as _, "/1/2/m", MountFlags::empty()).unwrap();
    let stat = |path: &'static str| {
        let task = &task;
        move || assert!(task.stat(path).is_ok(), "{path}")
    };
    // Names of two mounts would be two questions: such a path is walked.
    assert_eq!(upper.paths_of(stat("/1/2/m/3/4")), Vec::<String>::new());
    let inside = task.fork();
    inside.chroot("/1/2").unwrap();
    inside.chdir("/").unwrap();
    let stat = |path: &'static str| {
        let inside = &inside;
        move || assert!(inside.stat(path).is_ok(), "{path}")
    };
    assert_eq!(upper.paths_of(stat("/m/3/4")), ["3/4 from 0 to 34"]);
    assert_eq!(upper.paths_of(stat("/m/../m/3/4")), ["3/4 from 0 to 34"]);
    assert_eq!(upper.paths_of(stat("/m/3/../../m/4")), Vec::<String>::new());
    // Neither is it asked where a symlink leads out.
    inside.mkdir("/1", 0o755).unwrap();
    inside.mkdir("/1/low", 0o755).unwrap();
    assert_eq!(upper.paths_of(stat("/m/high")), Vec::<String>::new());
    // A root that is not its mount's is none to ask from.
    inside.chroot("/m/3").unwrap();
    assert_eq!(upper.paths_of(stat("/4/6")), Vec::<String>::new());
}

/// Whoever knows each name.
#[test]
fn a_path_that_enters_a_mount_is_remembered() {
    for each_name in [true, false] {
        let upper =
            Arc::new(Digits { paths: Some(Mutex::default()), each_name, ..Digits::default() });
        let task = Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root());
        task.mkdir("/m", 0o755).unwrap();
        task.mount(Arc::clone(&upper) as _, "/m", MountFlags::empty()).unwrap();
        let paths = upper.paths_of(|| assert!(task.stat("/m/3/4").is_ok()));
        assert_eq!(paths, ["3/4 from 0 to 34"], "{each_name}");
        let at_root = upper.paths_of(|| assert!(task.access("/m", AccessMode::R_OK).is_ok()));
        assert_eq!(at_root, if each_name { vec![" from 0 to 0"] } else { vec![] });
    }
}

#[test]
fn what_is_not_known_of_a_path_is_walked() {
    let (fs, task) = asked_about_paths();
    let stat = || assert!(task.stat("/1/3/4").is_ok());
    assert_eq!(fs.paths_of(stat).len(), 1);
    fs.knows_no_path.store(true, Relaxed);
    stat();
    assert_eq!(fs.asked(), (vec!["1/3/4".into()], vec![]), "name by name");
    let paths = || fs.paths.as_ref().unwrap().lock().unwrap().len();
    let before = paths();
    for _ in 0..100 {
        stat();
    }
    assert!(paths() - before < 20, "it is asked in vain less and less often");
    fs.knows_no_path.store(false, Relaxed);
    fs.asked();
    let mut last = paths();
    let asked_again = (0..2000).any(|_| {
        stat();
        std::mem::replace(&mut last, paths()) != last && fs.paths_of(stat).len() == 1
    });
    assert!(asked_again, "it is tried again");
}

#[test]
fn who_may_not_search_asks_about_no_path() {
    let (fs, root) = asked_about_paths();
    let user = root.vfs().task(Cred::user(1, 1));
    let may = || assert!(root.stat("/1/2/3").is_ok());
    let must_not = || assert_eq!(user.stat("/1/2/3").map(drop), Err(Errno::EACCES));
    assert_eq!(fs.paths_of(may).len(), 1);
    assert_eq!(fs.paths_of(must_not), Vec::<String>::new());
}
