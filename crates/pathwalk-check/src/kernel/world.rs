//! Namespaces, roots and threads.

use super::{
    ext4::{Ground, Image},
    powers::{Powers, powers},
    serve::{Job, Reply, Slots, serve},
    sys::{Arg, find_proc, syscall},
    tasks::Tasks,
    userns,
};
use crate::call::Who;
use pathwalk::{CapSet, Errno, Result};
use std::{
    ffi::{CStr, CString},
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

/// A thread in a namespace that has nothing of the host: worlds are copied from it, which is quicker than from the host.
pub(crate) struct Nursery {
    orders: Sender<Sender<World>>,
    ground: Ground,
}

impl Nursery {
    /// Makes the namespace.
    pub(crate) fn new() -> Self {
        Self::on(Ground::Tmpfs).expect("tmpfs needs no image")
    }

    /// Makes the namespace, and in it the ground for worlds.
    ///
    /// # Errors
    ///
    /// Why there is no ext4, in a line.
    pub(crate) fn on(ground: Ground) -> Result<Self, String> {
        find_proc();
        if powers() == Powers::Root {
            userns::make_maps();
        }
        let image = (ground == Ground::Ext4).then(Image::make).transpose()?;
        let (orders, wanted) = channel::<Sender<World>>();
        let (ready, started) = channel();
        thread::spawn(move || {
            let left = leave_host(image.as_ref());
            // The image's file can go when it is mounted, from the namespace in which it was made.
            let _ = ready.send(left.map(|()| image));
            for (number, reply) in (0_u32..).zip(wanted) {
                // Whoever ordered may have given up meanwhile.
                let _ = reply.send(World::new(ground, number));
            }
        });
        let _image = started.recv().expect("the nursery says how it began")?;
        Ok(Self { orders, ground })
    }

    /// What the roots of its worlds are.
    pub(crate) fn ground(&self) -> Ground {
        self.ground
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

/// Keeps the process as it is. For who looks at a procfs: nothing else shows it, and each new world waits for this.
pub(crate) fn process_as_it_is() -> RwLockReadGuard<'static, ()> {
    PROCESS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Who has a descriptor open that keeps a namespace, and who copies the process's for a world, which would keep it as
/// long as the world is there.
static DESCRIPTORS: RwLock<()> = RwLock::new(());

/// Does something with descriptors of which no world is to have a copy.
pub(crate) fn with_descriptors_of_no_world<T>(something: impl FnOnce() -> T) -> T {
    let _none_is_made = DESCRIPTORS.read().unwrap_or_else(PoisonError::into_inner);
    something()
}

struct Worker {
    jobs: Option<Sender<Job>>,
    replies: Receiver<Reply>,
    thread: Option<JoinHandle<()>>,
}

impl World {
    /// Makes them in a new thread, so that the caller's namespace stays as it is.
    fn new(ground: Ground, number: u32) -> Self {
        let made = thread::spawn(move || {
            new_root(ground, number).expect("a root of one's own");
            Self::here()
        });
        made.join().expect("a world is made or this panicked")
    }

    /// Tasks in the calling thread's namespace and root.
    pub(super) fn here() -> Self {
        let slots = Arc::new(Mutex::new(Slots::default()));
        let tasks = Arc::new(Tasks::default());
        let worker = |who| Worker::new(who, Arc::clone(&tasks), Arc::clone(&slots));
        let workers = Who::ALL.map(worker).into();
        Self { workers, tasks }
    }

    /// The threads.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Has one of the tasks do something.
    pub(crate) fn ask(&mut self, who: Who, job: Job) -> Reply {
        let worker = &self.workers[who as usize];
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
/// Why it cannot be done, in a line.
pub(crate) fn root_of_ones_own() -> std::result::Result<(), String> {
    leave_host(None)?;
    new_root(Ground::Tmpfs, 0).map_err(|errno| errno.to_string())
}

/// Puts an empty tmpfs in the place of the host's root, and the image in it.
fn leave_host(image: Option<&Image>) -> std::result::Result<(), String> {
    let said = |errno: pathwalk::Errno| format!("no namespace of its own: {errno}");
    unshare(libc::CLONE_NEWNS | libc::CLONE_FS).map_err(said)?;
    let private = (libc::MS_REC | libc::MS_PRIVATE).cast_signed();
    mount(c"none", c"/", private).map_err(said)?;
    let image = image.map(Image::mount).transpose()?;
    let at = std::env::temp_dir();
    let at = CString::new(at.as_os_str().as_bytes()).expect("a path has no NUL");
    let enter = || {
        mount(c"none", &at, 0)?;
        syscall(libc::SYS_chdir, [Arg::Str(&at)])?;
        mkdir(c"new")?;
        if let Some(root) = image {
            mkdir(c"ext4")?;
            let root = format!("/proc/thread-self/fd/{}", root.as_raw_fd());
            bind(&CString::new(root).expect("a path has no NUL"), c"ext4")?;
        }
        pivot_root(&at)
    };
    enter().map_err(said)
}

/// Puts an empty tmpfs, or an empty directory of the image, in the place of the nursery's root.
///
/// The descriptors are then the world's own too: those of another could be reached by their numbers.
fn new_root(ground: Ground, number: u32) -> Result<()> {
    {
        let _alone = DESCRIPTORS.write().unwrap_or_else(PoisonError::into_inner);
        unshare(libc::CLONE_NEWNS | libc::CLONE_FS | libc::CLONE_FILES)?;
    }
    match ground {
        Ground::Tmpfs => mount(c"none", c"/new", 0)?,
        Ground::Ext4 => {
            let dir = CString::new(format!("/ext4/{number}")).expect("a path has no NUL");
            mkdir(&dir)?;
            // As the root of a tmpfs is.
            syscall(libc::SYS_chmod, [Arg::Str(&dir), Arg::Int(0o1777)])?;
            bind(&dir, c"/new")?;
        }
    }
    pivot_root(c"/new")
}

fn pivot_root(new: &CStr) -> Result<()> {
    syscall(libc::SYS_chdir, [Arg::Str(new)])?;
    syscall(libc::SYS_pivot_root, [Arg::Str(c"."), Arg::Str(c".")])?;
    syscall(libc::SYS_umount2, [Arg::Str(c"."), Arg::Int(libc::MNT_DETACH.into())])?;
    syscall(libc::SYS_chdir, [Arg::Str(c"/")]).map(drop)
}

fn mkdir(path: &CStr) -> Result<()> {
    syscall(libc::SYS_mkdir, [Arg::Str(path), Arg::Int(0o755)]).map(drop)
}

fn bind(what: &CStr, at: &CStr) -> Result<()> {
    mount(what, at, libc::MS_BIND.cast_signed())
}

fn mount(what: &CStr, at: &CStr, flags: i64) -> Result<()> {
    let kind = Arg::Str(c"tmpfs");
    syscall(libc::SYS_mount, [Arg::Str(what), Arg::Str(at), kind, Arg::Int(flags), Arg::Int(0)])
        .map(drop)
}

/// Gives the calling thread root, current directory and umask of its own, and a task's ids: the raw calls change those of
/// the thread alone.
fn become_task(who: Who) -> Result<()> {
    unshare(libc::CLONE_FS)?;
    if powers() == Powers::OneUser {
        return syscall(libc::SYS_umask, [Arg::Int(0o022)]).map(drop);
    }
    let (uid, gid, euid, egid, groups) = who.ids();
    let id = |id: u32| Arg::Int(id.into());
    syscall(libc::SYS_umask, [Arg::Int(0o022)])?;
    syscall(libc::SYS_setgroups, [Arg::Int(groups.len() as i64), Arg::Ids(groups)])?;
    // Changing ids makes the whole process one that nobody may look into, and its files in a procfs root's; until the end
    // of this, nobody looks at one.
    let _alone = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    // Who is no user 0 may get powers back by `set_cred`, one at a time.
    let keep = [Arg::Int(libc::PR_SET_KEEPCAPS.into()), Arg::Int(1)];
    syscall(libc::SYS_prctl, keep)?;
    syscall(libc::SYS_setresgid, [id(gid), id(egid), id(egid)])?;
    syscall(libc::SYS_setresuid, [id(uid), id(euid), id(euid)])?;
    let_others_look()
}

/// Gives the calling thread this user, this group and these effective capabilities to be checked by; what it may make
/// effective stays. It is for who may change ids.
pub(super) fn set_cred(fsuid: i64, fsgid: i64, caps: CapSet) -> Result<()> {
    let permitted = permitted()?;
    if !permitted.contains(CapSet::SETUID | CapSet::SETGID) {
        return Err(Errno::EPERM);
    }
    // As in `become_task`.
    let _alone = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    capset(permitted, permitted)?;
    syscall(libc::SYS_setfsgid, [Arg::Int(fsgid)])?;
    syscall(libc::SYS_setfsuid, [Arg::Int(fsuid)])?;
    // A user other than 0 has just lost what is about files.
    capset(permitted, caps & permitted)?;
    let_others_look()
}

/// Takes capabilities from what the calling thread may make effective, for ever, and makes these effective.
pub(super) fn set_caps(left: CapSet, caps: CapSet) -> Result<()> {
    let left = permitted()? & left;
    capset(left, caps & left)
}

/// What the calling thread may make effective.
fn permitted() -> Result<CapSet> {
    let data = capget()?;
    Ok(CapSet::from_bits_retain(data[0] >> 32 | data[2] << 32))
}

/// What the calling thread may.
pub(super) fn effective() -> Result<CapSet> {
    let data = capget()?;
    let low = u64::from(u32::MAX);
    Ok(CapSet::from_bits_retain(data[0] & low | (data[1] & !low)))
}

fn capget() -> Result<[u64; 3]> {
    // capget(2): the low halves of what is effective, permitted and inheritable, then the high ones.
    let mut header = [0x2008_0522];
    let mut data = [0; 3];
    syscall(libc::SYS_capget, [Arg::Words(&mut header), Arg::Words(&mut data)])?;
    Ok(data)
}

fn capset(permitted: CapSet, effective: CapSet) -> Result<()> {
    let (permitted, effective) = (permitted.bits(), effective.bits());
    let low = |set: u64| set & u64::from(u32::MAX);
    let mut header = [0x2008_0522];
    let mut data = [low(effective) | permitted << 32, effective >> 32 << 32, permitted >> 32];
    syscall(libc::SYS_capset, [Arg::Words(&mut header), Arg::Words(&mut data)]).map(drop)
}

/// Changed ids make the process one that nobody may look into: this takes that back.
fn let_others_look() -> Result<()> {
    let dumpable = Arg::Int(libc::PR_SET_DUMPABLE.into());
    syscall(libc::SYS_prctl, [dumpable, Arg::Int(1)]).map(drop)
}
