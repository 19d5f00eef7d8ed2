//! The program's file tree: made of what is to be mounted.

use crate::{
    inside::Inside,
    procfs::{Asker, ProcView},
    room,
    spec::{Spec, What},
    sys::{answer, read_record, read_told},
};
use pathwalk::{
    At, CapSet, Coherence, Config, Cred, Dev, Errno, HostFs, HostOptions, IdMap, IdRange,
    Identities, InotifyLimits, MemFs, MountFlags, MoveMountFlags, OpenFlags, OpenTreeFlags, Result,
    Stat, Task, Timespec, UmountFlags, Vfs,
    abi::mode::{S_IFDIR, S_IFMT, S_IFREG},
    fs::FileSystem,
};
use rustix::{
    fs,
    thread::{CapabilitySet, CapabilitySets},
    time,
};
use std::{ffi::OsStr, fmt, io::Write, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// So many directories of each mount are watched.
const WATCHES: usize = 1 << 15;

/// What the program's paths lead through.
#[derive(Debug)]
pub(crate) struct Tree {
    vfs: Arc<Vfs>,
    /// The directories of the host that are mounted in it.
    hosts: Vec<Arc<HostFs>>,
}

impl Tree {
    /// This process is about to end. Nothing is taken apart, which takes long and gives back what the kernel takes back anyway.
    pub(crate) fn ends(self) {
        self.hosts.iter().for_each(|host| host.ends());
        std::mem::forget(self.vfs);
    }
}

/// What could not be mounted, and why.
#[derive(Debug)]
pub(crate) struct TreeError {
    spec: Vec<u8>,
    at: Vec<u8>,
    why: Why,
}

/// Why something could not be mounted.
#[derive(Clone, Copy, Debug)]
enum Why {
    /// There is nothing to mount on, and none can be made.
    NoPlace(Kind, Errno),
    /// What is to be mounted is of this kind, and what is there is not.
    Kinds(Kind),
    /// It is a file, and the path that of a directory, which is not there.
    Ending,
    /// The tables find no room.
    NoMemory,
    Other(Errno),
}

/// What is mounted, and what it is mounted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Directory,
    /// All else.
    File,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "directory",
            Self::File => "file",
        })
    }
}

impl From<Errno> for Why {
    fn from(errno: Errno) -> Self {
        Self::Other(errno)
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spec, at) = (self.spec.escape_ascii(), self.at.escape_ascii());
        write!(f, "{spec} cannot be mounted at {at}: ")?;
        match self.why {
            Why::NoPlace(kind, errno) => {
                write!(f, "there is no such {kind} in the tree, and none can be made: {errno}")
            }
            Why::Kinds(Kind::Directory) => {
                write!(f, "it is a directory, and what is there in the tree is a file")
            }
            Why::Kinds(Kind::File) => {
                write!(f, "it is a file, and what is there in the tree is a directory")
            }
            Why::Ending => {
                write!(f, "it is a file, and a path that ends so is a directory's")
            }
            Why::NoMemory => f.write_str(
                "`ulimit -Hv` or `ulimit -Hd` leaves no memory for what is remembered of files; 2 GiB are enough",
            ),
            Why::Other(errno) => write!(f, "{errno}"),
        }
    }
}

/// Who asks in the tree, and what the files of the host are to be where that was not said.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) cred: Cred,
    pub(crate) identities: Identities,
}

impl Owner {
    /// Who started this.
    pub(crate) fn own() -> Self {
        Self { cred: credentials(), identities: Identities::Host }
    }

    /// Somebody else in the tree. Where the host's root runs this, files of the host can have any owner. For any other user what
    /// is its own is that somebody's, so that it can make files; and all else is whose it is.
    pub(crate) fn virtual_(cred: Cred) -> Self {
        let user = rustix::process::geteuid();
        let identities = if user.is_root() {
            Identities::Host
        } else {
            let group = rustix::process::getegid().as_raw();
            Identities::Mapped(IdMap {
                users: in_place_of(cred.uid, user.as_raw()),
                groups: in_place_of(cred.gid, group),
            })
        };
        Self { cred, identities }
    }
}

