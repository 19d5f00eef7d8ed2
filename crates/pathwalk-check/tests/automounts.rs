//! What a walk has mounted: flags, peers, who is in whose way. Against the tracefs that the kernel's debugfs mounts on `tracing`.
//!
//! A line of the table is a call and what Linux said. `+` before an `open` keeps the file, to be named by its number from then on.

#[path = "../../left_out.rs"]
mod left_out;

use left_out::left_out;
use pathwalk::{
    At, AtFlags, Attr, Config, Cred, Errno, File, FileType, InodeRef, MemFs, MountFlags,
    MoveMountFlags, OpenFlags, OpenHow, OpenTreeFlags, ResolveFlags, Result, Subject, Task,
    Timespec, UmountFlags, Vfs,
    fs::{Automount, Emit, Features, FileSystem, Found, FsStat, Managed},
    mountinfo,
};
use std::{
    ffi::{CString, c_long},
    fs::read_to_string,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
    sync::Arc,
    thread,
};

const TABLE: &str = "
== flags
debugfs a ro,nosuid,nodev,noexec,noatime,nosymfollow -> ok
open a/tracing/README -> ok
mounts -> a(ro,nosuid,nodev,noexec,noatime,nosymfollow) a/tracing(ro,nosuid,nodev,noexec,noatime,nosymfollow)
umount a -> ok
mounts -> nothing

== who has it mounted
debugfs a -> ok
path a/tracing -> ok
mounts -> a
exec a/tracing -> EACCES
mounts -> a a/tracing
umount a/tracing -> ok
open a/tracing -> ok
mounts -> a a/tracing

== in use
debugfs a -> ok
+open a/tracing/README -> ok
umount a -> EBUSY
mounts -> a a/tracing
close -> ok
tmpfs a/tracing/instances -> ok
umount a -> EBUSY
mounts -> a a/tracing a/tracing/instances
umount a/tracing/instances -> ok
tmpfs a/block -> ok
umount a -> EBUSY
mounts -> a a/block
umount a/block -> ok
umount a -> ok

== expiry
debugfs a -> ok
open a/tracing -> ok
expire a -> EBUSY
expire a -> EBUSY
expire a/tracing -> EAGAIN
expire a/tracing -> ok
expire a -> EAGAIN
expire a -> ok
mounts -> nothing

== copies, and what moved
debugfs a -> ok
open a/tracing -> ok
tmpfs b -> ok
tmpfs c -> ok
mkdir b/x -> ok
mkdir c/x -> ok
bind a/tracing b/x -> ok
move a/tracing c/x -> ok
mounts -> a b b/x c c/x
flags b/x nodev -> ok
umount b -> ok
umount c -> ok
tmpfs b -> ok
mkdir b/x -> ok
bind a/block b/x -> ok
umount b -> EBUSY
mounts -> a b b/x

== peers
debugfs a -> ok
shared a -> ok
bind a b -> ok
bind a c -> ok
slave c -> ok
flags b nosuid -> ok
open b/tracing -> ok
mounts -> a a/tracing(nosuid) b(nosuid) b/tracing(nosuid) c c/tracing(nosuid)
+open a/tracing/README -> ok
umount b -> EBUSY
close -> ok
umount b -> ok
mounts -> a c
open c/tracing -> ok
mounts -> a c c/tracing
open a/tracing -> ok
mounts -> a a/tracing c c/tracing c/tracing
umount a -> ok
mounts -> c c/tracing

== taken down, and hanging nowhere
debugfs a -> ok
+path a -> ok
detach a -> ok
open 0 tracing -> EINVAL
open 0 tracing/README -> EINVAL
path 0 tracing -> ok
close -> ok
debugfs a -> ok
+tree a -> ok
open 0 tracing/README -> ok
mounts -> a
hang 0 b -> ok
mounts -> a b b/tracing
close -> ok
umount b -> ok

