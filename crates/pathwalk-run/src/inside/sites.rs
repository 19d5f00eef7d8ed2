//! Where a program's process makes its calls, and where there is room beside that.
//!
//! A C library makes a call by `mov $N, %eax` and `syscall`, seven bytes. The first five become a jump of the same length to a stub within
//! 2 GiB, which does what they did and goes on in the image. The last two stay: who jumps there makes the call as before. Where two other
//! moves stand between, as in what opens a file from the current directory, the stub makes them, too.

use crate::sys::{errno_of, memory, read_told};
use memchr::memmem;
use pathwalk::{Errno, Result};
use pathwalk_inside::{BASE, CALLS, IMAGE_BYTES, TABLE_BYTES};
use std::collections::HashMap;

/// `mov $N, %eax`
const MOV: u8 = 0xb8;
/// What extends an instruction to other registers: 0x40 to 0x4f.
const REX: u8 = 0x40;
const REX_BITS: u8 = 0xf0;
/// `syscall`
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `jmp` to an address that is told as a distance of 32 bits.
const JMP: u8 = 0xe9;
/// `mov %rdi, %rsi; mov $AT_FDCWD, %edi`, which may stand between.
const BETWEEN: [u8; 8] = [0x48, 0x89, 0xfe, 0xbf, 0x9c, 0xff, 0xff, 0xff];
/// The length of `mov` or `jmp`, that of both instructions, and that of a call with others between.
const FIRST: u64 = 5;
const BOTH: u64 = 7;
const LONGEST: usize = BOTH as usize + BETWEEN.len();
/// The length of a stub.
const STUB: usize = 40;
/// So much room stubs have.
pub(super) const STUBS: u64 = 4096;
/// A stub may be no further away.
const NEAR: u64 = 0x7000_0000;
/// So much code is looked through at most.
const MOST_CODE: usize = 8 << 20;
/// So much of it is read at once, of which the next piece has the last bytes again: a call begins in one of them, whole and with what
/// stands before it.
const PIECE: usize = 256 << 10;
const AGAIN: usize = LONGEST;
/// So many libraries are remembered.
const MOST_KNOWN: usize = 64;

/// A piece of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Executed and not written, and nobody else's memory.
    code: bool,
    /// The file and where it begins there, as text.
    file: Vec<u8>,
}

/// The memory of a process.
///
/// # Errors
///
/// - `ESRCH`: it is gone.
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it could not be looked at.
pub(crate) fn areas(tid: u32) -> Result<Vec<Area>> {
    let maps = read_told(format!("/proc/{tid}/maps")).map_err(|error| match errno_of(&error) {
        Errno::ENOENT => Errno::ESRCH,
        errno => errno,
    })?;
    Ok(maps.split(|&byte| byte == b'\n').filter_map(area).collect())
}

/// `7f0000000000-7f0000001000 r-xp 00001000 fe:00 12345    /lib/libc.so.6`
fn area(line: &[u8]) -> Option<Area> {
    let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let range = std::str::from_utf8(fields.next()?).ok()?;
    let (start, end) = range.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let may = fields.next()?;
    let (offset, device, ino) = (fields.next()?, fields.next()?, fields.next()?);
    let file = if ino == b"0" { Vec::new() } else { [offset, device, ino].join(&b' ') };
    Some(Area { start: hex(start)?, end: hex(end)?, code: may == b"r-xp", file })
}

/// The library that an address is in, if its calls can go by the image.
pub(super) fn library(areas: &[Area], address: u64) -> Option<&Area> {
    areas.iter().find(|area| {
        area.start <= address && address < area.end && area.code && !area.file.is_empty()
    })
}

/// Room for stubs near a library: in front of it, where nothing is.
pub(super) fn room_near(areas: &[Area], library: &Area) -> Option<u64> {
    let at = areas.iter().position(|area| area.start == library.start)?;
    let mut above = library.start;
    for area in areas[..at].iter().rev() {
        if above - area.end >= STUBS {
            break;
        }
        above = area.start;
    }
    let room = above.checked_sub(STUBS)?;
    (library.end - room <= NEAR).then_some(room)
}

/// What is where every process has the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing.
    Free,
    /// The image: another library's calls go by it.
    Taken,
    /// Something else, or a part of it.
    Lost,
}

