//! Crews of contenders that do something wrong, and of one that does it right.

use std::ffi::CStr;
use std::sync::atomic::AtomicBool;

use pathwalk_abi::{Errno, OpenFlags};

use super::*;
use crate::contender::{Look, Mounted};
use crate::floor::Floor;
use crate::pathwalk::Pathwalk;
use crate::recorder::Answer;
use crate::subject::Verdict;
use crate::workload::Case;

const PATHS: [&CStr; 3] = [c"/here", c"/gone", c"/there"];

/// Asks for three files, one of which is not there.
struct ThreeCalls;

impl Workload for ThreeCalls {
    const NAME: &'static str = "three";
    const ABOUT: &'static str = "three calls";

    fn new(_quick: bool) -> Result<Self, Error> {
        Ok(Self)
    }

    fn cases(&self) -> Vec<Case> {
        vec![Case::new("", PATHS.len())]
    }

    fn setup<W: Worker>(&self, _worker: &mut W, _threads: usize) -> Result<(), Error> {
        Ok(())
    }

    fn round<W: Worker>(&self, _case: usize, _thread: usize, worker: &mut W) -> u64 {
        PATHS.iter().map(|path| u64::from(worker.access(path).is_ok())).sum()
    }
}

/// What Linux would answer.
fn recorded() -> Vec<Said> {
    let said = |path: &CStr, answer| Said { path: path.to_bytes().into(), call: "access", answer };
    let gone = said(c"/gone", Answer(Err(Errno::ENOENT)));
    vec![gone, said(c"/here", Answer(Ok(0))), said(c"/there", Answer(Ok(0)))]
}

/// Knows the answers by heart, except where it is told not to.
#[derive(Default)]
struct Parrot {
    denies: Option<&'static CStr>,
    only_once: bool,
    only_one_thread: bool,
    panics_in_time: bool,
    workers: AtomicBool,
}

struct ParrotWorker {
    denies: Option<&'static CStr>,
    asked: usize,
    lies_after: usize,
    panics_after: usize,
}

impl Contender for Parrot {
    type Worker = ParrotWorker;

    fn name(&self) -> &str {
        "parrot"
    }

    fn worker(&self) -> Result<ParrotWorker, Error> {
        let not_the_first = self.workers.swap(true, Ordering::Relaxed);
        let denies = self.denies.filter(|_| !(self.only_one_thread && not_the_first));
        Ok(ParrotWorker {
            denies,
            asked: 0,
            lies_after: if self.only_once { 3 } else { 0 },
            panics_after: if self.panics_in_time { 3 } else { usize::MAX },
        })
    }
}

/// Writes calls that nobody makes.
macro_rules! unasked {
    ($($call:ident($($type:ty),*) -> $out:ty;)*) => {$(
        fn $call(&mut self, $(_: $type),*) -> Result<$out, Errno> {
            Err(Errno::ENOSYS)
        }
    )*};
}

impl Worker for ParrotWorker {
    type File = ();

    fn access(&mut self, path: &CStr) -> Result<(), Errno> {
        self.asked += 1;
        assert!(self.asked <= self.panics_after, "the parrot has had enough");
        let lie = self.asked > self.lies_after && self.denies == Some(path);
        if lie || path == c"/gone" { Err(Errno::ENOENT) } else { Ok(()) }
    }