/// All numbers as they are, but for one that is another one on the host. What that one is here nobody is there.
fn in_place_of(inside: u32, host: u32) -> Vec<IdRange> {
    let same = |from: u32, to: u32| IdRange { inside: from, host: from, count: to - from };
    let (low, high) = (inside.min(host), inside.max(host));
    let rest = [same(0, low), same((low + 1).min(high), high), same(high + 1, u32::MAX)];
    let own = IdRange { inside, host, count: 1 };
    std::iter::once(own).chain(rest).filter(|range| range.count > 0).collect()
}

/// Makes a tree, of which each mount holds so many descriptors. The task has the credentials that mount; the caller changes them.
///
/// # Errors
///
/// What could not be mounted.
pub(crate) fn make(
    (specs, handles): (&[Spec], usize),
    owner: &Owner,
    asker: &Asker,
    knowns: &crate::cookies::Knowns,
    mut inside: Option<&mut Inside>,
) -> Result<(Tree, Task), TreeError> {
    let config = config();
    let bare = MemFs::builder().root_mode(0o755).memfd().build();
    let vfs = Vfs::new(config, bare).map_err(|errno| TreeError {
        spec: b"the root".to_vec(),
        at: b"/".to_vec(),
        why: if errno == Errno::ENOMEM { Why::NoMemory } else { errno.into() },
    })?;
    let mut task = vfs.task(Cred::root());
    asker.set_task(task.number());
    let mut tree = Tree { vfs, hosts: Vec::new() };
    let mut left_out: Vec<&[u8]> = Vec::new();
    for spec in specs {
        let inside = inside.as_deref_mut();
        match mount(&mut task, (spec, handles), owner, (asker, knowns), inside) {
            Ok(host) => tree.hosts.extend(host),
            Err(Why::NoPlace(..)) if spec.by_default => left_out.push(&spec.at),
            Err(why) => {
                let what = match &spec.what {
                    What::Mem { .. } => b"mem",
                    What::Host { dir, .. } => &dir[..],
                    What::Proc => b"proc",
                };
                return Err(TreeError { spec: what.to_vec(), at: spec.at.clone(), why });
            }
        }
    }
    if !left_out.is_empty() {
        let all = left_out.join(&b", "[..]);
        let all = String::from_utf8_lossy(&all);
        // Standard error may be closed.
        let _ = writeln!(
            std::io::stderr(),
            "pathwalk: left out, as the root has no such directory and none can be made: {all}"
        );
    }
    Ok((tree, task))
}

/// As the host is set: of what `fs.protected_*` forbid on it. How much may be watched it says itself. The tables are as large as there is
/// room for.
fn config() -> Config {
    let set = |name: &str| {
        let text = read_record(format!("/proc/sys/fs/protected_{name}")).ok()?;
        String::from_utf8_lossy(&text).trim().parse::<u8>().ok()
    };
    let inotify = InotifyLimits {
        max_queued_events: u32::MAX,
        max_user_watches: u32::MAX,
        ..InotifyLimits::default()
    };
    let whole = Config::default();
    let share = |bytes: u64| bytes >> room::halvings();
    let mut config = Config {
        clock: Some(coarse_time),
        inotify,
        dentry_bytes: share(whole.dentry_bytes),
        negative_bytes: share(whole.negative_bytes),
        inode_bytes: share(whole.inode_bytes),
        name_bytes: share(whole.name_bytes),
        memo_bytes: share(whole.memo_bytes),
        ..whole
    };
    if let Some(symlinks) = set("symlinks") {
        config.protected_symlinks = symlinks != 0;
    }
    if let Some(hardlinks) = set("hardlinks") {
        config.protected_hardlinks = hardlinks != 0;
    }
    config.protected_regular = set("regular").unwrap_or(config.protected_regular);
    config.protected_fifos = set("fifos").unwrap_or(config.protected_fifos);
    config
}

