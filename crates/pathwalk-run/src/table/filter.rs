//! The filter that the kernel runs in front of every call, made from the table.
//!
//! ```text
//!   arch is x86-64?  no ─► ENOSYS        number < END?  no ─► ENOSYS (x32 calls too: they begin at 2³⁰)
//!   number = 0 ?  ─► what happens with it          a pair of instructions for each number
//!   number = 2 ?  ─► …                             that is not simply the kernel's
//!   ALLOW
//! ```
//!
//! The kernel remembers which numbers are allowed whatever their arguments: those never run it.

use super::{Call, Condition, END, Handling, Identity};
use crate::sys::process::statx_needs_no_path;
use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
    SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_USER_NOTIF, sock_filter,
};
use pathwalk::Errno;
use pathwalk_inside::{FSTAT, GETDENTS64, MARK, STATX};

/// `AUDIT_ARCH_X86_64`
const X86_64: u32 = 0xc000_003e;
/// Where `struct seccomp_data` has what.
const NR: u32 = 0;
const ARCH: u32 = 4;
const ARGS: u32 = 16;

/// The filter for these calls of a program that is somebody.
pub(crate) fn program(calls: &[Call], identity: Identity) -> Vec<sock_filter> {
    let refuse = |errno: Errno| SECCOMP_RET_ERRNO | errno.raw() as u32;
    let mut program = vec![load(ARCH)];
    program.extend([jump(BPF_JEQ, X86_64, 1, 0), ret(refuse(Errno::ENOSYS))]);
    program.extend([load(NR), jump(BPF_JGE, END, 0, 1), ret(refuse(Errno::ENOSYS))]);
    for call in calls {
        let then = match call.handling(identity) {
            Handling::Pass => continue,
            Handling::Refuse(errno) => vec![ret(refuse(errno))],
            Handling::Answer(_) => {
                let finds = identity != Identity::Virtual;
                let marked = MARKED.iter().find(|(nr, ..)| finds && *nr == call.nr);
                // A kernel that wants a path all the same reads one.
                let marked = marked.filter(|_| call.nr != STATX || statx_needs_no_path());
                let mut then = marked.map(|&(_, mark, be)| by_mark(mark, be)).unwrap_or_default();
                then.push(ret(SECCOMP_RET_USER_NOTIF));
                then
            }
            Handling::AnswerIf(conditions, _) => {
                ask(conditions.iter().map(|&condition| (condition, SECCOMP_RET_USER_NOTIF)))
            }
            Handling::RefuseIf(conditions) => {
                ask(conditions.iter().map(|&(condition, errno)| (condition, refuse(errno))))
            }
        };
        let over = u8::try_from(then.len()).expect("no call takes so many instructions");
        program.push(jump(BPF_JEQ, call.nr, 0, over));
        program.extend(then);
    }
    program.push(ret(SECCOMP_RET_ALLOW));
    program
}

/// A number, where the mark stands, and what other arguments must be.
type Marked = (u32, u8, &'static [(u8, u64)]);

/// Calls that the image makes about a descriptor alone, or the current directory: their numbers, the argument that they do not have, in
/// which the mark stands, and what others must be so that there is no path. Without `AT_EMPTY_PATH` one would be read at address 0.
const MARKED: [Marked; 3] =
    [(FSTAT, 2, &[]), (GETDENTS64, 3, &[]), (STATX, 5, &[(1, 0), (2, libc::AT_EMPTY_PATH as u64)])];

/// Lets a call through that has the mark.
fn by_mark(mark: u8, be: &[(u8, u64)]) -> Vec<sock_filter> {
    let words = |arg: u8, value: u64| {
        let at = ARGS + 8 * u32::from(arg);
        [(at, value as u32), (at + 4, (value >> 32) as u32)]
    };
    let be = be.iter().flat_map(|&(arg, value)| words(arg, value));
    let is: Vec<_> = words(mark, MARK).into_iter().chain(be).collect();
    let mut then = Vec::new();
    for (index, &(at, value)) in is.iter().enumerate() {
        let over = u8::try_from(2 * (is.len() - 1 - index) + 1).expect("there are few");
        then.extend([load(at), jump(BPF_JEQ, value, 0, over)]);
    }
    then.push(ret(SECCOMP_RET_ALLOW));
    then
}

/// Looks at arguments, and ends.
fn ask(conditions: impl IntoIterator<Item = (Condition, u32)>) -> Vec<sock_filter> {
    let low = |arg: u8| load(ARGS + 8 * u32::from(arg));
    let high = |arg: u8| load(ARGS + 8 * u32::from(arg) + 4);
    let mut then = Vec::new();
    for (condition, yes) in conditions {
        match condition {
            Condition::Is(arg, values) => {
                then.push(low(arg));
                for &value in values {
                    then.extend([jump(BPF_JEQ, value, 0, 1), ret(yes)]);
                }
            }
            Condition::Any(arg, bits) => {
                then.extend([low(arg), jump(BPF_JSET, bits, 0, 1), ret(yes)]);
            }
            Condition::OfType(arg, types, but) => {
                then.push(low(arg));
                // Behind the mask and two instructions for each type.
                let over = 1 + 2 * types.len();
                for (index, &value) in but.iter().enumerate() {
                    let over = over + but.len() - 1 - index;
                    let over = u8::try_from(over).expect("no condition takes so many");
                    then.push(jump(BPF_JEQ, value, over, 0));
                }
                then.push(instruction(BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xff00));
                for &type_ in types {
                    then.extend([jump(BPF_JEQ, u32::from(type_) << 8, 0, 1), ret(yes)]);
                }
            }
            Condition::NotZero(arg) => {
                then.extend([low(arg), jump(BPF_JEQ, 0, 1, 0), ret(yes)]);
                then.extend([high(arg), jump(BPF_JEQ, 0, 1, 0), ret(yes)]);
            }
        }
    }
    then.push(ret(SECCOMP_RET_ALLOW));
    then
}

fn load(at: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, at)
}

