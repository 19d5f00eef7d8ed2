//! The limits: what is refused, what that leaves behind, and that everything comes back.

use crate::{contents, machine, open};
use pathwalk_abi::{
    AtFlags, Errno, MountFlags, OpenFlags, StatmountMask, StatxMask, UmountFlags, XattrFlags,
};
use pathwalk_core::{At, Config, Cred, File, Task, Vfs, mountinfo};
use pathwalk_memfs::{Limits, MemFs, Usage};
use std::sync::{Arc, Barrier};

/// Everything that a failed call could have changed.
fn everything(fs: &MemFs, task: &Task, paths: &[&str]) -> String {
    let stats: Vec<_> = paths.iter().map(|path| task.lstat(path)).collect();
    format!("{:?} {stats:?} {:?}", fs.usage(), task.statfs("/"))
}

#[test]
fn no_inode_left_changes_nothing() {
    let (fs, task) = machine(None, Some(3));
    task.mkdir("d", 0o755).expect("the second inode");
    open(&task, "d/f");
    let before = everything(&fs, &task, &["/", "d", "d/f"]);
    let create = OpenFlags::CREAT | OpenFlags::WRONLY;
    assert_eq!(task.open("d/g", create, 0o644).err(), Some(Errno::ENOSPC));
    assert_eq!(task.mkdir("d/g", 0o755), Err(Errno::ENOSPC));
    assert_eq!(task.symlink("f", "d/g"), Err(Errno::ENOSPC));
    assert_eq!(task.symlink("f".repeat(200), "d/g"), Err(Errno::ENOSPC));
    assert_eq!(task.link("d/f", "d/g"), Err(Errno::ENOSPC));
    assert_eq!(everything(&fs, &task, &["/", "d", "d/f"]), before);
    task.unlink("d/f").expect("a file");
    task.mkdir("d/g", 0o755).expect("the inode that came back");
}

#[test]
fn a_write_that_found_no_room_stamps_the_file() {
    let (_, task) = machine(Some(1), None);
    let full = open(&task, "full");
    assert_eq!(task.pwrite(&full, &[1; 4096], 0), Ok(4096));
    let before = task.fstat(&full).expect("an open file");
    assert_eq!(task.pwrite(&full, b"x", 4096), Err(Errno::ENOSPC));
    let after = task.fstat(&full).expect("an open file");
    let times = |stat: pathwalk_abi::Stat| (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime_nsec);
    assert_ne!(times(after), times(before), "as on tmpfs");
    assert_eq!((after.st_size, after.st_blocks), (4096, 8));
}

/// What a tmpfs with `nr_inodes=` counts for the same calls.
#[test]
fn inodes_of_files_without_a_name_and_of_whiteouts() {
    let (fs, task) = machine(None, Some(4));
    let used = || fs.usage().inodes;
    open(&task, "a");
    assert_eq!(used(), 2);
    let rename =
        |old, new| task.renameat2(At::Cwd, old, At::Cwd, new, pathwalk_abi::RenameFlags::WHITEOUT);
    assert_eq!(rename("a", "b"), Ok(()));
    assert_eq!(used(), 3);
    let unnamed = task.open(".", OpenFlags::TMPFILE | OpenFlags::RDWR, 0o600).expect("the fourth");
    let link = |name| task.linkat(&unnamed, "", At::Cwd, name, AtFlags::EMPTY_PATH);
    assert_eq!((link("t"), used()), (Ok(()), 4));
    let before = everything(&fs, &task, &["/", "a", "b", "t"]);
    assert_eq!((link("u"), rename("b", "c")), (Err(Errno::ENOSPC), Err(Errno::ENOSPC)));
    let again = task.open(".", OpenFlags::TMPFILE | OpenFlags::RDWR, 0o600);
    assert_eq!(again.err(), Some(Errno::ENOSPC));
    assert_eq!(everything(&fs, &task, &["/", "a", "b", "t"]), before);
    assert_eq!((task.unlink("a"), used()), (Ok(()), 3));
    assert_eq!((link("u"), used()), (Ok(()), 4));
    assert_eq!((task.unlink("t"), used()), (Ok(()), 3));
    assert_eq!((task.unlink("u"), used()), (Ok(()), 3));
    drop(unnamed);
    assert_eq!(used(), 2);
}

