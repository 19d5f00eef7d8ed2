//! What is put into a program's process: it looks for the answer of a call, and if it finds none has the kernel do the call.
//!
//! ```text
//!   mov $N, %eax; syscall       in the C library, becomes
//!   jmp ──► stub ──► entry ──► answer: the path, where it begins, the table
//!                      │          found ──► is there news of the host? ──► the answer; back behind the call
//!                      └──────────────────► not found: the call, as it was, which the supervisor answers
//!                                              it opened something ──► take: the descriptor lies in a socket
//!   it is about to open what it is expected to ──► ready: the descriptor lies there before
//! ```
//!
//! Rules:
//!
//! 1. All registers and flags are as after the call that was made: what it clobbers are `rax`, `rcx` and `r11`.
//! 2. Nothing is kept: it has no data. What it reads is written by the supervisor alone, and mapped so that nobody here can write it.
//! 3. Memory that the caller names is asked for by a call of the kernel before it is touched: what is not there is `EFAULT`, which the
//!    supervisor answers.
//! 4. The calls that it makes of itself are about descriptors and this process alone; those of the program it makes as they were made.
//!    Those that the supervisor would answer bear a mark (`MARK`), by which the filter lets them through; whoever else makes them so
//!    learns nothing that a path leads to.

#![no_std]
#![no_main]
#![no_builtins]

#[allow(dead_code, missing_docs)]
mod layout;

use core::{
    arch::{asm, global_asm},
    panic::PanicInfo,
    slice,
    sync::atomic::AtomicU64,
};
use layout::{
    AS_THE_HOST, BASE, GIVEN, GIVEN_MOST, FSTAT, Found, GETCWD, GETDENTS64, IMAGE_BYTES, Key, MARK, MESSAGE, MOST_TEXT, NEWFSTATAT,
    NEWS, NO_NEWS, ON, OPEN, OPENAT, OWN, STATX, TABLE_BYTES, TAKE_CLOEXEC, TAKE_OPEN, TAKES, find,
    given, is_closed, ready_for, shape_of,
};

// The stub has put the call's number into `eax` and the address behind the call into `rcx`. 128 bytes below the stack's end may be the
// caller's. Rust may use any vector register, but no more than their lower halves.
global_asm!(
    ".section .text.entry, \"ax\"",
    ".globl _start",
    "_start:",
    // A jump to what is next. Where the program has calls looked at by a filter of its own, its process has one over that here, of which
    // one byte is another one.
    ".byte {on_first}, {on_second}",
    "jmp short 7f",
    "jmp short 9f",
    // A call of the image's own, at `OWN`; there stands a jump to where the carry is set instead, of which one byte is another one, where the
    // program has such a filter. So nobody asks whether it has one, and then is interrupted by a handler that sets it.
    ".org {own} - 1, 0x90",
    "own_call: clc",
    "syscall",
    "ret",
    ".org {own} + 7, 0x90",
    "stc",
    "ret",
    "9: lea rsp, [rsp - 128]",
    "push rcx",
    "syscall",
    "jmp 5f",
    // What the answer says is done as a call is: what it says stands in the number's place.
    "6: popfq",
    "pop rcx",
    "lea rsp, [rsp + 128]",
    "7: lea rsp, [rsp - 128]",
    "push rcx",
    "pushfq",
    "push rdi",
    "push rsi",
    "push rdx",
    "push r10",
    "push r8",
    "push r9",
    "push rax",
    "push rbp",
    "cld",
    "lea rdi, [rsp + 8]",
    "mov rbp, rsp",
    "sub rsp, 256",
    "and rsp, -16",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups [rsp + 16 * \\n], xmm\\n",
    ".endr",
    "call {answer}",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups xmm\\n, [rsp + 16 * \\n]",
    ".endr",
    "mov rsp, rbp",
    "pop rbp",
    "cmp rax, {none}",
    "je 2f",
    "lea rsp, [rsp + 8]",
    "jmp 3f",
    "2: pop rax",
    "3: pop r9",
    "pop r8",
    "pop r10",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "mov r11, [rsp]",
    "jne 4f",
    "popfq",
    "syscall",
    "jmp 5f",
    "4: popfq",
    "jmp 8f",
    // No answer of the kernel has anything in its upper half but a sign.
    "5: pushfq",
    "mov r11, rax",
    "sar r11, 32",
    "test r11, r11",
    "jg 6b",
    "popfq",
    "8: pop rcx",
    "lea rsp, [rsp + 128]",
    "jmp rcx",
    on_first = const ON[0],
    on_second = const ON[1],
    own = const OWN - BASE,
    answer = sym answer,
    none = const NONE,
);

