//! execve, execveat: which file runs, found by the library; then the thread runs it.
//!
//! ```text
//!   the path ─► `#!`? its interpreter, with one more argument, up to four times
//!            ─► ELF: is its interpreter the same file in the tree and on the host?
//!                 yes, or it has none: it runs
//!                 no: the tree's interpreter runs, and is given the program
//! ```
//!
//! The kernel looks for an ELF interpreter in its own tree, which is why it must be the same file there.
//!
//! Linux: `load_script`, `load_elf_binary`.

use super::{at_flags, done, place};
use crate::{
    auxv::Told,
    cookies::{self, HostId},
    elf::{Beginning, Elf, other_kind, read_elf},
    engine::{Caller, Descriptor, Engine, Reply},
    inside::{Before, Inside},
    passed::{Looked, Runs},
    patch::{Beside, Loaded, Vectors},
    program::Program,
    setid::is_in_memory,
    sys::{answer, memory, process},
    watches,
};
use pathwalk::{At, AtFlags, Errno, Executable, File, Result, abi::AT_FDCWD};
use rustix::{fs, io};
use std::{
    collections::{HashMap, hash_map::Entry},
    ffi::CString,
    os::fd::BorrowedFd,
};

/// So many bytes of a script's first line are looked at.
const LINE: usize = 256;
const PAGE: u64 = 4096;
/// So many pages of arguments are read at once.
const AT_ONCE: usize = 8;
/// So many pages of arguments are kept.
const PAGES: usize = 1024;
/// Of so many interpreters it is known what they take.
const INTERPRETERS: usize = 64;
/// An interpreter has no more bytes.
const LOADER: usize = 4 << 20;
/// A script's interpreter may be a script: so many times.
const LEVELS: usize = 5;
/// `AT_EXECVE_CHECK`: whether the file could be run, and no more. An interpreter is not looked for.
const CHECK: AtFlags = AtFlags::from_bits_retain(0x1_0000);

pub(crate) fn execve(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let path = caller.path(0)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let watched = engine.watches.fd().is_some();
    // Whether all fits that it is given, the kernel finds out.
    if !watched
        && !engine.patches.is_again(caller.tid)
        && let Some(runs) = engine.runs_as_before(&path)
    {
        return engine.pass_exec(caller, runs, path);
    }
    let vectors = vectors(caller, &path, [0, 1, 2]);
    let as_it_was = engine.inside.as_ref().map(Inside::now);
    let program = open_by_name(engine, caller, &path)?;
    exec(engine, caller, (program, as_it_was), Called::by(path), vectors)
}

/// How a program was called.
struct Called {
    /// By which name.
    name: Vec<u8>,
    /// What its process is called; none is what the file is that runs, as Linux has it since 6.14.
    comm: Option<Vec<u8>>,
    /// The descriptor that the name begins with.
    fd: Option<i32>,
}

impl Called {
    fn by(name: Vec<u8>) -> Self {
        let comm = Some(last(&name));
        Self { name, comm, fd: None }
    }

    /// With these arguments in front.
    fn told(self, before: Vec<Vec<u8>>, runs: impl FnOnce() -> Vec<u8>) -> Result<Told> {
        let text = |bytes| CString::new(bytes).map_err(|_| Errno::EINVAL);
        let before = before.into_iter().map(text).collect::<Result<_>>()?;
        let comm = self.comm.unwrap_or_else(runs);
        Ok(Told { before, name: text(self.name)?, comm: text(comm)? })
    }

    /// Whether a script's interpreter finds the script by that name.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: the descriptor is closed when it runs.
    ///
    /// Linux: `BINPRM_FLAGS_PATH_INACCESSIBLE`.
    fn is_found(&self, caller: &Caller) -> Result<()> {
        let Some(fd) = self.fd else { return Ok(()) };
        let flags = cookies::flags_of(format!("/proc/{}/fdinfo/{fd}", caller.tid).as_ref())?;
        if flags.contains(fs::OFlags::CLOEXEC) { Err(Errno::ENOENT) } else { Ok(()) }
    }
}