== bounds
debugfs a -> ok
+path a -> ok
within NO_XDEV 0 tracing/README -> EXDEV
within NO_XDEV 0 tracing -> EXDEV
within CACHED 0 tracing -> EAGAIN
mounts -> a
within BENEATH 0 tracing -> ok
within BENEATH 0 tracing/.. -> ok
umount a/tracing -> ok
within BENEATH 0 tracing/README -> ok
umount a/tracing -> ok
within BENEATH 0 tracing/.. -> EAGAIN
within BENEATH 0 tracing/.. -> ok
umount a/tracing -> ok
within IN_ROOT 0 tracing/../block -> EAGAIN
within IN_ROOT 0 tracing/../block -> ok
umount a/tracing -> ok
within IN_ROOT 0 /tracing/instances/../README -> EAGAIN
mounts -> a a/tracing
";

/// Somebody who makes the calls, in a directory with empty directories a, b and c, and who holds files.
trait Caller {
    fn mkdir(&mut self, path: &str) -> Result<()>;
    fn mount(&mut self, kind: &str, source: &str, path: &str, flags: MountFlags) -> Result<()>;
    fn umount(&mut self, path: &str, flags: UmountFlags) -> Result<()>;
    /// Opens a path, perhaps below a file, and keeps it if that is said.
    fn open(&mut self, dir: Option<usize>, path: &str, how: OpenHow, keep: bool) -> Result<()>;
    fn tree(&mut self, path: &str) -> Result<()>;
    fn hang(&mut self, tree: usize, path: &str) -> Result<()>;
    fn exec(&mut self, path: &str) -> Result<()>;
    fn close(&mut self);
    fn mountinfo(&self) -> String;
    /// What stands before each path there.
    fn base(&self) -> &str;

    /// The mounts and their flags, but for those that most have.
    fn mounts(&self) -> String {
        let mut mounts = Vec::new();
        for line in self.mountinfo().lines() {
            let mut fields = line.split(' ').skip(4);
            let (path, flags) = (fields.next().unwrap(), fields.next().unwrap());
            let below = path.strip_prefix(self.base()).and_then(|path| path.strip_prefix('/'));
            let Some(path) = below.filter(|path| !path.is_empty()) else { continue };
            let flags: Vec<_> =
                flags.split(',').filter(|flag| !matches!(*flag, "rw" | "relatime")).collect();
            mounts.push(match flags.join(",").as_str() {
                "" => path.to_owned(),
                flags => format!("{path}({flags})"),
            });
        }
        mounts.sort();
        if mounts.is_empty() { "nothing".into() } else { mounts.join(" ") }
    }

    /// Makes the call of a line.
    fn call(&mut self, line: &str) -> String {
        let (line, keep) = line.strip_prefix('+').map_or((line, false), |line| (line, true));
        let words: Vec<&str> = line.split(' ').collect();
        let none = MountFlags::empty();
        let how = |flags: OpenFlags| OpenHow { flags: flags.bits(), mode: 0, resolve: 0 };
        let done = match words[..] {
            ["mounts"] => return self.mounts(),
            ["mkdir", path] => self.mkdir(path),
            [kind @ ("debugfs" | "tmpfs"), path] => self.mount(kind, "none", path, none),
            ["debugfs", path, set] => self.mount("debugfs", "none", path, flags(set)),
            ["flags", path, set] => {
                let set = flags(set) | MountFlags::REMOUNT | MountFlags::BIND;
                self.mount("", "none", path, set)
            }
            ["bind", from, to] => self.mount("", from, to, MountFlags::BIND),
            ["move", from, to] => self.mount("", from, to, MountFlags::MOVE),
            ["shared", path] => self.mount("", "none", path, MountFlags::SHARED),
            ["slave", path] => self.mount("", "none", path, MountFlags::SLAVE),
            ["umount", path] => self.umount(path, UmountFlags::empty()),
            ["detach", path] => self.umount(path, UmountFlags::DETACH),
            ["expire", path] => self.umount(path, UmountFlags::EXPIRE),
            ["open", path] => self.open(None, path, how(OpenFlags::empty()), keep),
            ["path", path] => self.open(None, path, how(OpenFlags::PATH), keep),
            ["open", dir, path] => self.open(number(dir), path, how(OpenFlags::empty()), keep),
            ["path", dir, path] => self.open(number(dir), path, how(OpenFlags::PATH), keep),
            ["within", bounds, dir, path] => {
                let bounds = ResolveFlags::from_name(bounds).expect("bounds");
                let how = OpenHow { resolve: bounds.bits(), ..how(OpenFlags::empty()) };
                self.open(number(dir), path, how, keep)
            }
            ["tree", path] => self.tree(path),
            ["hang", tree, path] => self.hang(number(tree).expect("a number"), path),
            ["exec", path] => self.exec(path),
            ["close"] => {
                self.close();
                Ok(())
            }
            _ => panic!("no call: {line}"),
        };
        done.map_or_else(|errno| format!("{errno:?}"), |()| "ok".into())
    }

