//! The example that is Landlock, against the kernel's Landlock: the same rules, the same calls, the same answers.

#[path = "../../pathwalk/examples/landlock.rs"]
#[expect(dead_code, unreachable_pub, reason = "a program of its own, whose main is not run here")]
mod landlock;

#[path = "../../left_out.rs"]
mod left_out;

use landlock::{ALL, Landlock, Ruleset};
use left_out::left_out;
use pathwalk::{At, Config, Cred, Errno, MemFs, OpenFlags, RenameFlags, Result, Task, Vfs};
use rustix::{
    fs::{self, AtFlags, CWD, FileType, Mode, OFlags},
    thread::set_no_new_privs,
};
use std::{
    collections::HashMap,
    ffi::c_long,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
    sync::Arc,
    thread,
};

/// What rules may be about, and whether it is a file.
const PLACES: [(&str, bool); 6] =
    [("", false), ("a", false), ("a/d", false), ("a/f", true), ("b", false), ("b/f", true)];

/// What a rule on a file may allow: `WRITE_FILE`, `READ_FILE`, `TRUNCATE`.
const OF_FILES: u64 = 1 << 1 | 1 << 2 | 1 << 14;

/// A layer: what is handled, and what is allowed beneath places.
#[derive(Clone, Debug)]
struct Layer {
    handled: u64,
    allowed: Vec<(usize, u64)>,
}

type KernelCall = fn(&Path) -> rustix::io::Result<()>;
type OurCall = fn(&Task) -> Result<()>;

/// A call on the kernel, beneath a directory, and here, beneath the root.
struct Call {
    name: &'static str,
    kernel: KernelCall,
    ours: OurCall,
}

macro_rules! opens {
    ($($name:literal $path:literal $flags:ident | $($more:ident)|*;)*) => {
        [$(Call {
            name: $name,
            kernel: |at| {
                let flags = OFlags::$flags $(| OFlags::$more)*;
                fs::open(at.join($path), flags, Mode::from(0o644)).map(drop)
            },
            ours: |task| {
                let flags = OpenFlags::$flags $(| OpenFlags::$more)*;
                task.open(concat!("/", $path), flags, 0o644).map(drop)
            },
        }),*]
    };
}