/// The last name in a path.
fn last(path: &[u8]) -> Vec<u8> {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path).to_vec()
}

/// What a program is given; the path is an argument too.
fn vectors(caller: &Caller, path: &[u8], [path_at, argv, envp]: [usize; 3]) -> Vectors {
    let [path_at, argv, envp] = [path_at, argv, envp].map(|index| caller.args[index]);
    Vectors { empty: path_at.wrapping_add(path.len() as u64), argv, envp }
}

pub(crate) fn execveat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let flags = at_flags(caller, 4);
    let only_asked = flags.contains(CHECK);
    let flags = flags - CHECK;
    let fd = caller.fd(0);
    // Of a path that is none it is said before all else.
    let empty = caller.path(1)?.is_empty() && flags.contains(AtFlags::EMPTY_PATH);
    if fd != AT_FDCWD && empty {
        let descriptor = engine.descriptor(caller, fd);
        let at = match &descriptor {
            Ok(Descriptor::Ours(known, _)) => At::Dir(&known.file),
            // Of one that is not of the tree the library has no more to say than what is wrong with flags.
            Ok(Descriptor::Foreign(_)) => At::Nowhere(Errno::EACCES),
            Err(errno) => At::Nowhere(*errno),
        };
        let program = match (engine.task.open_exec(at, b"", flags), descriptor) {
            (Err(Errno::EACCES), Ok(Descriptor::Foreign(fd))) => Program::memory(fd)?,
            (file, _) => Program::opened(engine, file?)?,
        };
        if only_asked {
            return done(program.may_run(engine));
        }
        let vectors = vectors(caller, b"", [1, 2, 3]);
        let called =
            Called { name: format!("/dev/fd/{fd}").into_bytes(), comm: None, fd: Some(fd) };
        return exec(engine, caller, (program, None), called, vectors);
    }
    let (base, path) = place(engine, caller, fd, 1, flags);
    let file = engine.task.open_exec(base.at(), &path, flags)?;
    let program = Program::opened(engine, file)?;
    if only_asked {
        return done(program.may_run(engine));
    }
    let vectors = vectors(caller, &path, [1, 2, 3]);
    if path.first() == Some(&b'/') || fd == AT_FDCWD {
        return exec(engine, caller, (program, None), Called::by(path), vectors);
    }
    let name = [format!("/dev/fd/{fd}/").as_bytes(), &path].concat();
    exec(engine, caller, (program, None), Called { fd: Some(fd), ..Called::by(name) }, vectors)
}

