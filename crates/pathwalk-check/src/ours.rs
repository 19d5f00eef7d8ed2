//! pathwalk as a subject.

use crate::{
    answer::{Raw, Said},
    call::{Call, QUEUES, SLOTS, Step, Who, number},
    field::{Int, Len, MakesQueue, Octal, Queue, Slot, Text, When, Where},
    host_dir::{HostDir, OnHost},
    kernel::{Powers, powers},
    listing::listed,
    normal::{Known, Pace, ground::mountinfo_as_tmpfs},
    ours_listmount::Listing,
    subject::{Engine, Outcome, Subject},
};
use pathwalk::{
    AccessMode, At, AtFlags, CapSet, Config, Cred, Dev, Errno, Event, FdTable, File, HostFs,
    HostOptions, Inotify, InotifyEvent, InotifyFlags, InotifyLimits, MemFs, MountAttr,
    MountAttrFlags, MountFlags, OpenHow, ProcFs, ResolveFlags, Result, Seek, Stat, Task, Timespec,
    UmountFlags, Usage, Vfs,
    abi::{PATH_MAX, dirent, inotify},
    fs::FileSystem,
    mountinfo, system_time,
};
use std::{cell::Cell, collections::HashSet, sync::Arc};

/// What a task must have to follow another into a namespace of fewer rights, and to be itself there.
pub(crate) const RIGHTS_TO_MOVE: CapSet = CapSet::SYS_ADMIN
    .union(CapSet::SYS_CHROOT)
    .union(CapSet::SETUID)
    .union(CapSet::DAC_READ_SEARCH);

/// A machine made for one run.
pub(crate) struct Ours {
    tasks: Vec<Task>,
    /// The first thread, which makes no calls.
    _process: Task,
    slots: [Option<File>; SLOTS],
    /// The same by numbers, for a procfs to show.
    files: Arc<FdTable>,
    queues: [Option<Inotify>; QUEUES],
    known: Known,
    /// The namespaces of fewer rights than the first.
    less: HashSet<u64>,
    /// The directory of the host that is its root, if there is one; it goes last.
    _below: Option<HostDir>,
}

impl Ours {
    /// Makes a machine that is set as the running kernel is.
    pub(crate) fn new(settings: Settings) -> Self {
        let below = settings.on_host.map(|coherence| (HostDir::make(), coherence));
        let root: Arc<dyn FileSystem> = match &below {
            Some((dir, coherence)) => {
                let options = HostOptions { coherence: (*coherence).into(), ..Default::default() };
                HostFs::with_options(dir.path(), options).expect("a directory can be had")
            }
            None => MemFs::new(),
        };
        let vfs = Vfs::new(settings.config(), root).expect("a machine fits");
        let process = vfs.task(Cred::root());
        let files = Arc::new(FdTable::new(1 << 10));
        process.set_files(Some(Arc::clone(&files)));
        // As with the kernel, they are threads that share no more than the descriptors.
        let tasks = Who::ALL.map(|who| {
            let mut task = process.thread();
            task.unshare_fs();
            let mut cred = cred(who);
            if !settings.keeps_set_ids {
                cred.caps.remove(CapSet::FSETID);
                cred.permitted.remove(CapSet::FSETID);
            }
            task.set_cred(cred);
            task
        });
        let (slots, queues, known) = Default::default();
        let tasks = tasks.into();
        Self {
            tasks,
            _process: process,
            slots,
            files,
            queues,
            known,
            less: HashSet::new(),
            _below: below.map(|(dir, _)| dir),
        }
    }

    fn is_empty(&self, Slot(slot): Slot) -> bool {
        match slot.checked_sub(SLOTS) {
            Some(queue) => self.queues[queue].is_none(),
            None => self.slots[slot].is_none(),
        }
    }

    /// The calls that put a task into another mount namespace.
    fn enter(&mut self, who: Who, call: &Call) -> Result<Raw<File>> {
        match call {
            Call::Setns { of } => {
                let ns = self.tasks[*of as usize].mount_namespace().clone();
                self.tasks[who as usize].setns(&ns)?;
            }
            _ => self.unshare(who, matches!(call, Call::UnshareLess {}))?,
        }
        Ok(Raw::Done)
    }