/// No call answers this.
const NONE: i32 = i32::MIN;

/// The call's number and arguments, as they were pushed.
#[repr(C)]
struct Registers {
    rax: u64,
    r9: u64,
    r8: u64,
    r10: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
}

impl Registers {
    fn args(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }
}

const AT_FDCWD: i32 = -100;
const AT_EMPTY_PATH: u64 = 0x1000;
const STATX_INO: u64 = 0x100;
const SYS_CLOSE: u64 = 3;
const SYS_RT_SIGPROCMASK: u64 = 14;
const SYS_RECVMSG: u64 = 47;
const SYS_GETTID: u64 = 186;
const SYS_EPOLL_WAIT: u64 = 232;
const PAGE: u64 = 4096;

extern "sysv64" fn answer(registers: &Registers) -> i64 {
    if registers.rax >> 32 != 0 {
        return take(registers.rax, registers.args());
    }
    found(registers.rax as u32, registers.args()).unwrap_or(NONE.into())
}

fn found(nr: u32, args: [u64; 6]) -> Option<i64> {
    // SAFETY: the supervisor mapped the table behind the image, for as long as the image is there.
    let table = unsafe {
        let at = (BASE + IMAGE_BYTES as u64) as *const AtomicU64;
        slice::from_raw_parts(at, TABLE_BYTES / 8)
    };
    if is_closed(table) {
        return None;
    }
    if nr == FSTAT {
        return fstat(table, args[0], args[1]);
    }
    if nr == GETDENTS64 {
        return list(table, args);
    }
    if nr == GETCWD {
        return path_of_current_directory(table, args[0], args[1]);
    }
    let shape = shape_of(nr)?;
    let mut text = [0; MOST_TEXT];
    let mut len = copy_path(args[shape.path], &mut text)?;
    let path = text.get(..len)?;
    let dir = shape.dir.map_or(AT_FDCWD, |dir| args[dir] as i32);
    if path.is_empty() {
        let fstats = nr == NEWFSTATAT && dir >= 0 && args[3] == AT_EMPTY_PATH;
        return if fstats { fstat(table, args[0], args[2]) } else { None };
    }
    let base = match (path[0], dir) {
        (b'/', _) => [0, 0],
        (_, AT_FDCWD) => current_directory()?,
        _ => descriptor(dir as u32 as u64)?,
    };
    if let Some(name) = shape.name {
        // The NUL behind the path was not copied, and is there.
        len += 1 + copy_path(args[name], text.get_mut(len + 1..)?)?;
    }
    let text = text.get(..len)?;
    let args_that_matter = shape.keys.map(|key| key.map_or(0, |key| args[key]));
    let key = Key { nr, args: args_that_matter, base, text };
    match find(table, &key) {
        Some(answer) => hand_out(answer, shape.out.map_or(0, |out| args[out])),
        None if nr == OPEN || nr == OPENAT => ready(table, &key),
        None => None,
    }
}

/// Writes what an answer has to be written, and gives its result.
fn hand_out(answer: Found<'_>, to: u64) -> Option<i64> {
    if answer.hangs_on_news() && is_there_news() {
        return None;
    }
    let (result, len) = (answer.result(), answer.len());
    if !answer.holds() {
        return None;
    }
    if len > 0 {
        may_be_written(to, len as u64)?;
        if !answer.holds() {
            return None;
        }
        let mut at = to;
        for word in answer.written() {
            let left = (to + len as u64 - at).min(8);
            for byte in &word.to_le_bytes()[..left as usize] {
                // SAFETY: the kernel wrote to these pages just now.
                unsafe { (at as *mut u8).write_volatile(*byte) };
                at += 1;
            }
        }
        if !answer.holds() {
            return None;
        }
    }
    Some(result)
}

