//! What explain says of a walk: where it stood, which rule decided, and what it failed at.

mod common;

use common::sample::SampleFs;
use pathwalk::{
    AccessMode, AtFlags, Config, Cred, Errno, FileType, MemFs, MountFlags, ResolveFlags, Rule,
    Task, Vfs,
    explain::{Cause, ExplainHow, Explanation},
    fs::{Features, FileSystem},
    observe::Left,
};
use std::sync::Arc;

const HOW: ExplainHow = ExplainHow {
    access: AccessMode::empty(),
    flags: AtFlags::empty(),
    resolve: ResolveFlags::empty(),
};

/// A machine with the files of `ls -l`-like lines: type, mode, path and perhaps a target.
fn machine(fs: Arc<dyn FileSystem>, files: &str) -> Task {
    let task = Vfs::new(Config::default(), fs).unwrap().task(Cred::root());
    task.umask(0);
    task.chmod("/", 0o755).unwrap();
    for line in files.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let mode = u32::from_str_radix(fields[1], 8).unwrap();
        match fields[0] {
            "d" => task.mkdir(fields[2], mode),
            "l" => task.symlink(fields[3], fields[2]),
            _ => task.creat(fields[2], mode).map(drop),
        }
        .unwrap_or_else(|errno| panic!("{line}: {errno}"));
    }
    task
}

const FILES: &str = "\
    d 755 /etc
    l 777 /etc/cc       /usr/bin/gcc
    d 755 /usr
    d 755 /usr/bin
    f 755 /usr/bin/gcc-12
    l 777 /usr/bin/gcc  gcc-12
    l 777 /usr/bin/cc   /etc/cc
    l 777 /bin          usr/bin
    f 644 /usr/text
    d 700 /secret
    f 644 /secret/text
    d 1777 /tmp
    l 777 /tmp/theirs   /usr
    l 777 /a            b
    l 777 /b            a
    d 755 /mnt";

fn user(task: &Task) -> Task {
    task.vfs().task(Cred::user(1000, 1000).with_groups(&[4]))
}

fn names(explanation: &Explanation) -> Vec<String> {
    explanation.steps.iter().map(|step| step.to.to_string()).collect()
}

#[test]
fn a_walk_through_symlinks_is_told_step_by_step() {
    let user = user(&machine(MemFs::new(), FILES));
    // The first walk writes the symlinks' times of last access.
    user.stat("/bin/cc").unwrap();
    let explanation = user.explain("/bin/cc", HOW);
    let want = "\
/bin/cc as user 1000, group 1000 and 4

  component  mode        owner  inode  mount  walk  what happened
  /          drwxr-xr-x  0:0        1      2  rcu   search: everyone may
  bin        lrwxrwxrwx  0:0        9      2  rcu   symlink 1 of 40 to usr/bin
    usr      drwxr-xr-x  0:0        4      2  rcu   search: everyone may
    bin      drwxr-xr-x  0:0        5      2  rcu   search: everyone may
  cc         lrwxrwxrwx  0:0        8      2  rcu   symlink 2 of 40 to /etc/cc
    /        drwxr-xr-x  0:0        1      2  rcu   search: everyone may
    etc      drwxr-xr-x  0:0        2      2  rcu   search: everyone may
    cc       lrwxrwxrwx  0:0        3      2  rcu   symlink 3 of 40 to /usr/bin/gcc
    /        drwxr-xr-x  0:0        1      2  rcu   search: everyone may
    usr      drwxr-xr-x  0:0        4      2  rcu   search: everyone may
    bin      drwxr-xr-x  0:0        5      2  rcu   search: everyone may
    gcc      lrwxrwxrwx  0:0        7      2  rcu   symlink 4 of 40 to gcc-12
    gcc-12   -rwxr-xr-x  0:0        6      2  rcu   arrived

It is /usr/bin/gcc-12, a regular file.
4 symlinks of 40 were followed; the walk held nothing (RCU-walk).
";
    assert_eq!(explanation.to_string(), want);
    assert_eq!(explanation.outcome.map(|arrival| arrival.step), Ok(12));
    let paths: Vec<Vec<u8>> = [1, 3, 4, 7].map(|step| explanation.path_of(step)).into();
    assert_eq!(paths, [&b"/bin"[..], b"/usr/bin", b"/usr/bin/cc", b"/etc/cc"]);
}