    /// As the kernel's tasks do: from and to a namespace of fewer rights they go after a process that went there.
    fn unshare(&mut self, who: Who, gives_up: bool) -> Result<()> {
        let task = &mut self.tasks[who as usize];
        let less = gives_up || self.less.contains(&task.mount_namespace().id());
        if less {
            if !task.cred().caps.contains(RIGHTS_TO_MOVE) {
                return Err(Errno::EPERM);
            }
            for path in ["/", "."] {
                task.faccessat2(At::Cwd, path, AccessMode::X_OK, AtFlags::EACCESS)?;
            }
        }
        if gives_up { task.unshare_mounts_less_privileged() } else { task.unshare_mounts() }?;
        if less {
            self.less.insert(task.mount_namespace().id());
        }
        Ok(())
    }

    /// As the kernel is told, see its `set_cred`.
    fn set_cred(
        &mut self,
        who: Who,
        Int(fsuid): Int,
        Int(fsgid): Int,
        caps: CapSet,
    ) -> Result<Raw<File>> {
        let task = &mut self.tasks[who as usize];
        let Cred { permitted, .. } = *task.cred();
        if !permitted.contains(CapSet::SETUID | CapSet::SETGID) {
            return Err(Errno::EPERM);
        }
        let (fsuid, fsgid) = (fsuid as u32, fsgid as u32);
        let first = self.known.caps_between(permitted);
        for caps in first.into_iter().chain([caps & permitted]) {
            task.set_cred(Cred { fsuid, fsgid, caps, ..task.cred().clone() });
        }
        Ok(Raw::Done)
    }

    /// Closes all files, has all tasks leave and takes all mounts down. What is in use then is what nobody gave back, beside the
    /// empty directory at the bottom.
    pub(crate) fn leave(self) -> Usage {
        let vfs = Arc::clone(self._process.vfs());
        drop(self);
        // Roots may be stacked; each task begins at the topmost.
        while vfs.task(Cred::root()).umount2("/", UmountFlags::DETACH).is_ok() {}
        vfs.shrink(u32::MAX);
        vfs.usage()
    }

    /// As the kernel's `set_caps`.
    fn set_caps(&mut self, who: Who, left: CapSet, caps: CapSet) -> Result<Raw<File>> {
        let task = &mut self.tasks[who as usize];
        let permitted = task.cred().permitted & left;
        task.set_cred(Cred { permitted, caps: caps & permitted, ..task.cred().clone() });
        Ok(Raw::Done)
    }

    /// Makes a call that is about no slot; what it opens is closed.
    pub(crate) fn ask_as(&self, who: Who, call: &Call) -> Said<File> {
        Said::Answer(self.ask(&self.tasks[who as usize], call))
    }

    fn make(&mut self, step: &Step) -> Said<File> {
        let call = &step.call.with_numbers();
        if call.uses().into_iter().any(|slot| self.is_empty(slot)) {
            return Said::NotAsked;
        }
        if let Call::InotifyInit1 { queue: MakesQueue(queue), flags } = call {
            let task = &self.tasks[step.who as usize];
            let made = task.inotify_init1(*flags | InotifyFlags::NONBLOCK);
            return Said::Answer(made.map(|made| {
                self.queues[queue.0] = Some(made);
                Raw::Done
            }));
        }
        let answer = match call {
            Call::UnshareMounts {} | Call::UnshareLess {} | Call::Setns { .. } => {
                self.enter(step.who, call)
            }
            Call::Setcred { fsuid, fsgid, caps } => self.set_cred(step.who, *fsuid, *fsgid, *caps),
            Call::Setcaps { permitted, caps } => self.set_caps(step.who, *permitted, *caps),
            Call::Mounts {} => {
                let text = |who: Who| {
                    (who.name(), mountinfo_as_tmpfs(mountinfo(&self.tasks[who as usize])))
                };
                Ok(Raw::Mounts(Who::ALL.map(text).into()))
            }
            _ => self.ask(&self.tasks[step.who as usize], call),
        };
        if let Call::Close { slot } = call {
            self.slots[slot.0] = None;
            self.files.close(number(*slot)).expect("it was in its slot");
        }
        match (call.fills(), answer) {
            (Some(slot), Ok(Raw::File(file))) => {
                self.files.install(number(slot), file.clone()).expect("each slot has a number");
                self.slots[slot.0] = Some(file);
                Said::Answer(Ok(Raw::Done))
            }
            (_, answer) => Said::Answer(answer),
        }
    }