#[test]
fn no_page_left_changes_nothing() {
    let (fs, task) = machine(Some(2), None);
    let full = open(&task, "full");
    assert_eq!(task.pwrite(&full, &[1; 8192], 0), Ok(8192));
    let empty = open(&task, "empty");
    let before = everything(&fs, &task, &["/", "full", "empty"]);
    assert_eq!(task.symlink("f".repeat(128), "long"), Err(Errno::ENOSPC));
    assert_eq!(everything(&fs, &task, &["/", "full", "empty"]), before);
    let usage = fs.usage();
    assert_eq!(task.pwrite(&full, b"x", 8192), Err(Errno::ENOSPC));
    assert_eq!(task.pwrite(&empty, b"x", 0), Err(Errno::ENOSPC));
    assert_eq!(fs.usage(), usage);
    assert_eq!(contents(&task, &full), [1; 8192]);
    assert_eq!(contents(&task, &empty), []);
}

#[test]
fn a_write_ends_where_the_room_ends() {
    let (fs, task) = machine(Some(3), None);
    let file = open(&task, "f");
    // The middle page is there; of the four that the next write touches two more fit.
    assert_eq!(task.pwrite(&file, &[1; 10], 5000), Ok(10));
    assert_eq!(task.pwrite(&file, &[2; 16384], 100), Ok(3 * 4096 - 100));
    assert_eq!(task.fstat(&file).expect("an open file").st_size, 3 * 4096);
    assert_eq!(fs.usage().bytes, 3 * 4096);
    let mut expected = vec![0; 100];
    expected.resize(3 * 4096, 2);
    assert_eq!(contents(&task, &file), expected);
    // A hole in front of the room that is left stops it too.
    task.ftruncate(&file, 4096).expect("an open file");
    assert_eq!(fs.usage().bytes, 4096);
    let other = open(&task, "g");
    assert_eq!(task.pwrite(&other, &[3; 100], 1 << 40), Ok(100));
    assert_eq!(task.pwrite(&file, &[4; 8192], 2), Ok(8190));
    assert_eq!(fs.usage().bytes, 3 * 4096);
}

#[test]
fn everything_comes_back() {
    let (fs, task) = machine(Some(1000), Some(1000));
    let empty = Usage { bytes: 0, inodes: 1 };
    for _ in 0..3 {
        assert_eq!(fs.usage(), empty);
        task.mkdir("d", 0o755).expect("a directory");
        for at in 0..20 {
            let name = format!("d/f{at}");
            let file = open(&task, &name);
            task.pwrite(&file, &vec![7; at * 1000], (at * 5000) as i64).expect("room");
            task.link(&name, format!("d/l{at}")).expect("room");
            task.link(&name, format!("d/m{at}")).expect("room");
            task.symlink("s".repeat(at * 20 + 1), format!("d/s{at}")).expect("room");
            task.link(format!("d/s{at}"), format!("d/t{at}")).expect("room");
        }
        for at in 0..20 {
            task.rename(format!("d/m{at}"), format!("d/l{}", (at + 7) % 20)).expect("a name");
        }
        // 20 files and 20 symlinks with two names each, one of a file's replaced another file's.
        assert_eq!(
            task.fstatat(At::Cwd, "d", AtFlags::empty()).expect("it is there").st_size,
            40 + 80 * 20
        );
        assert_eq!(fs.usage().inodes, 1 + 1 + 80);
        for at in 0..20 {
            for kind in ["f", "l", "s", "t"] {
                task.unlink(format!("d/{kind}{at}")).expect("a name");
            }
        }
        task.rmdir("d").expect("an empty directory");
    }
    assert_eq!(fs.usage(), empty);
    assert!(format!("{fs:?}").contains("files: 0"), "{fs:?}");
}

#[test]
fn an_open_file_keeps_its_contents() {
    let (fs, task) = machine(Some(4), Some(3));
    let file = open(&task, "f");
    assert_eq!(task.pwrite(&file, b"still here", 4096), Ok(10));
    task.unlink("f").expect("a file");
    assert_eq!(fs.usage(), Usage { bytes: 4096, inodes: 2 });
    let mut buf = [0; 10];
    assert_eq!(task.pread(&file, &mut buf, 4096), Ok(10));
    assert_eq!(&buf, b"still here");
    assert_eq!(task.pwrite(&file, b"and growing", 0), Ok(11));
    drop(file);
    assert_eq!(fs.usage(), Usage { bytes: 0, inodes: 1 });
}

#[test]
fn a_replaced_file_goes() {
    let (fs, task) = machine(None, None);
    for name in ["a", "b"] {
        task.pwrite(&open(&task, name), b"x", 0).expect("room");
    }
    task.rename("a", "b").expect("two files");
    assert_eq!(fs.usage(), Usage { bytes: 4096, inodes: 2 });
}

