//! Where calls begin, as others change it: who may search and read there.

use crate::{
    coherence::{each, elsewhere, ground, often},
    common::{Ground, as_ordinary_user},
    left_out::left_out,
};
use pathwalk_abi::{
    AccessMode, AtFlags, Errno, MountFlags, OpenFlags, OpenHow, ResolveFlags, Result,
};
use pathwalk_core::{At, Cred};
use pathwalk_hostfs::{Coherence, HostFs, HostOptions};
use rustix::process::geteuid;
use std::{
    fs::{self, Permissions},
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
};

/// No name leads to where a call begins, nor to the root of what is mounted.
#[test]
fn who_may_search_and_read_where_a_call_begins_is_seen() {
    if !geteuid().is_root() {
        return left_out("only root has directories that somebody else may not search");
    }
    let ground = ground(Coherence::Watched);
    let task = &ground.task;
    fs::create_dir_all(ground.host("other/below")).unwrap();
    let options = HostOptions { coherence: Coherence::Watched, ..HostOptions::default() };
    let other = HostFs::with_options(ground.host("other").as_os_str().as_bytes(), options).unwrap();
    fs::create_dir(ground.host("mnt")).unwrap();
    task.mount(other, "/mnt", MountFlags::empty()).unwrap();
    let directory =
        |path: &str| task.open(path, OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0).unwrap();
    let [held, file] = [directory("/a/b"), task.open("/a/b/c/file", OpenFlags::RDONLY, 0).unwrap()];
    let user_in = |dir: &str| {
        let mut user = task.fork();
        user.chdir(dir).unwrap();
        user.set_cred(Cred::user(1000, 1000));
        user
    };
    let [user, deep] = ["/a/b", "/a/b/c"].map(user_in);
    let reads = OpenFlags::RDONLY | OpenFlags::DIRECTORY;
    let (none, reading, empty) = (AccessMode::empty(), AccessMode::R_OK, AtFlags::EMPTY_PATH);
    type Call<'a> = (&'a str, &'a str, &'a dyn Fn() -> Result<(), Errno>);
    let calls: [Call<'_>; 15] = [
        (".", "the root", &|| user.access("/a", none)),
        (".", "the root, deep down", &|| user.access("/a/b/c/file", none)),
        (".", "the root, a name that is not there", &|| match user.access("/a/none", none) {
            Err(Errno::ENOENT) => Ok(()),
            answer => answer,
        }),
        (".", "the root, by a symlink", &|| user.access("up", none)),
        (".", "to read the root", &|| user.access("/", reading)),
        (".", "to list the root", &|| user.open("/", reads, 0).map(drop)),
        ("a/b", "the current directory", &|| user.access("c/file", none)),
        ("a/b", "the current directory, to read it", &|| user.access(".", reading)),
        ("a/b", "what is above it", &|| deep.access("../c/file", none)),
        ("a/b", "one that is held", &|| user.faccessat2(&held, "c/file", none, AtFlags::empty())),
        ("a/b", "one that is held, to read it", &|| user.faccessat2(&held, "", reading, empty)),
        ("a/b", "to enter it", &|| user.fork().fchdir(&held)),
        ("a/b", "to stat what is in it", &|| user.stat("c").map(drop)),
        ("other", "what is mounted", &|| user.access("/mnt/below", none)),
        ("a/b/c/file", "a file that is held", &|| user.faccessat2(&file, "", reading, empty)),
    ];
    symlink("/a/b/c", ground.host("a/b/up")).unwrap();
    for (dir, what, call) in calls {
        for round in 0..3 {
            elsewhere(&ground, &format!("chmod 700 {dir}"));
            assert_eq!(often(call), Err(Errno::EACCES), "{what}, round {round}");
            elsewhere(&ground, &format!("chmod 755 {dir}"));
            assert_eq!(often(call), Ok(()), "{what}, round {round}");
        }
    }
    // As long as nothing happens nobody asks for more than whether anything did: where the call begins, and about what follows by names; but
    // for a directory that is listed, or whose attributes are told, of which its times are.
    let is = |what: &str, those: &[&str]| those.iter().any(|part| what.contains(part));
    for (_, what, call) in calls {
        _ = often(call);
        let asked = ground.calls(|| assert_eq!(call(), Ok(()), "{what}"));
        let begins = if is(what, &["by a symlink", "above"]) { 2 } else { 1 };
        let more = if is(what, &["to list", "to stat"]) { 2 } else { 0 };
        assert!(asked <= 2 * begins + more, "{what}: {asked}");
    }
}