/// Runs a file that was found so; what was so before it was looked for, where that is to be kept.
fn exec(
    engine: &mut Engine,
    caller: &Caller,
    (mut program, as_it_was): (Program, Option<Before>),
    called: Called,
    vectors: Vectors,
) -> Result<Reply> {
    let room = fit(caller, vectors, &called.name)?;
    let mut name = called.name.clone();
    // The arguments in front of those that were given from the second on.
    let mut before: Vec<Vec<u8>> = Vec::new();
    let mut level = 0;
    let mut script = None;
    let elf = loop {
        hear_of(engine, &program)?;
        let beginning = Beginning::of(program.host()?)?;
        let Some(line) = first_line(&beginning) else {
            break match (read_elf(&beginning), other_kind(&beginning)) {
                (Err(Errno::ENOEXEC), Some(kind)) => return Err(engine.refuses(&name, kind)),
                (elf, _) => elf?,
            };
        };
        if level == LEVELS {
            return Err(Errno::ELOOP);
        }
        level += 1;
        let (interpreter, argument) = shebang(line)?;
        called.is_found(caller)?;
        let mut args = vec![interpreter.clone()];
        args.extend(argument);
        args.push(name);
        // What it was called by gives way to the path.
        if !before.is_empty() {
            before.remove(0);
        }
        args.append(&mut before);
        before = args;
        room.with(&before)?;
        let found = open_by_name(engine, caller, &interpreter)?;
        let first = std::mem::replace(&mut program, found);
        script.get_or_insert(first);
        name = interpreter;
    };
    let left = room.with(&before)?;
    let interpreter = match interpreter(engine, caller, &elf)? {
        Interpreter::Trees(interpreter) => interpreter,
        Interpreter::Kernels(found) => {
            let passed = called.fd.is_none()
                && !engine.patches.is_again(caller.tid)
                && level <= 1
                && is_passed(engine, &name, &program)?
                && script.is_none_or(|script| is_passed(engine, &called.name, &script) == Ok(true));
            if passed {
                if let Some(file) = program.file() {
                    engine.know(program.id(), file);
                }
                let runs = Runs { program, interpreter: found, before };
                let paths = (&called.name[..], elf.interpreter.as_deref());
                engine.keeps(as_it_was.as_ref(), paths, &runs);
                return engine.pass_exec(caller, Looked::Up(runs), called.name);
            }
            fits_by_descriptor(left, &called.name)?;
            let told = called.told(before, || program.name(engine))?;
            return run(engine, caller, (program, Beside::Interpreter(found)), told, vectors);
        }
    };
    // The interpreter opens the program by its path, of which memory has none.
    let own = program.name(engine);
    let Program::Placed(file, _) = program else { return Err(Errno::EACCES) };
    // `ld.so --argv0 NAME PROGRAM …`: it takes the program's path, and opens it; where that is it takes for the program's origin. What
    // has no slash it would look for elsewhere. One that knows no name but the path is given what the program was called by.
    let argv0 = takes_argv0(engine, interpreter.host()?)?;
    let path = engine.task.d_path(file.file()).ok().filter(|path| argv0 && path.starts_with(b"/"));
    if let Some(path) = path {
        name = path;
    } else if !name.contains(&b'/') {
        name.splice(0..0, *b"./");
    }
    let mut args = vec![elf.interpreter.unwrap_or_default()];
    if argv0 {
        let first = match before.first() {
            Some(first) => first.clone(),
            None => first_argument(caller, vectors.argv)?,
        };
        args.extend([b"--argv0".to_vec(), first]);
    }
    args.push(name.clone());
    args.extend(before.into_iter().skip(1));
    let beside = Beside::Program(Loaded { program: file, name });
    fits_by_descriptor(left, &called.name)?;
    run(engine, caller, (interpreter, beside), called.told(args, || own)?, vectors)
}

/// Whether the kernel is to do the call as it is: it finds the same file by the same path, and the program cannot change that.
fn is_passed(engine: &Engine, name: &[u8], program: &Program) -> Result<bool> {
    Ok(engine.people.is_none()
        && program.file().is_some_and(File::is_read_only)
        && is_found_on_host(name, program)?
        && program.may_run_on_host().is_ok())
}

/// What an absolute path leads to that the kernel ran by it; none where that would not have been.
///
/// # Errors
///
/// Those of finding it.
pub(crate) fn found_again(engine: &mut Engine, path: &[u8]) -> Result<Option<Runs>> {
    let open = |engine: &Engine, path: &[u8]| {
        let file = engine.task.open_exec(At::Cwd, path, AtFlags::empty())?;
        Program::opened(engine, file)
    };
    let program = open(engine, path)?;
    let elf = read_elf(&Beginning::of(program.host()?)?)?;
    let before = Vec::new();
    let Some(path) = elf.interpreter else {
        return Ok(Some(Runs { program, interpreter: None, before }));
    };
    let found = open(engine, &path)?;
    Ok(match by_who_finds_it(engine, &path, found)? {
        Interpreter::Kernels(interpreter) => Some(Runs { program, interpreter, before }),
        Interpreter::Trees(_) => None,
    })
}

/// Whether an interpreter takes `--argv0`: that of the GNU C library since 2.33, all others.
fn takes_argv0(engine: &mut Engine, interpreter: BorrowedFd<'_>) -> Result<bool> {
    let stat = answer(fs::fstat(interpreter))?;
    let key = (HostId::of(&stat), stat.st_ctime, stat.st_ctime_nsec as u64);
    if let Some(&takes) = engine.interpreters.get(&key) {
        return Ok(takes);
    }
    let mut code = vec![0; LOADER.min(stat.st_size as usize)];
    let mut read = 0;
    while read < code.len() {
        match answer(io::pread(interpreter, &mut code[read..], read as u64))? {
            0 => break,
            more => read += more,
        }
    }
    let has = |word: &[u8]| code[..read].windows(word.len()).any(|bytes| bytes == word);
    let takes = has(b"\0--argv0\0") || !has(b"\0--inhibit-cache\0");
    if engine.interpreters.len() >= INTERPRETERS {
        engine.interpreters.clear();
    }
    engine.interpreters.insert(key, takes);
    Ok(takes)
}