    /// Holds the scenario of a title against the table.
    fn holds(&mut self, who: &str, scenario: &str) {
        let mut lines = scenario.trim().lines();
        let title = lines.next().expect("a title");
        for (number, line) in lines.enumerate() {
            let (call, said) = line.split_once(" -> ").unwrap_or_else(|| panic!("a row: {line}"));
            assert_eq!(self.call(call), said, "{who}: {title}, row {}: {call}", number + 1);
        }
    }
}

fn number(word: &str) -> Option<usize> {
    Some(word.parse().expect("the number of a file"))
}

fn flags(text: &str) -> MountFlags {
    text.split(',').fold(MountFlags::empty(), |flags, name| {
        let known = match name {
            "ro" => MountFlags::RDONLY,
            name => MountFlags::from_name(&name.to_uppercase()).expect("a flag"),
        };
        flags | known
    })
}

fn scenarios() -> impl Iterator<Item = &'static str> {
    TABLE.split("== ").skip(1)
}

/// pathwalk, and the files that it holds.
struct Ours(Task, Vec<File>);

/// A directory of files and directories; what is mounted on one of them, if it is managed.
struct Small {
    kind: &'static str,
    names: &'static [(&'static str, FileType)],
    mounts: Option<&'static str>,
}

const DEBUG: Small = Small {
    kind: "debugfs",
    names: &[("tracing", FileType::Directory), ("block", FileType::Directory)],
    mounts: Some("tracing"),
};
const TRACE: Small = Small {
    kind: "tracefs",
    names: &[("README", FileType::Regular), ("instances", FileType::Directory)],
    mounts: None,
};

fn found(node: u64, file_type: FileType) -> Found {
    let attr = Attr { mode: file_type.to_mode() | 0o755, nlink: 1, ino: node, ..Attr::default() };
    Found { node, attr, body: None }
}

impl FileSystem for Small {
    fn kind(&self) -> &str {
        self.kind
    }

    fn features(&self) -> Features {
        Features::MANAGED
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory))
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let mut known = (2..).zip(self.names).filter(|_| dir.node() == 1);
        let known = known.find(|(_, (known, _))| known.as_bytes() == name);
        Ok(known.map(|(node, (_, file_type))| found(node, *file_type)))
    }

    fn managed(&self, found: &Found) -> Managed {
        let name = self.names.get((found.node as usize).wrapping_sub(2)).map(|(name, _)| *name);
        if name.is_some() && name == self.mounts { Managed::AUTOMOUNT } else { Managed::empty() }
    }

    fn automount(&self, _: InodeRef<'_>, _: &Subject<'_>) -> Result<Option<Automount>> {
        Ok(Some(Automount { fs: Arc::new(TRACE), flags: MountFlags::empty() }))
    }

    fn read(&self, _: InodeRef<'_>, _: u64, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    fn readdir(&self, _: InodeRef<'_>, _: u64, _: &mut Emit<'_>) -> Result<()> {
        Ok(())
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat::default())
    }
}

