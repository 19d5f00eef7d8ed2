//! The machine: the tables, the mounts and the settings that all tasks share.

use crate::{
    cred::{Cred, Subject},
    dcache::{
        self, Dentry, DentryId,
        change::KIND,
        shrink::{Absent, Clock},
    },
    ended::{Ended, Moment},
    fs::{Features, FileSystem},
    inode::{
        I_ACL_UNKNOWN, I_GETATTR, I_HASHED, I_MAGIC_LINK, I_MAY_EXEC, I_NO_OPEN, I_NOSEC,
        I_PERMISSION, Inode,
    },
    lock,
    mount::{
        MntFlags, Mount, MountId,
        remount::sb_flags,
        tree::{MOUNT_SLOTS, MountTree, TreeGuard},
    },
    name::Secret,
    notify::{InotifyLimits, Notify},
    profile::LinuxProfile,
    security::Security,
    task::Task,
    tasks::TaskTable,
    topology::Topology,
    walk::memo,
};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use pathwalk_abi::{Dev, Errno, MountFlags, Result, Timespec};
use pathwalk_sync::{
    Arena, BlobArena, Cell32, Cell64, Lent, Linked, Shelf, Spares, Striped, Table, lock_order, slot,
};
use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

/// How much memory a [`Vfs`] may use, and how it behaves where Linux can be told to.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes for dentries; 128 each. The table that they are found by takes up to an eighth of that beside them.
    pub dentry_bytes: u64,
    /// How many bytes of those names may have that stand for nothing, which are remembered where the file system would have
    /// to be asked; so that a search for what is not there does not drive out what is.
    pub negative_bytes: u64,
    /// Bytes for inodes; 128 each.
    pub inode_bytes: u64,
    /// Bytes for names of more than 32 bytes and symlink bodies.
    pub name_bytes: u64,
    /// Which version of Linux answers.
    pub profile: LinuxProfile,
    /// `fs.protected_symlinks`: in sticky directories that everyone may write, only one's own and the directory
    /// owner's symlinks are followed.
    pub protected_symlinks: bool,
    /// `fs.protected_hardlinks`: only what one owns, or may read and write, gets another name.
    pub protected_hardlinks: bool,
    /// `fs.protected_regular`: with 1, `O_CREAT` does not open somebody else's regular file in a sticky directory that
    /// everyone may write; with 2, nor in one that its group may.
    pub protected_regular: u8,
    /// `fs.protected_fifos`: the same of fifos.
    pub protected_fifos: u8,
    /// `fs.inotify.*`: how much a user may watch.
    pub inotify: InotifyLimits,
    /// The clock that stamps files; the host's if there is none.
    pub clock: Option<fn() -> Timespec>,
    /// Threads remember the paths that they walked, so as not to walk them again while nothing on the way moves. So many
    /// bytes may be taken for that by all threads of the process: 23 KiB by each that meets a path the second time, 384 a
    /// path, and 16 KiB at a time for what long ones have beside that; those that find no room walk. With 0 nothing is remembered.
    pub memo_bytes: u64,
}

impl Default for Config {
    /// 2 GiB each of dentries and inodes (16 million), an eighth of it for absent names, 1 GiB of names; reserved, not allocated. 64 MiB for the paths
    /// that 160 threads remember, as many as they can. The host's clock.
    fn default() -> Self {
        Self {
            dentry_bytes: 2 << 30,
            negative_bytes: 256 << 20,
            inode_bytes: 2 << 30,
            name_bytes: 1 << 30,
            profile: LinuxProfile::default(),
            protected_symlinks: true,
            protected_hardlinks: true,
            protected_regular: 0,
            protected_fifos: 0,
            inotify: InotifyLimits::default(),
            clock: None,
            memo_bytes: 64 << 20,
        }
    }
}

impl Config {
    /// So many bytes for dentries, inodes and names in all, from 4 MiB on: three eighths each for dentries and inodes, an eighth for names. The
    /// rest is for the tables that they are found by, and for what tells what is free: where there are few mounts, [`Usage::bytes`] is
    /// never more. What threads remember of paths has its own budget, as by default: [`Config::memo_bytes`].
    pub fn within(bytes: u64) -> Self {
        let eighth = bytes.max(4 << 20) / 8;
        Self {
            dentry_bytes: 3 * eighth,
            negative_bytes: 3 * eighth / 8,
            inode_bytes: 3 * eighth,
            name_bytes: eighth,
            ..Self::default()
        }
    }
}

