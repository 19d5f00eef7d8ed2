//! One tree in both, asked everything.

use super::{
    hands::{As, Ask, FIRST_GROUP, Hands, Kernel, Ours, shown},
    trees::{BODIES, Kind, Node},
};
use crate::{
    kernel::sys::{Arg, syscall},
    ours::Settings,
};
use pathwalk::{AtFlags, Errno, MemFs, OpenFlags, Result, Vfs};
use std::{
    ffi::{CStr, CString},
    fmt::Write,
};

/// The two, each with a root that holds nothing but the tree.
pub(crate) struct World {
    kernel: Kernel,
    ours: Ours,
    tree: Vec<Placed>,
    calls: u64,
    found: Vec<String>,
}

/// A node, and the texts that calls want.
struct Placed {
    node: Node,
    path: CString,
    group: u32,
}

/// A name that no tree has: what is moved goes there.
const ASIDE: &CStr = c"/z";
/// What is moved to other places, if it is there.
const FIRST: &CStr = c"/a";

const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

impl World {
    /// The kernel's root is the calling thread's.
    pub(crate) fn new(settings: Settings) -> Self {
        let vfs = Vfs::new(settings.config(), MemFs::new()).expect("a machine fits");
        let (kernel, ours) = (Kernel, Ours::new(&vfs));
        let mut world = Self { kernel, ours, tree: vec![], calls: 0, found: vec![] };
        syscall(libc::SYS_umask, [Arg::Int(0)]).expect("umask cannot fail");
        syscall(libc::SYS_setgroups, [Arg::Int(0), Arg::Ids(&[])]).expect("root leaves its groups");
        world.must(Ask::Chmod(c"/", 0o755));
        world.must(Ask::Chown(c"/", FIRST_GROUP));
        world
    }

    /// Asks everything about a tree: how many calls were compared, and where the two differ.
    pub(crate) fn ask(&mut self, tree: &[Node], paths: &[CString]) -> (u64, Vec<String>) {
        self.clear(true);
        let place = |(index, node): (usize, &Node)| Placed {
            node: node.clone(),
            path: CString::new(node.path.as_str()).expect("paths have no NUL"),
            group: FIRST_GROUP + 1 + index as u32,
        };
        self.tree = tree.iter().enumerate().map(place).collect();
        self.calls = 0;
        self.build();
        for who in [As::Owner, As::Stranger] {
            self.become_user(who);
            for path in paths {
                for flags in [AtFlags::empty(), NOFOLLOW] {
                    let _ = self.compare(who, Ask::Stat(path, flags));
                    let _ = self.compare(who, Ask::Access(path, flags));
                }
            }
            for path in paths {
                self.change(who, Ask::Open(path, OpenFlags::empty()));
                self.change(who, Ask::Open(path, OpenFlags::NOFOLLOW));
                self.change(who, Ask::Mkdir(path));
                self.change(who, Ask::Unlink(path, AtFlags::empty()));
                self.change(who, Ask::Rename(path, ASIDE));
                self.change(who, Ask::Rename(FIRST, path));
            }
        }
        self.become_user(As::Root);
        (self.calls, std::mem::take(&mut self.found))
    }

    fn become_user(&mut self, who: As) {
        self.kernel.become_user(who);
        self.ours.become_user(who);
    }

    /// Asks both, and notes where they differ; what the kernel answered, or pathwalk where the kernel failed.
    fn compare(&mut self, who: As, ask: Ask<'_>) -> Result<u64> {
        let kernel = self.kernel.call(ask);
        let ours = self.ours.call(ask);
        self.calls += 1;
        if kernel != ours && self.found.len() < 3 {
            let scenario = self.scenario(who, ask, kernel, ours);
            self.found.push(scenario);
        }
        // What went wrong in one only has to be taken back too.
        kernel.or(ours)
    }

    /// Asks both for something that changes the tree, and takes it back.
    fn change(&mut self, who: As, ask: Ask<'_>) {
        // Whether an open makes something shows in what it opened.
        let new = |opened: u64| (opened >> 48) as u32 == who.id();
        match self.compare(who, ask) {
            Err(_) => return,
            Ok(opened) if matches!(ask, Ask::Open(..)) && !new(opened) => return,
            Ok(_) => {}
        }
        self.become_user(As::Root);
        self.look(who, ask);
        let back = match ask {
            // Through a symlink something was made elsewhere.
            Ask::Open(path, OpenFlags::NOFOLLOW) => Some(Ask::Unlink(path, AtFlags::empty())),
            Ask::Mkdir(path) => Some(Ask::Unlink(path, AtFlags::REMOVEDIR)),
            Ask::Rename(path, new) if new == ASIDE => Some(Ask::Rename(ASIDE, path)),
            _ => None,
        };
        if back.is_none_or(|back| self.compare(As::Root, back).is_err()) {
            self.clear(false);
            self.build();
        }
        self.become_user(who);
    }

    /// Compares the whole trees.
    fn look(&mut self, who: As, ask: Ask<'_>) {
        let kernel = snapshot(&mut self.kernel);
        let ours = snapshot(&mut self.ours);
        self.calls += 1;
        if kernel != ours && self.found.len() < 3 {
            let mut scenario = self.scenario(who, ask, Ok(0), Ok(0));
            let _ = writeln!(scenario, "# and then:\n# kernel:   {kernel:?}\n# pathwalk: {ours:?}");
            self.found.push(scenario);
        }
    }

    /// Has both do what must be done.
    fn must(&mut self, ask: Ask<'_>) {
        let done = (self.kernel.call(ask), self.ours.call(ask));
        assert_eq!(done, (Ok(0), Ok(0)), "{ask:?}");
    }

