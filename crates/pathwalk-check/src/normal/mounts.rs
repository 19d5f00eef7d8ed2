//! What is mounted, made comparable: `/proc/PID/mountinfo` of all tasks in one answer.
//!
//! ```text
//!   root u v s judge: 1<0 / / rw,relatime - tmpfs none rw | 2<1 / /m ro shared:1 - tmpfs none rw
//!   └ tasks that      │ │ │ │ │            └ type, source and options of the superblock
//!     see the same    │ │ │ │ └ options and propagation of the mount
//!                     │ │ │ └ where
//!                     │ │ └ what of its file system
//!                     mount, parent: the how many-th that was listed
//! ```

use super::{Known, without_numbers};
use crate::{
    answer::Raw,
    kernel::{Powers, powers},
};
use pathwalk::{MountIdRange, Result, StatMount, StatmountMask};
use std::{collections::HashMap, fmt::Write};

/// Makes the texts of all tasks one line.
///
/// - Mounts are written a parent before its children and those by path.
/// - The numbers of mounts and of peer groups are the machine's: they are counted as they come.
/// - So are the numbers of tasks in the paths of a procfs.
/// - Devices are dropped: stat shows them. For [`is_shown`] see there.
pub(crate) fn normal(texts: &[(&str, Vec<u8>)], known: Known, shows_tasks: bool) -> String {
    let mut groups = HashMap::new();
    let mut shown: Vec<(String, String)> = Vec::new();
    for (who, text) in texts {
        let text = shown_text(text);
        let lines: Vec<_> = text.lines().filter_map(|line| Line::read(line, shows_tasks)).collect();
        let listed: Vec<u32> = lines.iter().map(|line| line.id).collect();
        let line = write(&in_order(lines), &listed, &mut groups, known);
        match shown.iter_mut().find(|(_, other)| *other == line) {
            Some((names, _)) => {
                names.push(' ');
                names.push_str(who);
            }
            None => shown.push(((*who).to_owned(), line)),
        }
    }
    let shown: Vec<_> = shown.into_iter().map(|(who, line)| format!("{who}: {line}")).collect();
    shown.join(" || ")
}

/// What statmount tells of the mount of a number.
///
/// - Numbers of mounts, of peer groups, of namespaces and of devices are the machine's.
pub(crate) fn statmount(id: u64, told: &StatMount, known: Known, shows_tasks: bool) -> Vec<u8> {
    let mut words = Vec::new();
    let mut more = told.mask;
    let mut tell = |bit, word: String| {
        more.remove(bit);
        if told.mask.contains(bit) && !word.is_empty() {
            words.push(word);
        }
    };
    let text = |name: &str, bytes: &[u8]| {
        format!("{name}={}", shown_text(&without_numbers(bytes, shows_tasks)))
    };
    let StatMount { sb_magic, mnt_peer_group, mnt_master, .. } = told;
    let (sb_flags, attr) = (told.sb_flags.bits(), told.mnt_attr.bits());
    let propagation = told.mnt_propagation.bits();
    let (is, own_parent) = (told.mnt_id == id, told.mnt_parent_id == id);
    tell(StatmountMask::SB_BASIC, format!("magic={sb_magic:#x},sb_flags={sb_flags:#x}"));
    tell(
        StatmountMask::MNT_BASIC,
        format!(
            "is={is},bottom={own_parent},attr={attr:#x},propagation={propagation:#x},group={},master={}",
            *mnt_peer_group != 0,
            *mnt_master != 0
        ),
    );
    tell(StatmountMask::PROPAGATE_FROM, format!("from={}", told.propagate_from != 0));
    tell(StatmountMask::MNT_ROOT, text("root", &told.mnt_root));
    tell(StatmountMask::MNT_POINT, text("point", &told.mnt_point));
    tell(StatmountMask::FS_TYPE, text("type", &told.fs_type));
    tell(StatmountMask::MNT_NS_ID, format!("ns={}", told.mnt_ns_id != 0));
    tell(StatmountMask::SB_SOURCE, text("source", &told.sb_source));
    let options: Vec<_> = told.mnt_opts.split(|&byte| byte == b',').collect();
    let each: Vec<_> = told.opt_array.iter().map(Vec::as_slice).collect();
    for (bit, name, options) in
        [(StatmountMask::MNT_OPTS, "options", options), (StatmountMask::OPT_ARRAY, "each", each)]
    {
        let shown: Vec<_> = options.into_iter().filter(|option| is_shown(option, known)).collect();
        let word = text(name, &shown.join(&b' '));
        tell(bit, if shown.is_empty() { String::new() } else { word });
    }
    tell(StatmountMask::SUPPORTED_MASK, format!("supported={:#x}", told.supported_mask.bits()));
    let ranges = |ranges: &[MountIdRange]| {
        let shown = ranges.iter().map(|range| {
            let MountIdRange { stored, seen, count } = range;
            format!("{stored}+{count}>{seen}")
        });
        shown.collect::<Vec<_>>().join(";")
    };
    tell(StatmountMask::MNT_UIDMAP, format!("users={}", ranges(&told.mnt_uidmap)));
    tell(StatmountMask::MNT_GIDMAP, format!("groups={}", ranges(&told.mnt_gidmap)));
    if !more.is_empty() {
        words.push(format!("more={:#x}", more.bits()));
    }
    words.join(",").into_bytes()
}