/// The host's time of day.
pub fn system_time() -> Timespec {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => Timespec { sec: since.as_secs() as i64, nsec: since.subsec_nanos() },
        Err(_) => Timespec::default(),
    }
}

/// A table of slots that are in chains: who is led to none is led in no circle.
fn chained<T: Linked>(arena: Arena<T>) -> Arena<T> {
    arena.get(0).link().lead_nowhere();
    arena
}

/// The Linux VFS as a value: dentry cache, inode table and mounts.
///
/// Tasks are made by [`Vfs::task`] and hold it. Any number of machines live in one process; they share nothing.
pub struct Vfs {
    // What is changed lies apart: a walk reads what would else be beside it.
    /// Of all machines of the process, none has the same; never 0.
    pub(crate) number: u32,
    /// The longest path that threads remember.
    pub(crate) remembered: usize,
    pub(crate) dentries: Arena<Dentry>,
    pub(crate) dhash: Table,
    /// Counts of dentries that threads keep for who opens the same file next.
    pub(crate) spares: Spares,
    pub(crate) inodes: Arena<Inode>,
    pub(crate) ihash: Table,
    pub(crate) mounts: Arena<Mount>,
    pub(crate) mhash: Table,
    pub(crate) mount_counts: Arena<Striped>,
    pub(crate) mount_writers: Arena<Striped>,
    pub(crate) names: BlobArena,
    pub(crate) secret: Secret,
    pub(crate) config: Config,
    pub(crate) tree: Mutex<MountTree>,
    pub(crate) tasks: TaskTable,
    superblocks: [OnceLock<Box<[SbSlot; SBS]>>; SBS],
    places: Arena<SbPlace>,
    next_sb: CachePadded<Mutex<u32>>,
    pub(crate) clock: Clock,
    pub(crate) absent: CachePadded<Absent>,
    pub(crate) notify: Notify,
    pub(crate) security: Security,
    /// How many maps of owners mounts have; under the lock of the tree of mounts.
    pub(crate) idmaps: Cell32,
    /// Not 0 if a file system ever wanted to be asked about cached names: [`Features::REVALIDATE`]. It stays so when that has gone:
    /// memos do not sleep then, which takes longer at random in a large tree and is right.
    pub(crate) asks: Cell32,
    pub(crate) topology: Topology,
    /// By node: who puts an inode into the table of nodes.
    pub(crate) publishing: CachePadded<[Mutex<()>; 16]>,
    /// Which answers of file systems are too old to become an inode.
    pub(crate) ended: CachePadded<Ended>,
    /// Whether it is being dropped.
    pub(crate) goes: bool,
}

/// How many machines were made.
static NUMBER: Cell32 = Cell32::new(0);

/// Superblocks lie in so many rows of so many.
const SBS: usize = 256;

/// A mounted file system.
pub(crate) struct SuperBlock {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) dev: Dev,
    /// [`MountFlags`], as far as they are the superblock's; under the lock of the tree of mounts.
    flags: Cell64,
    /// The dentry of its root; none until it was made. It is stored before its first mount is made, under the lock of the tree
    /// of mounts, which who asks has taken since.
    root: Cell32,
    /// Whether something of it was ever watched.
    watched: Cell32,
    pub(crate) features: Features,
    /// The block size of its mounts, with what is said beside it.
    pub(crate) blksize: u32,
    /// The flags of its dentries.
    pub(crate) kind: u32,
    /// The flags of its inodes.
    pub(crate) inode_flags: u32,
    /// Held while a name moves from one directory to another; by a directory's rename also while the file system is asked.
    pub(crate) rename: Mutex<()>,
}

/// What is known of the superblock of a number.
#[derive(Default)]
struct SbSlot {
    /// Where it is: the number of an [`SbPlace`]; 0 where there is none.
    place: Cell32,
    /// Whether it is read-only, for who asks nothing else.
    read_only: Cell32,
    /// How many mounts it has; under the lock of the tree of mounts.
    mounts: Cell32,
}