    /// Builds the tree; its mounts, and the directories that lead to them, may still be there.
    fn build(&mut self) {
        for index in 0..self.tree.len() {
            let Placed { node, path, group } = &self.tree[index];
            let (kind, path, group) = (node.kind, path.clone(), *group);
            match kind {
                Kind::Dir | Kind::Mount => {
                    let made =
                        [self.kernel.call(Ask::Mkdir(&path)), self.ours.call(Ask::Mkdir(&path))];
                    if made == [Err(Errno::EEXIST); 2] {
                        continue;
                    }
                    assert_eq!(made, [Ok(0); 2], "{path:?}");
                    if kind == Kind::Mount {
                        self.must(Ask::Mount(&path));
                    }
                }
                Kind::File => {
                    // O_EXCL: whatever was there is gone.
                    let open = Ask::Open(&path, OpenFlags::EXCL);
                    assert_eq!(self.kernel.call(open), self.ours.call(open), "{path:?}");
                }
                Kind::Link(body) => {
                    let body = CString::new(BODIES[body]).expect("bodies have no NUL");
                    self.must(Ask::Symlink(&body, &path));
                }
            }
            self.must(Ask::Chown(&path, group));
        }
    }

    /// Removes what there is; mounts that are where they belong only if all is to go.
    fn clear(&mut self, all: bool) {
        let stay: Vec<&CStr> = self
            .tree
            .iter()
            .filter(|placed| !all && placed.node.kind == Kind::Mount)
            .map(|placed| &*placed.path)
            .collect();
        clear_below(&mut self.kernel, c"", &stay);
        clear_below(&mut self.ours, c"", &stay);
    }

    /// The calls that show it.
    fn scenario(&self, who: As, ask: Ask<'_>, kernel: Result<u64>, ours: Result<u64>) -> String {
        let mut text =
            String::from("== a small world\numask 0\nfchmodat2 / 0755 0\nfchownat / 1000 100 0\n");
        for Placed { node, group, .. } in &self.tree {
            let path = &node.path;
            let _ = match node.kind {
                Kind::Dir => writeln!(text, "mkdirat {path} 0755"),
                Kind::Mount => {
                    writeln!(text, "mkdirat {path} 0755\nmount {path} 0\nfchmodat2 {path} 0755 0")
                }
                Kind::File => writeln!(text, "mknodat {path} 0100644 0"),
                Kind::Link(body) => writeln!(text, "symlinkat {} {path}", BODIES[body]),
            };
            let _ = writeln!(text, "fchownat {path} 1000 {group} SYMLINK_NOFOLLOW");
        }
        let path = |path: &CStr| match path.to_str() {
            Ok("") | Err(_) => "''".to_owned(),
            Ok(path) => path.to_owned(),
        };
        let flags = |follow: bool| if follow { "0" } else { "SYMLINK_NOFOLLOW" };
        let call = match ask {
            Ask::Stat(at, at_flags) => {
                format!("fstatat {} {}", path(at), flags(at_flags.is_empty()))
            }
            Ask::Access(at, at_flags) => {
                let more = if at_flags.is_empty() { "" } else { "|SYMLINK_NOFOLLOW" };
                format!("faccessat2 {} R_OK|W_OK EACCESS{more}", path(at))
            }
            Ask::Open(at, flags) => {
                let more = if flags.is_empty() { "" } else { "|NOFOLLOW" };
                format!("openat h0 {} RDWR|CREAT{more} 0644", path(at))
            }
            Ask::Mkdir(at) => format!("mkdirat {} 0755", path(at)),
            Ask::Unlink(at, at_flags) => {
                let how = if at_flags.is_empty() { "0" } else { "REMOVEDIR" };
                format!("unlinkat {} {how}", path(at))
            }
            Ask::Rename(old, new) => format!("renameat2 {} {} 0", path(old), path(new)),
            other => format!("# {other:?}"),
        };
        let _ = writeln!(text, "{}: {call}", who.name());
        let _ = writeln!(text, "# kernel:   {}\n# pathwalk: {}", shown(kernel), shown(ours));
        text
    }
}

/// The names that anything can have.
const NAMES: [&str; 3] = ["a", "b", "z"];

fn each_child(dir: &CStr) -> [CString; 3] {
    let dir = dir.to_str().expect("paths are text");
    NAMES.map(|name| CString::new(format!("{dir}/{name}")).expect("paths have no NUL"))
}

/// What is where.
fn snapshot(hands: &mut impl Hands) -> Vec<(CString, u64)> {
    let mut seen = Vec::new();
    let mut todo = vec![CString::default()];
    while let Some(dir) = todo.pop() {
        for path in each_child(&dir) {
            if let Ok(what) = hands.call(Ask::Stat(&path, NOFOLLOW)) {
                if what >> 20 & 0o170_000 == 0o040_000 {
                    todo.push(path.clone());
                }
                seen.push((path, what));
            }
        }
    }
    seen
}

fn clear_below(hands: &mut impl Hands, dir: &CStr, stay: &[&CStr]) {
    for path in each_child(dir) {
        match hands.call(Ask::Unlink(&path, AtFlags::empty())) {
            Err(Errno::EISDIR) => {}
            _ => continue,
        }
        clear_below(hands, &path, stay);
        if hands.call(Ask::Unlink(&path, AtFlags::REMOVEDIR)) == Err(Errno::EBUSY)
            && !stay.contains(&&*path)
        {
            hands.call(Ask::Umount(&path)).expect("a mountpoint has a mount");
            clear_below(hands, &path, stay);
            hands.call(Ask::Unlink(&path, AtFlags::REMOVEDIR)).expect("nothing is left in it");
        }
    }
}