    fn look(&self) -> Vec<Option<Stat>> {
        let task = &self.tasks[Who::Judge as usize];
        let stat = |file: &File| task.fstat(file).expect("fstat cannot fail");
        self.slots.iter().map(|file| file.as_ref().map(stat)).collect()
    }

    fn ask(&self, task: &Task, call: &Call) -> Result<Raw<File>> {
        let (tasks, slots, queues) = (&self.tasks, &self.slots, &self.queues);
        Asking { tasks, slots, queues, bounds: ResolveFlags::empty() }.ask(task, call)
    }
}

/// A call that is being made: the tasks and the files that it may be about, and its bounds.
pub(crate) struct Asking<'o> {
    pub(crate) tasks: &'o [Task],
    slots: &'o [Option<File>; SLOTS],
    queues: &'o [Option<Inotify>; QUEUES],
    bounds: ResolveFlags,
}

impl Asking<'_> {
    fn queue(&self, queue: Queue) -> Result<&Inotify> {
        self.queues[queue.0].as_ref().ok_or(Errno::EBADF)
    }

    pub(crate) fn file(&self, slot: Slot) -> Result<&File> {
        self.slots[slot.0].as_ref().ok_or(Errno::EBADF)
    }

    pub(crate) fn at(&self, place: &Where) -> Result<At<'_>> {
        let at = place.dir.map_or(Ok(At::Cwd), |slot| self.file(slot).map(At::Dir))?;
        Ok(if self.bounds.is_empty() { at } else { at.resolve(self.bounds) })
    }

    pub(crate) fn cwd(&self) -> At<'static> {
        if self.bounds.is_empty() { At::Cwd } else { At::Cwd.resolve(self.bounds) }
    }

    fn ask(&self, task: &Task, call: &Call) -> Result<Raw<File>> {
        if let Some(answer) =
            self.ask_xattr(task, call).or_else(|| listed(&Listing(self, task), call))
        {
            return answer;
        }
        let done = |()| Raw::Done;
        Ok(match call {
            Call::Openat { path, flags, mode: Octal(mode), .. } => {
                Raw::File(task.openat(self.at(path)?, &path.path, *flags, *mode)?)
            }
            Call::Openat2 { path, flags, mode, resolve, .. } => {
                let (flags, mode, resolve) = (flags.bits(), u64::from(mode.0), resolve.bits());
                let how = OpenHow { flags, mode, resolve };
                Raw::File(task.openat2(self.at(path)?, &path.path, &how)?)
            }
            Call::Close { .. } => Raw::Done,
            Call::Read { slot, len: Len(len) } => {
                let mut buf = vec![0; *len];
                let read = task.read(self.file(*slot)?, &mut buf)?;
                buf.truncate(read);
                Raw::Bytes(buf)
            }
            Call::Pread { slot, len: Len(len), offset } => {
                let mut buf = vec![0; *len];
                let read = task.pread(self.file(*slot)?, &mut buf, offset.0)?;
                buf.truncate(read);
                Raw::Bytes(buf)
            }
            Call::Write { slot, data: Text(data) } => {
                Raw::Number(task.write(self.file(*slot)?, data)? as i64)
            }
            Call::Pwrite { slot, data: Text(data), offset } => {
                Raw::Number(task.pwrite(self.file(*slot)?, data, offset.0)? as i64)
            }
            Call::LseekSet { slot, to } => seek(task, self.file(*slot)?, Seek::Set(to.0))?,
            Call::LseekCur { slot, by } => seek(task, self.file(*slot)?, Seek::Cur(by.0))?,
            Call::LseekEnd { slot, by } => seek(task, self.file(*slot)?, Seek::End(by.0))?,
            Call::Stat { path: Text(path) } => Raw::Stat(Box::new(task.stat(path)?)),
            Call::Lstat { path: Text(path) } => Raw::Stat(Box::new(task.lstat(path)?)),
            Call::Fstat { slot } => Raw::Stat(Box::new(task.fstat(self.file(*slot)?)?)),
            Call::Fstatat { path, flags } => {
                Raw::Stat(Box::new(task.fstatat(self.at(path)?, &path.path, *flags)?))
            }
            Call::Statx { path, flags, mask } => {
                Raw::Statx(Box::new(task.statx(self.at(path)?, &path.path, *flags, *mask)?))
            }
            Call::Within { resolve, call } => {
                Asking { bounds: *resolve, ..*self }.ask(task, call)?
            }
            Call::Statfs { path: Text(path) } => {
                Raw::Statfs(Box::new(task.statfsat(self.cwd(), path)?))
            }
            Call::Fstatfs { slot } => Raw::Statfs(Box::new(task.fstatfs(self.file(*slot)?)?)),
            Call::StatxNull { slot, flags, mask } => {
                Raw::Statx(Box::new(task.statx(self.file(*slot)?, "", *flags, *mask)?))
            }
            Call::Access { path: Text(path), mode } => task.access(path, *mode).map(done)?,
            Call::Faccessat2 { path, mode, flags } => {
                task.faccessat2(self.at(path)?, &path.path, *mode, *flags).map(done)?
            }
            Call::Mkdirat { path, mode } => {
                task.mkdirat(self.at(path)?, &path.path, mode.0).map(done)?
            }
            Call::Mknodat { path, mode, dev } => {
                let dev = Dev::from_stat(dev.0 as u64);
                task.mknodat(self.at(path)?, &path.path, mode.0, dev).map(done)?
            }
            Call::Symlinkat { target: Text(target), path } => {
                task.symlinkat(target, self.at(path)?, &path.path).map(done)?
            }
            Call::Linkat { old, new, flags } => {
                task.linkat(self.at(old)?, &old.path, self.at(new)?, &new.path, *flags).map(done)?
            }
            Call::Unlinkat { path, flags } => {
                task.unlinkat(self.at(path)?, &path.path, *flags).map(done)?
            }
            Call::Rmdir { path: Text(path) } => task.rmdir(path).map(done)?,
            Call::Renameat2 { old, new, flags } => task
                .renameat2(self.at(old)?, &old.path, self.at(new)?, &new.path, *flags)
                .map(done)?,
            Call::Readlinkat { path, size: Len(size) } => {
                let mut buf = vec![0; *size];
                let read = task.readlinkat(self.at(path)?, &path.path, &mut buf)?;
                buf.truncate(read);
                Raw::Bytes(buf)
            }
            Call::Fchmodat2 { path, mode, flags } => {
                task.fchmodat2(self.at(path)?, &path.path, mode.0, *flags).map(done)?
            }
            Call::Fchmod { slot, mode } => task.fchmod(self.file(*slot)?, mode.0).map(done)?,
            Call::Fchownat { path, uid, gid, flags } => {
                task.fchownat(self.at(path)?, &path.path, id(*uid), id(*gid), *flags).map(done)?
            }
            Call::Fchown { slot, uid, gid } => {
                task.fchown(self.file(*slot)?, id(*uid), id(*gid)).map(done)?
            }
            Call::OpenExec { path, flags } => {
                task.open_exec(self.at(path)?, &path.path, *flags).map(|_| Raw::Done)?
            }
            Call::Getflags { slot } => {
                Raw::Number(i64::from(task.getflags(self.file(*slot)?)?.bits()))
            }
            Call::Setflags { slot, flags } => task.setflags(self.file(*slot)?, *flags).map(done)?,
            Call::Utimensat { path, atime: When(atime), mtime: When(mtime), flags } => {
                task.utimensat(self.at(path)?, &path.path, *atime, *mtime, *flags).map(done)?
            }
            Call::Futimens { slot, atime: When(atime), mtime: When(mtime) } => {
                task.futimens(self.file(*slot)?, *atime, *mtime).map(done)?
            }
            Call::Truncate { path: Text(path), size } => {
                task.truncateat(self.cwd(), path, size.0).map(done)?
            }
            Call::Ftruncate { slot, size } => {
                task.ftruncate(self.file(*slot)?, size.0).map(done)?
            }
            Call::Getdents64 { slot } => Raw::Names(list(task, self.file(*slot)?, PATH_MAX)?),
            Call::Getdents64By { slot, size: Len(size) } => {
                Raw::Names(list(task, self.file(*slot)?, *size)?)
            }
            Call::Chdir { path: Text(path) } => task.chdirat(self.cwd(), path).map(done)?,
            Call::Fchdir { slot } => task.fchdir(self.file(*slot)?).map(done)?,
            Call::Chroot { path: Text(path) } => task.chrootat(self.cwd(), path).map(done)?,
            Call::Getcwd {} => Raw::Bytes(task.getcwd()?),
            Call::Umask { mask } => Raw::Number(i64::from(task.umask(mask.0))),
            Call::Mount { path: Text(path), flags } => {
                task.mountat(MemFs::new(), self.cwd(), path, *flags).map(done)?
            }
            Call::Mountproc { path: Text(path), flags } => {
                task.mount(ProcFs::new(), path, *flags).map(done)?
            }
            Call::Bind { source: Text(source), path: Text(path) } => {
                let flags = MountFlags::BIND;
                task.mount_treeat(self.cwd(), source, self.cwd(), path, flags).map(done)?
            }
            Call::Umount2 { path: Text(path), flags } => {
                task.umount2at(self.cwd(), path, *flags).map(done)?
            }
            Call::InotifyInit1 { .. } => unreachable!("made by who has the queues"),
            Call::InotifyAddWatch { queue, path: Text(path), mask } => {
                let wd = task.inotify_add_watchat(self.queue(*queue)?, self.cwd(), path, *mask)?;
                Raw::Number(wd.into())
            }
            Call::InotifyRmWatch { queue, wd: Int(wd) } => {
                task.inotify_rm_watch(self.queue(*queue)?, *wd as i32).map(done)?
            }
            Call::InotifyRead { queue, len: Len(len) } => {
                let mut buf = vec![0; *len];
                let read = self.queue(*queue)?.read(&mut buf)?;
                Raw::Events(parse_events(&buf[..read]))
            }
            Call::MountTree { source: Text(source), path: Text(path), flags } => {
                task.mount_treeat(self.cwd(), source, self.cwd(), path, *flags).map(done)?
            }
            Call::PivotRoot { new_root: Text(new_root), put_old: Text(put_old) } => {
                task.pivot_rootat(self.cwd(), new_root, self.cwd(), put_old).map(done)?
            }
            Call::OpenTree { path, flags, .. } => {
                Raw::File(task.open_tree(self.at(path)?, &path.path, *flags)?)
            }
            Call::MoveMount { from, to, flags } => task
                .move_mount(self.at(from)?, &from.path, self.at(to)?, &to.path, *flags)
                .map(done)?,
            Call::MountSetattr { path, flags, set, clear, propagation } => {
                let (attr_set, attr_clr, propagation) = (*set, *clear, *propagation);
                let attr = MountAttr { attr_set, attr_clr, propagation, idmap: None };
                task.mount_setattr(self.at(path)?, &path.path, *flags, &attr).map(done)?
            }
            Call::OpenTreeAttr { path, flags, set, clear, propagation, map, .. } => {
                let (attr_set, attr_clr, propagation) = (*set, *clear, *propagation);
                let attr = MountAttr { attr_set, attr_clr, propagation, idmap: Some(map.map()) };
                Raw::File(task.open_tree_attr(self.at(path)?, &path.path, *flags, &attr)?)
            }
            Call::IdmapMount { path, flags, map } => {
                let (attr_set, idmap) = (MountAttrFlags::IDMAP, Some(map.map()));
                let attr = MountAttr { attr_set, idmap, ..MountAttr::default() };
                task.mount_setattr(self.at(path)?, &path.path, *flags, &attr).map(done)?
            }
            Call::UnshareMounts {}
            | Call::UnshareLess {}
            | Call::Setns { .. }
            | Call::Mounts {}
            | Call::Setcred { .. }
            | Call::Setcaps { .. } => {
                unreachable!("these are about the tasks themselves: see `Ours::make`")
            }
            _ => unreachable!("the calls about extended attributes were made above"),
        })
    }
}

