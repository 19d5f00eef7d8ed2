//! A file system in memory: the embedded default and the reference implementation.