/// Runs a file.
fn run(
    engine: &mut Engine,
    caller: &Caller,
    (program, beside): (Program, Beside),
    told: Told,
    vectors: Vectors,
) -> Result<Reply> {
    let known = program.file().and_then(|file| engine.know(program.id(), file));
    engine.patch_exec(caller, (program, beside), known, told, vectors)
}

/// Tells who watches what is done with a file to be run.
fn hear_of(engine: &mut Engine, program: &Program) -> Result<()> {
    if engine.watches.fd().is_some()
        && let Some(file) = program.file()
    {
        let fd = program.host()?;
        engine.know(program.id(), file);
        let _ = engine.watches.opened(fd, false, watches::CONTENTS);
    }
    Ok(())
}

fn open_by_name(engine: &mut Engine, caller: &Caller, name: &[u8]) -> Result<Program> {
    let base = engine.base(caller, AT_FDCWD, name)?;
    let file = engine.task.open_exec(base.at(), name, AtFlags::empty())?;
    Program::opened(engine, file)
}

/// The first line of a script, as much of it as is looked at; none where it is no script.
fn first_line<'f>(file: &'f Beginning<'_>) -> Option<&'f [u8]> {
    Some(file.up_to(LINE)).filter(|line| line.starts_with(b"#!"))
}

/// The interpreter that a script names, and its one argument.
fn shebang(line: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let text = &line[2..];
    let end = text.iter().position(|byte| matches!(byte, b'\n' | 0));
    // A line that is cut off may end within the interpreter's name.
    let cut = end.is_none() && line.len() == LINE;
    let text = &text[..end.unwrap_or(text.len())];
    let start = text.iter().position(|byte| !blank(byte)).ok_or(Errno::ENOEXEC)?;
    let text = &text[start..];
    let Some(end) = text.iter().position(blank) else {
        return if cut { Err(Errno::ENOEXEC) } else { Ok((text.to_vec(), None)) };
    };
    let rest = &text[end..];
    let argument = rest.iter().position(|byte| !blank(byte)).map(|from| {
        let to = rest.iter().rposition(|byte| !blank(byte)).unwrap_or(from);
        rest[from..=to].to_vec()
    });
    Ok((text[..end].to_vec(), argument))
}

/// The interpreter of a program, by who finds it.
enum Interpreter {
    /// The kernel: by that name the host has the same file, which is this. Or the program has none.
    Kernels(Option<(Executable, HostId)>),
    /// The library alone.
    Trees(Program),
}

/// Finds the interpreter in the tree.
fn interpreter(engine: &mut Engine, caller: &Caller, elf: &Elf) -> Result<Interpreter> {
    let Some(path) = &elf.interpreter else { return Ok(Interpreter::Kernels(None)) };
    let program = open_by_name(engine, caller, path)?;
    hear_of(engine, &program)?;
    by_who_finds_it(engine, path, program)
}

fn by_who_finds_it(engine: &mut Engine, path: &[u8], program: Program) -> Result<Interpreter> {
    let same = is_found_on_host(path, &program)?;
    let Program::Placed(file, here) = program else { return Ok(Interpreter::Trees(program)) };
    engine.know(here, file.file());
    Ok(if same {
        Interpreter::Kernels(Some((file, here)))
    } else {
        Interpreter::Trees(Program::Placed(file, here))
    })
}

