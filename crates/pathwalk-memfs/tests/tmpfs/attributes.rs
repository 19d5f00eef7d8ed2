//! What each call does to sizes, links, blocks, times and counts: what tmpfs of Linux 6.18 was seen to do.

use crate::machine;
use pathwalk_abi::{AtFlags, Errno, OpenFlags, Result, Stat, StatxMask, mode::S_IFIFO};
use pathwalk_core::{At, File, Task};
use pathwalk_memfs::MemFs;

/// Rows of `call => answer; what changed`, each on the tree that the row before left, in 8 pages and 20 inodes.
///
/// Looked at are the root, the call's paths and their directories, and, when nobody holds anything any more, the count
/// of inodes and pages.
const ROWS: &str = "
    creat f             => ok; . size+20 mtime ctime; inodes+1
    mkdir d             => ok; . nlink+1 size+20 mtime ctime; inodes+1
    symlink 127 s       => ok; . size+20 mtime ctime; inodes+1
    symlink 128 sl      => ok; . size+20 mtime ctime; inodes+1 pages+1
    mkfifo p            => ok; . size+20 mtime ctime; inodes+1
    creat f             => EEXIST

    link f f2           => ok; . size+20 mtime ctime; f nlink+1 ctime; inodes+1
    unlink f2           => ok; . size-20 mtime ctime; f2 nlink-1 ctime; inodes-1
    link sl d/sl        => ok; sl nlink+1 ctime; d size+20 mtime ctime; inodes+1
    unlink sl           => ok; . size-20 mtime ctime; sl nlink-1 ctime; inodes-1
    unlink d/sl         => ok; d size-20 mtime ctime; d/sl nlink-1 ctime; inodes-1 pages-1
    unlink p            => ok; . size-20 mtime ctime; p nlink-1 ctime; inodes-1
    unlink s            => ok; . size-20 mtime ctime; s nlink-1 ctime; inodes-1

    mkdir d/e           => ok; d nlink+1 size+20 mtime ctime; inodes+1
    rmdir d             => ENOTEMPTY
    rmdir d/e           => ok; d nlink-1 size-20 mtime ctime; d/e nlink-2 ctime; inodes-1

    rename f g          => ok; . mtime ctime; f ctime
    rename g d/g        => ok; . size-20 mtime ctime; g ctime; d size+20 mtime ctime
    creat f             => ok; . size+20 mtime ctime; inodes+1
    rename f d/g        => ok; . size-20 mtime ctime; f ctime; d mtime ctime; d/g nlink-1 ctime; inodes-1
    creat f             => ok; . size+20 mtime ctime; inodes+1
    creat h             => ok; . size+20 mtime ctime; inodes+1
    rename f h          => ok; . size-20 mtime ctime; f ctime; h nlink-1 ctime; inodes-1
    link h i            => ok; . size+20 mtime ctime; h nlink+1 ctime; inodes+1
    rename h i          => ok
    rename d/g i        => ok; . mtime ctime; d size-20 mtime ctime; d/g ctime; i nlink-1 ctime; inodes-1

    mkdir x             => ok; . nlink+1 size+20 mtime ctime; inodes+1
    mkdir d/e           => ok; d nlink+1 size+20 mtime ctime; inodes+1
    rename d/e x/e      => ok; d nlink-1 size-20 mtime ctime; d/e ctime; x nlink+1 size+20 mtime ctime
    mkdir d/e           => ok; d nlink+1 size+20 mtime ctime; inodes+1
    rename d/e x/e      => ok; d nlink-1 size-20 mtime ctime; d/e ctime; x mtime ctime; x/e nlink-2 ctime; inodes-1
    mkdir x/k           => ok; x nlink+1 size+20 mtime ctime; inodes+1
    rename x/e x/k      => ok; x nlink-1 size-20 mtime ctime; x/e ctime; x/k nlink-2 ctime; inodes-1
    creat x/k/z         => ok; x/k size+20 mtime ctime; inodes+1
    rename d x/k        => ENOTEMPTY
    rename d .          => EBUSY

    write i 0 5         => ok; i size+5 blocks+8 mtime ctime; pages+1
    write i 0 5         => ok; i mtime ctime
    write i 0 0         => ok
    write i 20000 1     => ok; i size+19996 blocks+8 mtime ctime; pages+1
    truncate i 20001    => ok; i mtime ctime
    truncate i 40001    => ok; i size+20000 mtime ctime
    truncate i 4097     => ok; i size-35904 blocks-8 mtime ctime; pages-1
    truncate i 1        => ok; i size-4096 mtime ctime
    truncate i 0        => ok; i size-1 blocks-8 mtime ctime; pages-1
    truncate i 0        => ok
    truncate i 5000     => ok; i size+5000 mtime ctime
    truncate i 5000     => ok
    truncate i 0        => ok; i size-5000 mtime ctime

    write i 0 40000     => ok; i size+32768 blocks+64 mtime ctime; pages+8
    write i 32768 1     => ENOSPC; i mtime ctime
    write i 0 9         => ok; i mtime ctime
    symlink 128 s       => ENOSPC
    symlink 127 s       => ok; . size+20 mtime ctime; inodes+1
    rename s i          => ok; . size-20 mtime ctime; s ctime; i nlink-1 ctime; inodes-1 pages-8

    fill n              => ENOSPC; . size+260 mtime ctime; inodes+13
    mkdir m             => ENOSPC
    link h m            => ENOSPC
    mkfifo m            => ENOSPC
    rename h m          => ok; . mtime ctime; h ctime
    unlink n0           => ok; . size-20 mtime ctime; n0 nlink-1 ctime; inodes-1
    link m d/m          => ok; m nlink+1 ctime; d size+20 mtime ctime; inodes+1
    link m d/m2         => ENOSPC