impl Caller for Ours {
    fn mkdir(&mut self, path: &str) -> Result<()> {
        self.0.mkdir(path, 0o755)
    }

    fn mount(&mut self, kind: &str, source: &str, path: &str, flags: MountFlags) -> Result<()> {
        match kind {
            "debugfs" => self.0.mount(Arc::new(DEBUG), path, flags),
            "tmpfs" => self.0.mount(MemFs::new(), path, flags),
            _ => self.0.mount_tree(source, path, flags),
        }
    }

    fn umount(&mut self, path: &str, flags: UmountFlags) -> Result<()> {
        self.0.umount2(path, flags)
    }

    fn open(&mut self, dir: Option<usize>, path: &str, how: OpenHow, keep: bool) -> Result<()> {
        let dir = dir.map_or(At::Cwd, |dir| At::from(&self.1[dir]));
        let file = self.0.openat2(dir, path, &how)?;
        self.1.extend(keep.then_some(file));
        Ok(())
    }

    fn tree(&mut self, path: &str) -> Result<()> {
        let tree = self.0.open_tree(At::Cwd, path, OpenTreeFlags::CLONE)?;
        self.1.push(tree);
        Ok(())
    }

    fn hang(&mut self, tree: usize, path: &str) -> Result<()> {
        self.0.move_mount(&self.1[tree], "", At::Cwd, path, MoveMountFlags::F_EMPTY_PATH)
    }

    fn exec(&mut self, path: &str) -> Result<()> {
        self.0.open_exec(At::Cwd, path, AtFlags::empty()).map(drop)
    }

    fn close(&mut self) {
        self.1.clear();
    }

    fn mountinfo(&self) -> String {
        String::from_utf8(mountinfo(&self.0)).expect("plain names")
    }

    fn base(&self) -> &str {
        ""
    }
}

/// The kernel, in a directory that is the current one, and the descriptors that it holds.
struct Kernel(String, Vec<OwnedFd>);

const CWD: c_long = libc::AT_FDCWD as c_long;

#[expect(unsafe_code, reason = "nobody else makes these calls")]
fn syscall(number: c_long, [a, b, c, d, e]: [c_long; 5]) -> Result<c_long> {
    // SAFETY: every pointer is that of a borrow which outlives the call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    if result < 0 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        return Err(errno.and_then(Errno::from_raw).expect("it failed"));
    }
    Ok(result)
}

#[expect(unsafe_code, reason = "a number becomes a descriptor")]
fn descriptor(fd: c_long) -> OwnedFd {
    // SAFETY: the call that made it has just given it to us alone.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no NUL")
}

fn at(text: &CString) -> c_long {
    text.as_ptr().expose_provenance() as c_long
}

impl Kernel {
    /// A namespace of the calling thread's own with an empty tmpfs as current directory, if its debugfs mounts something.
    fn new(base: &Path) -> Option<Self> {
        let new = libc::CLONE_NEWNS | libc::CLONE_FS;
        syscall(libc::SYS_unshare, [new.into(), 0, 0, 0, 0]).ok()?;
        let base = base.to_str().expect("a plain path").to_owned();
        let mut kernel = Self(base.clone(), Vec::new());
        kernel.mount("", "none", "/", MountFlags::REC | MountFlags::PRIVATE).ok()?;
        kernel.mount("tmpfs", "none", &base, MountFlags::empty()).ok()?;
        syscall(libc::SYS_chdir, [at(&text(&base)), 0, 0, 0, 0]).ok()?;
        kernel.mkdir("probe").ok()?;
        kernel.mount("debugfs", "none", "probe", MountFlags::empty()).ok()?;
        let how = OpenHow { flags: 0, mode: 0, resolve: 0 };
        for path in ["probe/tracing/README", "probe/block"] {
            kernel.open(None, path, how, false).ok()?;
        }
        let mounts = kernel.mounts();
        kernel.umount("probe", UmountFlags::DETACH).ok()?;
        (mounts == "probe probe/tracing").then_some(kernel)
    }
}