/// Whether the host has this file by that path. It is asked only where that is one of its own.
fn is_found_on_host(path: &[u8], program: &Program) -> Result<bool> {
    let Program::Placed(_, id) = program else { return Ok(false) };
    Ok(path.first() == Some(&b'/') && !is_in_memory(&answer(fs::fstat(program.host()?))?) && {
        let found = fs::statat(fs::CWD, path, fs::AtFlags::NO_AUTOMOUNT);
        found.is_ok_and(|stat| HostId::of(&stat) == *id)
    })
}

/// What there is room for on a new stack, beside what a program was called by and given.
#[derive(Clone, Copy)]
struct Room {
    left: usize,
    /// How much the first argument takes, in the place of which a script's interpreter is given others.
    first: usize,
}

impl Room {
    /// What is left with these arguments in the place of the first, if there are any.
    ///
    /// # Errors
    ///
    /// - `E2BIG`: there is no room for them.
    fn with(self, before: &[Vec<u8>]) -> Result<usize> {
        let first = if before.is_empty() { 0 } else { self.first };
        let more: usize = before.iter().map(|argument| argument.len() + 1).sum();
        (self.left + first).checked_sub(more).ok_or(Errno::E2BIG)
    }
}

/// What room the kernel has beside the name, the arguments and the environment, as it counts.
///
/// # Errors
///
/// - `EFAULT`: they are not all there.
/// - `E2BIG`: there are more than a new stack holds, or a longer one.
///
/// Linux: `bprm_stack_limits`, `copy_strings`.
fn fit(caller: &Caller, vectors: Vectors, name: &[u8]) -> Result<Room> {
    /// So much there is for all, with the pointers to it, however small a stack may be.
    const LEAST: u64 = 128 << 10;
    let stack = process::soft_limit(caller.tid, libc::RLIMIT_STACK)?;
    let space = process::soft_limit(caller.tid, libc::RLIMIT_AS)?;
    let room = (stack / 4).clamp(LEAST, 6 << 20) as usize;
    fit_into(caller, vectors, name.len() + 1, [room, strings_in(stack.min(space))])
}

/// Whether there is room for a name that the kernel gives what is run by a descriptor, in the place of that by which it was called.
///
/// # Errors
///
/// - `E2BIG`: there is none.
fn fits_by_descriptor(left: usize, name: &[u8]) -> Result<()> {
    const LONGEST: usize = b"/dev/fd/2147483647".len();
    if LONGEST.saturating_sub(name.len()) <= left { Ok(()) } else { Err(Errno::E2BIG) }
}

/// How many bytes of strings a stack takes that may grow so far: it has whole pages, one at least, and ends with a null pointer.
fn strings_in(stack: u64) -> usize {
    usize::try_from((stack / PAGE).max(1) * PAGE).unwrap_or(usize::MAX) - 8
}

fn fit_into(
    caller: &Caller,
    vectors: Vectors,
    name: usize,
    [room, strings]: [usize; 2],
) -> Result<Room> {
    // It ends with NUL.
    const LONGEST: usize = 128 << 10;
    let mut pages = Pages(HashMap::new());
    pages.read(caller, [vectors.argv, vectors.envp]);
    let argv = pages.pointers(caller, vectors.argv, room)?;
    let envp = pages.pointers(caller, vectors.envp, room)?;
    let pointers = 8 * (argv.len().max(1) + envp.len());
    let left = room.checked_sub(pointers).ok_or(Errno::E2BIG)?.min(strings);
    // Who is given none has an empty one.
    let mut first = usize::from(argv.is_empty());
    let mut left = left.checked_sub(name + first).ok_or(Errno::E2BIG)?;
    pages.read(caller, envp.iter().chain(&argv).copied());
    let begins = envp.len();
    for (index, mut at) in envp.into_iter().chain(argv).enumerate() {
        let mut len = 0;
        loop {
            let rest = pages.rest(caller, at)?;
            let end = rest.iter().position(|&byte| byte == 0);
            len += end.map_or(rest.len(), |end| end + 1);
            if len > LONGEST {
                return Err(Errno::E2BIG);
            }
            if end.is_some() {
                break;
            }
            at = at.checked_add(rest.len() as u64).ok_or(Errno::EFAULT)?;
        }
        left = left.checked_sub(len).ok_or(Errno::E2BIG)?;
        if index == begins {
            first = len;
        }
    }
    Ok(Room { left, first })
}