    unasked! {
        stat(&CStr) -> Look;
        lstat(&CStr) -> Look;
        readlink(&CStr, &mut [u8]) -> usize;
        realpath(&CStr, &mut [u8]) -> usize;
        statx(&CStr) -> Look;
        open(&CStr, OpenFlags, u32) -> ();
        fstat(&()) -> Look;
        fstatat_empty(&()) -> Look;
        statx_empty(&()) -> Look;
        statx_null(&()) -> Look;
        openat(&(), &CStr, OpenFlags) -> ();
        statx_at(&(), &CStr) -> Look;
        getdents(&(), &mut [u8]) -> usize;
        mkdir(&CStr, u32) -> ();
        symlink(&CStr, &CStr) -> ();
        mkdirat(&(), &CStr, u32) -> ();
        symlinkat(&CStr, &(), &CStr) -> ();
        mknodat(&(), &CStr, u32) -> ();
        rmdir(&CStr) -> ();
        unlink(&CStr) -> ();
        rename(&CStr, &CStr) -> ();
        chmod(&CStr, u32) -> ();
        chown(&CStr, u32, u32) -> ();
        setxattr(&CStr, &CStr, &[u8]) -> ();
        mount(Mounted, &CStr) -> ();
        umount(&CStr) -> ();
    }

    fn umask(&mut self, mask: u32) -> u32 {
        mask
    }
}

fn crew(parrot: Parrot, threads: usize) -> Crew {
    Crew::start(parrot, &Arc::new(ThreeCalls), threads).expect("a crew")
}

#[test]
fn all_threads_work_at_once_and_no_more_than_there_are() {
    let mut crew = crew(Parrot::default(), 2);
    for thread in 0..2 {
        let heard = crew.check(0, thread).expect("answers").expect("some");
        assert!(matches!(heard, Heard::All(log) if log == recorded()));
    }
    assert!(crew.sample(0, 1, 1000).expect("a sample") > Duration::ZERO);
    assert!(crew.sample(0, 2, 1000).expect("a sample") > Duration::ZERO);
    assert_eq!(
        crew.sample(0, 3, 1).map_err(|error| error.to_string()),
        Err("parrot has 2 threads, not more".into())
    );
}

/// Asks for a file; in one case somebody renames a directory on the way to it meanwhile.
struct Moved;

impl Workload for Moved {
    const NAME: &'static str = "moved";
    const ABOUT: &'static str = "access to what is renamed";

    fn new(_quick: bool) -> Result<Self, Error> {
        Ok(Self)
    }

    fn cases(&self) -> Vec<Case> {
        vec![Case::new("quiet", 1000), Case::new("moved", 1000).disturbed()]
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        for dir in [c"/a", c"/a/b"] {
            worker.mkdir(dir, 0o755).map_err(|errno| Error::doing("mkdir", errno))?;
        }
        let made = worker.open(c"/a/b/file", OpenFlags::CREAT | OpenFlags::WRONLY, 0o644);
        made.map(drop).map_err(|errno| Error::doing("open", errno))
    }

    fn round<W: Worker>(&self, _case: usize, _thread: usize, worker: &mut W) -> u64 {
        (0..1000).map(|_| u64::from(worker.access(c"/a/b/file").is_ok())).sum()
    }

    fn disturb<W: Worker>(&self, _case: usize, worker: &mut W) {
        let _ = worker.rename(c"/a/b", c"/a/c").and_then(|()| worker.rename(c"/a/c", c"/a/b"));
    }
}

#[test]
fn walks_that_have_to_hold_are_counted_where_they_are_timed() {
    for contender in [Pathwalk::new(), Pathwalk::walking()] {
        let contender = contender.expect("a machine");
        let mut crew = Crew::start(contender, &Arc::new(Moved), 1).expect("a crew");
        crew.sample(0, 1, 10).expect("a sample");
        assert_eq!(crew.held(0), Some((0, 10_000)));
        assert_eq!(crew.held(1), None);
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut samples = 0;
        while crew.held(1).is_none_or(|(held, _)| held == 0) {
            assert!(Instant::now() < deadline, "nobody had to hold: {:?}", crew.held(1));
            crew.sample(1, 1, 10).expect("a sample");
            samples += 1;
        }
        assert!(crew.held(1).is_some_and(|(_, ops)| ops == samples * 10_000));
    }
    let mut parrot = crew(Parrot::default(), 1);
    parrot.sample(0, 1, 1).expect("a sample");
    assert_eq!(parrot.held(0), None);
}