/// A file that is open: as the host tells it, but for the device; or as the table has it.
fn fstat(table: &[AtomicU64], fd: u64, to: u64) -> Option<i64> {
    let answer = own(FSTAT.into(), [fd, to, MARK, 0, 0, 0])?;
    if answer < 0 {
        return Some(answer);
    }
    let mut id = [0; 2];
    for (index, word) in id.iter_mut().enumerate() {
        // SAFETY: the kernel wrote a `struct stat` there just now.
        *word = unsafe { (to as *const u64).add(index).read_unaligned() };
    }
    let key = |of| Key { nr: FSTAT, args: [of, 0], base: id, text: b"" };
    if let Some(device) = find(table, &key(AS_THE_HOST)) {
        let result = device.result();
        if device.holds() {
            // SAFETY: as above.
            unsafe { (to as *mut u64).write_unaligned(result.cast_unsigned()) };
            return Some(0);
        }
    }
    hand_out(find(table, &key(0))?, to)
}

/// Lists a directory that is the host's, where the table has it: the kernel does.
fn list(table: &[AtomicU64], args: [u64; 6]) -> Option<i64> {
    let [fd, to, len, ..] = args;
    let base = descriptor(fd as u32 as u64)?;
    let given = find(table, &Key { nr: GETDENTS64, args: [0, 0], base, text: b"" })?;
    if given.holds() { own(GETDENTS64.into(), [fd, to, len, MARK, 0, 0]) } else { None }
}

/// Where there is no room for it, that is not said here.
fn path_of_current_directory(table: &[AtomicU64], to: u64, room: u64) -> Option<i64> {
    let base = current_directory()?;
    let path = find(table, &Key { nr: GETCWD, args: [0, 0], base, text: b"" })?;
    if path.len() as u64 > room {
        return None;
    }
    hand_out(path, to)
}

/// The descriptor that the answer of a call says is there. Where it is not, the supervisor is told, and the call is made again: it gives it
/// then.
fn take(answer: u64, args: [u64; 6]) -> i64 {
    let nr = if answer >> 32 & TAKE_OPEN != 0 { OPEN } else { OPENAT };
    let mut answer = answer;
    loop {
        if let Some(taken) = taken(answer).or_else(|| was_given(answer)) {
            return taken;
        }
        syscall(OPENAT.into(), [AT_FDCWD as u64, 0, 0, 0, MARK, 0]);
        // Another thread has set a filter for this one meanwhile.
        if let Some(given) = was_given(answer) {
            return given;
        }
        let again = syscall(nr.into(), args);
        // A signal's handler may have opened so many meanwhile that there is a socket again.
        if again >> 32 <= 0 {
            return again;
        }
        answer = again.cast_unsigned();
    }
}

/// The descriptor that was given for what an answer says is there: who is about to have a filter receives none any more.
fn was_given(answer: u64) -> Option<i64> {
    // SAFETY: the image ends behind these words; who sets a filter has the supervisor write them.
    let word = |at: usize| unsafe { (GIVEN as *const u64).add(at).read_volatile() };
    let of_this = |index: &usize| word(2 * index + 1) == given(answer as u32);
    (0..GIVEN_MOST).find(of_this).map(|index| word(2 * index).cast_signed())
}

/// Takes the descriptor that an answer says is there; none where it is not.
fn taken(answer: u64) -> Option<i64> {
    receive(answer as u32, answer >> 32 & TAKE_CLOEXEC != 0)
}

/// The descriptor of what this thread was expected to open, if it lies there and is the next.
fn ready(table: &[AtomicU64], key: &Key<'_>) -> Option<i64> {
    const O_CLOEXEC: u64 = 0o2_000_000;
    let socket = socket()?;
    let tid = own(SYS_GETTID, [0; 6])? as u32;
    let args = [key.args[0], ready_for(socket, tid)];
    let answer = find(table, &Key { args, ..*key })?;
    if answer.hangs_on_news() && is_there_news() {
        return None;
    }
    let number = answer.result() as u32;
    if !answer.holds() {
        return None;
    }
    receive(number, key.args[0] & O_CLOEXEC != 0)
}

