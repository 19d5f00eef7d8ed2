//! File handles: bytes that name a file of the tree whatever its names are, for who may open any file by them.
//!
//! ```text
//!   name_to_handle_at ──► device, inode, birth ── hashed with a key ──► 12 bytes ──► the file, in a mount apart
//!   open_by_handle_at ──► bytes that were given before ──► the file, in the mount that is asked by ──► opened as ever
//! ```
//!
//! Rules:
//!
//! 1. They are none of the host's, and nobody without the key can make any. Bytes that were given to nobody lead nowhere: so
//!    what no path in the tree led to cannot be reached.
//! 2. An inode has the same bytes by all its names, and when it was forgotten and is asked about again.
//! 3. A file is held in a mount that only this holds (`File::apart`): no mount of the tree is in use by it. What has no other
//!    mount is let go.
//! 4. One that has no name is not held: it is there as long as some process has it.
//! 5. So many are known. Those that were longest not asked about are forgotten first: `ESTALE`.
//!
//! Linux: `fs/fhandle.c`, `shmem_encode_fh`; name_to_handle_at(2).

use crate::{cookies::Cookies, watches::Watches};
use pathwalk::{At, AtFlags, Errno, File, Reach, Result, Statx, StatxMask, Task};
use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

/// So many bytes has a handle, as that of a tmpfs.
pub(crate) const LEN: usize = 12;
/// The bytes.
pub(crate) type Bytes = [u8; LEN];

/// So many are known.
const MOST: usize = 16_384;
/// So often it is looked which file systems are there for them alone.
const AGAIN: Duration = Duration::from_secs(1);

/// What names an inode: no other one has it, also not later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity {
    dev: (u32, u32),
    ino: u64,
    birth: (i64, u32),
    kind: u16,
}