slot! {
    /// Where a superblock is. A place is given out again soon, and so is in the cache, unless somebody still uses what was there; a number as late
    /// as possible.
    struct SbPlace {
        sb: Shelf<SuperBlock>,
        /// How many of its inodes have no name.
        unlinked: Striped,
    }
}

// Who loses the last name of a file on one thread does not meet who asks for the superblock on another.
const _: () = assert!(std::mem::offset_of!(SbPlace, unlinked).is_multiple_of(64));

/// A superblock in use.
pub(crate) type SbRef<'a> = Lent<'a, SuperBlock>;

/// A superblock that was made to be mounted, with its root: it goes unless it was.
pub(crate) struct NewSuperBlock<'v> {
    vfs: &'v Vfs,
    sb: SbRef<'v>,
    /// Of its mount.
    flags: MntFlags,
    mounted: bool,
}

impl NewSuperBlock<'_> {
    /// Makes its mount, which hangs nowhere yet.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: there are as many mounts as there may be.
    pub(crate) fn mount(&mut self, tree: &mut TreeGuard<'_>) -> Result<MountId> {
        let id = tree.alloc(&self.sb, self.sb.root(), self.flags)?;
        self.mounted = true;
        Ok(id)
    }
}

impl Drop for NewSuperBlock<'_> {
    fn drop(&mut self) {
        if !self.mounted {
            self.vfs.dput(self.sb.root());
            self.vfs.kill_sb(self.sb.id());
        }
    }
}

impl Drop for SuperBlock {
    /// Its file system goes with it, which is somebody else's code; and whoever is the last to use it, if only as he asked by an old number, is
    /// the one to drop it.
    fn drop(&mut self) {
        lock_order::assert_none_held();
    }
}

impl SuperBlock {
    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.dev.minor()
    }

    /// Its root; none where it was never made.
    pub(crate) fn root(&self) -> DentryId {
        DentryId(self.root.get())
    }

    /// Notes that something of it is watched; the caller holds that.
    pub(crate) fn note_watched(&self) {
        self.watched.set(1);
    }

    /// Whether something of it was ever watched, for who has seen that nobody holds a mount of it any more: so none who held
    /// one notes it later.
    pub(crate) fn was_watched(&self) -> bool {
        self.watched.get() != 0
    }

    pub(crate) fn flags(&self) -> MountFlags {
        MountFlags::from_bits_retain(self.flags.get())
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.flags().contains(MountFlags::RDONLY)
    }
}

impl Vfs {
    /// Makes a machine whose root is `root`.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`: the address space for the tables cannot be reserved.
    /// - whatever keeps `root` from being mounted.
    pub fn new(config: Config, root: Arc<dyn FileSystem>) -> Result<Arc<Self>> {
        let vfs = Arc::new(Self::reserve_tables(config).map_err(|_| Errno::ENOMEM)?);
        vfs.mount_root(root)?;
        Ok(vfs)
    }

    fn reserve_tables(config: Config) -> std::io::Result<Self> {
        let slots = |bytes: u64| (bytes / 128).clamp(64, 1 << 29) as u32;
        let (dentries, inodes) = (slots(config.dentry_bytes), slots(config.inode_bytes));
        let random = |word: u64| RandomState::new().hash_one(word) | 1;
        Ok(Self {
            number: NUMBER.add(1) + 1,
            remembered: if config.memo_bytes > 0 { memo::LONGEST } else { 0 },
            dentries: chained(Arena::returning(dentries)?),
            dhash: Table::sparse(dentries, lock::BUCKET)?,
            spares: Spares::default(),
            inodes: chained(Arena::returning(inodes)?),
            ihash: Table::new(inodes, lock::BUCKET)?,
            mounts: chained(Arena::new(MOUNT_SLOTS)?),
            mhash: Table::new(MOUNT_SLOTS, lock::BUCKET)?,
            mount_counts: Arena::new(MOUNT_SLOTS)?,
            mount_writers: Arena::new(MOUNT_SLOTS)?,
            names: BlobArena::new(config.name_bytes)?,
            secret: Secret([random(0), random(1)]),
            config,
            tree: Mutex::default(),
            tasks: TaskTable::default(),
            superblocks: [const { OnceLock::new() }; SBS],
            places: Arena::new((SBS * SBS) as u32)?,
            next_sb: CachePadded::new(Mutex::new(1)),
            clock: Clock::default(),
            absent: CachePadded::default(),
            notify: Notify::default(),
            security: Security::default(),
            idmaps: Cell32::default(),
            asks: Cell32::default(),
            topology: Topology::default(),
            publishing: CachePadded::default(),
            ended: CachePadded::default(),
            goes: false,
        })
    }