#[test]
fn a_refused_directory_is_named_with_the_class_and_its_bits() {
    let task = machine(MemFs::new(), FILES);
    let want = "\
/usr/../secret/text as user 1000, group 1000 and 4

  component  mode        owner  inode  mount  walk  what happened
  /          drwxr-xr-x  0:0        1      2  rcu   search: everyone may
  usr        drwxr-xr-x  0:0        4      2  rcu   search: everyone may
  ..         drwxr-xr-x  0:0        1      2  rcu   search: everyone may
  secret     drwx------  0:0       11      2  rcu   no search: others' bits; EACCES

EACCES (Permission denied): /secret may not be searched: user 1000 is not the owner 0, group 0 is none of its \
groups, and others' bits --- lack x.
No symlink was followed; the walk held nothing (RCU-walk).
";
    assert_eq!(user(&task).explain("/usr/../secret/text", HOW).to_string(), want);
    // The same directory is passed by who has the capability, and the rule says so.
    let capable = task.vfs().task(Cred { fsuid: 7, ..Cred::root() });
    for (who, rule) in [(&task, Rule::Owner), (&capable, Rule::CapDacReadSearch)] {
        let explanation = who.explain("/secret/text", HOW);
        assert_eq!(explanation.steps[1].search, Some(Ok(rule)));
        assert!(explanation.outcome.is_ok());
    }
}

/// Rows: the path, what is asked for, and the errno, the step's path and the cause.
#[test]
fn every_failure_names_its_place_and_its_cause() {
    let task = machine(MemFs::new(), FILES);
    let theirs = Cred { uid: 7, fsuid: 7, ..Cred::root() };
    let other = task.vfs().task(theirs);
    other.symlink("/usr", "/tmp/others").unwrap();
    let user = user(&task);
    let long = format!("/{}", "n".repeat(256));
    let longer = "/n".repeat(2048);
    let access = |access| ExplainHow { access, ..HOW };
    let nofollow = ExplainHow { flags: AtFlags::SYMLINK_NOFOLLOW, ..HOW };
    let scoped = |resolve| ExplainHow { resolve, ..HOW };
    let rows: &[(&str, ExplainHow, Errno, Option<&str>, Cause)] = &[
        ("", HOW, Errno::ENOENT, None, Cause::EmptyPath),
        (&longer, HOW, Errno::ENAMETOOLONG, None, Cause::LongPath),
        (
            "/",
            ExplainHow { flags: AtFlags::REMOVEDIR, ..HOW },
            Errno::EINVAL,
            None,
            Cause::UnknownFlag,
        ),
        ("/usr/none/x", HOW, Errno::ENOENT, Some("/usr/none"), Cause::Absent),
        ("/bin/none", HOW, Errno::ENOENT, Some("/usr/bin/none"), Cause::Absent),
        (&long, HOW, Errno::ENAMETOOLONG, Some(&long), Cause::LongName),
        ("/usr/a\0b/c", HOW, Errno::EINVAL, Some("/usr/a\0b"), Cause::NulByte),
        ("/usr/text/x", HOW, Errno::ENOTDIR, Some("/usr/text"), Cause::NotDirectory),
        ("/usr/text/", HOW, Errno::ENOTDIR, Some("/usr/text"), Cause::NotDirectory),
        ("/usr/bin/cc/..", HOW, Errno::ENOTDIR, Some("/usr/bin/gcc-12"), Cause::NotDirectory),
        ("/secret/x/y", HOW, Errno::EACCES, Some("/secret"), Cause::Search(Rule::Other)),
        ("/a", HOW, Errno::ELOOP, Some("/a"), Cause::TooManyLinks),
        ("/a/x", HOW, Errno::ELOOP, Some("/a"), Cause::TooManyLinks),
        ("/tmp/others", HOW, Errno::EACCES, Some("/tmp/others"), Cause::ProtectedLink),
        (
            "/bin/gcc",
            scoped(ResolveFlags::NO_SYMLINKS),
            Errno::ELOOP,
            Some("/bin"),
            Cause::LinksForbidden,
        ),
        ("/usr", scoped(ResolveFlags::BENEATH), Errno::EXDEV, None, Cause::Scope),
        ("usr/../..", scoped(ResolveFlags::BENEATH), Errno::EXDEV, Some("/"), Cause::Scope),
        ("bin/cc", scoped(ResolveFlags::BENEATH), Errno::EXDEV, Some("/usr/bin/cc"), Cause::Scope),
        (
            "/usr/text",
            access(AccessMode::W_OK),
            Errno::EACCES,
            Some("/usr/text"),
            Cause::Access(Rule::Other),
        ),
        ("/usr/none/", nofollow, Errno::ENOENT, Some("/usr/none"), Cause::Absent),
    ];
    for (path, how, errno, at, cause) in rows {
        let explanation = user.explain(path, *how);
        let failure = explanation.outcome.expect_err(path);
        assert_eq!((failure.errno, failure.cause), (*errno, *cause), "{path}\n{explanation}");
        // A path that leaves by `..` stands where it was.
        if *path != "usr/../.." {
            let step = failure.step.map(|step| explanation.path_of(step));
            assert_eq!(step.as_deref(), at.map(str::as_bytes), "{path}\n{explanation}");
        }
        let first = explanation.to_string();
        let sentence = format!("{}: ", errno);
        assert!(first.lines().any(|line| line.starts_with(&sentence)), "{path}\n{explanation}");
        // It is what the call answers.
        if how.access.is_empty() && how.resolve.is_empty() && how.flags.is_empty() {
            assert_eq!(user.stat(path).map(drop), Err(*errno), "{path}");
        }
    }
}

