//! Error numbers: what a Linux call answers when it does not succeed.
//!
//! Invariant: the number lies in `1..=4095`, so that `-errno` in a register can never be taken for
//! a result.
//!
//! Manual: errno(3).

use core::fmt;
use core::num::NonZeroU16;

use linux_raw_sys::errno;

/// The result of a call that fails with an [`Errno`].
pub type Result<T, E = Errno> = core::result::Result<T, E>;

/// A Linux error number, such as [`Errno::ENOENT`].
///
/// `Option<Errno>` and `Result<()>` are two bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Errno(NonZeroU16);

/// The greatest number that a call can answer with.
const MAX_ERRNO: i32 = 4095; // include/linux/err.h; not part of the user API, so typed here

const _: () = assert!(size_of::<Option<Errno>>() == 2 && size_of::<Result<()>>() == 2);

impl Errno {
    /// The other name of [`Errno::EAGAIN`].
    pub const EWOULDBLOCK: Errno = Errno::new(errno::EWOULDBLOCK);
    /// The other name of [`Errno::EDEADLK`].
    pub const EDEADLOCK: Errno = Errno::new(errno::EDEADLOCK);
    /// The C library's name of [`Errno::EOPNOTSUPP`].
    pub const ENOTSUP: Errno = Errno::EOPNOTSUPP;

    /// Makes the error from its number, or `None` outside `1..=4095`.
    ///
    /// A number without a name is kept: a file system below may know more errors than this table.
    pub const fn from_raw(raw: i32) -> Option<Errno> {
        if raw < 1 || raw > MAX_ERRNO {
            return None;
        }
        match NonZeroU16::new(raw as u16) {
            Some(number) => Some(Errno(number)),
            None => None,
        }
    }

    /// Returns the number, always positive.
    pub const fn raw(self) -> i32 {
        self.0.get() as i32
    }

    /// Makes a named constant; a number out of range stops the build.
    const fn new(raw: u32) -> Errno {
        match Errno::from_raw(raw as i32) {
            Some(errno) => errno,
            None => panic!("an errno lies in 1..=4095"),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Writes `ENOENT (No such file or directory)`.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.description())
    }
}

impl core::error::Error for Errno {}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> std::io::Error {
        std::io::Error::from_raw_os_error(errno.raw())
    }
}

/// Declares a constant for each row, and the two functions that look a number up in the rows.
macro_rules! errnos {
    ($($name:ident $description:literal,)*) => {
        impl Errno {
            $(
                #[doc = concat!($description, ".")]
                pub const $name: Errno = Errno::new(errno::$name);
            )*

            /// Returns the name, such as `"ENOENT"`, or `"EUNKNOWN"` for a number that has none.
            ///
            /// Where a number has two names, it is the one the kernel defines the other by.
            pub const fn name(self) -> &'static str {
                match self.0.get() as u32 {
                    $(errno::$name => stringify!($name),)*
                    _ => "EUNKNOWN",
                }
            }

            /// Returns the text that strerror(3) has for the number, or `"Unknown error"`.
            pub const fn description(self) -> &'static str {
                match self.0.get() as u32 {
                    $(errno::$name => $description,)*
                    _ => "Unknown error",
                }
            }
        }
    };
}

