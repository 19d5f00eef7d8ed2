//! What the judge looks at: when the calls have been made, the open files, then the whole tree; between calls the tree, in
//! a way that leaves the open files as they are.

use crate::{
    answer::Answer,
    call::{Call, JUDGES, SLOTS, Step, Who},
    field::{Fills, Int, Len, Octal, Slot, Text, Where},
    normal::procfs::OF_THE_CALLER,
};
use pathwalk::{
    AtFlags, FileType, OpenFlags, StatxMask,
    abi::xattr::{XATTR_NAME_CAPS, XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT},
};

/// Looks at the open files and at the tree, level by level, by calls that `judge` makes and answers.
///
/// # Errors
///
/// What `judge` fails with.
pub(crate) fn look_at_all<E>(
    mut judge: impl FnMut(&[Step]) -> Result<Vec<Answer>, E>,
) -> Result<(), E> {
    let slots = (0..SLOTS).map(Slot).flat_map(|slot| {
        [
            Call::Pread { slot, len: Len(3 << 12), offset: Int(0) },
            Call::Getdents64 { slot },
            Call::Close { slot },
        ]
    });
    judge(&steps(slots.chain([Call::Mounts {}])))?;
    by_level(judge, |path, _| look_at(path))
}

/// Glances at the tree, level by level, by calls that `judge` makes and answers: what is where, and what statx tells of it.
///
/// # Errors
///
/// What `judge` fails with.
pub(crate) fn glance_at_all<E>(
    mut judge: impl FnMut(&[Step]) -> Result<Vec<Answer>, E>,
) -> Result<(), E> {
    judge(&steps([Call::Mounts {}]))?;
    by_level(judge, glance_at)
}

/// Asks about all that is there, from the root down. What is asked of a path is told whether it is a directory.
fn by_level<E>(
    mut judge: impl FnMut(&[Step]) -> Result<Vec<Answer>, E>,
    ask: impl Fn(&[u8], bool) -> Vec<Call>,
) -> Result<(), E> {
    let mut level = vec![(b"/".to_vec(), true)];
    while !level.is_empty() {
        let calls: Vec<_> = level.iter().map(|(path, directory)| ask(path, *directory)).collect();
        let answers = judge(&steps(calls.concat()))?;
        let mut next: Vec<(Vec<u8>, bool)> = Vec::new();
        let mut answers = answers.into_iter();
        for ((path, _), calls) in level.iter().zip(&calls) {
            for answer in answers.by_ref().take(calls.len()) {
                let Answer::Names(names) = answer.without_events() else { continue };
                for (name, kind) in names {
                    let again = [&b"."[..], b".."].contains(&&**name);
                    if !again && !OF_THE_CALLER.contains(&&**name) {
                        let directory = FileType::from_dt(*kind) == Some(FileType::Directory);
                        next.push(([path.as_slice(), b"/", name].concat(), directory));
                    }
                }
            }
        }
        level = next;
    }
    Ok(())
}

fn steps(calls: impl IntoIterator<Item = Call>) -> Vec<Step> {
    calls.into_iter().map(|call| Step { who: Who::Judge, call }).collect()
}

/// What is asked about each path, whatever is there: the calls that do not fit are answered alike too.
fn look_at(path: &[u8]) -> Vec<Call> {
    let slot = Slot(0);
    let place = || Where { dir: None, path: path.to_vec() };
    let xattr = |name: &[u8]| {
        let (path, name) = (Text(path.to_vec()), Text(name.to_vec()));
        Call::Lgetxattr { path, name, size: Len(1 << 16) }
    };
    let (flags, mode) = (OpenFlags::NOFOLLOW, Octal(0));
    vec![
        Call::Statx { path: place(), flags: AtFlags::SYMLINK_NOFOLLOW, mask: StatxMask::all() },
        Call::Lstat { path: Text(path.to_vec()) },
        Call::Llistxattr { path: Text(path.to_vec()), size: Len(1 << 16) },
        xattr(XATTR_NAME_POSIX_ACL_ACCESS),
        xattr(XATTR_NAME_POSIX_ACL_DEFAULT),
        xattr(XATTR_NAME_CAPS),
        xattr(b"user.a"),
        Call::Readlinkat { path: place(), size: Len(4096) },
        Call::Openat { slot: Fills(slot), path: place(), flags, mode },
        Call::Getdents64 { slot },
        Call::Pread { slot, len: Len(3 << 12), offset: Int(0) },
        Call::Close { slot },
    ]
}

/// What is asked about each path between calls.
fn glance_at(path: &[u8], directory: bool) -> Vec<Call> {
    let place = || Where { dir: None, path: path.to_vec() };
    let (flags, mask) = (AtFlags::SYMLINK_NOFOLLOW, StatxMask::all());
    let mut calls = vec![Call::Statx { path: place(), flags, mask }];
    if directory {
        let flags = OpenFlags::NOFOLLOW | OpenFlags::DIRECTORY;
        let (slot, mode) = (Fills(JUDGES), Octal(0));
        calls.push(Call::Openat { slot, path: place(), flags, mode });
        calls.push(Call::Getdents64 { slot: JUDGES });
        calls.push(Call::Close { slot: JUDGES });
    }
    calls
}