#[test]
fn who_shares_a_core_is_timed_with_whom_he_shares_it() {
    let noon = Instant::now();
    let at = |ms| noon + Duration::from_millis(ms);
    let batch =
        |number, from, to| Batch { number, start: at(from), end: at(to), done: 1, held: None };
    // The second one begins when the first one is done: his clock alone says that nobody else was there.
    let batches = [batch(0, 0, 10), batch(1, 10, 20)];
    assert_eq!(time_of_each(&batches, 2), Duration::from_millis(10));
    assert_eq!(time_of_each(&batches, 1), Duration::from_millis(20));
    // One is taken away for a while: half the rate is his, and the other one's is whole.
    let batches = [batch(0, 0, 10), batch(1, 0, 20)];
    assert_eq!(time_of_each(&batches, 2).as_micros(), 13_333);
}

#[test]
fn who_disturbs_has_a_core_that_nobody_beside_him_has() {
    assert_eq!(places(&[0, 1], 2, None), [0, 1]);
    assert_eq!(places(&[0, 1], 2, Some(1)), [0, 1, 1]);
    assert_eq!(places(&[0, 1], 1, Some(1)), [0, 1]);
    assert_eq!(places(&[2, 3, 5, 7], 4, Some(3)), [2, 3, 5, 7, 7]);
    assert_eq!(places(&[2, 3, 5, 7], 2, Some(2)), [2, 3, 5]);
    // Where there is one they take turns.
    assert_eq!(places(&[4], 1, Some(1)), [4, 4]);
}

#[test]
fn a_wrong_answer_is_named_with_what_each_one_said() {
    let liar = || Parrot { denies: Some(c"/there"), ..Parrot::default() };
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(Crew::start(Floor, &Arc::new(ThreeCalls), 1).expect("a crew")),
        Box::new(crew(Parrot::default(), 1)),
        Box::new(crew(liar(), 1)),
        Box::new(crew(liar(), 1)),
    ];
    for recorded in [Some(recorded()), None] {
        let by = if recorded.is_some() { "recorded" } else { "parrot" };
        let mut verdict = Verdict::default();
        verdict.check(&mut subjects, (0, 0), recorded).expect("a verdict");
        assert_eq!(verdict.mismatches, [0, 0, 1, 1]);
        assert_eq!((verdict.wrong, verdict.calls), (1, 3));
        let line = format!("access /there: {by} OK, parrot ENOENT, parrot ENOENT");
        assert_eq!(verdict.lines, [line]);
    }
}

#[test]
fn a_thread_that_differs_is_found_by_its_check() {
    let liar = Parrot { denies: Some(c"/here"), only_one_thread: true, ..Parrot::default() };
    let mut subjects: Vec<Box<dyn Subject>> =
        vec![Box::new(crew(Parrot::default(), 2)), Box::new(crew(liar, 2))];
    let mut verdict = Verdict::default();
    for thread in 0..2 {
        verdict.check(&mut subjects, (0, thread), None).expect("a verdict");
    }
    assert_eq!(verdict.mismatches, [0, 1]);
}

#[test]
fn an_answer_that_turns_wrong_in_time_fails_the_sample() {
    let mut crew = crew(Parrot { denies: Some(c"/here"), only_once: true, ..Parrot::default() }, 1);
    crew.check(0, 0).expect("the first three answers are right");
    let error = crew.sample(0, 1, 10).expect_err("then it lies").to_string();
    assert_eq!(error, "parrot: 10 calls succeeded in time, not 20");
}

#[test]
fn a_thread_that_dies_fails_the_sample() {
    let mut crew = crew(Parrot { panics_in_time: true, ..Parrot::default() }, 2);
    crew.check(0, 0).expect("the first three answers come");
    crew.check(0, 1).expect("in each thread");
    let error = crew.sample(0, 2, 1).expect_err("the threads panic").to_string();
    assert_eq!(error, "a thread of parrot died");
}
