//! How a directory of the host is mounted.

use crate::identity::Identities;
use std::{fmt, sync::Arc};

/// Who else may change what lies below, and how their changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coherence {
    /// Nobody else does: what is cached is true. Lookups of cached names, there or not, ask the host nothing.
    #[default]
    Exclusive,
    /// Others do, and every call sees what they did before it began. Cached names are asked about at each use, a run of them in
    /// one call of the host. Where the same is asked again and again the directories on the way are watched by inotify(7), if
    /// that tells of all that happens there, and the file itself, and nothing is asked but whether anything did. The attributes
    /// of what is told about are fresh.
    ///
    /// Not so fresh is who may search the directories on the way, and who may search, read or write one where a call begins: the
    /// root, the current directory, one that is held by a descriptor; and whose it is, where that says who may remove what is in it. Those are
    /// what they were when they were last asked about themselves. What a call is given itself, by a descriptor or by a link of one, is asked
    /// about, and so is whose a file is that is to be changed. `..` of a directory that is held leads to the one that
    /// it was in when its name was last asked about.
    ///
    /// No cached name is believed unasked, so a path with a name in it is `EAGAIN` with `RESOLVE_CACHED`.
    Strict,
    /// Others do, and every call sees what they did before it began, as far as the host's inotify(7) tells of it. It does not
    /// tell
    ///
    /// - what is written through memory maps, and what goes through a fifo, which moves its times;
    /// - what other machines do on a network file system;
    /// - that a file was given one more name, and what is done to it by that;
    /// - what is written, or done to its extended attributes, by who opened it by a name that was gone when it was first asked
    ///   about, or without one;
    /// - that it was read, or that the time of its last reading alone was set: that time, and of the latter the `st_ctime`, is
    ///   the one of when the file was last asked about;
    /// - that it was made immutable or append-only, or is so no more (`chattr +i`).
    ///
    /// What others mount and unmount is seen if the directory is in a mount of this process's mount namespace. That the directory
    /// itself is removed or moved is told by the one that it lies in, which is watched for that while little happens there; else it
    /// is asked about each time. Who may search and read what is held by a descriptor, and was moved by others, is as it was before
    /// that where the host's was given back, as there are no more [`handles`](HostOptions::handles).
    ///
    /// Names that nobody touched cost one call, which asks whether anything happened, and a path that the thread did not walk before
    /// one more, where it begins. Where events were lost all is asked about anew. A directory that cannot be watched, or of whose
    /// changes its file system does not tell, is [`Strict`](Self::Strict). With `RESOLVE_CACHED` all paths are `EAGAIN`.
    Watched,
}

/// Who keeps what was answered, and asks for news himself: see [`HostFs::news`](crate::HostFs::news).
pub trait Keeper: fmt::Debug + Send + Sync {
    /// Others changed something, or nobody tells of it any more. This is said before it is noted: whatever was answered before
    /// need not be so any more.
    fn news(&self);

    /// He asked for news after the call began that is being answered: it is not asked again.
    fn has_asked(&self) -> bool;
}

/// What is to be said of a mount beside which directory it is.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Who else may change what lies below.
    pub coherence: Coherence,
    /// Whose the files are.
    pub identities: Identities,
    /// Nothing is changed: every call that would change something answers `EROFS`.
    pub read_only: bool,
    /// How many descriptors are held, beside those of open files and of files without a name; at most a quarter of what the
    /// process may have. What is held keeps the host's mount that it is in busy.
    pub handles: usize,
    /// The name of a file of the directory that is held as long as the file system is there, beside the [`handles`](Self::handles):
    /// it stays the one that it is now, whatever others put in its place. It is for who mounts that file alone.
    pub holds: Option<Vec<u8>>,
    /// How many directories are watched at most, where others change them too, and files that have several names, as no directory
    /// tells all of those, or of which it is asked again and again who may read them; 0 where nothing is to be believed that the
    /// host was not asked about, which [`Coherence::Watched`] cannot do without. The host has limits of its own, in
    /// `/proc/sys/fs/inotify`: `max_user_watches`, and `max_user_instances`, mostly 128, of which each such directory is one. Beyond
    /// that one to be [`Watched`](Coherence::Watched) cannot be made (`EMFILE`), and one that is [`Strict`](Coherence::Strict) asks each
    /// time, and tries again. Threads that ask take two descriptors each, up to sixteen in all; where there are none left they wait for
    /// each other, as do those that ask first when the process has another mount namespace.
    pub watches: usize,
    /// Fifos and devices can be opened. What is opened of a fifo is a descriptor with `O_PATH`: to open its end may take until
    /// somebody opens the other. So is what is opened without `O_NONBLOCK` of a device that may wait for what is at its other end, as
    /// a serial line does: any but memory, as `/dev/null` is, and pseudo-terminals.
    pub special: bool,
    /// Walk by openat2(2) where the host has it. Else every name is a call of its own; it is as safe.
    pub openat2: bool,
    /// Who is told before it is noted what others did, where the host tells of it.
    pub keeper: Option<Arc<dyn Keeper>>,
}

impl Default for HostOptions {
    /// Exclusive, owners as the host has them, writable, 1,024 descriptors, no file held, 8,192 watches, no devices, openat2, no
    /// keeper.
    fn default() -> Self {
        Self {
            coherence: Coherence::Exclusive,
            identities: Identities::Host,
            read_only: false,
            handles: 1024,
            holds: None,
            watches: 8192,
            special: false,
            openat2: true,
            keeper: None,
        }
    }
}