/// Does something while no signal is taken.
fn without_signals<T>(does: impl FnOnce() -> Option<T>) -> Option<T> {
    const SIG_SETMASK: u64 = 2;
    let (all, mut before) = (u64::MAX, 0_u64);
    let at = |set: *const u64| set.expose_provenance() as u64;
    let keeps = [SIG_SETMASK, at(&raw const all), at(&raw mut before), 8, 0, 0];
    if own(SYS_RT_SIGPROCMASK, keeps)? != 0 {
        return None;
    }
    let done = does();
    // In any case: no filter comes before that.
    syscall(SYS_RT_SIGPROCMASK, [SIG_SETMASK, at(&raw const before), 0, 8, 0, 0]);
    done
}

/// The number of the socket that descriptors are taken from.
fn socket() -> Option<u64> {
    const S_IFMT: u64 = 0o170_000;
    const S_IFSOCK: u64 = 0o140_000;
    let mut stat = [0_u64; 18];
    let to = stat.as_mut_ptr().expose_provenance() as u64;
    let asked = own(FSTAT.into(), [TAKES as u64, to, MARK, 0, 0, 0])?;
    (asked == 0 && stat[3] & S_IFMT == S_IFSOCK).then_some(stat[1])
}

/// Takes the descriptor of the message of this number, if that is the next. Another one may be the next by the time that it is received,
/// as the supervisor takes back what lies there, or somebody who came of this process has the socket too: that is nobody's then.
fn receive(number: u32, cloexec: bool) -> Option<i64> {
    const MSG_PEEK: u64 = 0x2;
    const MSG_CTRUNC: u64 = 0x8;
    const MSG_CMSG_CLOEXEC: u64 = 0x4000_0000;
    /// The length of `struct cmsghdr` with a descriptor behind it, `SOL_SOCKET` and `SCM_RIGHTS`.
    const RIGHTS: [u64; 2] = [20, 1 | 1 << 32];
    const EMFILE: i64 = 24;
    let number = MESSAGE | u64::from(number);
    let mut control = [0_u64; 3];
    // No signal's handler opens anything meanwhile.
    without_signals(|| {
        if message(&mut [], MSG_PEEK)?.number != number {
            return None;
        }
        let message = message(&mut control, if cloexec { MSG_CMSG_CLOEXEC } else { 0 })?;
        let taken = (control[..2] == RIGHTS).then_some(control[2] as u32);
        if message.number != number {
            taken.map(|taken| syscall(SYS_CLOSE, [taken.into(), 0, 0, 0, 0, 0]));
            return None;
        }
        match taken {
            Some(taken) => Some(taken.into()),
            // There was no room for one more.
            None => (message.flags & MSG_CTRUNC != 0).then_some(-EMFILE),
        }
    })
}

/// What was received.
struct Message {
    number: u64,
    flags: u64,
}

/// Receives the next message, or looks at it; none where there is none.
fn message(control: &mut [u64], flags: u64) -> Option<Message> {
    const MSG_DONTWAIT: u64 = 0x40;
    let mut number = 0_u64;
    let len = size_of_val(&number) as u64;
    let piece = [(&raw mut number).expose_provenance() as u64, len];
    // `struct msghdr`
    let mut head = [
        0,
        0,
        piece.as_ptr().expose_provenance() as u64,
        1,
        control.as_mut_ptr().expose_provenance() as u64,
        size_of_val(control) as u64,
        0,
    ];
    let at = head.as_mut_ptr().expose_provenance() as u64;
    let read = own(SYS_RECVMSG, [TAKES as u64, at, MSG_DONTWAIT | flags, 0, 0, 0])?;
    (read == len.cast_signed()).then_some(Message { number, flags: head[6] })
}

/// Copies a path, or a name; how long it is, none where it is too long, or not all there.
fn copy_path(from: u64, text: &mut [u8]) -> Option<usize> {
    let mut asked = None;
    for (index, to) in text.iter_mut().enumerate() {
        let at = from.checked_add(index as u64)?;
        if asked != Some(at / PAGE) {
            may_be_read(at)?;
            asked = Some(at / PAGE);
        }
        // SAFETY: the kernel read from this page just now.
        let byte = unsafe { (at as *const u8).read_volatile() };
        if byte == 0 {
            return Some(index);
        }
        *to = byte;
    }
    None
}

