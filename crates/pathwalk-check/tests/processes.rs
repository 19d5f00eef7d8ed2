//! What one process may see of another in a procfs: asked of the kernel and of pathwalk, for callers of all kinds.
//!
//! The oracle's tasks are threads of one process, to whom nothing of each other is hidden.

#[path = "../../left_out.rs"]
mod left_out;

use left_out::left_out;
use pathwalk::{
    AccessMode, At, AtFlags, CapSet, Config, Cred, Errno, FdTable, MemFs, MountFlags, OpenFlags,
    ProcFs, Task, Vfs,
};
use rustix::{
    fs::{self, Access, Mode, OFlags},
    process::{Gid, Uid},
    thread::{self, CapabilitySet, CapabilitySets},
};
use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::Arc,
};

/// A caller: real and effective user, real and effective group, capabilities.
struct Asker(&'static str, [u32; 2], [u32; 2], CapSet);

const ASKERS: [Asker; 11] = [
    Asker("root", [0, 0], [0, 0], CapSet::FULL),
    Asker("root without capabilities", [0, 0], [0, 0], CapSet::empty()),
    Asker("the same user", [1000, 1000], [1000, 1000], CapSet::empty()),
    Asker("the same user of another group", [1000, 1000], [1001, 1001], CapSet::empty()),
    Asker("another user", [1001, 1001], [1001, 1001], CapSet::empty()),
    Asker("another user of the group", [1001, 1001], [1000, 1000], CapSet::empty()),
    Asker("really the same user", [1000, 1001], [1000, 1001], CapSet::empty()),
    Asker("effectively the same user", [1001, 1000], [1001, 1000], CapSet::empty()),
    Asker("with CAP_SYS_PTRACE", [1001, 1001], [1001, 1001], CapSet::SYS_PTRACE),
    Asker("with CAP_DAC_READ_SEARCH", [1001, 1001], [1001, 1001], CapSet::DAC_READ_SEARCH),
    Asker("with CAP_DAC_OVERRIDE", [1001, 1001], [1001, 1001], CapSet::DAC_OVERRIDE),
];

/// What is asked about a path below `/proc/PID`.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Readlink,
    Stat,
    Lstat,
    Open,
    Access,
}

const ASKS: [Ask; 5] = [Ask::Readlink, Ask::Stat, Ask::Lstat, Ask::Open, Ask::Access];

const PATHS: [&str; 18] = [
    ".",
    "cwd",
    "cwd/",
    "root",
    "exe",
    "fd",
    "fd/",
    "fd/.",
    "fd/0",
    "fd/99",
    "fdinfo",
    "fdinfo/.",
    "fdinfo/0",
    "fdinfo/99",
    "status",
    "comm",
    "task",
    "missing",
];

/// The answers to all questions, in order.
type Answers = Vec<Result<(), Errno>>;

fn questions() -> impl Iterator<Item = (&'static str, Ask)> {
    PATHS.into_iter().flat_map(|path| ASKS.map(|ask| (path, ask)))
}

/// Asks the kernel, as the caller, in a thread that is not used again.
fn kernel(asker: &Asker, pid: u32) -> Answers {
    let Asker(_, [uid, euid], [gid, egid], caps) = *asker;
    let ask = move || {
        thread::set_keep_capabilities(true).unwrap();
        thread::set_thread_groups(&[]).unwrap();
        let gid = [gid, egid].map(Gid::from_raw);
        thread::set_thread_res_gid(gid[0], gid[1], gid[1]).unwrap();
        let uid = [uid, euid].map(Uid::from_raw);
        thread::set_thread_res_uid(uid[0], uid[1], uid[1]).unwrap();
        let own = thread::capabilities(None).unwrap().permitted;
        let wanted = CapabilitySet::from_bits_retain(caps.bits()) & own;
        let sets = CapabilitySets {
            effective: wanted,
            permitted: wanted,
            inheritable: CapabilitySet::empty(),
        };
        thread::set_capabilities(None, sets).unwrap();
        questions()
            .map(|(path, ask)| {
                let path = format!("/proc/{pid}/{path}");
                let answer = match ask {
                    Ask::Readlink => fs::readlink(&path, Vec::new()).map(drop),
                    Ask::Stat => fs::stat(&path).map(drop),
                    Ask::Lstat => fs::lstat(&path).map(drop),
                    Ask::Open => fs::open(&path, OFlags::RDONLY, Mode::empty()).map(drop),
                    Ask::Access => fs::access(&path, Access::READ_OK),
                };
                answer.map_err(|errno| Errno::from_raw(errno.raw_os_error()).unwrap())
            })
            .collect()
    };
    std::thread::spawn(ask).join().unwrap()
}

