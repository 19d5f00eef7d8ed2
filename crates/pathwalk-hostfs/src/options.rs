//! How a directory of the host is mounted.

/// Who else may change what lies below, and how their changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coherence {
    /// Nobody else does: what is cached is true. Lookups of cached names, there or not, ask the host nothing.
    #[default]
    Exclusive,
}

/// What is to be said of a mount beside which directory it is.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Who else may change what lies below.
    pub coherence: Coherence,
    /// Nothing is changed: every call that would change something answers `EROFS`.
    pub read_only: bool,
    /// How many descriptors are held, beside those of open files and of files without a name; at most a quarter of what the
    /// process may have.
    pub handles: usize,
    /// Walk by openat2(2) where the host has it. Else every name is a call of its own; it is as safe.
    pub openat2: bool,
}

impl Default for HostOptions {
    /// Exclusive, writable, 1,024 descriptors, openat2.
    fn default() -> Self {
        Self { coherence: Coherence::Exclusive, read_only: false, handles: 1024, openat2: true }
    }
}
