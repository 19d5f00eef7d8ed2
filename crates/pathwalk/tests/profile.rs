//! Each difference between versions of Linux that a profile knows, in all three profiles.

use pathwalk::{
    At, AtFlags, Config, Cred, Dev, Errno, LinuxProfile, MemFs, OpenFlags, OpenHow, Result,
    StatxMask, Task, Vfs, XattrFlags,
};

fn task(profile: LinuxProfile) -> Task {
    let config = Config { profile, ..Config::default() };
    Vfs::new(config, MemFs::new()).unwrap().task(Cred::root())
}

/// What a call answers in Linux 6.12, 6.18 and 7.2.
fn answers<R>(call: impl Fn(&Task) -> Result<R>) -> [Option<Errno>; 3] {
    [LinuxProfile::V6_12, LinuxProfile::V6_18, LinuxProfile::V7_2]
        .map(|profile| call(&task(profile)).err())
}

#[test]
fn the_default_is_6_18() {
    assert_eq!(LinuxProfile::default(), LinuxProfile::V6_18);
    assert_eq!(Config::default().profile, LinuxProfile::V6_18);
}

#[test]
fn a_slash_behind_a_file_and_a_name_above_it() {
    let rename = |t: &Task| {
        t.mkdir("/d", 0o755)?;
        t.creat("/d/f", 0o644)?;
        t.rename("/d/f/", "/d")
    };
    let (slash, above) = (Some(Errno::ENOTDIR), Some(Errno::ENOTEMPTY));
    assert_eq!(answers(rename), [slash, slash, above]);
    let plain = |t: &Task| {
        t.creat("/f", 0o644)?;
        t.rename("/f/", "/g")
    };
    assert_eq!(answers(plain), [slash; 3]);
}

#[test]
fn flags_beside_an_open_file() {
    let unknown = AtFlags::EMPTY_PATH | AtFlags::from_bits_retain(1);
    let statx = |flags| {
        answers(move |t| {
            let root = t.open("/", OpenFlags::PATH, 0)?;
            t.statx(&root, "", flags, StatxMask::all())
        })
    };
    let fstatat = |flags| {
        answers(move |t| {
            let root = t.open("/", OpenFlags::PATH, 0)?;
            t.fstatat(&root, "", flags)
        })
    };
    let refused = Some(Errno::EINVAL);
    assert_eq!(statx(unknown), [refused, None, None]);
    assert_eq!(fstatat(unknown), [refused, None, None]);
    let known = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    assert_eq!((statx(known), fstatat(known)), ([None; 3], [None; 3]));
}

#[test]
fn attributes_of_sockets() {
    let set = |t: &Task| {
        t.mknod("/s", 0o140_644, Dev::default())?;
        t.setxattr("/s", "user.a", b"1", XattrFlags::empty())
    };
    assert_eq!(answers(set), [Some(Errno::EPERM), Some(Errno::EPERM), None]);
    let get = |t: &Task| {
        t.mknod("/s", 0o140_644, Dev::default())?;
        t.getxattr("/s", "user.a", &mut [])
    };
    assert_eq!(answers(get), [Some(Errno::ENODATA); 3]);
}

#[test]
fn an_empty_path_to_open() {
    let flags = OpenFlags::EMPTYPATH;
    let openat2 = |t: &Task| {
        let root = t.open("/", OpenFlags::PATH, 0)?;
        t.openat2(&root, "", &OpenHow { flags: flags.bits(), mode: 0, resolve: 0 })
    };
    assert_eq!(answers(openat2), [Some(Errno::EINVAL), Some(Errno::EINVAL), None]);
    // openat drops what it does not know.
    let openat = |t: &Task| {
        let root = t.open("/", OpenFlags::PATH, 0)?;
        t.openat(&root, "", flags, 0)
    };
    assert_eq!(answers(openat), [Some(Errno::ENOENT), Some(Errno::ENOENT), None]);
    let t = task(LinuxProfile::V7_2);
    t.creat("/f", 0o644).unwrap();
    let path = t.open("/f", OpenFlags::PATH, 0).unwrap();
    let file = t.openat(&path, "", flags | OpenFlags::WRONLY, 0).unwrap();
    assert_eq!(t.write(&file, b"x"), Ok(1));
    assert_eq!(
        t.openat(At::Cwd, "", flags, 0).map(|cwd| cwd.ino()),
        Ok(t.stat("/").unwrap().st_ino)
    );
}
