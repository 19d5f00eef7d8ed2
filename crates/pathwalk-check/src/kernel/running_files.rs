//! A file that runs, on the kernel and here: who may still open it, and what else may be done with it.

use super::{
    calls::text,
    sys::{Arg, syscall},
};
use pathwalk::{
    AccessMode, At, AtFlags, Config, Cred, Errno, File, MemFs, OpenFlags, Result, Task, Vfs,
};
use rustix::fs::{Mode, OFlags};
use std::{
    io,
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// Programs that do nothing for long enough.
const SLEEP: [&str; 2] = ["/bin/sleep", "/usr/bin/sleep"];

/// A file system with a program `/p`, and what is done with it.
trait Side {
    type Handle;
    fn open(&self, flags: OpenFlags) -> Result<Self::Handle>;
    /// truncate(2) to the size that it has: it is to run again.
    fn truncate(&self) -> Result<()>;
    fn unlink(&self) -> Result<()>;
    fn run(&self) -> Result<Box<dyn Send>>;
}

/// The same questions, asked while the program runs, while it is open for writing, and while it is neither.
fn questions<S: Side>(side: &S) -> Vec<(String, Result<()>)> {
    let ways = [
        OpenFlags::RDONLY,
        OpenFlags::WRONLY,
        OpenFlags::RDWR,
        OpenFlags::WRONLY | OpenFlags::APPEND,
        OpenFlags::RDWR | OpenFlags::CREAT,
        OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::EXCL,
        OpenFlags::PATH,
        OpenFlags::ACCMODE,
        OpenFlags::DIRECTORY | OpenFlags::WRONLY,
    ];
    let mut answers = Vec::new();
    let mut ask = |when: &str| {
        for flags in ways {
            answers.push((format!("{when}: open {flags:?}"), side.open(flags).map(drop)));
        }
        answers.push((format!("{when}: truncate"), side.truncate()));
        answers.push((format!("{when}: run"), side.run().map(drop)));
    };
    ask("quiet");
    let running = side.run().expect("nobody writes to it");
    ask("running");
    let cut = OpenFlags::RDONLY | OpenFlags::TRUNC;
    let while_running = side.open(cut).map(drop);
    drop(running);
    ask("quiet again");
    let writer = side.open(OpenFlags::WRONLY).expect("it does not run");
    ask("written");
    drop(writer);
    let unnamed = side.open(OpenFlags::ACCMODE).expect("it does not run");
    ask("open for neither");
    drop(unnamed);
    let running = side.run().expect("nobody writes to it");
    let unlinked = side.unlink();
    ask("running, without a name");
    drop(running);
    answers.push(("running: cut".to_owned(), while_running));
    answers.push(("running: unlink".to_owned(), unlinked));
    answers
}

struct Kernel {
    directory: tempfile::TempDir,
}

/// A program that runs until this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ended");
    }
}

impl Kernel {
    fn new() -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let program = SLEEP.iter().find(|path| PathBuf::from(path).exists());
        std::fs::copy(program.expect("there is a program"), directory.path().join("p"))?;
        Ok(Self { directory })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("p")
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().expect("a system call said so")).expect("an errno")
}

impl Side for Kernel {
    type Handle = OwnedFd;

    fn open(&self, flags: OpenFlags) -> Result<OwnedFd> {
        let flags = OFlags::from_bits_retain(flags.bits() as u32) | OFlags::CLOEXEC;
        rustix::fs::open(self.path(), flags, Mode::empty())
            .map_err(|error| Errno::from_raw(error.raw_os_error()).expect("an errno"))
    }

    fn truncate(&self) -> Result<()> {
        let path = text(self.path().as_os_str().as_encoded_bytes());
        let size = std::fs::metadata(self.path()).map_or(0, |metadata| metadata.len() as i64);
        syscall(libc::SYS_truncate, [Arg::Str(&path), Arg::Int(size)]).map(drop)
    }

    fn unlink(&self) -> Result<()> {
        std::fs::remove_file(self.path()).map_err(|error| errno(&error))
    }

    fn run(&self) -> Result<Box<dyn Send>> {
        // The standard library returns when the program has been executed, or could not be.
        let child = Command::new(self.path()).arg("1000").stdin(Stdio::null()).spawn();
        child.map(|child| Box::new(Running(child)) as Box<dyn Send>).map_err(|error| errno(&error))
    }
}

impl Side for Task {
    type Handle = File;

    fn open(&self, flags: OpenFlags) -> Result<File> {
        Task::open(self, "/p", flags, 0)
    }

    fn truncate(&self) -> Result<()> {
        let size = self.stat("/p").map_or(0, |stat| stat.st_size);
        Task::truncate(self, "/p", size)
    }

    fn unlink(&self) -> Result<()> {
        Task::unlink(self, "/p")
    }

    fn run(&self) -> Result<Box<dyn Send>> {
        let program = self.open_exec(At::Cwd, "/p", AtFlags::empty())?;
        assert_eq!(self.access("/p", AccessMode::W_OK), Ok(()), "permission is another question");
        assert_eq!(self.fstat(program.file())?.st_size, self.stat("/p")?.st_size);
        Ok(Box::new(program))
    }
}

/// Says that this is the process of its own.
const ALONE: &str = "PATHWALK_RUNNING_FILES_ALONE";

/// In a process of its own: a child that another test makes has what is open here for writing until it runs its program.
#[test]
fn what_runs_is_not_written_and_what_is_written_does_not_run() {
    if std::env::var_os(ALONE).is_none() {
        let this =
            "kernel::running_files::what_runs_is_not_written_and_what_is_written_does_not_run";
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", this, "--test-threads=1"]).env(ALONE, "1");
        let output = command.output().expect("this program can be run");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let kernel = questions(&Kernel::new().expect("a directory for the program"));
    let task = Vfs::new(Config::default(), MemFs::new()).expect("a machine").task(Cred::root());
    task.open("/p", OpenFlags::CREAT | OpenFlags::WRONLY, 0o755).expect("a new file");
    let ours = questions(&task);
    let busy = kernel.iter().filter(|(_, answer)| *answer == Err(Errno::ETXTBSY)).count();
    assert!(busy >= 7, "the kernel refuses some of it: {kernel:?}");
    assert_eq!(ours, kernel);
}