impl Identity {
    fn of(stat: &Statx) -> Self {
        Self {
            dev: (stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            birth: (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
            kind: stat.stx_mode & pathwalk::abi::mode::S_IFMT as u16,
        }
    }
}

/// A file that was named by a handle.
#[derive(Debug)]
struct Named {
    identity: Identity,
    /// None where it had no name when it was looked last.
    file: Option<File>,
    /// When it was asked about last.
    used: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    key: RandomState,
    named: HashMap<Bytes, Named>,
    by_number: BTreeSet<(u64, Bytes)>,
    /// The roots of the mounts that they are held in, by device.
    apart: HashMap<(u32, u32), File>,
    clock: u64,
    looked: Option<Instant>,
}

impl Handles {
    /// The handle of a file, which nobody can open anything by.
    ///
    /// # Errors
    ///
    /// Those of statx(2).
    pub(crate) fn bytes_alone(&self, task: &Task, file: &File) -> Result<Bytes> {
        stat(task, file).map(|stat| self.bytes(Identity::of(&stat)))
    }

    /// The handle of a file, which is known by it from now on.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`: there are as many mounts as there may be.
    pub(crate) fn name(&mut self, task: &Task, file: &File) -> Result<Bytes> {
        let stat = stat(task, file)?;
        let identity = Identity::of(&stat);
        let bytes = self.bytes(identity);
        if self.named.len() >= MOST && !self.named.contains_key(&bytes) {
            self.forget_half();
        }
        let file = if stat.stx_nlink == 0 { None } else { Some(self.held(identity, file)?) };
        self.clock += 1;
        self.named.insert(bytes, Named { identity, file, used: self.clock });
        self.by_number.insert((identity.ino, bytes));
        Ok(bytes)
    }

    /// The file of a handle.
    ///
    /// # Errors
    ///
    /// - `ESTALE`: it is gone, or nobody was given the handle, or it was forgotten.
    pub(crate) fn find(
        &mut self,
        task: &Task,
        bytes: Bytes,
        (cookies, watches): (&mut Cookies, &mut Watches),
    ) -> Result<File> {
        self.clock += 1;
        let named = self.named.get_mut(&bytes).ok_or(Errno::ESTALE)?;
        named.used = self.clock;
        let identity = named.identity;
        if let Some(file) = &named.file
            && stat(task, file)?.stx_nlink > 0
        {
            return Ok(file.clone());
        }
        named.file = None;
        let open = |cookies: &Cookies| {
            let files = cookies.files_with_number(identity.ino).into_iter();
            let stats = files.filter_map(|file| stat(task, &file).ok().map(|stat| (file, stat)));
            let mut same = stats.filter(|(_, stat)| Identity::of(stat) == identity);
            same.next().map(|(file, stat)| (file, stat.stx_nlink))
        };
        let mut found = open(cookies);
        if found.as_ref().is_some_and(|(_, names)| *names == 0) {
            // Who is remembered to have it may have closed it.
            found = None;
            cookies.sweep(|_| true, |cookies| watches.hear(cookies, task));
            found = found.or_else(|| open(cookies));
        }
        match found {
            Some((file, 0)) => Ok(file),
            // It was given a name since.
            Some((file, _)) => {
                let held = self.held(identity, &file)?;
                if let Some(named) = self.named.get_mut(&bytes) {
                    named.file = Some(held.clone());
                }
                Ok(held)
            }
            None => {
                self.forget(bytes);
                Err(Errno::ESTALE)
            }
        }
    }

    /// A name is gone that a file with this number had: if it was the last, the file is not held.
    pub(crate) fn lost_name(&mut self, task: &Task, number: u64) {
        let first = (number, Bytes::default());
        for (_, bytes) in self.by_number.range(first..=(number, [u8::MAX; LEN])) {
            if let Some(named) = self.named.get_mut(bytes) {
                let_go(task, named);
            }
        }
    }

    /// Holds none that has no name.
    pub(crate) fn let_go_nameless(&mut self, task: &Task) {
        self.named.values_mut().for_each(|named| let_go(task, named));
    }

    /// Lets go of file systems that nothing else has mounted.
    pub(crate) fn let_go_unmounted(&mut self) {
        let before = self.apart.len();
        self.apart.retain(|_, root| root.mounts() > 1);
        if self.apart.len() == before {
            return;
        }
        let gone: Vec<Bytes> = self
            .named
            .iter()
            .filter_map(|(bytes, named)| {
                let held = named.file.is_some();
                (held && !self.apart.contains_key(&named.identity.dev)).then_some(*bytes)
            })
            .collect();
        gone.into_iter().for_each(|bytes| self.forget(bytes));
    }

    /// The same, now and then.
    pub(crate) fn tidy_up(&mut self) {
        if !self.apart.is_empty() && self.looked.is_none_or(|then| then.elapsed() >= AGAIN) {
            self.let_go_unmounted();
            self.looked = Some(Instant::now());
        }
    }

    /// A hash by a key that nobody else has, of which nobody is told anything but this.
    fn bytes(&self, identity: Identity) -> Bytes {
        let mut bytes = Bytes::default();
        let halves = [0_u8, 1].map(|half| self.key.hash_one((half, identity)).to_ne_bytes());
        for (to, from) in bytes.iter_mut().zip(halves.as_flattened()) {
            *to = *from;
        }
        bytes
    }

    fn held(&mut self, identity: Identity, file: &File) -> Result<File> {
        let no_room = |_| Errno::ENOMEM;
        let root = match self.apart.get(&identity.dev) {
            Some(root) => root.clone(),
            None => {
                let root = file.apart().map_err(no_room)?;
                self.apart.insert(identity.dev, root.clone());
                root
            }
        };
        file.in_mount_of(&root, Reach::FileSystem).map_err(no_room)
    }

    fn forget(&mut self, bytes: Bytes) {
        if let Some(named) = self.named.remove(&bytes) {
            self.by_number.remove(&(named.identity.ino, bytes));
        }
    }

    fn forget_half(&mut self) {
        let mut used: Vec<u64> = self.named.values().map(|named| named.used).collect();
        used.sort_unstable();
        let middle = used[used.len() / 2];
        let old: Vec<Bytes> = self
            .named
            .iter()
            .filter_map(|(bytes, named)| (named.used < middle).then_some(*bytes))
            .collect();
        old.into_iter().for_each(|bytes| self.forget(bytes));
    }
}

fn let_go(task: &Task, named: &mut Named) {
    named.file.take_if(|file| stat(task, file).is_ok_and(|stat| stat.stx_nlink == 0));
}

fn stat(task: &Task, file: &File) -> Result<Statx> {
    let mask = StatxMask::BASIC_STATS | StatxMask::BTIME;
    task.statx(At::Dir(file), b"", AtFlags::EMPTY_PATH, mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathwalk::{Config, Cred, MemFs, OpenFlags, Vfs};

    fn task() -> Task {
        Vfs::new(Config::default(), MemFs::new()).expect("a tree").task(Cred::root())
    }

    fn made(task: &Task, path: &str) -> File {
        task.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o600).expect("it can be made")
    }

    #[test]
    fn those_that_were_longest_not_asked_about_are_forgotten_and_get_the_same_bytes_again() {
        let task = task();
        let mut cookies = Cookies::new().expect("a private directory");
        let mut handles = Handles::default();
        let mut all = Vec::new();
        for number in 0..MOST + 1 {
            let path = format!("/{number}");
            all.push(handles.name(&task, &made(&task, &path)).expect("it has one"));
            assert!(handles.named.len() <= MOST && handles.by_number.len() == handles.named.len());
            // The first is asked about all the time.
            assert!(handles.find(&task, all[0], (&mut cookies, &mut Watches::default())).is_ok());
        }
        let find = |handles: &mut Handles, cookies: &mut Cookies, index: usize| {
            handles
                .find(&task, all[index], (cookies, &mut Watches::default()))
                .map(|file| file.ino())
        };
        assert_eq!(find(&mut handles, &mut cookies, 1), Err(Errno::ESTALE));
        assert_eq!(
            find(&mut handles, &mut cookies, MOST),
            Ok(task.stat(format!("/{MOST}")).expect("it is there").st_ino)
        );
        let again = task.open("/1", OpenFlags::PATH, 0).expect("it is there");
        assert_eq!(handles.name(&task, &again), Ok(all[1]));
        assert!(find(&mut handles, &mut cookies, 1).is_ok());
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