    /// A task at the root, with these credentials and umask 022.
    pub fn task(self: &Arc<Self>, cred: Cred) -> Task {
        Task::new(self, cred)
    }

    /// The time by which files are stamped: [`Config::clock`].
    pub fn now(&self) -> Timespec {
        self.config.clock.unwrap_or(system_time)()
    }

    /// The second, as exact as a tick: for what is a day old or is not.
    #[inline]
    pub(crate) fn now_seconds(&self) -> i64 {
        match self.config.clock {
            Some(clock) => clock().sec,
            None => pathwalk_sync::clock::coarse_seconds(),
        }
    }

    /// Mounts a file system for somebody, nowhere yet.
    ///
    /// # Errors
    ///
    /// - those of [`Vfs::new_superblock`].
    /// - `ENOSPC`: there are as many mounts as there can be.
    pub(crate) fn new_mount(
        &self,
        who: &Subject<'_>,
        fs: Arc<dyn FileSystem>,
        ms: MountFlags,
    ) -> Result<MountId> {
        let mut new = self.new_superblock(who, fs, ms)?;
        let mut tree = self.mount_tree();
        new.mount(&mut tree)
    }

    /// Makes a superblock for somebody, with its root, to be mounted.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: there are as many superblocks as there can be.
    /// - `ENOMEM`: the tables are full.
    /// - whatever the file system answers about its root.
    pub(crate) fn new_superblock(
        &self,
        who: &Subject<'_>,
        fs: Arc<dyn FileSystem>,
        ms: MountFlags,
    ) -> Result<NewSuperBlock<'_>> {
        let features = fs.features();
        let blksize = crate::mount::blksize_with(&*fs, features);
        let complete = if features.contains(Features::COMPLETE) {
            dcache::COMPLETE | dcache::PERSISTENT
        } else {
            0
        };
        let revalidate =
            if features.contains(Features::REVALIDATE) { dcache::REVALIDATE } else { 0 };
        if revalidate != 0 {
            self.asks.set(1);
        }
        let knows = Features::REVALIDATE | Features::EACH_NAME | Features::REVALIDATE_PATH;
        let unnamed = if features.contains(knows) { dcache::UNNAMED } else { 0 };
        let flag = |feature, flag| if features.contains(feature) { flag } else { 0 };
        let id = self.sb_alloc()?;
        let place = self.sb_place_alloc()?;
        let found = fs.root(who, self.now()).inspect_err(|_| self.places.free(place))?;
        let sb = self.sb_put(
            place,
            SuperBlock {
                fs,
                dev: Dev::new(0, id),
                flags: Cell64::default(),
                root: Cell32::default(),
                watched: Cell32::default(),
                features,
                blksize,
                kind: (complete | revalidate | unnamed) & KIND,
                inode_flags: flag(Features::PERMISSION, I_PERMISSION)
                    | flag(Features::MAY_EXEC, I_MAY_EXEC)
                    | flag(Features::GETATTR, I_GETATTR)
                    | flag(Features::NO_OPEN, I_NO_OPEN)
                    | flag(Features::MAGIC_LINKS, I_MAGIC_LINK)
                    | if complete == 0 {
                        I_HASHED | flag(Features::POSIX_ACL, I_ACL_UNKNOWN)
                    } else {
                        I_NOSEC
                    },
                rename: Mutex::default(),
            },
        );
        self.set_sb_flags(&sb, sb_flags(ms));
        let kind = sb.kind & !dcache::REVALIDATE;
        let made = self
            .iget(&sb, &found, Moment::FRESH)
            .and_then(|inode| inode.ok_or(Errno::ESTALE))
            .and_then(|inode| self.dentry_root(id, inode, kind).inspect_err(|_| self.iput(inode)));
        let root = match made {
            Ok(root) => root,
            Err(errno) => {
                self.sb_free(id);
                return Err(errno);
            }
        };
        sb.root.set(root.0);
        // One count is the superblock's, one the mount's.
        self.dget(root);
        Ok(NewSuperBlock { vfs: self, sb, flags: MntFlags::from_ms(ms), mounted: false })
    }

    /// Drops all of a file system that has no mount left.
    pub(crate) fn kill_sb(&self, id: u32) {
        let Some(sb) = self.superblock(id) else { return };
        let _work = self.task_work();
        self.fsnotify_sb_delete(&sb);
        let root = sb.root();
        if root != DentryId::NONE {
            self.drop_tree(root, &sb);
        }
        drop(sb);
        self.sb_free(id);
    }

    /// A place for a superblock. One that is given back while somebody uses what was there is passed over until he has left.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: there are as many as there can be.
    fn sb_place_alloc(&self) -> Result<u32> {
        let mut in_use = Vec::new();
        let found = std::iter::from_fn(|| self.places.alloc()).find(|&place| {
            let free = self.places.get(place).sb.is_free();
            if !free {
                in_use.push(place);
            }
            free
        });
        in_use.into_iter().for_each(|place| self.places.free(place));
        found.ok_or(Errno::ENOSPC)
    }

    /// Puts a superblock where those find it who know its number. Nobody else has the place.
    fn sb_put(&self, place: u32, sb: SuperBlock) -> SbRef<'_> {
        let slot = self.sb_slot(sb.id()).expect("its number was given out");
        let shelf = &self.places.get(place).sb;
        let put = shelf.put(sb);
        assert!(put.is_ok(), "the place was free");
        // Who learns of the number does so by a mount or a dentry that is published after.
        slot.place.set(place);
        shelf.get().expect("just put there")
    }

    /// The place of the superblock of that number; 0 where there is none.
    fn sb_place(&self, id: u32) -> u32 {
        self.sb_slot(id).map_or(0, |slot| slot.place.get())
    }

    /// Gives the place of a superblock back; none of its inodes is left. It goes with the last who uses it.
    fn sb_free(&self, id: u32) {
        debug_assert_eq!(self.unlinked(id).sum(), 0, "a superblock outlives its inodes");
        let place = self.sb_place(id);
        assert_ne!(place, 0, "there is a superblock");
        self.sb_slot(id).expect("it has a place").place.set(0);
        self.places.get(place).sb.clear();
        self.places.free(place);
    }

    /// Drops what is left of superblocks that a mount kept which was lost: nobody uses any.
    fn sb_free_all(&self) {
        let slots = self.superblocks.iter().filter_map(OnceLock::get).flat_map(|row| row.iter());
        for slot in slots.filter(|slot| slot.place.get() != 0) {
            self.places.get(slot.place.get()).sb.clear();
        }
    }

    /// The superblock of that number.
    pub(crate) fn superblock(&self, id: u32) -> Option<SbRef<'_>> {
        // Without a number nothing is counted, anywhere.
        let place = Some(self.sb_place(id)).filter(|&place| place != 0)?;
        // Another may be there since.
        self.places.get(place).sb.get().filter(|sb| sb.id() == id)
    }

    /// How many inodes of the superblock of that number have lost their last name: they are in the way of making it read-only.
    /// Who has an inode of it needs no more of the superblock than its number.
    pub(crate) fn unlinked(&self, id: u32) -> &Striped {
        let place = self.sb_place(id);
        debug_assert_ne!(place, 0, "an inode's superblock has a place");
        &self.places.get(place).unlinked
    }

    /// Sets what a superblock keeps of mount(2)'s flags; the caller has the lock of the tree of mounts, or nobody knows it yet.
    pub(crate) fn set_sb_flags(&self, sb: &SuperBlock, flags: MountFlags) {
        sb.flags.set(flags.bits());
        if let Some(slot) = self.sb_slot(sb.id()) {
            slot.read_only.set(u32::from(sb.is_read_only()));
        }
    }

    /// Whether the superblock of that number is read-only.
    pub(crate) fn sb_is_read_only(&self, id: u32) -> bool {
        self.sb_slot(id).is_some_and(|slot| slot.read_only.get() != 0)
    }

    /// Counts a mount of the superblock of that number, or one less; answers how many it has. The caller has the lock of the
    /// tree of mounts.
    pub(crate) fn count_mount(&self, id: u32, more: i32) -> u32 {
        let slot = self.sb_slot(id).expect("a mount's superblock has a place");
        let count = slot.mounts.get().checked_add_signed(more);
        let count = count.expect("no more go than came");
        slot.mounts.set(count);
        count
    }

    fn sb_slot(&self, id: u32) -> Option<&SbSlot> {
        self.superblocks.get(id as usize / SBS)?.get().map(|row| &row[id as usize % SBS])
    }

    /// A number that no superblock has, as late as possible after it was last in use.
    fn sb_alloc(&self) -> Result<u32> {
        let mut next = self.next_sb.lock();
        for _ in 0..SBS * SBS {
            let id = *next;
            *next = if id as usize + 1 == SBS * SBS { 1 } else { id + 1 };
            let row = self.superblocks[id as usize / SBS]
                .get_or_init(|| Box::new(std::array::from_fn(|_| SbSlot::default())));
            if row[id as usize % SBS].place.get() == 0 {
                return Ok(id);
            }
        }
        Err(Errno::ENOSPC)
    }

    /// How much the tables hold, without the empty directory that the root is mounted on.
    pub fn usage(&self) -> Usage {
        Usage {
            dentries: self.dentries.in_use().saturating_sub(1),
            negative: u32::try_from(self.absent.count()).unwrap_or(u32::MAX),
            inodes: self.inodes.in_use().saturating_sub(1),
            mounts: self.mounts.in_use().saturating_sub(1),
            name_bytes: self.names.bytes(),
            bytes: self.dentries.bytes()
                + self.inodes.bytes()
                + self.names.bytes()
                + self.names.overhead()
                + self.mounts.bytes()
                + self.mount_counts.bytes()
                + self.mount_writers.bytes()
                + self.places.bytes()
                + self.dhash.bytes()
                + self.ihash.bytes()
                + self.mhash.bytes()
                + self.absent.bytes(),
        }
    }

    /// Runs `f` while nobody can store to the tables that lookups read: dentries, inodes, mounts, superblocks, names, buckets.
    ///
    /// This is how the promise is proven that a cached lookup stores nothing. A store that is made all the same ends the
    /// process with SIGSEGV, so no call that changes anything may run meanwhile, in any thread. It is for tests only.
    /// However `f` ends, the tables can be written after.
    ///
    /// # Errors
    ///
    /// `EACCES`, `ENOMEM`: as mprotect(2).
    #[doc(hidden)]
    pub fn with_tables_read_only<R>(&self, f: impl FnOnce() -> R) -> Result<R> {
        /// Lets the tables be written again, those too that a failed call protected.
        struct Restore<'a>(&'a Vfs);

        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                let restored = self.0.set_writable(true);
                assert!(restored.is_ok(), "what could be written before can be written again");
            }
        }

        let _restore = Restore(self);
        self.set_writable(false)?;
        Ok(f())
    }

    fn set_writable(&self, writable: bool) -> Result<()> {
        let set = || {
            self.dentries.set_writable(writable)?;
            self.inodes.set_writable(writable)?;
            self.mounts.set_writable(writable)?;
            self.mount_counts.set_writable(writable)?;
            self.places.set_writable(writable)?;
            self.names.set_writable(writable)?;
            self.dhash.set_writable(writable)?;
            self.ihash.set_writable(writable)?;
            self.mhash.set_writable(writable)
        };
        set().map_err(|error: std::io::Error| {
            error.raw_os_error().and_then(Errno::from_raw).unwrap_or(Errno::ENOMEM)
        })
    }
}