";

#[test]
fn attributes_change_as_in_tmpfs() {
    let (fs, task) = machine(Some(8), Some(20));
    let mut rows = 0;
    for row in ROWS.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let (call, expected) = row.split_once("=>").expect("a row has two sides");
        assert_eq!(watch(&fs, &task, call.trim()), expected.trim(), "{}", call.trim());
        rows += 1;
    }
    assert_eq!(rows, 63);
}

/// Makes a call and says what it changed.
fn watch(fs: &MemFs, task: &Task, call: &str) -> String {
    let words: Vec<_> = call.split_whitespace().collect();
    let mut paths = vec!["."];
    for path in words[1..].iter().filter(|word| word.parse::<u64>().is_err()) {
        let parent = path.rsplit_once('/').map_or(".", |(parent, _)| parent);
        for path in [parent, path] {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    let usage = fs.usage();
    let look = OpenFlags::PATH | OpenFlags::NOFOLLOW;
    let watched: Vec<(&str, File, Stat)> = paths
        .into_iter()
        .filter_map(|path| {
            let file = task.open(path, look, 0).ok()?;
            let stat = task.fstat(&file).expect("an open file");
            Some((path, file, stat))
        })
        .collect();
    let mut answer = match run(task, &words) {
        Ok(()) => "ok".to_owned(),
        Err(errno) => errno.name().to_owned(),
    };
    for (path, file, before) in watched {
        let after = task.fstat(&file).expect("an open file");
        append(&mut answer, path, &changes(&before, &after));
    }
    let pages = |bytes| (bytes / 4096) as i64;
    let mut counts = String::new();
    count(&mut counts, "inodes", usage.inodes as i64, fs.usage().inodes as i64);
    count(&mut counts, "pages", pages(usage.bytes), pages(fs.usage().bytes));
    if !counts.is_empty() {
        answer += ";";
        answer += &counts;
    }
    answer
}

fn run(task: &Task, words: &[&str]) -> Result<()> {
    let number = |at: usize| words[at].parse::<i64>().expect("a number");
    let exclusive = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::WRONLY;
    match words[0] {
        "creat" => task.open(words[1], exclusive, 0o644).map(drop),
        "mkdir" => task.mkdir(words[1], 0o755),
        "mkfifo" => task.mknod(words[1], S_IFIFO | 0o644, pathwalk_abi::Dev::default()),
        "symlink" => task.symlink("x".repeat(number(1) as usize), words[2]),
        "link" => task.link(words[1], words[2]),
        "unlink" => task.unlink(words[1]),
        "rmdir" => task.rmdir(words[1]),
        "rename" => task.rename(words[1], words[2]),
        "truncate" => task.truncate(words[1], number(2)),
        "write" => {
            let file = task.open(words[1], OpenFlags::WRONLY, 0)?;
            task.pwrite(&file, &vec![b'x'; number(3) as usize], number(2)).map(drop)
        }
        "fill" => (0..)
            .try_for_each(|at| task.open(format!("{}{at}", words[1]), exclusive, 0o644).map(drop)),
        _ => Err(Errno::ENOSYS),
    }
}

fn changes(before: &Stat, after: &Stat) -> String {
    let mut text = String::new();
    count(&mut text, "nlink", before.st_nlink as i64, after.st_nlink as i64);
    count(&mut text, "size", before.st_size, after.st_size);
    count(&mut text, "blocks", before.st_blocks, after.st_blocks);
    for (name, before, after) in [
        ("atime", before.st_atime, after.st_atime),
        ("mtime", before.st_mtime, after.st_mtime),
        ("ctime", before.st_ctime, after.st_ctime),
        ("ino", before.st_ino as i64, after.st_ino as i64),
    ] {
        if before != after {
            text += " ";
            text += name;
        }
    }
    text
}

fn count(text: &mut String, name: &str, before: i64, after: i64) {
    if before != after {
        *text += &format!(" {name}{:+}", after - before);
    }
}

fn append(answer: &mut String, path: &str, changes: &str) {
    if !changes.is_empty() {
        *answer += &format!("; {path}{changes}");
    }
}

/// A row is a call that makes something, and what stat(2) says of it.
#[test]
fn new_files_look_as_in_tmpfs() {
    let rows = [
        ("creat a", "mode 100644 nlink 1 size 0 blocks 0"),
        ("mkdir b", "mode 40755 nlink 2 size 40 blocks 0"),
        ("symlink 127 c", "mode 120777 nlink 1 size 127 blocks 0"),
        ("symlink 128 d", "mode 120777 nlink 1 size 128 blocks 8"),
        ("symlink 4095 e", "mode 120777 nlink 1 size 4095 blocks 8"),
        ("mkfifo f", "mode 10644 nlink 1 size 0 blocks 0"),
    ];
    let (_fs, task) = machine(None, None);
    let show = |path: &str| {
        let stat = task.lstat(path).expect("a file");
        let text = format!(
            "mode {:o} nlink {} size {} blocks {}",
            stat.st_mode, stat.st_nlink, stat.st_size, stat.st_blocks
        );
        (text, stat)
    };
    let (root, stat) = show(".");
    assert_eq!((root.as_str(), stat.st_ino), ("mode 41777 nlink 2 size 40 blocks 0", 1));
    for (at, (call, expected)) in rows.into_iter().enumerate() {
        let words: Vec<_> = call.split(' ').collect();
        run(&task, &words).expect(call);
        let (text, stat) = show(words.last().expect("a path"));
        assert_eq!(text, expected, "{call}");
        assert_eq!(stat.st_ino, at as u64 + 2, "{call}");
        assert_eq!(stat.st_blksize, 4096, "{call}");
        assert!(stat.st_atime == stat.st_mtime && stat.st_mtime == stat.st_ctime, "{call}");
    }
}

/// Linux: `fill_mg_cmtime` tells both times of change where one is asked for, and else leaves both zero.
#[test]
fn statx_tells_no_time_of_change_unasked() {
    let (_fs, task) = machine(None, None);
    task.creat("f", 0o644).expect("a file");
    let stat = task.stat("f").expect("a file");
    let (ctime, mtime) = (stat.st_ctime, stat.st_mtime);
    let basic = StatxMask::BASIC_STATS | StatxMask::MNT_ID;
    let both = StatxMask::MTIME | StatxMask::CTIME;
    for (asked, filled, told) in [
        (StatxMask::empty(), basic - both, (0, 0, 0)),
        (StatxMask::ATIME | StatxMask::SIZE, basic - both, (0, 0, 0)),
        (StatxMask::MTIME, basic, (ctime, mtime, 0)),
        (StatxMask::CTIME, basic, (ctime, mtime, 0)),
        (both, basic, (ctime, mtime, 0)),
        (StatxMask::BTIME, (basic - both) | StatxMask::BTIME, (0, 0, ctime)),
    ] {
        let statx = task.statx(At::Cwd, "f", AtFlags::empty(), asked).expect("a file");
        let [ctime, mtime, btime] = [statx.stx_ctime, statx.stx_mtime, statx.stx_btime];
        assert_eq!((ctime.tv_sec, mtime.tv_sec, btime.tv_sec), told, "{asked:?}");
        assert_eq!(statx.stx_mask, filled.bits(), "{asked:?}");
        assert_ne!(statx.stx_atime.tv_sec, 0);
    }
}
