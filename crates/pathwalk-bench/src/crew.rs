//! A contender in this process: its threads, each bound to a core and with a worker, kept for the whole run.
//!
//! The threads sleep while somebody else has the turn. In their own turn they first meet, spinning,
//! so that what a wake-up costs is over before the clock starts.
//!
//! Invariant: between the two looks at the clock a thread makes the calls and does nothing else; it
//! allocates nothing and speaks with nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::CpuSet;

use crate::Error;
use crate::contender::{Contender, Worker};
use crate::recorder::{Recorder, Said};
use crate::subject::{Heard, Loading, Subject};
use crate::workload::Workload;

/// A contender and its threads.
pub(crate) struct Crew {
    name: String,
    answers: bool,
    leaves_work: bool,
    members: Vec<Member>,
    /// Who disturbs, if a case wants it, and which cases those are.
    disturber: Option<Member>,
    disturbed: Vec<bool>,
    /// How many operations a round of each case has.
    ops: Vec<u64>,
    /// For each case how many walks had to hold in all samples, where that can be seen, and of how many operations.
    held: Vec<Option<(u64, u64)>>,
    /// How many threads can run at once.
    cores: usize,
    meeting: Arc<Meeting>,
    loading: Loading,
}

impl Crew {
    /// Starts the threads of a contender, waits until each one is ready, and has the first one make the
    /// files of the workload.
    pub(crate) fn start<C: Contender, W: Workload>(
        contender: C,
        workload: &Arc<W>,
        threads: usize,
    ) -> Result<Crew, Error> {
        let cases = workload.cases();
        let disturbed = cases.iter().map(|case| case.disturbed).collect();
        let beside = cases.iter().filter(|case| C::ANSWERS && case.disturbed);
        let beside = beside.map(|case| case.threads(threads)).max();
        let cores = cores();
        let places = places(&cores, threads, beside);
        let mut crew = Crew {
            name: contender.name().to_owned(),
            answers: C::ANSWERS,
            leaves_work: C::LEAVES_WORK && W::DROPS,
            members: Vec::with_capacity(places.len()),
            disturber: None,
            disturbed,
            ops: cases.iter().map(|case| case.ops).collect(),
            held: vec![None; cases.len()],
            cores: cores.len(),
            meeting: Arc::default(),
            loading: Loading { time: Duration::ZERO, bytes: None },
        };
        let contender = Arc::new(contender);
        for (number, core) in places.into_iter().enumerate() {
            let (contender, workload) = (Arc::clone(&contender), Arc::clone(workload));
            let meeting = Arc::clone(&crew.meeting);
            let cases = crew.disturbed.len();
            crew.members.push(Member::start(cases, move |orders, ready| {
                let begun = pin(core).and_then(|()| {
                    let mut worker = contender.worker()?;
                    let start = Instant::now();
                    if number == 0 && C::ANSWERS {
                        workload.setup(&mut worker, threads)?;
                    }
                    Ok((worker, start.elapsed()))
                });
                match begun {
                    Ok((worker, time)) => {
                        let _ = ready.send(Ok(time));
                        obey(worker, &*workload, number, &orders, &meeting);
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            })?);
        }
        for member in &crew.members {
            let ready = member.ready.recv().map_err(|_| died(&crew.name))?;
            let time = ready.map_err(|cause| Error::doing(&crew.name, cause))?;
            crew.loading.time = crew.loading.time.max(time);
        }
        crew.loading.bytes = contender.bytes();
        if beside.is_some() {
            crew.disturber = crew.members.pop();
        }
        Ok(crew)
    }

    /// Does something while the disturber is at work, if the case has one.
    fn beside_disturbance<T>(
        &mut self,
        case: usize,
        body: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let disturber = self.disturber.as_ref().filter(|_| self.disturbed[case]);
        let Some(disturber) = disturber else { return body(self) };
        let (stop, (reply, laps)) = (Arc::new(AtomicBool::new(false)), channel());
        self.order(disturber, Order::Disturb { case, stop: Arc::clone(&stop), reply })?;
        // The first lap is over: from here on he is at work.
        laps.recv().map_err(|_| died(&self.name))?;
        let done = body(self);
        stop.store(true, Ordering::Relaxed);
        laps.recv().map_err(|_| died(&self.name))?;
        done
    }

    fn order(&self, member: &Member, order: Order) -> Result<(), Error> {
        let orders = member.orders.as_ref().ok_or_else(|| died(&self.name))?;
        orders.send(order).map_err(|_| died(&self.name))
    }

    fn member(&self, thread: usize) -> Result<&Member, Error> {
        let count = self.members.len();
        self.members
            .get(thread)
            .ok_or_else(|| Error::new(format!("{} has {count} threads, not more", self.name)))
    }
}

impl Subject for Crew {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&mut self, case: usize, thread: usize) -> Result<Option<Heard>, Error> {
        if !self.answers {
            return Ok(None);
        }
        let (reply, logs) = channel();
        self.order(self.member(thread)?, Order::Check { case, reply })?;
        let (log, done) = logs.recv().map_err(|_| died(&self.name))?;
        self.members[thread].done_per_round[case] = Some(done);
        Ok(Some(Heard::All(log)))
    }

    fn sample(&mut self, case: usize, threads: usize, rounds: u64) -> Result<Duration, Error> {
        self.beside_disturbance(case, |crew| crew.sample_once(case, threads, rounds))
    }

    fn leaves_work(&self) -> bool {
        self.leaves_work
    }

    fn held(&self, case: usize) -> Option<(u64, u64)> {
        self.held[case]
    }

    fn loading(&self) -> Option<Loading> {
        self.answers.then_some(self.loading)
    }
}

impl Crew {
    fn sample_once(&mut self, case: usize, threads: usize, rounds: u64) -> Result<Duration, Error> {
        let last = threads.checked_sub(1).ok_or_else(|| Error::new("no thread"))?;
        self.member(last)?;
        let everyone = self.meeting.arrivals() + threads as u64;
        let (reply, batches) = channel();
        for (number, member) in self.members[..threads].iter().enumerate() {
            let reply = reply.clone();
            self.order(member, Order::Batch { case, number, rounds, everyone, reply })?;
        }
        // So that a thread that dies is noticed: its copy was the last one.
        drop(reply);
        let mut done_by = Vec::with_capacity(threads);
        for _ in 0..threads {
            let batch = batches.recv().map_err(|_| died(&self.name))?;
            let done = batch.done;
            if let Some(right) = self.members[batch.number].done_per_round[case]
                && right * rounds != done
            {
                let right = right * rounds;
                let what = format!("{}: {done} calls succeeded in time, not {right}", self.name);
                return Err(Error::new(what));
            }
            if let Some(held) = batch.held {
                let sum = self.held[case].get_or_insert_default();
                *sum = (sum.0 + held, sum.1 + rounds * self.ops[case]);
            }
            done_by.push(batch);
        }
        Ok(time_of_each(&done_by, self.cores))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.members.extend(self.disturber.take());
        for member in &mut self.members {
            member.orders = None;
        }
        for member in &mut self.members {
            if let Some(thread) = member.thread.take() {
                // A thread that panicked has said so itself.
                let _ = thread.join();
            }
        }
    }
}

/// One thread, as its crew sees it.
struct Member {
    /// Closed by `None`, which ends the thread.
    orders: Option<Sender<Order>>,
    /// What it took to begin.
    ready: Receiver<Result<Duration, Error>>,
    thread: Option<JoinHandle<()>>,
    /// For each case how many calls of a round succeed, once it was checked.
    done_per_round: Vec<Option<u64>>,
}

impl Member {
    fn start(
        cases: usize,
        body: impl FnOnce(Receiver<Order>, Sender<Result<Duration, Error>>) + Send + 'static,
    ) -> Result<Member, Error> {
        let (orders, inbox) = channel();
        let (ready_reply, ready) = channel();
        let thread = thread::Builder::new()
            .spawn(move || body(inbox, ready_reply))
            .map_err(|cause| Error::doing("starting a thread", cause))?;
        let done_per_round = vec![None; cases];
        Ok(Member { orders: Some(orders), ready, thread: Some(thread), done_per_round })
    }
}

/// What a thread is told to do, with the way to answer.
enum Order {
    /// Make the calls of a case once and tell the answers, and how many succeeded.
    Check { case: usize, reply: Sender<(Vec<Said>, u64)> },
    /// Meet the others, then make all calls of a case `rounds` times.
    Batch {
        case: usize,
        /// The number of the thread.
        number: usize,
        rounds: u64,
        /// The arrivals at the meeting when the last one is there.
        everyone: u64,
        reply: Sender<Batch>,
    },
    /// Disturb until told to stop, and say so after the first lap and at the end.
    Disturb { case: usize, stop: Arc<AtomicBool>, reply: Sender<()> },
}

/// What a thread did in its turn.
struct Batch {
    number: usize,
    start: Instant,
    end: Instant,
    done: u64,
    /// How many of its walks had to hold their place.
    held: Option<u64>,
}

/// The time of a thread that does what each one did.
///
/// Each thread's own rate, added: they began together, and if the machine takes one away for a while, the others are not charged
/// with it. Threads that share a core take turns: there the clock of one stands while another one works, and what counts
/// is what all did from the first one's beginning to the last one's end.
fn time_of_each(batches: &[Batch], cores: usize) -> Duration {
    if batches.len() > cores {
        let start = batches.iter().map(|batch| batch.start).min();
        let end = batches.iter().map(|batch| batch.end).max();
        return end.zip(start).map_or(Duration::ZERO, |(end, start)| end - start);
    }
    let times = batches.iter().map(|batch| (batch.end - batch.start).as_secs_f64().max(1e-9));
    Duration::from_secs_f64(batches.len() as f64 / times.map(|time| 1.0 / time).sum::<f64>())
}

/// Does what is ordered until the orders end; a reply that nobody waits for any more is dropped.
fn obey<K: Worker, W: Workload>(
    mut worker: K,
    workload: &W,
    thread: usize,
    orders: &Receiver<Order>,
    meeting: &Meeting,
) {
    for order in orders {
        match order {
            Order::Check { case, reply } => {
                let mut recorder = Recorder::new(&mut worker);
                let done = workload.round(case, thread, &mut recorder);
                let _ = reply.send((recorder.into_log(), done));
            }
            Order::Batch { case, number, rounds, everyone, reply } => {
                let before = worker.held();
                meeting.wait(everyone);
                let (start, end, done) = timed(&mut worker, workload, (case, thread), rounds);
                let held = worker.held().zip(before).map(|(after, before)| after - before);
                let _ = reply.send(Batch { number, start, end, done, held });
            }
            Order::Disturb { case, stop, reply } => {
                workload.disturb(case, &mut worker);
                let _ = reply.send(());
                while !stop.load(Ordering::Relaxed) {
                    workload.disturb(case, &mut worker);
                }
                let _ = reply.send(());
            }
        }
    }
}

/// The timed part.
#[inline(never)]
fn timed<K: Worker, W: Workload>(
    worker: &mut K,
    workload: &W,
    (case, thread): (usize, usize),
    rounds: u64,
) -> (Instant, Instant, u64) {
    let start = Instant::now();
    let done = (0..rounds).map(|_| workload.round(case, thread, worker)).sum();
    (start, Instant::now(), done)
}

/// Where threads wait for each other without sleeping.
#[derive(Default)]
struct Meeting {
    /// Counts up for the whole run. Relaxed: it carries a moment and no data.
    arrivals: AtomicU64,
}

/// How long a thread spins before it lets others run, which it must where cores are scarce.
const SPINS: u32 = 100_000;

impl Meeting {
    /// Returns how many arrived so far, while nobody is on the way.
    fn arrivals(&self) -> u64 {
        self.arrivals.load(Ordering::Relaxed)
    }

    fn wait(&self, everyone: u64) {
        self.arrivals.fetch_add(1, Ordering::Relaxed);
        let mut spins = 0;
        while self.arrivals.load(Ordering::Relaxed) < everyone {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}

/// The cores of so many threads, and of who disturbs, if so many at most are beside him: a core that none of those has, if there is one.
fn places(cores: &[usize], threads: usize, beside: Option<usize>) -> Vec<usize> {
    let all = || cores.iter().copied().cycle();
    let disturber = beside.and_then(|most| all().nth(most));
    all().take(threads).chain(disturber).collect()
}

/// Returns the cores this process may use; without an answer from the system, the first one.
fn cores() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) if set.count() > 0 => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        _ => vec![0],
    }
}

/// Binds the calling thread to one core: two threads woken onto the same one would take turns.
fn pin(core: usize) -> Result<(), Error> {
    let mut set = CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|cause| Error::doing(format_args!("binding a thread to core {core}"), cause))
}

fn died(name: &str) -> Error {
    Error::new(format!("a thread of {name} died"))
}

#[cfg(test)]
mod tests;