/// Mounts this, and gives what it is where that is of the host.
fn mount(
    task: &mut Task,
    (spec, handles): (&Spec, usize),
    owner: &Owner,
    (asker, knowns): (&Asker, &crate::cookies::Knowns),
    mut inside: Option<&mut Inside>,
) -> std::result::Result<Option<Arc<HostFs>>, Why> {
    let (mut host, mut told, mut plain) = (None, None, false);
    let (fs, flags): (Arc<dyn FileSystem>, _) = match &spec.what {
        What::Mem { size, mode } => {
            let mut builder = MemFs::builder().memfd();
            if let Some(bytes) = size {
                let limits = pathwalk::Limits { bytes: Some(*bytes), inodes: None };
                builder = builder.limits(limits);
            }
            if let Some(mode) = mode {
                builder = builder.root_mode(*mode);
            }
            let Cred { uid, gid, .. } = owner.cred;
            (builder.root_owner(uid, gid).build(), MountFlags::empty())
        }
        What::Host { dir, writable, coherence, identities } => {
            let identities = identities.as_ref().unwrap_or(&owner.identities);
            let keeper = inside.as_mut().and_then(|inside| inside.keeper());
            let with = |coherence| HostOptions {
                coherence,
                identities: identities.clone(),
                read_only: !writable,
                special: true,
                watches: WATCHES,
                handles: handles.min(HostOptions::default().handles),
                keeper: keeper.clone().filter(|_| coherence == Coherence::Watched),
                ..HostOptions::default()
            };
            let flags = if *writable { MountFlags::empty() } else { MountFlags::RDONLY };
            let made = |coherence| HostFs::with_options(dir, with(coherence));
            let fs = match coherence {
                Some(coherence) => made(*coherence),
                // One may have so many queues of inotify(7).
                None => made(Coherence::Watched).or_else(|_| made(Coherence::Strict)),
            };
            if let (Err(Errno::ENOTDIR), Some((above, name))) = (&fs, file_at(dir)) {
                // Others change what is beside it, of which nobody wants to hear.
                let coherence = coherence.unwrap_or(Coherence::Strict);
                let holds = Some(name.clone());
                let with = HostOptions { keeper: None, holds, ..with(coherence) };
                let fs = HostFs::with_options(above, with)?;
                mount_file(task, (Arc::clone(&fs) as Arc<_>, &name), &spec.at, flags, owner)?;
                return Ok(Some(fs));
            }
            let fs = fs?;
            plain = *identities == Identities::Host;
            if fs.news().is_some() {
                told = Some((Arc::clone(&fs), (*writable, plain)));
            }
            host = Some(Arc::clone(&fs));
            (fs, flags)
        }
        What::Proc => (ProcView::new(asker.clone(), Arc::clone(knowns)), MountFlags::empty()),
    };
    if spec.at.iter().all(|&byte| byte == b'/') {
        mount_at_root(task, fs, flags)?;
    } else {
        mount_on((task, owner), &spec.at, Kind::Directory, |task| {
            task.mount(Arc::clone(&fs), &spec.at, flags)
        })?;
    }
    match (inside, told, &spec.what) {
        (Some(inside), Some((fs, writable)), _) => {
            inside.mounted_host(task, &spec.at, fs, writable)
        }
        (Some(inside), None, What::Mem { .. }) => inside.mounted_memory(task, &spec.at),
        (Some(inside), None, What::Host { .. }) if plain => {
            inside.mounted_untold(task, &spec.at);
        }
        _ => {}
    }
    Ok(host)
}

/// Mounts on what is there, mostly; where there is nothing it is made.
fn mount_on(
    (task, owner): (&Task, &Owner),
    at: &[u8],
    kind: Kind,
    mount: impl Fn(&Task) -> Result<()>,
) -> std::result::Result<(), Why> {
    let first = mount(task);
    if first == Err(Errno::ENOENT) && kind == Kind::File && ends_as_directory(at) {
        return Err(Why::Ending);
    }
    first
        .or_else(|errno| {
            if errno != Errno::ENOENT {
                return Err(errno);
            }
            make_place(task, at, kind, &owner.cred)?;
            mount(task)
        })
        .map_err(|errno| match (task.stat(at), errno) {
            (Err(Errno::ENOENT), errno) => Why::NoPlace(kind, errno),
            (Ok(stat), Errno::ENOTDIR | Errno::EINVAL) if kind_of(&stat) != kind => {
                Why::Kinds(kind)
            }
            (_, errno) => errno.into(),
        })
}

/// Whether a path can lead to a directory alone.
fn ends_as_directory(path: &[u8]) -> bool {
    matches!(path.rsplit(|&byte| byte == b'/').next(), Some(b"" | b"." | b".."))
}