/// What is where every process has the image.
pub(crate) fn place(areas: &[Area]) -> Place {
    let (image, table) = (IMAGE_BYTES as u64, TABLE_BYTES as u64);
    let there = areas.iter().filter(|area| area.end > BASE && area.start < BASE + image + table);
    let there: Vec<_> = there.map(|area| (area.start, area.end, area.code)).collect();
    let whole = [(BASE, BASE + image, true), (BASE + image, BASE + image + table, false)];
    match &there[..] {
        [] => Place::Free,
        there if there == whole => Place::Taken,
        _ => Place::Lost,
    }
}

/// A library, by its file and the length of its code.
type Library = (Vec<u8>, u64);

/// A call in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// Which call it is.
    pub(super) nr: u32,
    /// Others stand between its two instructions.
    apart: bool,
}

impl Site {
    /// How long it is.
    fn len(self) -> u64 {
        if self.apart { LONGEST as u64 } else { BOTH }
    }
}

/// Where calls are in libraries, and which.
#[derive(Debug, Default)]
pub(super) struct Sites(HashMap<Library, Vec<(u64, Site)>>);

impl Sites {
    /// What is to be written so that a library's calls go by the image: its stubs, then its jumps.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: it is not all there.
    /// - `ESRCH`: the process is gone.
    pub(super) fn changes(
        &mut self,
        tid: u32,
        library: &Area,
        room: u64,
        again: bool,
    ) -> Result<Vec<(u64, Vec<u8>)>> {
        let key = (library.file.clone(), library.end - library.start);
        // The file may have been written anew.
        let known = self.0.get(&key).filter(|sites| are_there(tid, library, sites));
        let sites = match known {
            Some(sites) => sites,
            None => {
                if self.0.len() >= MOST_KNOWN {
                    self.0.clear();
                }
                let found = look_through(tid, library)?;
                // In a process that has the image they may be led there already.
                if again && found.is_empty() {
                    return Ok(Vec::new());
                }
                self.0.entry(key).insert_entry(found).into_mut()
            }
        };
        let (mut stubs, mut jumps) = (Vec::new(), Vec::new());
        for &(at, site) in sites {
            let at = library.start + at;
            let stub = room + stubs.len() as u64;
            stubs.extend(stub_of(site, at + site.len()));
            let distance = (stub as i64 - (at + FIRST) as i64) as i32;
            jumps.push((at, [&[JMP][..], &distance.to_le_bytes()].concat()));
        }
        Ok(std::iter::once((room, stubs)).chain(jumps).collect())
    }
}

/// Whether a library's code has these calls.
fn are_there(tid: u32, library: &Area, sites: &[(u64, Site)]) -> bool {
    let addresses: Vec<u64> = sites.iter().map(|(at, _)| library.start + at).collect();
    // What is read behind the last one may be the end of the code.
    let read = memory::read_pieces(tid, &addresses, BOTH as usize).unwrap_or_default();
    let all = read.len() == sites.len();
    all && read.iter().zip(sites).all(|(bytes, (at, site))| match site.apart {
        false => call_in(bytes) == Some(*site),
        true => call_of(tid, library.start + at) == Some(*site),
    })
}

/// `mov $NR, %eax; mov $BEHIND, %rcx; mov $BASE, %r11; jmp *%r11`, and in front of that what stood between.
fn stub_of(site: Site, behind: u64) -> [u8; STUB] {
    // `int3`, which nobody comes by.
    let mut stub = [0xcc; STUB];
    let code = [
        if site.apart { &BETWEEN[..] } else { &[] },
        &[MOV][..],
        &site.nr.to_le_bytes(),
        &[0x48, 0xb9],
        &behind.to_le_bytes(),
        &[0x49, 0xbb],
        &BASE.to_le_bytes(),
        &[0x41, 0xff, 0xe3],
    ]
    .concat();
    stub[..code.len()].copy_from_slice(&code);
    stub
}

/// Where the call begins that ended here, if it is made by two instructions and can be made from its beginning again: which call it is.
pub(super) fn whole_call(tid: u32, behind: u64) -> Option<(u64, u32)> {
    let at = behind.checked_sub(BOTH)?;
    let bytes: [u8; BOTH as usize] = memory::read_exact(tid, at).ok()?;
    Some((at, call_in(&bytes)?.nr))
}

/// The call that is made at an address, if it is one that can go by the image.
fn call_of(tid: u32, at: u64) -> Option<Site> {
    let mut bytes = [0; LONGEST];
    let read = memory::read(tid, at, &mut bytes).ok()?;
    call_in(&bytes[..read])
}

