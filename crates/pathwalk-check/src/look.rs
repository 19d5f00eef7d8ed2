//! What the judge looks at when the calls have been made: the open files, then the whole tree.

use crate::{
    answer::Answer,
    call::{Call, SLOTS, Step, Who},
    field::{Fills, Int, Octal, Slot, Text, Where},
};
use pathwalk::{
    AtFlags, OpenFlags, StatxMask,
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
    let steps = |calls: Vec<Call>| -> Vec<Step> {
        calls.into_iter().map(|call| Step { who: Who::Judge, call }).collect()
    };
    let slots = (0..SLOTS).map(Slot).flat_map(|slot| {
        [
            Call::Pread { slot, len: Int(3 << 12), offset: Int(0) },
            Call::Getdents64 { slot },
            Call::Close { slot },
        ]
    });
    judge(&steps(slots.chain([Call::Mounts {}]).collect()))?;
    let mut level = vec![b"/".to_vec()];
    while !level.is_empty() {
        let calls: Vec<_> = level.iter().map(|path| look_at(path)).collect();
        let answers = judge(&steps(calls.concat()))?;
        let mut next: Vec<Vec<u8>> = Vec::new();
        let mut answers = answers.into_iter();
        for (path, calls) in level.iter().zip(&calls) {
            for answer in answers.by_ref().take(calls.len()) {
                let Answer::Names(names) = answer.without_events() else { continue };
                for (name, _) in names {
                    if !LEFT_OUT.contains(&&**name) {
                        next.push([path.as_slice(), b"/", name].concat());
                    }
                }
            }
        }
        level = next;
    }
    Ok(())
}

/// What is not looked at: of a procfs, what is about the process that makes the calls.
const LEFT_OUT: [&[u8]; 8] =
    [b".", b"..", b"cwd", b"exe", b"comm", b"status", b"mounts", b"mountinfo"];

/// What is asked about each path, whatever is there: the calls that do not fit are answered alike too.
fn look_at(path: &[u8]) -> Vec<Call> {
    let slot = Slot(0);
    let place = || Where { dir: None, path: path.to_vec() };
    let xattr = |name: &[u8]| {
        let (path, name) = (Text(path.to_vec()), Text(name.to_vec()));
        Call::Lgetxattr { path, name, size: Int(1 << 16) }
    };
    let (flags, mode) = (OpenFlags::NOFOLLOW, Octal(0));
    vec![
        Call::Statx { path: place(), flags: AtFlags::SYMLINK_NOFOLLOW, mask: StatxMask::all() },
        Call::Lstat { path: Text(path.to_vec()) },
        Call::Llistxattr { path: Text(path.to_vec()), size: Int(1 << 16) },
        xattr(XATTR_NAME_POSIX_ACL_ACCESS),
        xattr(XATTR_NAME_POSIX_ACL_DEFAULT),
        xattr(XATTR_NAME_CAPS),
        xattr(b"user.a"),
        Call::Readlinkat { path: place(), size: Int(4096) },
        Call::Openat { slot: Fills(slot), path: place(), flags, mode },
        Call::Getdents64 { slot },
        Call::Pread { slot, len: Int(3 << 12), offset: Int(0) },
        Call::Close { slot },
    ]
}
