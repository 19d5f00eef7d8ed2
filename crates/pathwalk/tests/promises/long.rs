//! Long ways are remembered, too: through more dentries, mounts, symlinks and private directories than a memo has room for.

use super::remembered::ticking;
use pathwalk::{
    AccessMode, Config, Cred, Errno, MemFs, MountFlags, Result, Task, UmountFlags, Vfs,
};

const DEPTH: usize = 40;
const USER: u32 = 1000;

/// What stands at a place of the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Private,
    Mount,
    Link,
}

fn kind(at: usize) -> Kind {
    [Kind::Plain, Kind::Private, Kind::Mount, Kind::Link][at % 4]
}

/// The way: its places by their own names, and the path that is asked for, in which some are symlinks.
struct Way {
    root: Task,
    user: Task,
    places: Vec<String>,
    path: String,
}

impl Way {
    fn new() -> Self {
        let config = Config { clock: Some(ticking), ..Config::default() };
        let root = Vfs::new(config, MemFs::new()).unwrap().task(Cred::root());
        root.mkdir("/other", 0o755).unwrap();
        let (mut place, mut path) = (String::new(), String::new());
        let mut places = Vec::new();
        for at in 0..DEPTH {
            let parent = place.clone();
            place += &format!("/directory-{at}");
            root.mkdir(&place, 0o755).unwrap();
            match kind(at) {
                Kind::Plain => {}
                Kind::Private => {
                    root.chown(&place, Some(USER), Some(USER)).unwrap();
                    root.chmod(&place, 0o700).unwrap();
                }
                Kind::Mount => root.mount(MemFs::new(), &place, MountFlags::empty()).unwrap(),
                Kind::Link => {
                    root.symlink(format!("directory-{at}"), format!("{parent}/link-{at}")).unwrap();
                }
            }
            path += &format!("/{}-{at}", if kind(at) == Kind::Link { "link" } else { "directory" });
            places.push(place.clone());
        }
        root.creat(format!("{place}/file"), 0o644).unwrap();
        let user = root.vfs().task(Cred::user(USER, USER));
        Self { root, user, places, path }
    }

    fn look(&self) -> [Result<()>; 3] {
        ["", "/file", "/missing"]
            .map(|last| self.user.access(format!("{}{last}", self.path), AccessMode::empty()))
    }

    /// Looks until all is remembered, and that it is right.
    fn know(&self) {
        (0..5).for_each(|_| assert_eq!(self.look(), [Ok(()), Ok(()), Err(Errno::ENOENT)]));
    }

    /// What nobody remembers.
    fn walked(&self) -> [Result<()>; 3] {
        std::thread::scope(|scope| scope.spawn(|| self.look()).join().expect("it looks"))
    }

    /// What is done is felt by the next look, and so is what undoes it.
    fn felt(&self, what: &str, done: impl Fn() -> Result<()>, undone: impl Fn() -> Result<()>) {
        self.know();
        done().unwrap();
        assert_ne!(self.look()[1], Ok(()), "{what} makes a difference");
        (0..3).for_each(|_| assert_eq!(self.look(), self.walked(), "{what}"));
        undone().unwrap();
        self.know();
    }
}

/// Without this all others could pass because nothing is remembered.
#[cfg(debug_assertions)]
#[test]
fn a_long_way_is_remembered() {
    let way = Way::new();
    assert!(way.path.len() > 4 * 112, "no memo has room for so long a text");
    way.know();
    let made = pathwalk::road::made();
    assert!(made >= 3, "{made}");
    way.know();
    assert_eq!(pathwalk::road::made(), made, "all held");
}

#[test]
fn what_changes_anywhere_on_a_long_way_is_felt() {
    let way = Way::new();
    let root = &way.root;
    for (at, place) in way.places.iter().enumerate() {
        let (parent, _) = place.rsplit_once('/').expect("a path");
        let (away, link) = (format!("{parent}/away"), format!("{parent}/link-{at}"));
        let covered = || root.bind("/other", place);
        let uncovered = || root.umount2(place, UmountFlags::empty());
        way.felt(&format!("{place} is covered"), covered, uncovered);
        match kind(at) {
            // A mountpoint cannot be renamed; the next place is a symlink in it.
            Kind::Mount => {
                let remount = MountFlags::REMOUNT | MountFlags::BIND;
                let to = |flags| root.mount_tree("none", place, remount | flags);
                let closed = || to(MountFlags::NOSYMFOLLOW);
                way.felt(&format!("{place} is remounted"), closed, || to(MountFlags::empty()));
            }
            Kind::Plain => {
                let moved = || root.rename(place, &away);
                way.felt(&format!("{place} is renamed"), moved, || root.rename(&away, place));
            }
            Kind::Private => {
                let closed = || root.chmod(place, 0);
                way.felt(&format!("{place} is closed"), closed, || root.chmod(place, 0o700));
            }
            Kind::Link => {
                let gone = || root.unlink(&link);
                let back = || root.symlink(format!("directory-{at}"), &link);
                way.felt(&format!("{link} goes"), gone, back);
            }
        }
    }
    let file = format!("{}/file", way.path);
    way.felt("the end goes", || root.unlink(&file), || root.creat(&file, 0o644).map(drop));
}

/// relatime notes the use of a symlink whose time of last change has moved past the last one that was noted.
#[test]
fn the_use_of_a_link_far_away_is_noted() {
    let way = Way::new();
    for at in (0..DEPTH).filter(|&at| kind(at) == Kind::Link) {
        way.know();
        let (parent, _) = way.places[at].rsplit_once('/').expect("a path");
        let link = format!("{parent}/link-{at}");
        let atime = || way.root.lstat(&link).unwrap().st_atime;
        let before = atime();
        way.know();
        assert_eq!(atime(), before, "nothing is due");
        way.root.link(&link, format!("{link}-too")).unwrap();
        way.know();
        assert!(atime() > before, "{link} has changed");
    }
}

/// Somebody else is not let through by what another asker of the same thread found.
#[test]
fn a_long_way_is_remembered_for_who_may_go_it() {
    let way = Way::new();
    way.know();
    let stranger = way.root.vfs().task(Cred::user(USER + 1, USER + 1));
    for _ in 0..5 {
        assert_eq!(stranger.access(&way.path, AccessMode::empty()), Err(Errno::EACCES));
        way.know();
    }
}

/// Long texts that differ in one byte, wherever it stands.
#[test]
fn long_texts_are_told_apart() {
    let way = Way::new();
    way.know();
    for at in (0..way.path.len()).filter(|&at| way.path.as_bytes()[at] != b'/') {
        let mut other = way.path.clone().into_bytes();
        other[at] = b'~';
        assert_eq!(way.user.access(&other, AccessMode::empty()), Err(Errno::ENOENT), "byte {at}");
    }
    way.know();
}