#[test]
fn links_are_counted_to_forty_and_the_41st_is_named() {
    let task = machine(MemFs::new(), "l 777 /a b\nl 777 /b a");
    let explanation = task.explain("/a", HOW);
    assert_eq!(explanation.links, 40);
    let numbers: Vec<u32> =
        explanation.steps.iter().flat_map(|step| &step.link).map(|link| link.number).collect();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
    assert_eq!(explanation.steps.len(), 42, "the root, forty links, and the one too many");
    let last = &explanation.steps[41];
    assert_eq!((last.to.to_string().as_str(), last.link.is_none()), ("a", true));
    assert!(last.stand.is_some(), "what it is was seen");
    let text = explanation.to_string();
    assert!(text.contains("/a would be symlink 41 of 40 that may be followed"), "{text}");
}

#[test]
fn the_access_asked_for_is_granted_by_a_rule() {
    let task = machine(MemFs::new(), "f 640 /ours\nf 604 /everybodys\nf 600 /none");
    task.chown("/ours", Some(1000), Some(20)).unwrap();
    let read = ExplainHow { access: AccessMode::R_OK, ..HOW };
    let write = ExplainHow { access: AccessMode::W_OK, ..HOW };
    let run = ExplainHow { access: AccessMode::X_OK, ..HOW };
    let vfs = task.vfs();
    let (owner, group) = (vfs.task(Cred::user(1000, 1)), vfs.task(Cred::user(1, 20)));
    let rows: &[(&Task, &str, ExplainHow, Result<Rule, Cause>)] = &[
        (&owner, "/ours", read, Ok(Rule::Owner)),
        (&owner, "/ours", run, Err(Cause::Access(Rule::Owner))),
        (&group, "/ours", read, Ok(Rule::Group)),
        (&group, "/ours", write, Err(Cause::Access(Rule::Group))),
        (&group, "/everybodys", read, Ok(Rule::Other)),
        (&group, "/none", read, Err(Cause::Access(Rule::Other))),
        (&task, "/none", write, Ok(Rule::Other).and(Ok(Rule::Owner))),
        (&task, "/none", run, Err(Cause::Access(Rule::Owner))),
        (&task, "/ours", write, Ok(Rule::CapDacOverride)),
    ];
    for (who, path, how, want) in rows {
        let explanation = who.explain(path, *how);
        let got = match explanation.outcome {
            Ok(arrival) => Ok(arrival.access.expect("something was asked for")),
            Err(failure) => Err(failure.cause),
        };
        assert_eq!(got, *want, "{explanation}");
        assert!(task.explain(path, HOW).outcome.is_ok_and(|arrival| arrival.access.is_none()));
    }
    let told = group.explain("/ours", write).to_string();
    let why =
        "/ours may not be used so: group 20 is one of its groups, and the group's bits r-- lack";
    assert!(told.contains(why), "{told}");
}

