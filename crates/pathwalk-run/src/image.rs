//! What a process is said to run: `/proc/PID/exe`, and the name that it has for the kernel.
//!
//! Where the tree's own interpreter is run for a program the kernel knows that alone, and names the process after it; and after the
//! file itself where it was found by a symlink, or is a script's interpreter. So the program is remembered, and a new process names
//! itself before its first instruction.
//!
//! A program is remembered by what the kernel drew when it made the memory for it: where the code, the stack and the arguments begin. Who
//! comes of it by fork has the same. Where nothing is drawn (`ADDR_NO_RANDOMIZE`) two programs may have the same, and it is said of neither
//! what it is.
//!
//! Linux: `begin_new_exec`, `proc_exe_link`.

use crate::{
    auxv::Put,
    cookies::{HostId, of_thread},
    engine::Engine,
    errand::Call,
    kin::{self, descendants},
    procfs::status,
    sys::{memory, read_told},
};
use parking_lot::Mutex;
use pathwalk::{File, Result};
use std::{
    collections::{HashMap, HashSet},
    ffi::CStr,
    sync::Arc,
};

/// A process's name has at most so many bytes.
const LONGEST: usize = 15;
/// The vDSO has no more than so many.
const VDSO: usize = 16 << 10;
/// `syscall`
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// So many programs are kept without a look at who runs them, beside twice as many as were run when it was looked last.
const MANY: usize = 256;

/// What fork keeps and exec draws anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Image {
    interpreter: HostId,
    /// Where code, stack and arguments begin.
    begins: [u64; 3],
}

impl Image {
    /// # Errors
    ///
    /// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
    fn of(pid: u32) -> Result<Option<Self>> {
        let Ok(interpreter) = of_thread(pid, "exe") else { return Ok(None) };
        let text = kin::record(format!("/proc/{pid}/stat"))?.unwrap_or_default();
        Ok(Self::told(interpreter, &String::from_utf8_lossy(&text)))
    }

    fn told(interpreter: HostId, stat: &str) -> Option<Self> {
        // The name may have anything in it; the state, behind it, is the third field.
        let rest = stat.rsplit_once(") ")?.1;
        let fields: Vec<_> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse().ok();
        Some(Self { interpreter, begins: [field(26)?, field(28)?, field(48)?] })
    }
}

/// The programs for which interpreters run, shared with the file system that shows processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images(Arc<Mutex<Programs>>);

#[derive(Debug, Default)]
struct Programs {
    by_image: HashMap<Image, Option<File>>,
    /// As many were run when it was looked last.
    run: usize,
}

impl Images {
    /// A process runs an interpreter, of which no instruction ran yet, for this program.
    pub(crate) fn runs(&self, pid: u32, program: &File) {
        let many = |programs: &Programs| programs.by_image.len() >= 2 * programs.run + MANY;
        if many(&self.0.lock()) {
            self.sweep();
        }
        let Ok(Some(image)) = Image::of(pid) else { return };
        let other =
            |found: &Option<File>| found.as_ref().map(File::place_id) != Some(program.place_id());
        let is_another_s = || self.0.lock().by_image.get(&image).is_some_and(other);
        if is_another_s() {
            // It may be one that nobody runs any more.
            self.sweep_but(pid);
        }
        let program = (!is_another_s()).then(|| program.place_alone());
        self.0.lock().by_image.insert(image, program);
    }

    /// The program that a process runs, if an interpreter was run for it.
    pub(crate) fn program(&self, pid: u32) -> Option<File> {
        if self.0.lock().by_image.is_empty() {
            return None;
        }
        let image = Image::of(pid).ok()??;
        self.0.lock().by_image.get(&image).cloned().flatten()
    }

    /// Forgets what no process runs.
    pub(crate) fn sweep(&self) {
        self.sweep_but(0);
    }

    /// The same, of whatever this one runs.
    fn sweep_but(&self, pid: u32) {
        if self.0.lock().by_image.is_empty() {
            return;
        }
        let run = descendants().and_then(|all| {
            let images = all.into_iter().filter(|&other| other != pid).map(Image::of);
            images.collect::<Result<HashSet<_>>>()
        });
        let Ok(run) = run else { return };
        let mut programs = self.0.lock();
        programs.by_image.retain(|image, _| run.contains(&Some(*image)));
        programs.run = programs.by_image.len();
    }
}

impl Engine {
    /// Has a process that stopped in front of its new program's first instruction take a name, if it has another one; whether it is
    /// about to. It goes on then, with these signals blocked.
    ///
    /// With a filter of its own it keeps what it has: the call might be one for which that kills it.
    pub(crate) fn take_name(&mut self, pid: u32, name: &CStr, put: Put, mask: u64) -> bool {
        let wanted = &name.to_bytes()[..name.count_bytes().min(LONGEST)];
        let Ok(mut has) = read_told(format!("/proc/{pid}/comm")) else { return false };
        has.pop();
        if has == wanted {
            return false;
        }
        if has_own_filter(pid) {
            return false;
        }
        let Some(at) = find_syscall(pid, put.vdso) else { return false };
        let args = [libc::PR_SET_NAME as u64, put.comm, 0];
        self.send_on_first_errand(pid, Call { nr: libc::SYS_prctl, args }, at, mask)
    }
}

/// Whether a process may have a filter of its own beside that by which its calls come here.
pub(crate) fn has_own_filter(pid: u32) -> bool {
    let filters = |pid| status(pid, "Seccomp_filters:");
    let one = filters(std::process::id()).map_or(1, |own| own + 1);
    filters(pid) != Some(one)
}

/// An instruction that makes a call, in what the kernel gives each program.
fn find_syscall(pid: u32, vdso: u64) -> Option<u64> {
    let mut code = vec![0; VDSO];
    let read = memory::read(pid, vdso, &mut code).ok()?;
    let found = code[..read].windows(SYSCALL.len()).position(|bytes| bytes == SYSCALL)?;
    Some(vdso + found as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_of_a_process_has_its_image() {
        let own = Image::of(std::process::id()).expect("it can be asked").expect("it runs");
        assert_eq!(Image::of(std::process::id()), Ok(Some(own)));
        let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        assert_ne!(Image::of(other.id()), Ok(Some(own)));
        other.kill().expect("it runs");
        other.wait().expect("it runs");
    }

    #[test]
    fn the_vdso_has_calls() {
        let auxv = std::fs::read("/proc/self/auxv").expect("it runs");
        let words = auxv.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
        let words: Vec<u64> = words.collect();
        let vdso = words.chunks_exact(2).find(|pair| pair[0] == libc::AT_SYSINFO_EHDR);
        let vdso = vdso.expect("there is one")[1];
        assert!(find_syscall(std::process::id(), vdso).is_some());
    }
}