impl Subject for Ours {
    type File = File;

    fn show(&mut self, known: Known) {
        self.known = known;
    }

    fn steps(&mut self, steps: &[Step], pace: Pace) -> Vec<Outcome<File>> {
        let outcome = |step: &Step| {
            pace.wait();
            let said = self.make(step);
            // The numbers of file systems that are gone come again after 65535 others: only a procfs's matters.
            let new_device = match (&step.call, &said) {
                (call @ Call::Mountproc { path, .. }, Said::Answer(Ok(_)))
                    if call.mounts_new().is_some() =>
                {
                    let stat = self.tasks[step.who as usize].stat(&path.0);
                    stat.ok().map(|stat| Dev::from_stat(stat.st_dev))
                }
                _ => None,
            };
            let events = self.queues[0].iter().flat_map(Inotify::events).collect();
            Outcome { said, events, slots: self.look(), new_device }
        };
        steps.iter().map(outcome).collect()
    }
}

fn cred(who: Who) -> Cred {
    let (uid, gid, fsuid, fsgid, groups) = who.ids();
    let caps = if fsuid == 0 { CapSet::FULL } else { CapSet::empty() };
    let groups = groups.to_vec();
    // Whoever has none may get some by `set_cred`.
    Cred { uid, gid, fsuid, fsgid, groups, caps, permitted: CapSet::FULL, security: 0 }
}