#[test]
fn mounts_are_crossed_both_ways_and_their_flags_are_felt() {
    let task = machine(MemFs::new(), "d 755 /mnt\nf 755 /tool");
    let flags = MountFlags::RDONLY | MountFlags::NOEXEC;
    task.bind("/", "/mnt").unwrap();
    task.mount(MemFs::new(), "/mnt", flags).unwrap();
    let explanation = task.explain("/mnt/../tool", HOW);
    let mounts: Vec<u64> =
        explanation.steps.iter().map(|step| step.stand.as_ref().unwrap().mount).collect();
    let (below, above) = (mounts[0], mounts[1]);
    assert_eq!(mounts, [below, above, below, below]);
    // The bind mount lies between the two.
    assert_eq!(explanation.steps[1].crossed.last(), Some(&above));
    assert_eq!(explanation.steps[1].crossed.len(), 2);
    let text = explanation.to_string();
    assert!(text.contains(&format!("; into mount {above}; search")), "{text}");
    assert!(text.contains(&format!("out of mount {above}")), "{text}");
    assert!(task.explain("/..", HOW).to_string().contains("stays: this is the root"));

    let asked = |access| task.explain("/mnt", ExplainHow { access, ..HOW }).outcome;
    assert_eq!(asked(AccessMode::W_OK).map_err(|why| why.cause), Err(Cause::ReadOnly));
    let xdev = ExplainHow { resolve: ResolveFlags::NO_XDEV, ..HOW };
    let failure = task.explain("/mnt", xdev).outcome.unwrap_err();
    assert_eq!((failure.errno, failure.cause), (Errno::EXDEV, Cause::Scope));

    let task = machine(MemFs::new(), "d 755 /mnt");
    let fs = MemFs::new();
    task.mount(fs, "/mnt", MountFlags::NOEXEC).unwrap();
    task.creat("/mnt/tool", 0o777).unwrap();
    let run = ExplainHow { access: AccessMode::X_OK, ..HOW };
    assert_eq!(task.explain("/mnt/tool", run).outcome.map_err(|why| why.cause), Err(Cause::NoExec));
}

#[test]
fn a_walk_says_why_it_had_to_hold_its_place() {
    // A symlink that was never read.
    let task = machine(MemFs::new(), "d 755 /d\nl 777 /d/link file\nf 644 /d/file");
    let first = task.explain("/d/link", HOW);
    assert_eq!(first.left, Some(Left::Atime));
    let holding: Vec<bool> = first.steps.iter().map(|step| step.holding).collect();
    assert_eq!(
        (names(&first).as_slice(), &holding[..]),
        (
            &["/".to_owned(), "d".into(), "link".into(), "file".into()][..],
            &[false, false, true, true][..],
        )
    );
    let text = first.to_string();
    assert!(
        text.contains("held from here on: the symlink's time of last access is to be"),
        "{text}"
    );
    assert_eq!(task.explain("/d/link", HOW).left, None, "the second walk has nothing to write");

    // File systems that want to be asked.
    let ask = |features, path: &str| {
        let fs = SampleFs::new(features);
        fs.appear("d", FileType::Directory, 0o755, "");
        fs.appear("file", FileType::Regular, 0o644, "");
        let task = machine(fs, "f 644 /d/file");
        let read = ExplainHow { access: AccessMode::R_OK, ..HOW };
        let explanations = [task.explain(path, read), task.explain(path, read)];
        for explanation in &explanations {
            assert!(explanation.outcome.is_ok(), "{explanation}");
            let held = explanation.steps.iter().any(|step| step.holding);
            assert_eq!(held, explanation.left.is_some(), "{explanation}");
            assert_eq!(explanation.path_of(explanation.steps.len() - 1), path.as_bytes());
        }
        explanations.map(|explanation| explanation.left)
    };
    let plain = Features::empty();
    assert_eq!(ask(plain, "/file"), [Some(Left::NotCached), None]);
    assert_eq!(ask(Features::REVALIDATE, "/d/file")[1], Some(Left::Revalidate));
    assert_eq!(ask(Features::PERMISSION, "/d/file")[1], Some(Left::Permission));
    // Only the file itself is asked about, at the very end.
    let opted_in = Features::PERMISSION | Features::MAY_EXEC;
    assert_eq!(ask(opted_in, "/d/file")[1], Some(Left::Permission));

    // What may not be asked is not answered.
    let fs = SampleFs::new(plain);
    fs.appear("file", FileType::Regular, 0o644, "");
    let task = machine(fs, "");
    let cached = ExplainHow { resolve: ResolveFlags::CACHED, ..HOW };
    let failure = task.explain("/file", cached).outcome.unwrap_err();
    assert_eq!((failure.errno, failure.cause), (Errno::EAGAIN, Cause::WouldHold));
}