/// Whether an option of a file system is told. In a user namespace user 0 is somebody else outside it, of whom a tmpfs tells
/// that he mounted it; there calls are only drawn.
fn is_shown(option: &[u8], known: Known) -> bool {
    let drawn_there = known == Known::Hidden && powers() == Powers::OneUser;
    !drawn_there || ![&b"uid="[..], b"gid="].contains(&&option[..4.min(option.len())])
}

/// What listmount tells: the places of the mounts, with a NUL between them.
pub(crate) fn listmount<F>(
    listed: Vec<u64>,
    tell: impl Fn(u64) -> Result<StatMount>,
) -> Result<Raw<F>> {
    let point = |id| tell(id).map(|told| told.mnt_point);
    let points = listed.into_iter().map(point).collect::<Result<Vec<_>>>()?;
    Ok(Raw::Bytes(points.join(&0)))
}

/// Those places made comparable.
pub(super) fn places(places: &[u8], shows_tasks: bool) -> Vec<u8> {
    let each = places.split(|&byte| byte == 0);
    each.map(|place| without_numbers(place, shows_tasks)).collect::<Vec<_>>().join(&b","[..])
}

/// As text, with each byte that is none told.
fn shown_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

struct Line<'t> {
    id: u32,
    parent: u32,
    root: String,
    path: String,
    options: &'t str,
    propagation: Vec<&'t str>,
    superblock: Vec<&'t str>,
}

impl<'t> Line<'t> {
    fn read(line: &'t str, shows_tasks: bool) -> Option<Self> {
        let mut words = line.split(' ');
        let id = words.next()?.parse().ok()?;
        let parent = words.next()?.parse().ok()?;
        words.next()?;
        let mut path = || {
            let text = without_numbers(words.next()?.as_bytes(), shows_tasks);
            Some(String::from_utf8_lossy(&text).into_owned())
        };
        let (root, path) = (path()?, path()?);
        let options = words.next()?;
        let propagation = words.by_ref().take_while(|&word| word != "-").collect();
        Some(Self { id, parent, root, path, options, propagation, superblock: words.collect() })
    }
}

/// Parents before their children, and those by path.
fn in_order(lines: Vec<Line<'_>>) -> Vec<Line<'_>> {
    let known: Vec<u32> = lines.iter().map(|line| line.id).collect();
    let is_top = |line: &Line<'_>| line.parent == line.id || !known.contains(&line.parent);
    let (mut todo, mut rest): (Vec<_>, Vec<_>) = lines.into_iter().partition(is_top);
    todo.sort_by(|a, b| b.path.cmp(&a.path));
    let mut ordered = Vec::new();
    while let Some(line) = todo.pop() {
        let is_child = |child: &Line<'_>| child.parent == line.id;
        let (mut children, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_child);
        rest = others;
        children.sort_by(|a, b| (&b.path, &b.root).cmp(&(&a.path, &a.root)));
        todo.extend(children);
        ordered.push(line);
    }
    ordered
}

fn write(
    lines: &[Line<'_>],
    counted: &[u32],
    groups: &mut HashMap<String, usize>,
    known: Known,
) -> String {
    let number = |id| counted.iter().position(|&other| other == id).map_or(0, |index| index + 1);
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        if index != 0 {
            out.push_str(" | ");
        }
        let Line { root, path, options, .. } = line;
        let (id, parent) = (number(line.id), number(line.parent));
        let _ = write!(out, "{id}<{parent} {root} {path} {options}");
        for word in &line.propagation {
            match word.split_once(':') {
                Some((kind, group)) => {
                    let next = groups.len() + 1;
                    let group = *groups.entry(group.to_owned()).or_insert(next);
                    let _ = write!(out, " {kind}:{group}");
                }
                None => {
                    let _ = write!(out, " {word}");
                }
            }
        }
        out.push_str(" -");
        for word in &line.superblock {
            let options = word.split(',').filter(|option| is_shown(option.as_bytes(), known));
            let _ = write!(out, " {}", options.collect::<Vec<_>>().join(","));
        }
    }
    out
}