fn call_in(bytes: &[u8]) -> Option<Site> {
    let nr = u32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?);
    let rest = &bytes[5..];
    let apart = rest.starts_with(&BETWEEN);
    let rest = if apart { &rest[BETWEEN.len()..] } else { rest };
    let is_one = bytes[0] == MOV && rest.starts_with(&SYSCALL) && CALLS.contains(&nr);
    is_one.then_some(Site { nr, apart })
}

/// The same in a library's code. What stands before may make it `mov $N, %r8d`.
fn call_at(code: &[u8], at: usize) -> Option<Site> {
    let extended = at > 0 && code[at - 1] & REX_BITS == REX;
    if extended { None } else { call_in(&code[at..]) }
}

/// Finds the calls in a library's code.
fn look_through(tid: u32, library: &Area) -> Result<Vec<(u64, Site)>> {
    let len = usize::try_from(library.end - library.start).unwrap_or(usize::MAX).min(MOST_CODE);
    let mut code = vec![0; PIECE.min(len)];
    let (mut calls, mut from) = (Vec::new(), 0);
    loop {
        let piece = PIECE.min(len - from);
        let mut read = 0;
        while read < piece {
            let at = library.start + (from + read) as u64;
            read += memory::read(tid, at, &mut code[read..piece])?;
        }
        let found = calls_in(&code[..piece], from > 0);
        calls.extend(found.map(|(at, site)| ((from + at) as u64, site)));
        if from + piece == len {
            break;
        }
        from += piece - AGAIN;
    }
    // There is no room for more.
    calls.truncate(STUBS as usize / STUB);
    Ok(calls)
}