/// Asks pathwalk, as the caller.
fn ours(asker: &Asker, target: &Task, own: CapSet) -> Answers {
    let Asker(_, [uid, fsuid], [gid, fsgid], caps) = *asker;
    let (caps, groups) = (caps & own, Vec::new());
    let cred = Cred { uid, gid, fsuid, fsgid, groups, caps, permitted: caps, security: 0 };
    let task = target.vfs().task(cred);
    questions()
        .map(|(path, ask)| {
            let path = format!("/proc/{}/{path}", target.number());
            match ask {
                Ask::Readlink => task.readlink(&path, &mut [0; 100]).map(drop),
                Ask::Stat => task.stat(&path).map(drop),
                Ask::Lstat => task.lstat(&path).map(drop),
                Ask::Open => task.open(&path, OpenFlags::RDONLY, 0).map(drop),
                Ask::Access => task.faccessat2(At::Cwd, &path, AccessMode::R_OK, AtFlags::empty()),
            }
        })
        .collect()
}

/// A process that does nothing, as a user.
struct Sleeper(Child);

impl Sleeper {
    fn new(uid: u32, gid: u32) -> Self {
        let mut sleep = Command::new("sleep");
        sleep.arg("600").current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        Self(sleep.uid(uid).gid(gid).spawn().expect("sleep(1) can be run"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // It sleeps; there is nothing that could go wrong about its end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The same as a task.
fn sleeper(uid: u32, gid: u32, own: CapSet) -> Task {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let root = vfs.task(Cred::root());
    root.mkdir("/proc", 0o755).unwrap();
    root.mount(ProcFs::new(), "/proc", MountFlags::empty()).unwrap();
    let cred = if uid == 0 { Cred::root().with_caps(own) } else { Cred::user(uid, gid) };
    let task = vfs.task(cred);
    root.creat("/null", 0o666).unwrap();
    root.creat("/sleep", 0o755).unwrap();
    let files = FdTable::new(8);
    files.insert(task.open("/null", OpenFlags::RDONLY, 0).unwrap()).unwrap();
    task.set_files(Some(Arc::new(files)));
    task.set_exe(Some(task.open("/sleep", OpenFlags::PATH, 0).unwrap()));
    task
}

#[test]
fn a_process_shows_others_what_the_kernel_shows_them() {
    let own = thread::capabilities(None).unwrap().permitted.bits();
    let own = CapSet::from_bits_retain(own) & CapSet::FULL;
    if !own.contains(CapSet::SETUID | CapSet::SETGID | CapSet::SYS_PTRACE) {
        left_out("no right to become others");
        return;
    }
    let mut wrong = Vec::new();
    for (uid, gid) in [(1000, 1000), (0, 0)] {
        let (there, here) = (Sleeper::new(uid, gid), sleeper(uid, gid, own));
        for asker in &ASKERS {
            let answers = kernel(asker, there.0.id()).into_iter().zip(ours(asker, &here, own));
            for ((path, ask), (kernel, ours)) in questions().zip(answers) {
                if kernel != ours {
                    let name = asker.0;
                    wrong.push(format!(
                        "{name} of {uid}: {ask:?} {path}: {kernel:?}, ours {ours:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is held of a process's directory when it goes.
const HELD: [&str; 10] =
    [".", "task", "fd", "fdinfo", "cwd", "exe", "fd/0", "comm", "status", "fdinfo/0"];

/// What is asked about it then.
const AFTERWARDS: [(&str, Ask); 14] = [
    ("", Ask::Readlink),
    ("", Ask::Stat),
    (".", Ask::Stat),
    ("..", Ask::Stat),
    ("status", Ask::Lstat),
    ("cwd", Ask::Readlink),
    ("fd", Ask::Open),
    ("0", Ask::Lstat),
    ("0", Ask::Readlink),
    ("1", Ask::Lstat),
    ("missing", Ask::Lstat),
    (".", Ask::Access),
    ("comm", Ask::Open),
    (".", Ask::Open),
];

/// The size of `fd` is how many files are open: the kernel finds out when it is asked for attributes. See LINUX.md.
const DIFFERS: [&str; 2] = ["fd: Stat \"\"", "fd: Stat \".\""];

/// What is held is read, listed, and asked about.
fn kernel_afterwards(mut there: Sleeper) -> Answers {
    let held = HELD.map(|path| {
        let link = matches!(path, "cwd" | "exe" | "fd/0");
        let flags = if link { OFlags::PATH | OFlags::NOFOLLOW } else { OFlags::RDONLY };
        fs::open(format!("/proc/{}/{path}", there.0.id()), flags, Mode::empty()).unwrap()
    });
    there.0.kill().unwrap();
    there.0.wait().unwrap();
    let mut answers = Vec::new();
    for file in &held {
        answers.push(rustix::io::read(file, &mut [0; 8]).map(drop));
        let mut buf = Vec::with_capacity(1 << 12);
        let mut listing = fs::RawDir::new(file, buf.spare_capacity_mut());
        answers.push(listing.next().map_or(Ok(()), |entry| entry.map(drop)));
        for (path, ask) in AFTERWARDS {
            let empty = fs::AtFlags::EMPTY_PATH;
            answers.push(match ask {
                Ask::Readlink => fs::readlinkat(file, path, Vec::new()).map(drop),
                Ask::Stat => fs::statat(file, path, empty).map(drop),
                Ask::Lstat => fs::statat(file, path, fs::AtFlags::SYMLINK_NOFOLLOW).map(drop),
                Ask::Open => fs::openat(file, path, OFlags::RDONLY, Mode::empty()).map(drop),
                Ask::Access => fs::accessat(file, path, Access::READ_OK, fs::AtFlags::empty()),
            });
        }
    }
    let errno = |errno: rustix::io::Errno| Errno::from_raw(errno.raw_os_error()).unwrap();
    answers.into_iter().map(|answer| answer.map_err(errno)).collect()
}

fn ours_afterwards(here: Task) -> Answers {
    let task = here.vfs().task(Cred::root());
    let held = HELD.map(|path| {
        let link = matches!(path, "cwd" | "exe" | "fd/0");
        let flags = if link { OpenFlags::PATH | OpenFlags::NOFOLLOW } else { OpenFlags::RDONLY };
        task.open(format!("/proc/{}/{path}", here.number()), flags, 0).unwrap()
    });
    drop(here);
    let mut answers = Vec::new();
    for file in &held {
        answers.push(task.read(file, &mut [0; 8]).map(drop));
        answers.push(task.getdents64(file, &mut [0; 1 << 12]).map(drop));
        for (path, ask) in AFTERWARDS {
            answers.push(match ask {
                Ask::Readlink => task.readlinkat(file, path, &mut [0; 100]).map(drop),
                Ask::Stat => task.fstatat(file, path, AtFlags::EMPTY_PATH).map(drop),
                Ask::Lstat => task.fstatat(file, path, AtFlags::SYMLINK_NOFOLLOW).map(drop),
                Ask::Open => task.openat(file, path, OpenFlags::RDONLY, 0).map(drop),
                Ask::Access => {
                    task.faccessat2(file, path, AccessMode::R_OK, AtFlags::empty()).map(drop)
                }
            });
        }
    }
    answers
}

#[test]
fn of_a_process_that_is_gone_there_is_left_what_the_kernel_leaves() {
    if !rustix::process::getuid().is_root() {
        left_out("no right to look into others");
        return;
    }
    let (there, here) = (Sleeper::new(0, 0), sleeper(0, 0, CapSet::FULL));
    let asked = HELD.iter().flat_map(|held| {
        let more = AFTERWARDS.map(|(path, ask)| format!("{held}: {ask:?} {path:?}"));
        [format!("{held}: read"), format!("{held}: list")].into_iter().chain(more)
    });
    let answers = kernel_afterwards(there).into_iter().zip(ours_afterwards(here));
    let wrong: Vec<_> = asked
        .zip(answers)
        .filter(|(asked, (kernel, ours))| kernel != ours && !DIFFERS.contains(&&**asked))
        .map(|(asked, (kernel, ours))| format!("{asked}: {kernel:?}, ours {ours:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
