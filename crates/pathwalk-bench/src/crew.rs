//! A contender in this process: one thread per core, each with a worker, kept for the whole run.
//!
//! The threads sleep while somebody else has the turn. In their own turn they first meet, spinning,
//! so that what a wake-up costs is over before the clock starts.
//!
//! Invariant: between the two looks at the clock a thread makes the calls and does nothing else; it
//! allocates nothing and speaks with nobody.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::CpuSet;

use crate::Error;
use crate::calls::{Answer, Call};
use crate::contender::{Contender, Worker};
use crate::subject::Subject;

/// A contender and its threads.
pub(crate) struct Crew {
    name: String,
    members: Vec<Member>,
    meeting: Arc<Meeting>,
    /// How many calls of a round find their file, or `None` of a contender without answers.
    found_per_round: Option<u64>,
    calls: Vec<Call>,
}

impl Crew {
    /// Starts the threads of a contender and waits until each one is ready.
    pub(crate) fn start<C: Contender>(
        contender: C,
        calls: &[Call],
        threads: usize,
    ) -> Result<Crew, Error> {
        let mut crew = Crew {
            name: contender.name().to_owned(),
            members: Vec::with_capacity(threads),
            meeting: Arc::default(),
            found_per_round: C::ANSWERS
                .then(|| calls.iter().filter(|call| call.answer.0.is_ok()).count() as u64),
            calls: calls.to_vec(),
        };
        let paths = calls
            .iter()
            .map(|call| CString::new(contender.spell(&call.path)))
            .collect::<Result<Vec<CString>, _>>()
            .map_err(|cause| Error::doing(&crew.name, cause))?;
        let (contender, paths) = (Arc::new(contender), Arc::new(paths));
        for core in cores().into_iter().cycle().take(threads) {
            let (contender, paths) = (Arc::clone(&contender), Arc::clone(&paths));
            let meeting = Arc::clone(&crew.meeting);
            crew.members.push(Member::start(move |orders, ready| {
                let worker = pin(core).and_then(|()| contender.worker());
                match worker {
                    Ok(worker) => {
                        let _ = ready.send(Ok(()));
                        obey(worker, &orders, &paths, &meeting);
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            })?);
        }
        for member in &crew.members {
            let ready = member.ready.recv().map_err(|_| died(&crew.name))?;
            ready.map_err(|cause| Error::doing(&crew.name, cause))?;
        }
        Ok(crew)
    }

    fn order(&self, member: &Member, order: Order) -> Result<(), Error> {
        let orders = member.orders.as_ref().ok_or_else(|| died(&self.name))?;
        orders.send(order).map_err(|_| died(&self.name))
    }
}

impl Subject for Crew {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&mut self) -> Result<Option<Vec<Answer>>, Error> {
        if self.found_per_round.is_none() {
            return Ok(None);
        }
        let mut first: Option<Vec<Answer>> = None;
        for member in &self.members {
            let (reply, answers) = channel();
            self.order(member, Order::Check(reply))?;
            let answers = answers.recv().map_err(|_| died(&self.name))?;
            let first = first.get_or_insert_with(|| answers.clone());
            if let Some(at) = first.iter().zip(&answers).position(|(one, other)| one != other) {
                let path = String::from_utf8_lossy(&self.calls[at].path);
                let (one, other) = (first[at], answers[at]);
                let what =
                    format!("{}: {path}: {one} in one thread, {other} in another", self.name);
                return Err(Error::new(what));
            }
        }
        Ok(first)
    }

    fn sample(&mut self, threads: usize, rounds: u64) -> Result<Duration, Error> {
        let members = self.members.get(..threads).ok_or_else(|| {
            Error::new(format!("{} has {} threads, not {threads}", self.name, self.members.len()))
        })?;
        let everyone = self.meeting.arrivals() + threads as u64;
        let (reply, batches) = channel();
        for member in members {
            self.order(member, Order::Batch { rounds, everyone, reply: reply.clone() })?;
        }
        // So that a thread that dies is noticed: its copy was the last one.
        drop(reply);
        let mut rate = 0.0;
        for _ in members {
            let batch = batches.recv().map_err(|_| died(&self.name))?;
            let found = batch.found;
            if let Some(right) = self.found_per_round.map(|each| each * rounds)
                && right != found
            {
                let what = format!("{} found {found} files in time, not {right}", self.name);
                return Err(Error::new(what));
            }
            rate += 1.0 / batch.time.as_secs_f64().max(1e-9);
        }
        // Each thread's own rate, added: they began together, and if the machine takes one away for a while, the others
        // are not charged with it.
        Ok(Duration::from_secs_f64(threads as f64 / rate))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
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
    ready: Receiver<Result<(), Error>>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    fn start(
        body: impl FnOnce(Receiver<Order>, Sender<Result<(), Error>>) + Send + 'static,
    ) -> Result<Member, Error> {
        let (orders, inbox) = channel();
        let (ready_reply, ready) = channel();
        let thread = thread::Builder::new()
            .spawn(move || body(inbox, ready_reply))
            .map_err(|cause| Error::doing("starting a thread", cause))?;
        Ok(Member { orders: Some(orders), ready, thread: Some(thread) })
    }
}

/// What a thread is told to do, with the way to answer.
enum Order {
    /// Make each call once and tell the answers.
    Check(Sender<Vec<Answer>>),
    /// Meet the others, then make all calls `rounds` times.
    Batch {
        rounds: u64,
        /// The arrivals at the meeting when the last one is there.
        everyone: u64,
        reply: Sender<Batch>,
    },
}

/// What a thread did in its turn.
struct Batch {
    time: Duration,
    found: u64,
}

/// Does what is ordered until the orders end; a reply that nobody waits for any more is dropped.
fn obey<W: Worker>(mut worker: W, orders: &Receiver<Order>, paths: &[CString], meeting: &Meeting) {
    for order in orders {
        match order {
            Order::Check(reply) => {
                let answers = paths.iter().map(|path| Answer(worker.access(path))).collect();
                let _ = reply.send(answers);
            }
            Order::Batch { rounds, everyone, reply } => {
                meeting.wait(everyone);
                let _ = reply.send(timed(&mut worker, paths, rounds));
            }
        }
    }
}

/// The timed part.
#[inline(never)]
fn timed<W: Worker>(worker: &mut W, paths: &[CString], rounds: u64) -> Batch {
    let start = Instant::now();
    let found = (0..rounds).map(|_| worker.round(paths)).sum();
    Batch { time: start.elapsed(), found }
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
