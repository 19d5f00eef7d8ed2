//! A directory of the host as a file system.
//!
//! ```text
//!   HostFs          what the cache asks: lookup, open, readdir, and the changing calls    hostfs, change
//!     coherence     whether what is cached still holds                                     coherence, watch
//!     identity      whose the files are                                                    identity
//!     nodes         which file of the host an inode is, and where it was seen                node
//!     reach         from there to a descriptor, from a pool or by walking                   reach, pool
//!     host          the calls to the host, all of them                                      host
//! ```
//!
//! Invariant: nothing outside the directory is ever reached, whatever another process does to it meanwhile. Every call is
//! relative to a descriptor that was come to from the root by names that were not symlinks, and follows none itself. The directory that the
//! root lies in is watched, where others change the tree, for the root to be removed or moved; nothing that is in it is asked about.
//!
//! Linux: what `fs/fuse` is to a passthrough server, or `fs/overlayfs` to its only layer.

mod hostfs;

mod change;
mod clock;

mod handle;

mod coherence;

mod watch;

mod reach;

mod let_go;

mod node;

mod attr;

mod identity;

mod options;

mod host;

pub use hostfs::HostFs;
pub use identity::{IdMap, IdRange, Identities};
pub use options::{Coherence, HostOptions, Keeper};