/// The pages in which strings lie, and the addresses of these, each read once: many may lie in few of them, in any order.
struct Pages(HashMap<u64, Vec<u8>>);

impl Pages {
    /// Reads the pages of these addresses, if they are few, at once. What cannot be read is asked for again.
    fn read(&mut self, caller: &Caller, addresses: impl IntoIterator<Item = u64>) {
        let mut new: Vec<u64> = Vec::new();
        for page in addresses.into_iter().map(|at| at / PAGE) {
            if !new.contains(&page) && !self.0.contains_key(&page) && new.len() < AT_ONCE {
                new.push(page);
            }
        }
        if new.is_empty() {
            return;
        }
        let at: Vec<u64> = new.iter().map(|page| page * PAGE).collect();
        let read = memory::read_pieces(caller.tid, &at, PAGE as usize).unwrap_or_default();
        self.0.extend(new.into_iter().zip(read));
    }

    /// The bytes from an address on to the end of its page.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: there are none.
    fn rest(&mut self, caller: &Caller, at: u64) -> Result<&[u8]> {
        if self.0.len() >= PAGES {
            self.0.clear();
        }
        let page = match self.0.entry(at / PAGE) {
            Entry::Occupied(page) => page.into_mut(),
            Entry::Vacant(new) => {
                let mut bytes = vec![0; PAGE as usize];
                let read = memory::read(caller.tid, at / PAGE * PAGE, &mut bytes)?;
                bytes.truncate(read);
                new.insert(bytes)
            }
        };
        page.get((at % PAGE) as usize..).filter(|rest| !rest.is_empty()).ok_or(Errno::EFAULT)
    }

    /// The addresses in an array that ends with NULL.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: it is not all there.
    /// - `E2BIG`: they do not fit into so many bytes.
    fn pointers(&mut self, caller: &Caller, mut at: u64, room: usize) -> Result<Vec<u64>> {
        let mut found = Vec::new();
        while at != 0 && 8 * found.len() <= room {
            let words = self.rest(caller, at)?.chunks_exact(8);
            let mut whole = 8 * words.len() as u64;
            let words = words.map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
            let before = found.len();
            found.extend(words.take_while(|&word| word != 0));
            if 8 * (found.len() - before) < whole as usize {
                return Ok(found);
            }
            if whole == 0 {
                // One that lies in two pages.
                match word(caller, at)? {
                    0 => return Ok(found),
                    address => found.push(address),
                }
                whole = 8;
            }
            at = at.checked_add(whole).ok_or(Errno::EFAULT)?;
        }
        if at == 0 { Ok(found) } else { Err(Errno::E2BIG) }
    }
}

fn first_argument(caller: &Caller, argv: u64) -> Result<Vec<u8>> {
    match word(caller, argv)? {
        0 => Ok(Vec::new()),
        at => memory::read_string(caller.tid, at, 128 << 10),
    }
}

fn word(caller: &Caller, at: u64) -> Result<u64> {
    memory::read_exact(caller.tid, at).map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_has_an_interpreter_and_one_argument() {
        let parse = |line: &str| {
            shebang(line.as_bytes()).map(|(path, argument)| {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
                (text(path), argument.map(text))
            })
        };
        let ok = |path: &str, argument: Option<&str>| Ok((path.into(), argument.map(Into::into)));
        assert_eq!(parse("#!/bin/sh\n"), ok("/bin/sh", None));
        assert_eq!(parse("#! \t/bin/sh  -e x \t\nrest"), ok("/bin/sh", Some("-e x")));
        assert_eq!(parse("#!/bin/sh"), ok("/bin/sh", None));
        assert_eq!(parse("#!sh \n"), ok("sh", None));
        assert_eq!(parse("#!\n"), Err(Errno::ENOEXEC));
        assert_eq!(parse("#!   "), Err(Errno::ENOEXEC));
        let long = format!("#!/{}", "a".repeat(LINE));
        assert_eq!(parse(&long[..LINE]), Err(Errno::ENOEXEC));
    }
}