#[test]
fn unmounting_gives_everything_back() {
    let (_root, task) = machine(None, None);
    task.mkdir("/mnt", 0o755).expect("a mountpoint");
    let fs = MemFs::builder().root_mode(0o750).root_owner(7, 8).build();
    for _ in 0..2 {
        task.mount(Arc::clone(&fs) as _, "/mnt", MountFlags::empty()).expect("a mount");
        let root = task.stat("/mnt").expect("its root");
        assert_eq!((root.st_mode, root.st_uid, root.st_gid, root.st_size), (0o40750, 7, 8, 40));
        task.mkdir("/mnt/d", 0o755).expect("a directory");
        task.pwrite(&open(&task, "/mnt/d/f"), b"x", 0).expect("room");
        task.link("/mnt/d/f", "/mnt/g").expect("room");
        task.link("/mnt/d/f", "/mnt/h").expect("room");
        task.symlink("x".repeat(500), "/mnt/s").expect("room");
        assert_eq!(fs.usage(), Usage { bytes: 8192, inodes: 6 });
        task.umount2("/mnt", UmountFlags::empty()).expect("nobody uses it");
        assert_eq!(fs.usage(), Usage { bytes: 0, inodes: 0 });
    }
}

#[test]
fn statfs_shows_the_limits() {
    let shown = |limits| {
        let vfs = Vfs::new(Config::default(), MemFs::with_limits(limits)).expect("a machine");
        let stat = vfs.task(Cred::root()).statfs("/").expect("a file system");
        assert_eq!((stat.f_type, stat.f_bsize, stat.f_namelen), (0x0102_1994, 4096, 255));
        (stat.f_blocks, stat.f_bfree, stat.f_files, stat.f_ffree)
    };
    assert_eq!(shown(Limits { bytes: Some(5000), inodes: Some(1) }), (2, 2, 1, 0));
    assert_eq!(shown(Limits { bytes: Some(0), inodes: Some(40) }), (0, 0, 40, 39));
    assert_eq!(shown(Limits::NONE), (0, 0, 0, 0));
    let (blocks, bfree, files, ffree) = shown(Limits::default());
    assert!(blocks > 0 && blocks == bfree && files == 0 && ffree == 0);

    let none = MemFs::with_limits(Limits { bytes: None, inodes: Some(0) });
    assert_eq!(Vfs::new(Config::default(), none).err(), Some(Errno::ENOSPC));
}

/// As Linux shows them of a tmpfs that is mounted with the same options.
#[test]
fn what_is_not_so_by_default_is_shown() {
    let (default, mib) = (Limits::default().bytes, Some(1 << 20));
    let builder = |bytes, inodes| MemFs::builder().limits(Limits { bytes, inodes });
    for (builder, want) in [
        (MemFs::builder(), ""),
        (builder(mib, None), "size=1024k"),
        (builder(Some(1), None), "size=4k"),
        (builder(Some(u64::MAX), None), "size=18014398509481984k"),
        (builder(default, Some(7)), "nr_inodes=7"),
        (
            builder(Some(0), Some(7)).root_mode(0o700).root_owner(5, 0),
            "size=0k,nr_inodes=7,mode=700,uid=5",
        ),
        (MemFs::builder().root_mode(0o7), "mode=007"),
        (MemFs::builder().root_owner(0, 6), "gid=6"),
    ] {
        let vfs = Vfs::new(Config::default(), builder.build()).expect("a machine");
        let task = vfs.task(Cred::root());
        let line = String::from_utf8(mountinfo(&task)).expect("text");
        let comma = if want.is_empty() { "" } else { "," };
        assert!(line.ends_with(&format!(" - tmpfs none rw{comma}{want}\n")), "{line}");
        let statx = task.statx(At::Cwd, "/", AtFlags::empty(), StatxMask::MNT_ID_UNIQUE);
        let id = statx.expect("the root").stx_mnt_id;
        let told = task.statmount(id, StatmountMask::all()).expect("the root's mount");
        assert_eq!(told.mnt_opts, want.as_bytes());
        let each: Vec<_> = want.split(',').filter(|option| !option.is_empty()).collect();
        assert_eq!(told.opt_array, each.iter().map(|option| option.as_bytes()).collect::<Vec<_>>());
        let bits = StatmountMask::MNT_OPTS | StatmountMask::OPT_ARRAY;
        let filled = if want.is_empty() { StatmountMask::empty() } else { bits };
        let options = bits | StatmountMask::FS_SUBTYPE | StatmountMask::OPT_SEC_ARRAY;
        assert_eq!(told.mask & options, filled);
    }
}