errnos! {
    EPERM "Operation not permitted",
    ENOENT "No such file or directory",
    ESRCH "No such process",
    EINTR "Interrupted system call",
    EIO "Input/output error",
    ENXIO "No such device or address",
    E2BIG "Argument list too long",
    ENOEXEC "Exec format error",
    EBADF "Bad file descriptor",
    ECHILD "No child processes",
    EAGAIN "Resource temporarily unavailable",
    ENOMEM "Cannot allocate memory",
    EACCES "Permission denied",
    EFAULT "Bad address",
    ENOTBLK "Block device required",
    EBUSY "Device or resource busy",
    EEXIST "File exists",
    EXDEV "Invalid cross-device link",
    ENODEV "No such device",
    ENOTDIR "Not a directory",
    EISDIR "Is a directory",
    EINVAL "Invalid argument",
    ENFILE "Too many open files in system",
    EMFILE "Too many open files",
    ENOTTY "Inappropriate ioctl for device",
    ETXTBSY "Text file busy",
    EFBIG "File too large",
    ENOSPC "No space left on device",
    ESPIPE "Illegal seek",
    EROFS "Read-only file system",
    EMLINK "Too many links",
    EPIPE "Broken pipe",
    EDOM "Numerical argument out of domain",
    ERANGE "Numerical result out of range",
    EDEADLK "Resource deadlock avoided",
    ENAMETOOLONG "File name too long",
    ENOLCK "No locks available",
    ENOSYS "Function not implemented",
    ENOTEMPTY "Directory not empty",
    ELOOP "Too many levels of symbolic links",
    ENOMSG "No message of desired type",
    EIDRM "Identifier removed",
    ECHRNG "Channel number out of range",
    EL2NSYNC "Level 2 not synchronized",
    EL3HLT "Level 3 halted",
    EL3RST "Level 3 reset",
    ELNRNG "Link number out of range",
    EUNATCH "Protocol driver not attached",
    ENOCSI "No CSI structure available",
    EL2HLT "Level 2 halted",
    EBADE "Invalid exchange",
    EBADR "Invalid request descriptor",
    EXFULL "Exchange full",
    ENOANO "No anode",
    EBADRQC "Invalid request code",
    EBADSLT "Invalid slot",
    EBFONT "Bad font file format",
    ENOSTR "Device not a stream",
    ENODATA "No data available",
    ETIME "Timer expired",
    ENOSR "Out of streams resources",
    ENONET "Machine is not on the network",
    ENOPKG "Package not installed",
    EREMOTE "Object is remote",
    ENOLINK "Link has been severed",
    EADV "Advertise error",
    ESRMNT "Srmount error",
    ECOMM "Communication error on send",
    EPROTO "Protocol error",
    EMULTIHOP "Multihop attempted",
    EDOTDOT "RFS specific error",
    EBADMSG "Bad message",
    EOVERFLOW "Value too large for defined data type",
    ENOTUNIQ "Name not unique on network",
    EBADFD "File descriptor in bad state",
    EREMCHG "Remote address changed",
    ELIBACC "Can not access a needed shared library",
    ELIBBAD "Accessing a corrupted shared library",
    ELIBSCN ".lib section in a.out corrupted",
    ELIBMAX "Attempting to link in too many shared libraries",
    ELIBEXEC "Cannot exec a shared library directly",
    EILSEQ "Invalid or incomplete multibyte or wide character",
    ERESTART "Interrupted system call should be restarted",
    ESTRPIPE "Streams pipe error",
    EUSERS "Too many users",
    ENOTSOCK "Socket operation on non-socket",
    EDESTADDRREQ "Destination address required",
    EMSGSIZE "Message too long",
    EPROTOTYPE "Protocol wrong type for socket",
    ENOPROTOOPT "Protocol not available",
    EPROTONOSUPPORT "Protocol not supported",
    ESOCKTNOSUPPORT "Socket type not supported",
    EOPNOTSUPP "Operation not supported",
    EPFNOSUPPORT "Protocol family not supported",
    EAFNOSUPPORT "Address family not supported by protocol",
    EADDRINUSE "Address already in use",
    EADDRNOTAVAIL "Cannot assign requested address",
    ENETDOWN "Network is down",
    ENETUNREACH "Network is unreachable",
    ENETRESET "Network dropped connection on reset",
    ECONNABORTED "Software caused connection abort",
    ECONNRESET "Connection reset by peer",
    ENOBUFS "No buffer space available",
    EISCONN "Transport endpoint is already connected",
    ENOTCONN "Transport endpoint is not connected",
    ESHUTDOWN "Cannot send after transport endpoint shutdown",
    ETOOMANYREFS "Too many references: cannot splice",
    ETIMEDOUT "Connection timed out",
    ECONNREFUSED "Connection refused",
    EHOSTDOWN "Host is down",
    EHOSTUNREACH "No route to host",
    EALREADY "Operation already in progress",
    EINPROGRESS "Operation now in progress",
    ESTALE "Stale file handle",
    EUCLEAN "Structure needs cleaning",
    ENOTNAM "Not a XENIX named type file",
    ENAVAIL "No XENIX semaphores available",
    EISNAM "Is a named type file",
    EREMOTEIO "Remote I/O error",
    EDQUOT "Disk quota exceeded",
    ENOMEDIUM "No medium found",
    EMEDIUMTYPE "Wrong medium type",
    ECANCELED "Operation canceled",
    ENOKEY "Required key not available",
    EKEYEXPIRED "Key has expired",
    EKEYREVOKED "Key has been revoked",
    EKEYREJECTED "Key was rejected by service",
    EOWNERDEAD "Owner died",
    ENOTRECOVERABLE "State not recoverable",
    ERFKILL "Operation not possible due to RF-kill",
    EHWPOISON "Memory page has hardware error",
}
