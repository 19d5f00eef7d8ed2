//! The Linux VFS as a library.
