//! Crews of contenders that do something wrong, and of one that does it right.

use std::ffi::CStr;
use std::sync::atomic::AtomicBool;

use pathwalk_abi::Errno;

use super::*;
use crate::calls;
use crate::floor::Floor;
use crate::subject::check;

const CALLS: &[u8] = b"/here\tOK\n/gone\tENOENT\n/there\tOK\n";

fn three_calls() -> Vec<Call> {
    calls::parse(CALLS).expect("three calls")
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

impl Worker for ParrotWorker {
    fn access(&mut self, path: &CStr) -> Result<(), Errno> {
        self.asked += 1;
        assert!(self.asked <= self.panics_after, "the parrot has had enough");
        let lie = self.asked > self.lies_after && self.denies == Some(path);
        if lie || path == c"/gone" { Err(Errno::ENOENT) } else { Ok(()) }
    }
}

fn crew(parrot: Parrot, threads: usize) -> Crew {
    Crew::start(parrot, &three_calls(), threads).expect("a crew")
}

#[test]
fn all_threads_work_at_once_and_the_slowest_counts() {
    let mut crew = crew(Parrot::default(), 2);
    assert_eq!(crew.check().expect("answers").expect("some").len(), 3);
    assert!(crew.sample(1, 1000).expect("a sample") > Duration::ZERO);
    assert!(crew.sample(2, 1000).expect("a sample") > Duration::ZERO);
    assert_eq!(
        crew.sample(3, 1).map_err(|error| error.to_string()),
        Err("parrot has 2 threads, not 3".into())
    );
}

#[test]
fn a_wrong_answer_is_named_with_what_each_one_said() {
    let calls = three_calls();
    let liar = Parrot { denies: Some(c"/there"), ..Parrot::default() };
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(Crew::start(Floor, &calls, 1).expect("a crew")),
        Box::new(crew(Parrot::default(), 1)),
        Box::new(crew(liar, 1)),
    ];
    let verdict = check(&mut subjects, &calls).expect("a verdict");
    assert_eq!(verdict.mismatches, [0, 0, 1]);
    assert_eq!(verdict.wrong, ["/there: recorded OK, parrot OK, parrot ENOENT"]);
}

#[test]
fn threads_that_disagree_fail_the_check() {
    let liar = Parrot { denies: Some(c"/here"), only_one_thread: true, ..Parrot::default() };
    let error = crew(liar, 2).check().expect_err("one thread lies").to_string();
    assert!(
        error == "parrot: /here: ENOENT in one thread, OK in another"
            || error == "parrot: /here: OK in one thread, ENOENT in another",
        "{error}"
    );
}

#[test]
fn an_answer_that_turns_wrong_in_time_fails_the_sample() {
    let mut crew = crew(Parrot { denies: Some(c"/here"), only_once: true, ..Parrot::default() }, 1);
    crew.check().expect("the first three answers are right");
    let error = crew.sample(1, 10).expect_err("then it lies").to_string();
    assert_eq!(error, "parrot found 10 files in time, not 20");
}

#[test]
fn a_thread_that_dies_fails_the_sample() {
    let mut crew = crew(Parrot { panics_in_time: true, ..Parrot::default() }, 2);
    crew.check().expect("the first three answers come");
    let error = crew.sample(2, 1).expect_err("the threads panic").to_string();
    assert_eq!(error, "a thread of parrot died");
}
