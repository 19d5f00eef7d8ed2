//! Tasks by number, and what others can see of one: what a procfs shows.
//!
//! ```text
//!   Task ── owns ──► Registered ──► TaskInfo ◄── the table, by number
//!                                     │ root, current directory, credentials, name
//!                                     └► Process: executable, open files; shared by its threads
//! ```
//!
//! A task reads its own root and credentials without coming here; only what others may read of it is kept twice.
//!
//! Linux: `struct task_struct`, `alloc_pid`, `find_task_by_vpid`; pid_namespaces(7).

use crate::{
    cred::Cred,
    fdtable::FdTable,
    file::File,
    mount::{NsId, show::MountFormat},
    task::FsStruct,
    vfs::Vfs,
    walk::HeldPath,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

/// The number behind which counting begins again: `PID_MAX_LIMIT`.
const LAST: u32 = 1 << 22;

/// A name of a task has so many bytes and a NUL: `TASK_COMM_LEN`.
const COMM_LEN: usize = 15;

/// The tasks of a machine.
#[derive(Default)]
pub(crate) struct TaskTable(Mutex<Numbers>);

#[derive(Default)]
struct Numbers {
    tasks: BTreeMap<u32, Arc<TaskInfo>>,
    /// The same as (process, task).
    threads: BTreeSet<(u32, u32)>,
    last: u32,
}

impl Numbers {
    fn threads(&self, process: u32) -> impl Iterator<Item = u32> {
        self.threads.range((process, 0)..=(process, LAST)).map(|&(_, number)| number)
    }
}

/// What others can see of a task.
pub struct TaskInfo {
    number: u32,
    process: Arc<Process>,
    seen: Mutex<Seen>,
}

struct Seen {
    /// The task's own, which nobody else keeps alive.
    fs: Weak<FsStruct>,
    ns: NsId,
    cred: Cred,
    comm: Vec<u8>,
}

impl Seen {
    fn new(fs: &Arc<FsStruct>, ns: NsId, cred: Cred, comm: Vec<u8>) -> Self {
        Self { fs: Arc::downgrade(fs), ns, cred, comm }
    }
}

/// What the threads of a process share.
struct Process {
    number: u32,
    parent: u32,
    files: Mutex<Option<Arc<FdTable>>>,
    exe: Mutex<Option<File>>,
}

/// A task's entry in the table, which goes with it.
pub(crate) struct Registered {
    vfs: Arc<Vfs>,
    pub(crate) info: Arc<TaskInfo>,
}

impl Vfs {
    /// The task of that number, while it lives.
    pub fn task_info(&self, number: u32) -> Option<Arc<TaskInfo>> {
        self.tasks.0.lock().tasks.get(&number).cloned()
    }

    /// The process of that number: its first task or, where that is gone, another of its threads.
    pub fn process_info(&self, number: u32) -> Option<Arc<TaskInfo>> {
        let numbers = self.tasks.0.lock();
        let thread = numbers.threads(number).next()?;
        numbers.tasks.get(&thread).cloned()
    }

    /// The numbers of the processes from `from` on, in order.
    pub fn processes(&self, from: u32) -> Vec<u32> {
        let numbers = self.tasks.0.lock();
        let threads = numbers.threads.range((from, 0)..);
        let mut processes: Vec<_> = threads.map(|&(process, _)| process).collect();
        processes.dedup();
        processes
    }

    /// The numbers of a process's tasks, in order.
    pub fn threads(&self, process: u32) -> Vec<u32> {
        self.tasks.0.lock().threads(process).collect()
    }
}

impl Vfs {
    /// Root and current directory of all tasks.
    pub(crate) fn all_fs(&self) -> Vec<Arc<FsStruct>> {
        self.tasks.0.lock().tasks.values().filter_map(|task| task.fs()).collect()
    }

    /// Whether several tasks have the same root and current directory.
    pub(crate) fn shares_fs(&self, fs: &Arc<FsStruct>) -> bool {
        let fs = Arc::downgrade(fs);
        let numbers = self.tasks.0.lock();
        let shared = numbers.tasks.values().filter(|task| task.seen.lock().fs.ptr_eq(&fs));
        shared.take(2).count() == 2
    }
}

/// What a new task is to the one that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Process,
    Thread,
}

impl Registered {
    /// Enters the first task of a process that nobody made.
    pub(crate) fn first(vfs: &Arc<Vfs>, fs: &Arc<FsStruct>, cred: &Cred, ns: NsId) -> Self {
        let seen = Seen::new(fs, ns, cred.clone(), b"task".to_vec());
        Self::enter(vfs, seen, |number| {
            let (files, exe) = Default::default();
            Arc::new(Process { number, parent: 0, files, exe })
        })
    }

    /// Enters a task that another one makes.
    pub(crate) fn child(&self, fs: &Arc<FsStruct>, kind: Kind) -> Self {
        let parent = &self.info.process;
        let ns = self.info.seen.lock().ns;
        let seen = Seen::new(fs, ns, self.info.cred(), self.info.comm());
        Self::enter(&self.vfs, seen, |number| match kind {
            Kind::Thread => Arc::clone(parent),
            Kind::Process => {
                let files = parent.files.lock().as_ref().map(|files| Arc::new(files.fork()));
                let exe = parent.exe.lock().clone();
                let (files, exe) = (Mutex::new(files), Mutex::new(exe));
                Arc::new(Process { number, parent: parent.number, files, exe })
            }
        })
    }