/// A dot is searched for where it stands, whatever becomes of the right to read.
#[test]
fn who_may_not_search_a_directory_finds_no_dot_in_it() {
    if !geteuid().is_root() {
        return left_out("only root has directories that somebody else may not search");
    }
    let ground = ground(Coherence::Watched);
    let task = &ground.task;
    let reads = OpenFlags::RDONLY | OpenFlags::DIRECTORY;
    let held = task.open("/a/b", reads, 0).unwrap();
    let mut user = task.fork();
    user.chdir("/a/b").unwrap();
    user.set_cred(Cred::user(1000, 1000));
    let none = AccessMode::empty();
    let creates = |path: &str| match user.open(path, OpenFlags::CREAT, 0o600).map(drop) {
        Err(Errno::EISDIR) => Ok(()),
        answer => answer,
    };
    type Call<'a> = (&'a str, &'a dyn Fn() -> Result<(), Errno>);
    let calls: [Call<'_>; 18] = [
        (".", &|| user.access(".", none)),
        ("..", &|| user.access("..", none)),
        ("../.", &|| user.access("../.", none)),
        ("../b", &|| user.access("../b", none)),
        ("/..", &|| user.access("/..", none)),
        (".. within bounds", &|| {
            let how =
                OpenHow { flags: reads.bits(), resolve: ResolveFlags::BENEATH.bits(), mode: 0 };
            user.openat2(At::Cwd, "c/..", &how).map(drop)
        }),
        ("to create ..", &|| creates("..")),
        ("to create /..", &|| creates("/..")),
        ("./", &|| user.access("./", AccessMode::R_OK)),
        ("./.", &|| user.access("./.", none)),
        ("/.", &|| user.access("/.", none)),
        ("to open .", &|| user.open(".", reads, 0).map(drop)),
        ("to open /.", &|| user.open("/.", reads, 0).map(drop)),
        ("to stat .", &|| user.stat(".").map(drop)),
        ("one that is held", &|| user.faccessat2(&held, ".", none, AtFlags::empty())),
        ("to create .", &|| creates(".")),
        ("to create c/", &|| creates("c/")),
        ("to create /a/", &|| creates("/a/")),
    ];
    for (what, call) in calls {
        for round in 0..3 {
            elsewhere(&ground, "chmod 744 a/b .");
            assert_eq!(often(call), Err(Errno::EACCES), "{what}, round {round}");
            elsewhere(&ground, "chmod 755 a/b .");
            assert_eq!(often(call), Ok(()), "{what}, round {round}");
        }
    }
}

/// To list a directory is to read it: to search it is not needed.
#[test]
fn who_may_read_a_directory_and_not_search_it_lists_it() {
    let test = "begins::who_may_read_a_directory_and_not_search_it_lists_it";
    as_ordinary_user(1000, test, || {
        for coherence in [Coherence::Exclusive, Coherence::Strict, Coherence::Watched] {
            let ground = ground(coherence);
            fs::set_permissions(ground.host("a/b"), Permissions::from_mode(0o400)).unwrap();
            let flags = OpenFlags::RDONLY | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW;
            let dir = ground.task.open("/a/b", flags, 0).unwrap();
            let mut buf = [0; 512];
            assert!(ground.task.getdents64(&dir, &mut buf).unwrap() > 0, "{coherence:?}");
            assert_eq!(ground.task.access("/a/b/c", AccessMode::empty()), Err(Errno::EACCES));
            fs::set_permissions(ground.host("a/b"), Permissions::from_mode(0o755)).unwrap();
        }
    });
}

/// What is cached alone does not say who may: that is asked. Of a place without a name a strict one asks nothing but by its names on the way.
#[test]
fn who_wants_no_more_than_what_is_cached_is_told_to_ask() {
    let named = [
        ("c", Ok(())),
        ("/a", Ok(())),
        ("/a/b/c", Ok(())),
        ("c/..", Ok(())),
        ("../link", Ok(())),
        ("none", Err(Errno::ENOENT)),
        ("/a/b/c/file/none", Err(Errno::ENOTDIR)),
    ];
    let unnamed = [".", "./", "..", "/", "/.", "/.."].map(|path| (path, Ok(())));
    each(|ground| {
        elsewhere(ground, "ln -s b a/link");
        told_to_ask(ground, &named, Err(Errno::EAGAIN));
    });
    told_to_ask(&ground(Coherence::Watched), &unnamed, Err(Errno::EAGAIN));
    // Nothing is believed of a name, and here is none.
    told_to_ask(&ground(Coherence::Strict), &unnamed, Ok(()));
}

/// Opens each path as it is, and by what is cached alone.
fn told_to_ask(ground: &Ground, paths: &[(&str, Result<()>)], cached: Result<()>) {
    let flags = OpenFlags::RDONLY | OpenFlags::DIRECTORY;
    ground.task.chdir("/a/b").unwrap();
    let open = |path: &str, resolve: ResolveFlags| {
        ground
            .task
            .openat2(
                At::Cwd,
                path,
                &OpenHow { flags: flags.bits(), resolve: resolve.bits(), mode: 0 },
            )
            .map(drop)
    };
    for &(path, answer) in paths {
        assert_eq!(often(|| open(path, ResolveFlags::empty())), answer, "{path}");
        assert_eq!(open(path, ResolveFlags::CACHED), cached, "{path}");
    }
}