fn id(Int(id): Int) -> Option<u32> {
    (id != -1).then_some(id as u32)
}

fn seek(task: &Task, file: &File, to: Seek) -> Result<Raw<File>> {
    Ok(Raw::Number(task.lseek(file, to)? as i64))
}

/// The whole directory, from its beginning, as much at a time as a buffer of this size takes.
fn list(task: &Task, file: &File, size: usize) -> Result<Vec<(Vec<u8>, u8)>> {
    task.lseek(file, Seek::Set(0))?;
    let mut names = Vec::new();
    let mut buf = vec![0; size];
    loop {
        match task.getdents64(file, &mut buf)? {
            0 => return Ok(names),
            filled => parse_dirents(&buf[..filled], &mut names),
        }
    }
}

/// Reads `struct linux_dirent64`s.
pub(crate) fn parse_dirents(mut bytes: &[u8], names: &mut Vec<(Vec<u8>, u8)>) {
    while !bytes.is_empty() {
        let len =
            usize::from(u16::from_ne_bytes([bytes[dirent::D_RECLEN], bytes[dirent::D_RECLEN + 1]]));
        let name = &bytes[dirent::D_NAME..len];
        let end = name.iter().position(|&byte| byte == 0).expect("a name ends with NUL");
        names.push((name[..end].to_vec(), bytes[dirent::D_TYPE]));
        bytes = &bytes[len..];
    }
}