    fn enter(vfs: &Arc<Vfs>, seen: Seen, process: impl FnOnce(u32) -> Arc<Process>) -> Self {
        let mut numbers = vfs.tasks.0.lock();
        let mut number = numbers.last;
        loop {
            number = number % LAST + 1;
            // Threads may go by the number of a first task that is gone.
            let named = numbers.threads(number).next().is_some();
            if !named && !numbers.tasks.contains_key(&number) {
                break;
            }
        }
        numbers.last = number;
        let info = Arc::new(TaskInfo { number, process: process(number), seen: Mutex::new(seen) });
        numbers.tasks.insert(number, Arc::clone(&info));
        numbers.threads.insert((info.process(), number));
        drop(numbers);
        Self { vfs: Arc::clone(vfs), info }
    }

    pub(crate) fn set_cred(&self, cred: &Cred) {
        self.info.seen.lock().cred = cred.clone();
    }

    pub(crate) fn set_fs(&self, fs: &Arc<FsStruct>) {
        self.info.seen.lock().fs = Arc::downgrade(fs);
    }

    pub(crate) fn set_ns(&self, ns: NsId) {
        self.info.seen.lock().ns = ns;
    }

    pub(crate) fn set_comm(&self, comm: &[u8]) {
        let end = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len()).min(COMM_LEN);
        self.info.seen.lock().comm = comm[..end].to_vec();
    }

    pub(crate) fn set_exe(&self, exe: Option<File>) {
        let old = std::mem::replace(&mut *self.info.process.exe.lock(), exe);
        drop(old);
    }

    pub(crate) fn set_files(&self, files: Option<Arc<FdTable>>) {
        let old = std::mem::replace(&mut *self.info.process.files.lock(), files);
        drop(old);
    }
}

impl Registered {
    /// Shows no root and no current directory of the task any more.
    pub(crate) fn forget_fs(&self) {
        self.info.seen.lock().fs = Weak::new();
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut numbers = self.vfs.tasks.0.lock();
        numbers.threads.remove(&(self.info.process(), self.info.number));
        let gone = numbers.tasks.remove(&self.info.number);
        drop(numbers);
        drop(gone);
    }
}

impl TaskInfo {
    /// The task's number: gettid(2).
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The number of its process, which is that of its first task: getpid(2).
    pub fn process(&self) -> u32 {
        self.process.number
    }

    /// The number of the process that made its process, 0 if none did: getppid(2).
    pub fn parent(&self) -> u32 {
        self.process.parent
    }

    /// Its credentials.
    pub fn cred(&self) -> Cred {
        self.seen.lock().cred.clone()
    }

    /// Its name, of at most 15 bytes.
    pub fn comm(&self) -> Vec<u8> {
        self.seen.lock().comm.clone()
    }

    /// Its umask, while it lives.
    pub fn umask(&self) -> Option<u32> {
        self.fs().map(|fs| fs.umask())
    }

    /// Its open files by number, if it keeps them in a table: see [`Task::set_files`](crate::Task::set_files).
    pub fn files(&self) -> Option<Arc<FdTable>> {
        self.process.files.lock().clone()
    }

    /// What it executes, if that was said: see [`Task::set_exe`](crate::Task::set_exe).
    pub fn exe(&self) -> Option<File> {
        self.process.exe.lock().clone()
    }

    /// The mounts of its namespace that it can reach, as `/proc/PID/mountinfo` or `/proc/PID/mounts` has them; while the task
    /// lives, in the machine that it is of.
    pub fn mounts(&self, vfs: &Vfs, format: MountFormat) -> Option<Vec<u8>> {
        let HeldPlace(root) = self.root(vfs)?;
        let ns = self.seen.lock().ns;
        Some(vfs.show_mounts(ns, &root, format))
    }

    /// The path of an open file of the same machine, as [`Task::d_path`](crate::Task::d_path) tells it to the task; while that
    /// lives.
    pub fn d_path(&self, file: &File) -> Option<Vec<u8>> {
        let held = file.hold();
        let HeldPlace(root) = self.root(file.vfs())?;
        file.vfs().d_path(&held, &root).ok()
    }

    /// Its root, held; while the task lives, in the machine that it is of.
    pub fn root<'v>(&self, vfs: &'v Vfs) -> Option<HeldPlace<'v>> {
        let (mnt, dentry) = self.fs_in(vfs)?.hold_root(vfs);
        Some(HeldPlace(HeldPath::new(vfs, mnt, dentry)))
    }

    /// Its current directory, held; while the task lives, in the machine that it is of.
    pub fn cwd<'v>(&self, vfs: &'v Vfs) -> Option<HeldPlace<'v>> {
        let (mnt, dentry) = self.fs_in(vfs)?.hold_cwd(vfs);
        Some(HeldPlace(HeldPath::new(vfs, mnt, dentry)))
    }

    fn fs_in(&self, vfs: &Vfs) -> Option<Arc<FsStruct>> {
        self.fs().filter(|fs| std::ptr::eq(&raw const *fs.vfs, vfs))
    }

    fn fs(&self) -> Option<Arc<FsStruct>> {
        self.seen.lock().fs.upgrade()
    }
}

impl std::fmt::Debug for TaskInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskInfo").field("number", &self.number).finish_non_exhaustive()
    }
}

/// A place that is held: a file as seen in a mount, reachable by a path or not.
///
/// A file system's symlink can lead to one; see [`FileSystem::get_link`](crate::fs::FileSystem::get_link).
pub struct HeldPlace<'v>(pub(crate) HeldPath<'v>);

impl File {
    /// The place of an open file, held; none where the file is of another machine.
    pub fn held_place<'v>(&self, vfs: &'v Vfs) -> Option<HeldPlace<'v>> {
        if !std::ptr::eq(self.vfs(), vfs) {
            return None;
        }
        let place = self.place();
        vfs.hold_both(place);
        Some(HeldPlace(HeldPath::new(vfs, place.0, place.1)))
    }
}

impl std::fmt::Debug for HeldPlace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldPlace").finish_non_exhaustive()
    }
}
