//! What Linux does with names: dentry cache, inode table, mounts, permissions and one walk over them.
