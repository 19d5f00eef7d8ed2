//! A process under `pathwalk run` as a subject: its calls are those that the kernel's worlds make, and pathwalk answers them.
//!
//! ```text
//!   pathwalk check              pathwalk, the same program           its child, behind a filter
//!     Process  ── steps ──────────────────────────────────────────►  subject: five threads, calls as of the kernel's
//!              ◄─ outcomes ────────────────────────────────────────    │ each path call waits
//!                               supervisor of pathwalk-run  ◄──────────┘
//!                               an empty MemFs at /
//! ```
//!
//! This crate knows nothing of the supervisor: it starts the program that it is part of by the name [`SUBJECT`], and whoever made
//! that program gives [`subject`] to the supervisor to run. What is said goes through standard input and output: see [`wire`].

mod wire;

use crate::{
    answer::Said,
    call::Step,
    kernel::Kernel,
    normal::{Known, Pace},
    subject::{Outcome, Subject},
};
use pathwalk::Errno;
use std::{
    io::{self, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};
use wire::Wire;

/// The argument by which the program that this is part of is to run [`subject`] under its supervisor.
pub const SUBJECT: &str = "check-subject";

/// What the calls of a process answer that ended before it had made them: no call that is drawn answers so.
const ENDED: Errno = Errno::EOWNERDEAD;

/// What the process says first.
const READY: &[u8] = b"ready";

/// The process that makes the calls: reads them from standard input until that ends, and writes what came of them.
#[must_use]
pub fn subject() -> u8 {
    let mut kernel = Kernel::here();
    let (mut orders, mut outcomes) = (io::stdin().lock(), io::stdout().lock());
    let mut serve = || -> io::Result<()> {
        send(&mut outcomes, READY)?;
        while let Some(order) = receive(&mut orders)? {
            let (known, pace, steps) = wire::read::<(Known, Pace, Vec<Step>)>(&order);
            kernel.show(known);
            let mut made = Vec::new();
            kernel.steps(&steps, pace).put(&mut made);
            send(&mut outcomes, &made)?;
        }
        Ok(())
    };
    // Who does not listen any more needs no answer.
    u8::from(serve().is_err())
}

/// A process made for one run.
pub(crate) struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    outcomes: ChildStdout,
    known: Known,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// Why there is none, in a line.
    pub(crate) fn start() -> Result<Self, String> {
        let not_started = |error: io::Error| format!("no process can be started: {error}");
        let program = std::env::current_exe().map_err(not_started)?;
        let mut command = Command::new(program);
        let command = command.arg(SUBJECT).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::inherit()).spawn().map_err(not_started)?;
        let orders = child.stdin.take();
        let outcomes = child.stdout.take().expect("it has a pipe to speak to");
        let mut process = Self { child, orders, outcomes, known: Known::Hidden };
        match receive(&mut process.outcomes) {
            Ok(Some(said)) if said == READY => Ok(process),
            _ => Err("no process can be run under pathwalk run".into()),
        }
    }

    fn ask(&mut self, steps: &[Step], pace: Pace) -> io::Result<Vec<Outcome<pathwalk::File>>> {
        let mut order = Vec::new();
        (self.known, pace, steps.to_vec()).put(&mut order);
        send(self.orders.as_mut().expect("open until it is dropped"), &order)?;
        let said = receive(&mut self.outcomes)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(wire::read(&said))
    }
}

impl Subject for Process {
    type File = pathwalk::File;

    fn show(&mut self, known: Known) {
        self.known = known;
    }

    fn steps(&mut self, steps: &[Step], pace: Pace) -> Vec<Outcome<pathwalk::File>> {
        let ended = |_| Outcome {
            said: Said::Answer(Err(ENDED)),
            events: Vec::new(),
            slots: Vec::new(),
            new_device: None,
        };
        self.ask(steps, pace).unwrap_or_else(|_| steps.iter().map(ended).collect())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends when nobody can tell it any more.
        self.orders = None;
        let _ = self.child.wait();
    }
}

fn send(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let size = u32::try_from(message.len()).map_err(io::Error::other)?;
    to.write_all(&[&size.to_ne_bytes(), message].concat())?;
    to.flush()
}

/// The next message, if there is one.
fn receive(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut size = [0; 4];
    match from.read_exact(&mut size) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut message = vec![0; u32::from_ne_bytes(size) as usize];
    from.read_exact(&mut message)?;
    Ok(Some(message))
}