/// Shows a file of a file system, and nothing else of it.
fn mount_file(
    task: &Task,
    (fs, name): (Arc<dyn FileSystem>, &[u8]),
    at: &[u8],
    flags: MountFlags,
    owner: &Owner,
) -> std::result::Result<(), Why> {
    // It is mounted where nobody is yet, until there is a copy that begins with the file.
    task.mount(fs, "/", flags)?;
    let only = OpenTreeFlags::CLONE | OpenTreeFlags::SYMLINK_NOFOLLOW;
    let file = task.open_tree(At::Cwd, [b"/../", name].concat(), only);
    task.umount2("/..", UmountFlags::DETACH)?;
    let file = file?;
    let hang = MoveMountFlags::F_EMPTY_PATH | MoveMountFlags::T_SYMLINKS;
    mount_on((task, owner), at, Kind::File, |task| task.move_mount(&file, "", At::Cwd, at, hang))
}

/// The directory that a file of the host lies in, and its name there; none of a directory.
fn file_at(path: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let path = std::fs::canonicalize(OsStr::from_bytes(path)).ok()?;
    let above = path.parent().filter(|_| !path.is_dir())?;
    Some((above.as_os_str().as_bytes().to_vec(), path.file_name()?.as_bytes().to_vec()))
}

fn kind_of(stat: &Stat) -> Kind {
    if stat.st_mode & S_IFMT == S_IFDIR { Kind::Directory } else { Kind::File }
}

/// What is mounted at the root hides all that was mounted before, and is the task's root from then on.
fn mount_at_root(task: &mut Task, fs: Arc<dyn FileSystem>, flags: MountFlags) -> Result<()> {
    task.mount(fs, "/", flags)?;
    // The root of the task is still the place below it; `..` leads up through what is mounted there.
    task.chroot("/..")?;
    task.chdir("/")
}