/// How much the tables of a [`Vfs`] hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Dentries in use.
    pub dentries: u32,
    /// Those of them that stand for nothing: no more than [`Config::negative_bytes`] has room for, except for a moment.
    pub negative: u32,
    /// Inodes in use.
    pub inodes: u32,
    /// Mounts in use.
    pub mounts: u32,
    /// Bytes of memory that long names and symlink bodies have, in whole pages: no more than [`Config::name_bytes`].
    pub name_bytes: u64,
    /// Bytes of memory behind all tables: dentries and inodes that were ever in use, but for those whose memory went back to the system;
    /// mounts and superblocks as far as they were ever in use at once; names as they are now; hash buckets, the order in which absent
    /// names came, and what tells which slots are free. What threads remember of paths is not the machine's: see
    /// [`memo_bytes`](crate::memo_bytes).
    pub bytes: u64,
}

impl Drop for Vfs {
    /// Unmounts everything, so that every file system hears the last of its inodes. Nobody holds anything any more:
    /// tasks and files hold the machine.
    fn drop(&mut self) {
        self.goes = true;
        self.umount_all();
        self.sb_free_all();
    }
}

impl std::fmt::Debug for Vfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vfs").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dcache::Dentry, mount::rootfs::RootFs};
    use pathwalk_sync::{Chain, Returned, Seq};
    use std::collections::HashMap;

    /// Who is led to slot 0 is led in no circle.
    #[test]
    fn a_chain_of_what_has_no_memory_ends() {
        fn ends<T: Linked>(arena: &Arena<T>) {
            assert!(Chain::behind(arena.slots(), arena.get(0)).slot().is_none());
        }
        let vfs = Vfs::new(Config::default(), Arc::new(RootFs)).unwrap();
        ends(&vfs.dentries);
        ends(&vfs.inodes);
        ends(&vfs.mounts);
    }

    #[test]
    fn no_count_begins_anew_where_memory_went() {
        fn check<T: Returned>(arena: &Arena<T>, seqs: fn(&T) -> Vec<&Seq>) {
            let slots = || -> Vec<u32> { (0..4096).map(|_| arena.alloc().unwrap()).collect() };
            let counts = |id| -> Vec<u32> {
                seqs(arena.get(id)).into_iter().map(|seq| seq.sample().count()).collect()
            };
            let before: HashMap<u32, Vec<u32>> = slots()
                .into_iter()
                .map(|id| {
                    assert!(counts(id).iter().all(|&count| count != 0), "{id}: {:?}", counts(id));
                    seqs(arena.get(id)).into_iter().for_each(Seq::invalidate);
                    (id, counts(id))
                })
                .collect();
            before.keys().for_each(|&id| arena.free(id));
            arena.trim();
            let went = before.keys().filter(|&&id| counts(id).iter().all(|&count| count == 0));
            assert!(went.count() > 2048, "most have no memory");
            for id in slots() {
                let now = counts(id);
                let known = before.get(&id).into_iter().flatten();
                assert!(known.zip(&now).all(|(before, now)| now >= before), "{id}: {now:?}");
                assert!(now.iter().all(|&count| count != 0), "{id}: {now:?}");
            }
        }
        let vfs = Vfs::new(Config::default(), Arc::new(RootFs)).unwrap();
        check(&vfs.dentries, |dentry: &Dentry| vec![&dentry.seq, &dentry.children_seq]);
        check(&vfs.inodes, |inode| vec![&inode.seq]);
    }

    fn mounted() -> (Arc<Vfs>, Arc<dyn FileSystem>, u32) {
        let vfs = Vfs::new(Config::default(), Arc::new(RootFs)).unwrap();
        let fs: Arc<dyn FileSystem> = Arc::new(RootFs);
        let (who, ms) = (Cred::root(), MountFlags::empty());
        let mount = vfs.new_mount(&who.subject(), Arc::clone(&fs), ms).unwrap();
        let id = vfs.mount_slot(mount).sb.get();
        assert_eq!(Arc::strong_count(&fs), 2);
        (vfs, fs, id)
    }

    #[test]
    fn a_file_system_whose_mount_was_lost_goes_with_the_machine() {
        let (vfs, fs, _) = mounted();
        drop(vfs);
        assert_eq!(Arc::strong_count(&fs), 1);
    }

    #[test]
    fn a_superblock_goes_with_the_last_who_uses_it_and_its_place_is_passed_over_till_then() {
        let (vfs, fs, id) = mounted();
        let (used, place) = (vfs.superblock(id).unwrap(), vfs.sb_place(id));
        vfs.sb_free(id);
        assert!(vfs.superblock(id).is_none(), "nobody finds it");
        assert_eq!(Arc::strong_count(&fs), 2, "it is used");
        let other = vfs.sb_place_alloc().unwrap();
        assert_ne!(other, place);
        drop(used);
        assert_eq!(Arc::strong_count(&fs), 1);
        vfs.places.free(other);
        let again = [(); 2].map(|()| vfs.sb_place_alloc().unwrap());
        assert!(again.contains(&place), "{again:?}");
    }
}
