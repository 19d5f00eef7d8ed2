//! Namespaces, roots and threads.

use super::{
    serve::{Job, Reply, Slots, serve},
    sys::{Arg, find_proc, syscall},
    tasks::Tasks,
};
use crate::call::Who;
use pathwalk::Result;
use std::{
    ffi::CString,
    os::unix::ffi::OsStrExt,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

/// Whether this process may make namespaces and mounts.
pub(crate) fn may_mount() -> bool {
    thread::spawn(|| {
        let user = syscall(libc::SYS_geteuid, [Arg::Int(0)]);
        user == Ok(0) && unshare(libc::CLONE_NEWNS | libc::CLONE_FS).is_ok()
    })
    .join()
    .expect("asking does not panic")
}

/// A thread in a namespace that has nothing of the host: worlds are copied from it, which is quicker than from the host.
pub(crate) struct Nursery {
    orders: Sender<Sender<World>>,
}

impl Nursery {
    /// Makes the namespace.
    pub(crate) fn new() -> Self {
        find_proc();
        let (orders, wanted) = channel::<Sender<World>>();
        thread::spawn(move || {
            leave_host().expect("a namespace of one's own");
            for reply in wanted {
                // Whoever ordered may have given up meanwhile.
                let _ = reply.send(World::new());
            }
        });
        Self { orders }
    }

    /// A world for one run.
    pub(crate) fn world(&self) -> World {
        let (reply, world) = channel();
        self.orders.send(reply).expect("the nursery lives as long as this");
        world.recv().expect("the nursery makes worlds")
    }
}

/// A root and its tasks.
pub(crate) struct World {
    workers: Vec<Worker>,
    tasks: Arc<Tasks>,
}

/// Whether anybody may look into the process, which the tasks of all worlds share: who changes it is alone.
static PROCESS: RwLock<()> = RwLock::new(());

struct Worker {
    jobs: Option<Sender<Job>>,
    replies: Receiver<Reply>,
    thread: Option<JoinHandle<()>>,
}

impl World {
    /// Makes them in a new thread, so that the caller's namespace stays as it is.
    fn new() -> Self {
        let made = thread::spawn(|| {
            new_root().expect("a root of one's own");
            let slots = Arc::new(Mutex::new(Slots::default()));
            let tasks = Arc::new(Tasks::default());
            let worker = |who| Worker::new(who, Arc::clone(&tasks), Arc::clone(&slots));
            let workers = Who::ALL.map(worker).into();
            Self { workers, tasks }
        });
        made.join().expect("a world is made or this panicked")
    }

    /// The threads.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Has one of the tasks do something.
    pub(crate) fn ask(&mut self, who: Who, job: Job) -> Reply {
        let worker = &self.workers[who as usize];
        let _as_it_is = PROCESS.read().unwrap_or_else(PoisonError::into_inner);
        let jobs = worker.jobs.as_ref().expect("open until it is dropped");
        jobs.send(job).expect("a worker lives until it is dropped");
        worker.replies.recv().expect("a worker answers")
    }
}

impl Worker {
    fn new(who: Who, tasks: Arc<Tasks>, slots: Arc<Mutex<Slots>>) -> Self {
        let (jobs, todo) = channel();
        let (done, replies) = channel();
        let (ready, started) = channel();
        let thread = thread::spawn(move || {
            become_task(who).expect("ids of one's own");
            tasks.set(who, syscall(libc::SYS_gettid, []).expect("every thread has a number"));
            let _ = ready.send(());
            for job in todo {
                let _ = done.send(serve(job, &slots, &tasks));
            }
        });
        // The thread that makes the world ends: whoever is to inherit its namespace must be there by then.
        started.recv().expect("a worker starts");
        Self { jobs: Some(jobs), replies, thread: Some(thread) }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.jobs = None;
        }
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A thread that panicked has said so itself.
                let _ = thread.join();
            }
        }
    }
}

fn unshare(flags: i32) -> Result<()> {
    syscall(libc::SYS_unshare, [Arg::Int(flags.into())]).map(drop)
}

/// Puts an empty tmpfs in the place of the calling thread's root, and nothing of the host behind it.
///
/// # Errors
///
/// As unshare(2), mount(2) and pivot_root(2).
pub(crate) fn root_of_ones_own() -> Result<()> {
    leave_host()?;
    new_root()
}

/// Puts an empty tmpfs in the place of the host's root.
fn leave_host() -> Result<()> {
    unshare(libc::CLONE_NEWNS | libc::CLONE_FS)?;
    mount(c"none", c"/", (libc::MS_REC | libc::MS_PRIVATE).cast_signed())?;
    let at = std::env::temp_dir();
    let at = CString::new(at.as_os_str().as_bytes()).expect("a path has no NUL");
    mount_root(&at)?;
    syscall(libc::SYS_mkdir, [Arg::Str(c"/new"), Arg::Int(0o755)]).map(drop)
}

/// Puts an empty tmpfs in the place of the nursery's.
///
/// The descriptors are then the world's own too: those of another could be reached by their numbers.
fn new_root() -> Result<()> {
    unshare(libc::CLONE_NEWNS | libc::CLONE_FS | libc::CLONE_FILES)?;
    mount_root(c"/new")
}

fn mount_root(at: &std::ffi::CStr) -> Result<()> {
    mount(c"none", at, 0)?;
    syscall(libc::SYS_chdir, [Arg::Str(at)])?;
    syscall(libc::SYS_pivot_root, [Arg::Str(c"."), Arg::Str(c".")])?;
    syscall(libc::SYS_umount2, [Arg::Str(c"."), Arg::Int(libc::MNT_DETACH.into())])?;
    syscall(libc::SYS_chdir, [Arg::Str(c"/")]).map(drop)
}

fn mount(what: &std::ffi::CStr, at: &std::ffi::CStr, flags: i64) -> Result<()> {
    let kind = Arg::Str(c"tmpfs");
    syscall(libc::SYS_mount, [Arg::Str(what), Arg::Str(at), kind, Arg::Int(flags), Arg::Int(0)])
        .map(drop)
}

/// Gives the calling thread root, current directory and umask of its own, and a task's ids: the raw calls change those of
/// the thread alone.
fn become_task(who: Who) -> Result<()> {
    unshare(libc::CLONE_FS)?;
    let (uid, gid, euid, egid, groups) = who.ids();
    let id = |id: u32| Arg::Int(id.into());
    syscall(libc::SYS_umask, [Arg::Int(0o022)])?;
    syscall(libc::SYS_setgroups, [Arg::Int(groups.len() as i64), Arg::Ids(groups)])?;
    // Changing ids makes the whole process one that nobody may look into, and its files in a procfs root's; until the end
    // of this, no world is asked anything.
    let _alone = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    syscall(libc::SYS_setresgid, [id(gid), id(egid), id(egid)])?;
    syscall(libc::SYS_setresuid, [id(uid), id(euid), id(euid)])?;
    let dumpable = Arg::Int(libc::PR_SET_DUMPABLE.into());
    syscall(libc::SYS_prctl, [dumpable, Arg::Int(1)]).map(drop)
}