impl Caller for Kernel {
    fn mkdir(&mut self, path: &str) -> Result<()> {
        syscall(libc::SYS_mkdirat, [CWD, at(&text(path)), 0o755, 0, 0]).map(drop)
    }

    fn mount(&mut self, kind: &str, source: &str, path: &str, flags: MountFlags) -> Result<()> {
        let (kind, source, path) = (text(kind), text(source), text(path));
        let flags = flags.bits() as c_long;
        syscall(libc::SYS_mount, [at(&source), at(&path), at(&kind), flags, 0]).map(drop)
    }

    fn umount(&mut self, path: &str, flags: UmountFlags) -> Result<()> {
        let flags = c_long::from(flags.bits());
        syscall(libc::SYS_umount2, [at(&text(path)), flags, 0, 0, 0]).map(drop)
    }

    fn open(&mut self, dir: Option<usize>, path: &str, how: OpenHow, keep: bool) -> Result<()> {
        let dir = dir.map_or(CWD, |dir| self.1[dir].as_raw_fd().into());
        let how = [how.flags, how.mode, how.resolve];
        let pointer = how.as_ptr().expose_provenance() as c_long;
        let size = size_of_val(&how) as c_long;
        let fd = syscall(libc::SYS_openat2, [dir, at(&text(path)), pointer, size, 0])?;
        self.1.extend(Some(descriptor(fd)).filter(|_| keep));
        Ok(())
    }

    fn tree(&mut self, path: &str) -> Result<()> {
        let clone = c_long::from(OpenTreeFlags::CLONE.bits());
        let fd = syscall(libc::SYS_open_tree, [CWD, at(&text(path)), clone, 0, 0])?;
        self.1.push(descriptor(fd));
        Ok(())
    }

    fn hang(&mut self, tree: usize, path: &str) -> Result<()> {
        let (tree, path) = (self.1[tree].as_raw_fd().into(), text(path));
        let flags = MoveMountFlags::F_EMPTY_PATH.bits().into();
        syscall(libc::SYS_move_mount, [tree, at(&text("")), CWD, at(&path), flags]).map(drop)
    }

    fn exec(&mut self, path: &str) -> Result<()> {
        const AT_EXECVE_CHECK: c_long = 0x1_0000;
        let path = text(path);
        let arguments = [at(&path), 0];
        let pointer = arguments.as_ptr().expose_provenance() as c_long;
        let none = [0 as c_long];
        let environment = none.as_ptr().expose_provenance() as c_long;
        let args = [CWD, at(&path), pointer, environment, AT_EXECVE_CHECK];
        syscall(libc::SYS_execveat, args).map(drop)
    }

    fn close(&mut self) {
        self.1.clear();
    }

    fn mountinfo(&self) -> String {
        read_to_string("/proc/thread-self/mountinfo").expect("a procfs")
    }

    fn base(&self) -> &str {
        &self.0
    }
}

#[test]
fn pathwalk_answers_as_the_table_says() {
    for scenario in scenarios() {
        let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
        let mut ours = Ours(vfs.task(Cred::root()), Vec::new());
        for name in ["a", "b", "c"] {
            ours.mkdir(name).unwrap();
        }
        ours.holds("pathwalk", scenario);
    }
}

#[test]
fn the_kernel_answers_as_the_table_says() {
    let base = tempfile::tempdir().expect("a temporary directory");
    for scenario in scenarios() {
        // A thread for each: a namespace is the calling thread's.
        let base = base.path().to_owned();
        let hold = move || {
            let Some(mut kernel) = Kernel::new(&base) else { return false };
            for name in ["a", "b", "c"] {
                kernel.mkdir(name).unwrap();
            }
            kernel.holds("the kernel", scenario);
            true
        };
        if !thread::spawn(hold).join().expect("the kernel answers as the table says") {
            return left_out("nobody mounts a debugfs here, or it mounts no tracefs");
        }
    }
}