/// Reads `struct inotify_event`s.
pub(crate) fn parse_events(bytes: &[u8]) -> Vec<Event> {
    let own = |event: InotifyEvent<'_>| Event {
        wd: event.wd,
        mask: event.mask,
        cookie: event.cookie,
        name: event.name.into(),
    };
    inotify::events(bytes).map(own).collect()
}

/// Of the kernel's settings those that path calls look at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    /// `fs.protected_symlinks`
    pub(crate) protected_symlinks: bool,
    /// `fs.protected_hardlinks`
    pub(crate) protected_hardlinks: bool,
    /// `fs.protected_regular`
    pub(crate) protected_regular: u8,
    /// `fs.protected_fifos`
    pub(crate) protected_fifos: u8,
    /// `fs.inotify`
    pub(crate) inotify: InotifyLimits,
    /// Whether root may write files without their set-id bits being taken: not in a user namespace.
    pub(crate) keeps_set_ids: bool,
    /// How pathwalk's root, a directory of the host on a tmpfs, is looked at; none where it is a file system in memory.
    pub(crate) on_host: Option<OnHost>,
    /// Who stands for pathwalk.
    pub(crate) engine: Engine,
}

impl Settings {
    /// Those of a kernel that cannot be asked.
    pub(crate) const DEFAULT: Self = Self {
        protected_symlinks: true,
        protected_hardlinks: true,
        protected_regular: 0,
        protected_fifos: 0,
        inotify: InotifyLimits {
            max_queued_events: 16_384,
            max_user_instances: 128,
            max_user_watches: 65_536,
        },
        keeps_set_ids: true,
        on_host: None,
        engine: Engine::Library,
    };