fn jump(how: u32, value: u32, yes: u8, no: u8) -> sock_filter {
    instruction(BPF_JMP | how | BPF_K, yes, no, value)
}

fn ret(value: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, 0, 0, value)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::calls;

    /// What the kernel would do: the instructions that are used here, and no others.
    fn run(program: &[sock_filter], arch: u32, nr: u32, args: [u64; 6]) -> u32 {
        let mut data = [nr.to_ne_bytes(), arch.to_ne_bytes()].concat();
        data.extend([0; 8]);
        data.extend(args.into_iter().flat_map(u64::to_ne_bytes));
        let (mut at, mut word) = (0, 0);
        loop {
            let op = program[at];
            let code = u32::from(op.code);
            let k = op.k as usize;
            let mut go = |yes: bool| at += usize::from(if yes { op.jt } else { op.jf });
            match () {
                () if code == BPF_LD | BPF_W | BPF_ABS => {
                    word = u32::from_ne_bytes(data[k..k + 4].try_into().expect("four bytes"));
                }
                () if code == BPF_RET | BPF_K => return op.k,
                () if code == BPF_ALU | BPF_AND | BPF_K => word &= op.k,
                () if code == BPF_JMP | BPF_JEQ | BPF_K => go(word == op.k),
                () if code == BPF_JMP | BPF_JGE | BPF_K => go(word >= op.k),
                () if code == BPF_JMP | BPF_JSET | BPF_K => go(word & op.k != 0),
                () => panic!("{code:#x} is not used"),
            }
            at += 1;
        }
    }

    fn errno(errno: Errno) -> u32 {
        SECCOMP_RET_ERRNO | errno.raw() as u32
    }

    #[test]
    fn each_call_gets_what_the_table_says() {
        for identity in [Identity::Own, Identity::Privileged, Identity::Virtual] {
            let program = program(calls(), identity);
            for call in calls() {
                let want = match call.handling(identity) {
                    Handling::Pass => SECCOMP_RET_ALLOW,
                    Handling::Refuse(no) => errno(no),
                    Handling::Answer(_) => SECCOMP_RET_USER_NOTIF,
                    Handling::AnswerIf(..) | Handling::RefuseIf(..) => SECCOMP_RET_ALLOW,
                };
                // No argument is such as is asked for.
                let nothing = [
                    "sendto",
                    "unshare",
                    "clone",
                    "perf_event_open",
                    "prlimit64",
                    "get_robust_list",
                ];
                let args = [if nothing.contains(&call.name) { 0 } else { 0x7fff_0000 }; 6];
                assert_eq!(run(&program, X86_64, call.nr, args), want, "{}", call.name);
            }
        }
    }

    #[test]
    fn who_has_no_virtual_credentials_does_not_pay_for_them() {
        let (own, other) = (program(calls(), Identity::Own), program(calls(), Identity::Virtual));
        for nr in [libc::SYS_getuid, libc::SYS_clone, libc::SYS_capget] {
            assert_eq!(run(&own, X86_64, nr as u32, [0; 6]), SECCOMP_RET_ALLOW);
            assert_eq!(run(&other, X86_64, nr as u32, [0; 6]), SECCOMP_RET_USER_NOTIF);
        }
    }

    #[test]
    fn arguments_are_looked_at() {
        let program = program(calls(), Identity::Own);
        let run = |nr: i64, args| run(&program, X86_64, nr as u32, args);
        let prctl = [libc::PR_SET_DUMPABLE as u64, 0, 0, 0, 0, 0];
        assert_eq!(run(libc::SYS_prctl, prctl), SECCOMP_RET_USER_NOTIF);
        for address in [1, 1 << 32] {
            let args = [0, 0, 0, 0, address, 0];
            assert_eq!(run(libc::SYS_sendto, args), SECCOMP_RET_USER_NOTIF);
        }
        let unshare = [libc::CLONE_NEWNS as u64 | 0x400, 0, 0, 0, 0, 0];
        assert_eq!(run(libc::SYS_unshare, unshare), errno(Errno::EPERM));
        // `FS_IOC_SETFLAGS`, `EXT4_IOC_MIGRATE`, `BTRFS_IOC_SNAP_CREATE`, `F2FS_IOC_SET_PIN_FILE`
        for sets in [0xffff_ffff_4008_6602, 0x6609, 0x5000_9401, 0x4004_f50d] {
            let answer = run(libc::SYS_ioctl, [0, sets, 0, 0, 0, 0]);
            assert_eq!(answer, errno(Errno::EOPNOTSUPP), "{sets:#x}");
        }
        // `FS_IOC_GETFLAGS`, `FS_IOC_FSGETXATTR`, `FS_IOC_FIEMAP`, `FICLONE`, `FIOCLEX`
        for gets in [0x8008_6601, 0x801c_581f, 0xc020_660b, 0x4004_9409, 0x5451] {
            let answer = run(libc::SYS_ioctl, [0, gets, 0, 0, 0, 0]);
            assert_eq!(answer, SECCOMP_RET_ALLOW, "{gets:#x}");
        }
        for typing in [libc::TIOCSTI, 0xffff_ffff_0000_0000 | libc::TIOCSTI, libc::TIOCLINUX] {
            assert_eq!(run(libc::SYS_ioctl, [0, typing, 0, 0, 0, 0]), errno(Errno::EPERM));
        }
        assert_eq!(run(libc::SYS_ioctl, [0, libc::TIOCGWINSZ, 0, 0, 0, 0]), SECCOMP_RET_ALLOW);
        let perf = |pid| [1, pid, u64::MAX, u64::MAX, 0, 0];
        assert_eq!(run(libc::SYS_perf_event_open, perf(7)), errno(Errno::EACCES));
        assert_eq!(run(libc::SYS_perf_event_open, perf(0)), SECCOMP_RET_ALLOW);
        let privileged = super::program(calls(), Identity::Privileged);
        let nr = libc::SYS_perf_event_open as u32;
        let perf = [0, 7].map(|pid| self::run(&privileged, X86_64, nr, perf(pid)));
        assert_eq!(perf, [errno(Errno::EACCES); 2]);
        let lease = |command: i32| [0, command as u64, libc::F_RDLCK as u64, 0, 0, 0];
        for command in [libc::F_SETLEASE, 1040] {
            assert_eq!(run(libc::SYS_fcntl, lease(command)), errno(Errno::EINVAL), "{command}");
        }
        assert_eq!(run(libc::SYS_fcntl, lease(libc::F_GETLEASE)), SECCOMP_RET_ALLOW);
    }

    #[test]
    fn what_bears_the_mark_and_has_no_path_is_the_kernel_s() {
        let heard = |identity, nr, args| {
            run(&program(calls(), identity), X86_64, nr, args) == SECCOMP_RET_USER_NOTIF
        };
        let own = |nr, args| heard(Identity::Own, nr, args);
        let (fstat, statx) = ([3, 4096, MARK, 0, 0, 0], [3, 0, 0x1000, 0, 4096, MARK]);
        assert!(!own(GETDENTS64, [3, 4096, 32768, MARK, 0, 0]));
        assert!(own(GETDENTS64, [3, 4096, 32768, 0, MARK, 0]));
        assert!(!own(FSTAT, fstat) && own(STATX, statx) != statx_needs_no_path());
        // Half of it, in another place, with a path, and of who is told apart from others.
        let half = MARK & 0xffff_ffff;
        for args in
            [[3, 4096, half, 0, 0, 0], [3, 4096, half << 32, 0, 0, 0], [MARK, 4096, 0, 0, 0, MARK]]
        {
            assert!(own(FSTAT, args), "{args:x?}");
        }
        for path in [1, 1 << 32] {
            assert!(own(STATX, [3, path, 0x1000, 0, 4096, MARK]));
        }
        for flags in [0, 0x1100, 0x1000 | 1 << 32] {
            assert!(own(STATX, [3, 0, flags, 0, 4096, MARK]));
        }
        assert!(own(STATX, [3, 0, 0x1000, 0, 4096, half]));
        assert!(own(libc::SYS_newfstatat as u32, [3, 0, MARK, 0, MARK, MARK]));
        assert!(heard(Identity::Virtual, FSTAT, fstat) && heard(Identity::Virtual, STATX, statx));
    }

    #[test]
    fn other_architectures_and_unknown_numbers_are_refused() {
        let program = program(calls(), Identity::Own);
        for (arch, nr) in [
            (0x4000_0003, 5),
            (X86_64, END),
            (X86_64, 5000),
            (X86_64, 0x4000_0000),
            (X86_64, u32::MAX),
        ] {
            assert_eq!(run(&program, arch, nr, [0; 6]), errno(Errno::ENOSYS), "{nr}");
        }
        assert!(program.len() <= libc::BPF_MAXINSNS as usize);
    }
}