/// Asks the kernel to read from an address: it copies a set of signals, and only then sees that there is nothing to be done with it.
fn may_be_read(at: u64) -> Option<()> {
    const EINVAL: i64 = -22;
    let nothing = u64::MAX;
    let answer = own(SYS_RT_SIGPROCMASK, [nothing, at & !7, 0, 8, 0, 0])?;
    (answer == EINVAL).then_some(())
}

/// Asks the kernel to write to the pages of a buffer: it copies the set of signals that are blocked there.
fn may_be_written(at: u64, len: u64) -> Option<()> {
    let last = at.checked_add(len.checked_sub(8)?)?;
    let mut next = at;
    loop {
        if own(SYS_RT_SIGPROCMASK, [0, 0, next, 8, 0, 0])? != 0 {
            return None;
        }
        if next == last {
            return Some(());
        }
        next = (next / PAGE * PAGE + PAGE).min(last);
    }
}

/// Whether others did something of which the supervisor has not yet heard, or it cannot be told.
fn is_there_news() -> bool {
    // Two times `struct epoll_event`, of 12 bytes.
    let mut events = [0_u32; 6];
    let to = events.as_mut_ptr().expose_provenance() as u64;
    let ready = own(SYS_EPOLL_WAIT, [NEWS as u64, to, 2, 0, 0, 0]);
    ready != Some(1) || u64::from(events[1]) | u64::from(events[2]) << 32 != NO_NEWS
}

/// The file of a descriptor.
fn descriptor(fd: u64) -> Option<[u64; 2]> {
    let mut stat = [0_u64; 18];
    let to = stat.as_mut_ptr().expose_provenance() as u64;
    (own(FSTAT.into(), [fd, to, MARK, 0, 0, 0])? == 0).then(|| [stat[0], stat[1]])
}

/// The file that the current directory is.
fn current_directory() -> Option<[u64; 2]> {
    let mut statx = [0_u64; 32];
    let to = statx.as_mut_ptr().expose_provenance() as u64;
    let cwd = AT_FDCWD as u64;
    if own(STATX.into(), [cwd, 0, AT_EMPTY_PATH, STATX_INO, to, MARK])? != 0 {
        return None;
    }
    // `stx_dev_major` and `stx_dev_minor`, as `st_dev` has them.
    let (major, minor) = (statx[17] & 0xffff_ffff, statx[17] >> 32);
    Some([minor & 0xff | major << 8 | (minor & !0xff) << 12, statx[4]])
}

/// A call, by instructions that make one.
macro_rules! call {
    ($args:expr, $($how:tt)*) => {
        asm!(
            $($how)*
            in("rdi") $args[0],
            in("rsi") $args[1],
            in("rdx") $args[2],
            in("r10") $args[3],
            in("r8") $args[4],
            in("r9") $args[5],
            lateout("rcx") _,
            lateout("r11") _,
        )
    };
}

/// A call of the image's own; none where the process has a filter of its own by now: a signal's handler that interrupted this may have set it.
fn own(nr: u64, args: [u64; 6]) -> Option<i64> {
    unsafe extern "C" {
        fn own_call();
    }
    let (answer, none): (i64, u8);
    // SAFETY: the calls write to where the caller says, and nowhere else.
    unsafe {
        call!(args, "call {own}", "setc {none}", own = sym own_call, none = out(reg_byte) none, inlateout("rax") nr => answer,);
    }
    (none == 0).then_some(answer)
}

fn syscall(nr: u64, args: [u64; 6]) -> i64 {
    let answer;
    // SAFETY: as above.
    unsafe { call!(args, "syscall", inlateout("rax") nr => answer,) };
    answer
}

/// What the compiler makes of copying and filling.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: as the caller says.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: as the caller says.
    unsafe {
        asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte as u8, options(nostack, preserves_flags));
    }
    to
}

/// Nothing here panics; if it did, the program would end here.
#[panic_handler]
fn panics(_: &PanicInfo<'_>) -> ! {
    // SAFETY: it ends the process.
    unsafe { asm!("ud2", options(noreturn)) }
}