/// The calls in a piece of code. Where it goes on with another one, of which it has the last bytes again, those are left out that
/// were found there.
fn calls_in(code: &[u8], goes_on: bool) -> impl Iterator<Item = (usize, Site)> {
    let found_there = if goes_on { AGAIN } else { 0 };
    let syscalls = memmem::find_iter(code, &SYSCALL);
    syscalls.filter(move |at| at + SYSCALL.len() > found_there).filter_map(|syscall| {
        let begins = |between: usize| {
            let at = syscall.checked_sub(between + FIRST as usize)?;
            let site = call_at(code, at)?;
            (site.apart == (between > 0)).then_some((at, site))
        };
        begins(0).or_else(|| begins(BETWEEN.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &[u8] = b"\
400000-401000 r-xp 00000000 fe:00 7                              /bin/a
7f0000000000-7f0000010000 r--p 00000000 fe:00 12                 /lib/libc.so.6
7f0000010000-7f0000100000 r-xp 00010000 fe:00 12                 /lib/libc.so.6
7f0000100000-7f0000101000 rw-p 00100000 fe:00 12                 /lib/libc.so.6
7f0000101000-7f0000102000 rwxp 00000000 00:00 0 ";

    fn site(nr: u32) -> Site {
        Site { nr, apart: false }
    }

    fn of_text(text: &[u8]) -> Vec<Area> {
        text.split(|&byte| byte == b'\n').filter_map(area).collect()
    }

    #[test]
    fn a_call_is_that_of_its_own_instruction() {
        // `mov $4, %eax; syscall`, and `mov $4, %r8d; syscall`
        let plain = [0x90, 0xb8, 4, 0, 0, 0, 0x0f, 0x05];
        let extended = [0x41, 0xb8, 4, 0, 0, 0, 0x0f, 0x05];
        assert_eq!([plain, extended].map(|code| call_at(&code, 1)), [Some(site(4)), None]);
    }

    /// Wherever a piece ends, each call is found in one piece.
    #[test]
    fn a_call_is_found_once_wherever_a_piece_ends() {
        let one = |nr| [&[0x90, MOV, nr, 0, 0, 0][..], &SYSCALL].concat();
        let apart = [&[0x90, MOV, 2, 0, 0, 0][..], &BETWEEN, &SYSCALL].concat();
        let other = [&[0x90, MOV, 2, 0, 0, 0][..], &BETWEEN[1..], &SYSCALL].concat();
        let code = [one(4), one(6), vec![0x41], one(4)[1..].to_vec(), one(6)].concat();
        let code = [code, apart, other, one(4)].concat();
        let whole: Vec<_> = calls_in(&code, false).collect();
        let second = Site { nr: 2, apart: true };
        assert_eq!(whole, [(1, site(4)), (9, site(6)), (25, site(6)), (33, second), (64, site(4))]);
        for end in AGAIN..code.len() {
            let from = end - AGAIN;
            let rest = calls_in(&code[from..], true).map(|(at, site)| (from + at, site));
            let both: Vec<_> = calls_in(&code[..end], false).chain(rest).collect();
            assert_eq!(both, whole, "{end}");
        }
    }

    #[test]
    fn a_library_is_code_of_a_file() {
        let areas = of_text(MAPS);
        assert_eq!(areas.len(), 5);
        let found = |at| library(&areas, at).map(|area| area.start);
        assert_eq!(found(0x7f00_0001_2345), Some(0x7f00_0001_0000));
        assert_eq!(found(0x400_123), Some(0x40_0000));
        assert_eq!([0x7f00_0000_0123, 0x7f00_0010_1010, 0x5000].map(found), [None; 3]);
        assert_eq!(place(&areas), Place::Free);
        let table = BASE + IMAGE_BYTES as u64;
        let image = format!("{BASE:x}-{table:x} r-xp 00000000 00:01 5 /memfd:pathwalk (deleted)");
        let end = table + TABLE_BYTES as u64;
        let both =
            format!("{image}\n{table:x}-{end:x} r--s 00010000 00:01 5 /memfd:pathwalk (deleted)");
        assert_eq!(place(&of_text(both.as_bytes())), Place::Taken);
        let other = format!("{BASE:x}-{:x} rw-p 00000000 00:00 0\n", BASE + 4096);
        assert_eq!([image, other].map(|text| place(&of_text(text.as_bytes()))), [Place::Lost; 2]);
    }

    #[test]
    fn room_is_where_nothing_is() {
        let areas = of_text(MAPS);
        assert_eq!(room_near(&areas, &areas[2]), Some(0x7f00_0000_0000 - STUBS));
        assert_eq!(room_near(&areas, &areas[0]), Some(0x40_0000 - STUBS));
        let full = of_text(b"0-1000 r--p 00000000 fe:00 7 /a\n1000-2000 r-xp 00000000 fe:00 7 /a");
        assert_eq!(room_near(&full, &full[1]), None);
    }

    /// In this process's own memory: code with three calls of ours, one of somebody else's, and a number that no call follows.
    #[test]
    fn calls_are_found_and_lead_to_their_stubs() {
        let mut code = vec![0x90_u8; 5000];
        for (at, nr, end) in [
            (100, 21, [0x0f, 0x05]),
            (4090, 262, [0x0f, 0x05]),
            (200, 1, [0x0f, 0x05]),
            (300, 21, [0x90, 0x90]),
        ] {
            code[at] = MOV;
            code[at + 1..at + 5].copy_from_slice(&u32::to_le_bytes(nr));
            code[at + 5..at + 7].copy_from_slice(&end);
        }
        code[400] = MOV;
        code[401..405].copy_from_slice(&u32::to_le_bytes(257));
        code[405..413].copy_from_slice(&BETWEEN);
        code[413..415].copy_from_slice(&SYSCALL);
        let start = code.as_ptr() as u64;
        let area = Area { start, end: start + 5000, code: true, file: b"a".to_vec() };
        let tid = std::process::id();
        let mut sites = Sites::default();
        let room = start - 1000;
        for _ in 0..2 {
            let changes = sites.changes(tid, &area, room, false).expect("it is there");
            let at: Vec<u64> = changes.iter().map(|(at, _)| *at).collect();
            assert_eq!(at, [room, start + 100, start + 400, start + 4090]);
            let distance = i32::from_le_bytes(changes[3].1[1..].try_into().expect("four bytes"));
            assert_eq!(start as i64 + 4095 + i64::from(distance), (room as i64) + 2 * STUB as i64);
            let [second, third] = [1, 2].map(|stub| &changes[0].1[stub * STUB..]);
            assert_eq!(third[..5], [MOV, 6, 1, 0, 0]);
            assert_eq!(second[..13], [&BETWEEN[..], &[MOV, 1, 1, 0, 0]].concat());
            assert_eq!(second[15..23], (start + 415).to_le_bytes());
        }
        code[100] = 0x90;
        let changes = sites.changes(tid, &area, room, false).expect("it is there");
        assert_eq!(std::hint::black_box(&code).len(), 5000);
        assert_eq!(changes.len(), 3);
    }
}