    /// The configuration of a small machine that is set so.
    pub(crate) fn config(self) -> Config {
        Config {
            dentry_bytes: 1 << 21,
            inode_bytes: 1 << 21,
            name_bytes: 1 << 24,
            protected_symlinks: self.protected_symlinks,
            protected_hardlinks: self.protected_hardlinks,
            protected_regular: self.protected_regular,
            protected_fifos: self.protected_fifos,
            inotify: self.inotify,
            clock: Some(ticking),
            ..Config::default()
        }
    }

    /// With one changed by its name; none where there is no such.
    pub(crate) fn with(mut self, name: &str, value: u8) -> Option<Self> {
        match name {
            "protected_symlinks" => self.protected_symlinks = value != 0,
            "protected_hardlinks" => self.protected_hardlinks = value != 0,
            "protected_regular" => self.protected_regular = value,
            "protected_fifos" => self.protected_fifos = value,
            _ => return None,
        }
        Some(self)
    }

    /// `fs.protected_*`: names and values.
    pub(crate) fn protections(self) -> [(&'static str, u8); 4] {
        [
            ("protected_symlinks", self.protected_symlinks.into()),
            ("protected_hardlinks", self.protected_hardlinks.into()),
            ("protected_regular", self.protected_regular),
            ("protected_fifos", self.protected_fifos),
        ]
    }

    /// With each combination of `fs.protected_*` that there can be.
    pub(crate) fn however_protected(self) -> Vec<Self> {
        let combination = |number: u8| Self {
            protected_symlinks: number & 1 != 0,
            protected_hardlinks: number & 2 != 0,
            protected_regular: number / 4 % 3,
            protected_fifos: number / 12,
            ..self
        };
        (0..36).map(combination).collect()
    }

    /// Those of the running kernel.
    pub(crate) fn running() -> Self {
        let number = |name: &str| -> u32 {
            let path = format!("/proc/sys/fs/{name}");
            let text = std::fs::read_to_string(&path).expect("the setting can be read");
            text.trim().parse().expect("the setting is a number")
        };
        let value = |name: &str| number(name) as u8;
        Self {
            protected_symlinks: value("protected_symlinks") != 0,
            protected_hardlinks: value("protected_hardlinks") != 0,
            protected_regular: value("protected_regular"),
            protected_fifos: value("protected_fifos"),
            inotify: InotifyLimits {
                max_queued_events: number("inotify/max_queued_events"),
                max_user_instances: number("inotify/max_user_instances"),
                max_user_watches: number("inotify/max_user_watches"),
            },
            keeps_set_ids: powers() == Powers::Root,
            on_host: None,
            engine: Engine::Library,
        }
    }
}

/// The host's clock, made never to show the same time twice to a thread, so that every stamp is seen.
fn ticking() -> Timespec {
    thread_local! {
        static LAST: Cell<Timespec> = const { Cell::new(Timespec { sec: 0, nsec: 0 }) };
    }
    let last = LAST.get();
    let next = match last.nsec + 1 {
        1_000_000_000 => Timespec { sec: last.sec + 1, nsec: 0 },
        nsec => Timespec { sec: last.sec, nsec },
    };
    LAST.set(next.max(system_time()));
    LAST.get()
}