#[test]
fn a_walk_that_began_anew_tells_its_last_beginning() {
    let fs = SampleFs::new(Features::empty());
    fs.appear("file", FileType::Regular, 0o644, "");
    fs.stale.store(1, std::sync::atomic::Ordering::Relaxed);
    let task = machine(fs, "");
    let explanation = task.explain("/file", HOW);
    assert_eq!(explanation.restarts, [Errno::ESTALE]);
    assert_eq!(names(&explanation), ["/", "file"]);
    assert!(explanation.steps.iter().all(|step| step.holding), "{explanation}");
    assert!(explanation.to_string().contains("It began once more"), "{explanation}");
    assert!(explanation.outcome.is_ok());
}

#[test]
fn a_refusal_of_a_walk_that_holds_is_told_like_any_other() {
    let fs = SampleFs::new(Features::PERMISSION);
    fs.appear("shut", FileType::Directory, 0o700, "");
    let user = user(&machine(fs, ""));
    for _ in 0..2 {
        let explanation = user.explain("/shut/file", HOW);
        let failure = explanation.outcome.unwrap_err();
        assert_eq!(failure.cause, Cause::Search(Rule::FileSystem));
        assert_eq!(names(&explanation), ["/", "shut"], "{explanation}");
        assert_eq!(explanation.steps[1].search, Some(Err(Rule::FileSystem)));
    }
}

#[test]
fn a_relative_path_begins_at_the_current_directory() {
    let task = machine(MemFs::new(), FILES);
    task.chdir("/usr/bin").unwrap();
    let explanation = task.explain("./../text", HOW);
    assert_eq!(names(&explanation), ["(cwd)", ".", "..", "text"]);
    assert_eq!(explanation.path_of(0), b"/usr/bin");
    assert_eq!(explanation.path_of(3), b"/usr/text");
    let nothing = ExplainHow { flags: AtFlags::EMPTY_PATH, ..HOW };
    assert_eq!(task.explain("", nothing).outcome.map(|arrival| arrival.step), Ok(0));
    let nofollow = ExplainHow { flags: AtFlags::SYMLINK_NOFOLLOW, ..HOW };
    let link = task.explain("cc", nofollow);
    assert!(link.to_string().contains("It is /usr/bin/cc, a symlink."), "{link}");
    assert_eq!(link.links, 0);
    // The current directory as the root: the symlink to /etc/cc does not leave it.
    let within = ExplainHow { resolve: ResolveFlags::IN_ROOT, ..HOW };
    let explanation = task.explain("/cc", within);
    assert_eq!(names(&explanation), ["/", "cc", "/", "etc"]);
    assert_eq!(explanation.outcome.map_err(|failure| failure.cause), Err(Cause::Absent));
}

/// Explaining is no second way to look something up: it answers what stat answers, for any bytes.
#[test]
fn it_answers_what_stat_answers() {
    let task = machine(MemFs::new(), FILES);
    let user = user(&task);
    let words = ["usr", "bin", "cc", "gcc", "text", "..", ".", "", "a", "secret", "tmp", "none"];
    let mut random = fastrand::Rng::with_seed(common::seed());
    for _ in 0..5000 {
        let path: Vec<&str> =
            (0..random.usize(1..8)).map(|_| words[random.usize(..words.len())]).collect();
        let path = path.join("/");
        for who in [&task, &user] {
            let explanation = who.explain(&path, HOW);
            let want = who.stat(&path);
            assert_eq!(
                explanation.outcome.map(drop).map_err(|why| why.errno),
                want.map(drop),
                "{path}"
            );
            let Ok(arrival) = explanation.outcome else { continue };
            let stat = want.unwrap();
            let attr = explanation.steps[arrival.step].stand.as_ref().unwrap().attr.unwrap();
            assert_eq!(attr.ino, stat.st_ino, "{explanation}");
            let real = explanation.path_of(arrival.step);
            assert_eq!(task.lstat(&real).map(|stat| stat.st_ino), Ok(stat.st_ino), "{explanation}");
        }
    }
}