#[test]
fn threads_together_get_what_there_is() {
    const THREADS: usize = 4;
    let (fs, task) = machine(Some(50), Some(101));
    let start = Barrier::new(THREADS);
    let made: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (task, start) = (task.fork(), &start);
                scope.spawn(move || {
                    start.wait();
                    let make = |at| {
                        let how = OpenFlags::CREAT | OpenFlags::WRONLY;
                        let file: File = task.open(format!("f{thread}.{at}"), how, 0o644).ok()?;
                        Some(task.pwrite(&file, b"x", 0).is_ok())
                    };
                    (0..100).filter_map(make).filter(|&written| written).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(made, 50);
    assert_eq!(fs.usage(), Usage { bytes: 50 * 4096, inodes: 101 });
    assert_eq!(task.stat("/").expect("the root").st_size, 40 + 100 * 20);
}

/// Rows of a call, and the inodes that are free after it, of 20: as Linux 6.18 shows them.
#[test]
fn attributes_take_the_room_of_inodes() {
    let (fs, task) = machine(None, Some(20));
    task.open("f", OpenFlags::CREAT, 0o644).expect("a file");
    task.mkdir("d", 0o755).expect("a directory");
    let none = XattrFlags::empty();
    let set = |name: &str, len: usize, flags| task.setxattr("f", name, &vec![b'x'; len], flags);
    let free = || task.statfs("/").expect("statfs").f_ffree;
    assert_eq!((free(), fs.usage().inodes), (17, 3));
    for (name, len, flags, answer, left) in [
        ("user.a", 900, none, Ok(()), 16),
        ("user.a", 2000, none, Ok(()), 15),
        ("trusted.a", 900, none, Ok(()), 14),
        ("trusted.a", 2000, none, Ok(()), 13),
        ("security.a", 2000, none, Ok(()), 10),
        // Whether there is room is asked before whether it is there.
        ("user.a", 30_000, XattrFlags::CREATE, Err(Errno::ENOSPC), 10),
        ("user.z", 30_000, XattrFlags::REPLACE, Err(Errno::ENOSPC), 10),
        ("user.z", 3, XattrFlags::REPLACE, Err(Errno::ENODATA), 10),
        ("user.a", 3, XattrFlags::CREATE, Err(Errno::EEXIST), 10),
    ] {
        assert_eq!(set(name, len, flags), answer, "{name} {len}");
        assert_eq!(free(), left, "{name} {len}");
    }
    task.removexattr("f", "trusted.a").expect("it is there");
    assert_eq!(free(), 13);
    task.unlink("f").expect("it is there");
    assert_eq!((free(), fs.usage().inodes), (18, 2));
}

#[test]
fn without_a_limit_of_inodes_attributes_take_a_quarter_of_the_pages() {
    let (fs, task) = machine(Some(8), None);
    task.mkdir("d", 0o755).expect("a directory");
    let none = XattrFlags::empty();
    let room = 8 * 4096 / 4 - 40 - "user.a".len();
    assert_eq!(task.setxattr("d", "user.a", &vec![0; room + 1], none), Err(Errno::ENOSPC));
    assert_eq!(task.setxattr("d", "user.a", &vec![0; room], none), Ok(()));
    assert_eq!(task.setxattr("d", "user.b", b"", none), Err(Errno::ENOSPC));
    assert_eq!(fs.usage().bytes, 0);
    task.rmdir("d").expect("it is empty");
    task.mkdir("e", 0o755).expect("a directory");
    assert_eq!(task.setxattr("e", "user.a", &vec![0; room], none), Ok(()));
}

/// A long body takes a page, with attributes and without.
#[test]
fn a_symlink_with_attributes_gives_its_page_back() {
    let (fs, task) = machine(Some(8), Some(20));
    let before = fs.usage();
    task.symlink("x".repeat(200), "l").expect("there is room");
    task.lsetxattr("l", "trusted.a", b"1", XattrFlags::empty()).expect("there is room");
    assert_eq!(fs.usage().bytes, 4096);
    task.link("l", "m").expect("there is room");
    task.unlink("l").expect("it is there");
    assert_eq!(task.lgetxattr("m", "trusted.a", &mut []), Ok(1));
    task.unlink("m").expect("it is there");
    assert_eq!(fs.usage(), before);
}
