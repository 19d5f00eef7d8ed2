//! A finding as a scenario.

use super::{
    hands::{As, Ask, shown},
    places::Places,
    trees::{BODIES, Kind, Node},
};
use crate::idmaps::NOT_THE_STRANGER;
use pathwalk::Result;
use std::{ffi::CStr, fmt::Write};

/// The calls that show where the two differ.
pub(super) fn scenario(
    tree: &[Node],
    who: As,
    ask: Ask<'_>,
    kernel: Result<u64>,
    ours: Result<u64>,
) -> String {
    let root = Places::group("");
    let mut text =
        format!("== a small world\numask 0\nfchmodat2 / 0755 0\nfchownat / 1000 {root} 0\n");
    for node in tree {
        let path = &node.path;
        let _ = match node.kind {
            Kind::Dir => writeln!(text, "mkdirat {path} 0755"),
            Kind::Mount => {
                writeln!(text, "mkdirat {path} 0755\nmount {path} 0\nfchmodat2 {path} 0755 0")
            }
            Kind::Idmapped => writeln!(
                text,
                "mkdirat {path} 0755\nmount {path} 0\nfchmodat2 {path} 0755 0\n\
                 open_tree h5 {path} CLONE\nidmap_mount h5: EMPTY_PATH {NOT_THE_STRANGER}\n\
                 umount2 {path} 0\nmove_mount h5: {path} F_EMPTY_PATH\nclose h5"
            ),
            Kind::File => writeln!(text, "mknodat {path} 0100644 0"),
            Kind::Link(body) => writeln!(text, "symlinkat {} {path}", BODIES[body]),
        };
        let _ = writeln!(text, "fchownat {path} 1000 {} SYMLINK_NOFOLLOW", Places::group(path));
    }
    let _ = writeln!(text, "{}: {}", who.name(), call(ask));
    let _ = writeln!(text, "# kernel:   {}\n# pathwalk: {}", shown(kernel), shown(ours));
    text
}

fn call(ask: Ask<'_>) -> String {
    let path = |path: &CStr| match path.to_str() {
        Ok("") | Err(_) => "''".to_owned(),
        Ok(path) => path.to_owned(),
    };
    match ask {
        Ask::Stat(at, flags) => {
            let flags = if flags.is_empty() { "0" } else { "SYMLINK_NOFOLLOW" };
            format!("fstatat {} {flags}", path(at))
        }
        Ask::Access(at, flags) => {
            let more = if flags.is_empty() { "" } else { "|SYMLINK_NOFOLLOW" };
            format!("faccessat2 {} R_OK|W_OK EACCESS{more}", path(at))
        }
        Ask::Open(at, flags) => {
            let more = if flags.is_empty() { "" } else { "|NOFOLLOW" };
            format!("openat h0 {} RDWR|CREAT{more} 0644", path(at))
        }
        Ask::Mkdir(at) => format!("mkdirat {} 0755", path(at)),
        Ask::Unlink(at, flags) => {
            let how = if flags.is_empty() { "0" } else { "REMOVEDIR" };
            format!("unlinkat {} {how}", path(at))
        }
        Ask::Rename(old, new) => format!("renameat2 {} {} 0", path(old), path(new)),
        other => format!("# {other:?}"),
    }
}