fn calls() -> Vec<Call> {
    let opens = opens! {
        "read" "a/f" RDONLY | RDONLY;
        "write" "a/f" WRONLY | WRONLY;
        "read and write" "b/f" RDWR | RDWR;
        "cut while reading" "a/f" RDONLY | TRUNC;
        "cut" "b/f" WRONLY | TRUNC;
        "list" "a" RDONLY | DIRECTORY;
        "list below" "a/d" RDONLY | RDONLY;
        "O_PATH" "b/f" PATH | PATH;
        "the top" "." RDONLY | DIRECTORY;
    };
    let mut calls: Vec<Call> = opens.into();
    macro_rules! call {
        ($name:literal, |$at:ident| $kernel:expr, |$task:ident| $ours:expr) => {
            calls.push(Call { name: $name, kernel: |$at| $kernel, ours: |$task| $ours })
        };
    }
    call!(
        "create",
        |at| fs::open(at.join("a/new"), OFlags::CREATE, Mode::from(0o644)).map(drop),
        |t| t.open("/a/new", OpenFlags::CREAT, 0o644).map(drop)
    );
    call!(
        "create what is there",
        |at| fs::open(at.join("a/f"), OFlags::CREATE, Mode::from(0o644)).map(drop),
        |t| t.open("/a/f", OpenFlags::CREAT, 0o644).map(drop)
    );
    call!("mkdir", |at| fs::mkdir(at.join("a/m"), Mode::from(0o755)), |t| t.mkdir("/a/m", 0o755));
    call!("mkdir there", |at| fs::mkdir(at.join("a/d"), Mode::from(0o755)), |t| t
        .mkdir("/a/d", 0o755));
    call!(
        "fifo",
        |at| fs::mknodat(CWD, at.join("b/p"), FileType::Fifo, Mode::from(0o644), 0),
        |t| t.mknod("/b/p", 0o010_644, pathwalk::Dev::default())
    );
    call!("symlink", |at| fs::symlink("f", at.join("b/l")), |t| t.symlink("f", "/b/l"));
    call!("link beside", |at| fs::link(at.join("a/f"), at.join("a/g")), |t| t.link("/a/f", "/a/g"));
    call!("link elsewhere", |at| fs::link(at.join("a/f"), at.join("b/g")), |t| t
        .link("/a/f", "/b/g"));
    call!("rename beside", |at| fs::rename(at.join("b/f"), at.join("b/h")), |t| t
        .rename("/b/f", "/b/h"));
    call!("and back", |at| fs::rename(at.join("b/h"), at.join("b/f")), |t| t
        .rename("/b/h", "/b/f"));
    call!("rename elsewhere", |at| fs::rename(at.join("a/f"), at.join("b/h")), |t| t
        .rename("/a/f", "/b/h"));
    call!("rename a directory", |at| fs::rename(at.join("a/d"), at.join("b/e")), |t| t
        .rename("/a/d", "/b/e"));
    call!("rename missing", |at| fs::rename(at.join("a/nope"), at.join("a/h")), |t| t
        .rename("/a/nope", "/a/h"));
    call!(
        "exchange",
        |at| fs::renameat_with(CWD, at.join("a/f"), CWD, at.join("a/d"), fs::RenameFlags::EXCHANGE),
        |t| t.renameat2(At::Cwd, "/a/f", At::Cwd, "/a/d", RenameFlags::EXCHANGE)
    );
    call!(
        "exchange elsewhere",
        |at| fs::renameat_with(CWD, at.join("a/f"), CWD, at.join("b/f"), fs::RenameFlags::EXCHANGE),
        |t| t.renameat2(At::Cwd, "/a/f", At::Cwd, "/b/f", RenameFlags::EXCHANGE)
    );
    call!("truncate", |at| truncate(&at.join("b/f")), |t| t.truncate("/b/f", 3));
    call!(
        "ftruncate",
        |at| fs::open(at.join("a/f"), OFlags::WRONLY, Mode::empty())
            .and_then(|file| fs::ftruncate(&file, 2)),
        |t| t.open("/a/f", OpenFlags::WRONLY, 0).and_then(|file| t.ftruncate(&file, 2))
    );
    call!("chmod", |at| fs::chmod(at.join("a/f"), Mode::from(0o600)), |t| t.chmod("/a/f", 0o600));
    call!("stat", |at| fs::stat(at.join("a/f")).map(drop), |t| t.stat("/a/f").map(drop));
    call!("unlink", |at| fs::unlink(at.join("a/f")), |t| t.unlink("/a/f"));
    call!("unlink a directory", |at| fs::unlink(at.join("a/d")), |t| t.unlink("/a/d"));
    call!("rmdir", |at| fs::rmdir(at.join("a/d")), |t| t.rmdir("/a/d"));
    call!("rmdir a file", |at| fs::unlinkat(CWD, at.join("b/f"), AtFlags::REMOVEDIR), |t| t
        .rmdir("/b/f"));
    calls
}

fn truncate(path: &Path) -> rustix::io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("no NUL");
    syscall(libc::SYS_truncate, [path.as_ptr().expose_provenance() as c_long, 3, 0, 0]).map(drop)
}

#[expect(unsafe_code, reason = "nobody else makes these calls")]
fn syscall(number: c_long, [a, b, c, d]: [c_long; 4]) -> rustix::io::Result<c_long> {
    // SAFETY: every pointer is that of a borrow which outlives the call.
    let result = unsafe { libc::syscall(number, a, b, c, d) };
    if result < 0 {
        let errno = std::io::Error::last_os_error().raw_os_error().expect("it failed");
        return Err(rustix::io::Errno::from_raw_os_error(errno));
    }
    Ok(result)
}

/// landlock_create_ruleset(2), landlock_add_rule(2), landlock_restrict_self(2): the calling thread gets one more layer.
fn restrict(at: &Path, layer: &Layer) {
    const RULE_PATH_BENEATH: c_long = 1;
    let handled = layer.handled.to_ne_bytes();
    let pointer = |bytes: &[u8]| bytes.as_ptr().expose_provenance() as c_long;
    let ruleset = syscall(libc::SYS_landlock_create_ruleset, [pointer(&handled), 8, 0, 0])
        .expect("a set of rules");
    let ruleset = own(ruleset);
    for &(place, allowed) in &layer.allowed {
        let dir =
            fs::open(at.join(PLACES[place].0), OFlags::PATH, Mode::empty()).expect("it is there");
        let rule = [&allowed.to_ne_bytes()[..], &dir.as_raw_fd().to_ne_bytes()].concat();
        let args = [c_long::from(ruleset.as_raw_fd()), RULE_PATH_BENEATH, pointer(&rule), 0];
        syscall(libc::SYS_landlock_add_rule, args).expect("a rule");
    }
    set_no_new_privs(true).expect("nobody is kept from giving up");
    let args = [c_long::from(ruleset.as_raw_fd()), 0, 0, 0];
    syscall(libc::SYS_landlock_restrict_self, args).expect("a thread may restrict itself");
}