/// Makes what is to be mounted on: in memory always, on the host where it may be written.
fn make_place(task: &Task, path: &[u8], kind: Kind, who: &Cred) -> Result<()> {
    if task.stat(path).is_ok() {
        return Ok(());
    }
    // What is made on the host belongs to who asks for it; in memory the root directory is nobody's.
    let mut user = task.fork();
    user.set_cred(who.clone());
    let ends = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
    let ends: Vec<usize> = ends.map(|(index, _)| index).chain([path.len()]).collect();
    for end in ends {
        let kind = if end == path.len() { kind } else { Kind::Directory };
        let make = |task: &Task| match kind {
            Kind::Directory => task.mkdir(&path[..end], 0o755),
            Kind::File => task.mknod(&path[..end], S_IFREG | 0o644, Dev::default()),
        };
        let made = make(&user).or_else(|errno| match errno {
            Errno::EACCES => make(task),
            errno => Err(errno),
        });
        match made {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The time as the kernel stamps files: it stamps what the program writes, and stamps must not run back.
fn coarse_time() -> Timespec {
    let now = time::clock_gettime(time::ClockId::RealtimeCoarse);
    Timespec { sec: now.tv_sec, nsec: now.tv_nsec as u32 }
}

/// The tree that there is without a word said: the host's, read-only, with memory of its own at `/tmp` and `/dev/shm` and the
/// current directory writable.
pub(crate) fn host_tree(cwd: &Path, read_only: bool) -> Vec<Spec> {
    let mut specs = vec![host("/", "/", false, None)];
    for at in mounts_of_host() {
        // What is below memory is hidden by that; of `/proc` there is another view.
        let below = |dir: &str| {
            at.strip_prefix(dir.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        if at != b"/" && !below("/proc") && !below("/tmp") && !below("/dev/shm") {
            // Little is asked about there, and each watched mount takes a queue of inotify(7), of which a user has few.
            let devices = ["/dev", "/sys", "/run"].iter().any(|dir| below(dir));
            let at = OsStr::from_bytes(&at);
            specs.push(host(at, at, false, devices.then_some(Coherence::Strict)));
        }
    }
    specs.push(Spec::new(What::Proc, b"/proc".to_vec()));
    specs.extend(memories());
    if cwd != Path::new("/") {
        specs.push(host(cwd, cwd, !read_only, None));
    }
    specs
}

/// The tree in a directory of the host that is to be the root. It may have no place for what is there by default.
pub(crate) fn rootfs_tree(root: Spec) -> Vec<Spec> {
    let dev = host("/dev", "/dev", false, Some(Coherence::Strict));
    let proc = Spec::new(What::Proc, b"/proc".to_vec());
    let others = [proc, dev].into_iter().chain(memories());
    let others = others.map(|spec| Spec { by_default: true, ..spec });
    std::iter::once(root).chain(others).collect()
}

/// What programs take for theirs: `/tmp`, and where there is one `/dev/shm`, where the C library has semaphores.
fn memories() -> impl Iterator<Item = Spec> {
    let there = |at: &&str| *at == "/tmp" || Path::new(at).is_dir();
    ["/tmp", "/dev/shm"]
        .into_iter()
        .filter(there)
        .map(|at| Spec::new(What::Mem { size: None, mode: None }, at.into()))
}

fn host(
    dir: impl AsRef<Path>,
    at: impl AsRef<Path>,
    writable: bool,
    coherence: Option<Coherence>,
) -> Spec {
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let dir = bytes(dir.as_ref());
    let what = What::Host { dir, writable, coherence, identities: None };
    Spec::new(what, bytes(at.as_ref()))
}

/// The directories on which the host has something mounted, in the order in which they were mounted; those that hide others
/// once.
fn mounts_of_host() -> Vec<Vec<u8>> {
    let text = read_told("/proc/self/mountinfo").unwrap_or_default();
    let mut found = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let Some(field) = line.split(|&byte| byte == b' ').nth(4) else { continue };
        let path = unescape(field);
        let flags = fs::OFlags::PATH | fs::OFlags::DIRECTORY | fs::OFlags::CLOEXEC;
        // One that cannot be entered is left as the host shows it.
        if !found.contains(&path) && fs::open(&path, flags, fs::Mode::empty()).is_ok() {
            found.push(path);
        }
    }
    // Those above come first.
    found.sort_by_key(|path| match &path[..] {
        b"/" => 0,
        path => path.iter().filter(|&&byte| byte == b'/').count(),
    });
    found
}

/// A field of mountinfo, in which blanks and backslashes are octal numbers.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(octal) if byte == b'\\' => {
                out.push(octal);
                rest = &after[3..];
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

/// The credentials of this process, as the program asks with them. Of the capabilities those are left out that change what
/// the tree is made of, or reach around it.
fn credentials() -> Cred {
    let without = CapSet::SYS_ADMIN | CapSet::SYS_CHROOT | CapSet::MKNOD | CapSet::SYS_PTRACE;
    let (effective, _) = capabilities();
    let caps = effective - without;
    let groups = answer(rustix::process::getgroups()).unwrap_or_default();
    let groups: Vec<u32> = groups.into_iter().map(|group| group.as_raw()).collect();
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    Cred::user(uid, gid).with_groups(&groups).with_caps(caps)
}

/// The capabilities of this process, effective and permitted.
pub(crate) fn capabilities() -> (CapSet, CapSet) {
    let none = |_| CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    let sets = rustix::thread::capabilities(None).unwrap_or_else(none);
    let of = |set: CapabilitySet| CapSet::from_bits_truncate(set.bits());
    (of(sets.effective), of(sets.permitted))
}

/// The directory that the program begins in.
///
/// # Errors
///
/// Those of opening it.
pub(crate) fn begin_in(task: &Task, path: &[u8]) -> Result<pathwalk::File> {
    task.open(path, OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_is_another_one_on_the_host() {
        let range = |inside, host, count| IdRange { inside, host, count };
        let rest = u32::MAX - 1001;
        assert_eq!(
            in_place_of(0, 1000),
            [range(0, 1000, 1), range(1, 1, 999), range(1001, 1001, rest)]
        );
        assert_eq!(
            in_place_of(1000, 33),
            [range(1000, 33, 1), range(0, 0, 33), range(34, 34, 966), range(1001, 1001, rest)]
        );
        assert_eq!(in_place_of(5, 5)[1..], [range(0, 0, 5), range(6, 6, u32::MAX - 6)]);
    }

    #[test]
    fn numbers_in_mountinfo_are_read() {
        assert_eq!(unescape(br"/a\040b\134c"), b"/a b\\c");
        assert_eq!(unescape(br"/a\04"), br"/a\04");
    }
}
