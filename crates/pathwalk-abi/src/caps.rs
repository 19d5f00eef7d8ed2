//! Capabilities: the parts that the power of root is divided into.
//!
//! Manual: capabilities(7).

use bitflags::bitflags;
use linux_raw_sys::general;

bitflags! {
    /// A set of capabilities.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct CapSet: u64 {
        /// Change the owner or group of any file.
        const CHOWN = 1 << general::CAP_CHOWN;
        /// Read, write and search without permission; execute if anyone may.
        const DAC_OVERRIDE = 1 << general::CAP_DAC_OVERRIDE;
        /// Read any file, read and search any directory.
        const DAC_READ_SEARCH = 1 << general::CAP_DAC_READ_SEARCH;
        /// Act as the owner of any file.
        const FOWNER = 1 << general::CAP_FOWNER;
        /// Keep the set-id bits when a file changes.
        const FSETID = 1 << general::CAP_FSETID;
        /// Send signals to any process.
        const KILL = 1 << general::CAP_KILL;
        /// Change group ids at will.
        const SETGID = 1 << general::CAP_SETGID;
        /// Change user ids at will.
        const SETUID = 1 << general::CAP_SETUID;
        /// Change capability sets.
        const SETPCAP = 1 << general::CAP_SETPCAP;
        /// Set the immutable and the append-only attribute.
        const LINUX_IMMUTABLE = 1 << general::CAP_LINUX_IMMUTABLE;
        /// Bind to ports below 1024.
        const NET_BIND_SERVICE = 1 << general::CAP_NET_BIND_SERVICE;
        /// Broadcast and listen to multicast.
        const NET_BROADCAST = 1 << general::CAP_NET_BROADCAST;
        /// Configure the network.
        const NET_ADMIN = 1 << general::CAP_NET_ADMIN;
        /// Use raw and packet sockets.
        const NET_RAW = 1 << general::CAP_NET_RAW;
        /// Lock memory.
        const IPC_LOCK = 1 << general::CAP_IPC_LOCK;
        /// Pass the permission checks of System V IPC.
        const IPC_OWNER = 1 << general::CAP_IPC_OWNER;
        /// Load and unload kernel modules.
        const SYS_MODULE = 1 << general::CAP_SYS_MODULE;
        /// Use I/O ports and raw devices.
        const SYS_RAWIO = 1 << general::CAP_SYS_RAWIO;
        /// Call chroot(2) and enter mount namespaces.
        const SYS_CHROOT = 1 << general::CAP_SYS_CHROOT;
        /// Trace any process.
        const SYS_PTRACE = 1 << general::CAP_SYS_PTRACE;
        /// Switch process accounting.
        const SYS_PACCT = 1 << general::CAP_SYS_PACCT;
        /// Mount, unmount and administer the system.
        const SYS_ADMIN = 1 << general::CAP_SYS_ADMIN;
        /// Reboot and load a new kernel.
        const SYS_BOOT = 1 << general::CAP_SYS_BOOT;
        /// Raise priorities.
        const SYS_NICE = 1 << general::CAP_SYS_NICE;
        /// Exceed resource limits and quotas.
        const SYS_RESOURCE = 1 << general::CAP_SYS_RESOURCE;
        /// Set the clock.
        const SYS_TIME = 1 << general::CAP_SYS_TIME;
        /// Configure terminals.
        const SYS_TTY_CONFIG = 1 << general::CAP_SYS_TTY_CONFIG;
        /// Create device files.
        const MKNOD = 1 << general::CAP_MKNOD;
        /// Take leases on any file.
        const LEASE = 1 << general::CAP_LEASE;
        /// Write to the audit log.
        const AUDIT_WRITE = 1 << general::CAP_AUDIT_WRITE;
        /// Configure auditing.
        const AUDIT_CONTROL = 1 << general::CAP_AUDIT_CONTROL;
        /// Give capabilities to files.
        const SETFCAP = 1 << general::CAP_SETFCAP;
        /// Override mandatory access control.
        const MAC_OVERRIDE = 1 << general::CAP_MAC_OVERRIDE;
        /// Configure mandatory access control.
        const MAC_ADMIN = 1 << general::CAP_MAC_ADMIN;
        /// Use privileged syslog(2) operations.
        const SYSLOG = 1 << general::CAP_SYSLOG;
        /// Set timers that wake the system.
        const WAKE_ALARM = 1 << general::CAP_WAKE_ALARM;
        /// Block system suspend.
        const BLOCK_SUSPEND = 1 << general::CAP_BLOCK_SUSPEND;
        /// Read the audit log.
        const AUDIT_READ = 1 << general::CAP_AUDIT_READ;
        /// Monitor performance.
        const PERFMON = 1 << general::CAP_PERFMON;
        /// Use privileged BPF operations.
        const BPF = 1 << general::CAP_BPF;
        /// Checkpoint and restore processes.
        const CHECKPOINT_RESTORE = 1 << general::CAP_CHECKPOINT_RESTORE;
    }
}

impl CapSet {
    /// Every capability.
    pub const FULL: CapSet = CapSet::all();

    /// What setfsuid(2) takes away when the file system's user leaves 0, and gives back when it
    /// returns.
    pub const FS: CapSet = CapSet::CHOWN
        .union(CapSet::DAC_OVERRIDE)
        .union(CapSet::DAC_READ_SEARCH)
        .union(CapSet::FOWNER)
        .union(CapSet::FSETID)
        .union(CapSet::LINUX_IMMUTABLE)
        .union(CapSet::MKNOD)
        .union(CapSet::MAC_OVERRIDE);
}

const _: () = assert!(CapSet::FULL.bits() == (1 << (general::CAP_LAST_CAP + 1)) - 1);