#[expect(unsafe_code, reason = "a number becomes a descriptor")]
fn own(fd: c_long) -> OwnedFd {
    // SAFETY: the kernel has just given it, and it is passed here once.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// What the kernel answers, in a directory of its own.
fn kernels(layers: &[Layer]) -> Vec<Result<()>> {
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path();
    for name in ["a", "a/d", "b"] {
        std::fs::create_dir(at.join(name)).expect("a directory");
    }
    for name in ["a/f", "b/f"] {
        std::fs::write(at.join(name), "text").expect("a file");
    }
    thread::scope(|scope| {
        let restricted = scope.spawn(|| {
            layers.iter().for_each(|layer| restrict(at, layer));
            let errno =
                |errno: rustix::io::Errno| Errno::from_raw(errno.raw_os_error()).expect("an errno");
            calls().iter().map(|call| (call.kernel)(at).map_err(errno)).collect()
        });
        restricted.join().expect("nobody panics")
    })
}

/// What the example answers.
fn ours(layers: &[Layer]) -> Vec<Result<()>> {
    let vfs = Vfs::new(Config::default(), MemFs::new()).expect("room for tables");
    let module = Arc::new(Landlock::default());
    vfs.register_security(Arc::clone(&module) as _).expect("the first one");
    let mut task = vfs.task(Cred::root());
    let build = |task: &Task| -> Result<()> {
        for name in ["/a", "/a/d", "/b"] {
            task.mkdir(name, 0o755)?;
        }
        for name in ["/a/f", "/b/f"] {
            let file = task.creat(name, 0o644)?;
            task.write(&file, b"text")?;
        }
        Ok(())
    };
    build(&task).expect("nobody is restricted yet");
    for layer in layers {
        let mut allowed = HashMap::new();
        for &(place, bits) in &layer.allowed {
            let stat = task.stat(format!("/{}", PLACES[place].0)).expect("it is there");
            *allowed.entry((stat.st_dev, stat.st_ino)).or_insert(0) |= bits;
        }
        module.restrict(&mut task, Ruleset { handled: layer.handled, allowed });
    }
    calls().iter().map(|call| (call.ours)(&task)).collect()
}

fn layer(rng: &mut fastrand::Rng) -> Layer {
    let few = |rng: &mut fastrand::Rng| rng.u64(..) & rng.u64(..);
    let handled = match rng.u8(..3) {
        0 => ALL,
        1 => rng.u64(..) & ALL,
        _ => few(rng) & ALL,
    };
    let handled = if handled == 0 { ALL } else { handled };
    let mut allowed = Vec::new();
    for _ in 0..rng.usize(..5) {
        let place = rng.usize(..PLACES.len());
        let bits = if rng.bool() { ALL } else { rng.u64(..) } & handled;
        let bits = if PLACES[place].1 { bits & OF_FILES } else { bits };
        if bits != 0 {
            allowed.push((place, bits));
        }
    }
    Layer { handled, allowed }
}

#[test]
fn the_example_answers_as_the_kernels_landlock() {
    const VERSION: c_long = 1;
    match syscall(libc::SYS_landlock_create_ruleset, [0, 0, VERSION, 0]) {
        // The third knows of truncation.
        Ok(3..) => {}
        answer => return left_out(format_args!("this kernel's Landlock is {answer:?}")),
    }
    let seed = fastrand::u64(..);
    let (mut denied, mut done) = (0, 0);
    for number in 0..400 {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(number));
        let layers: Vec<Layer> = (0..rng.usize(..3)).map(|_| layer(&mut rng)).collect();
        let answers = kernels(&layers);
        for ((call, kernel), ours) in calls().iter().zip(&answers).zip(ours(&layers)) {
            assert_eq!(ours, *kernel, "{}, by {layers:?}", call.name);
        }
        denied += answers.iter().filter(|answer| answer.is_err()).count();
        done += answers.iter().filter(|answer| answer.is_ok()).count();
    }
    assert!(denied > 1000 && done > 1000, "{denied} refused, {done} done");
}
