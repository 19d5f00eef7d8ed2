//! The command line.

use crate::{
    credentials::Credentials,
    spec::{self, Spec},
    trace::Lines,
};
use clap::{
    Parser,
    builder::{OsStringValueParser, TypedValueParser},
    value_parser,
};
use rustix::process::{getgid, getgroups, getuid};
use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

/// Run a program in a file tree of memory and host directories, every path walked by pathwalk
#[derive(Clone, Debug, Parser)]
#[command(after_help = "\
Examples:
  pathwalk run make                        the host's tree, read-only; here and in a /tmp of its own make may write
  pathwalk run --ro -- git status          … and not even here
  pathwalk run --rootfs /srv/debian sh     another tree
  pathwalk run --uid 0 --rootfs /srv/debian:rw:ids=xattr apt install git
                                           … in which one is root, whose files can have any owner
  pathwalk run --trace cat /etc/hostname   every path call, as it is answered
  pathwalk run --deny-trace make           what make was refused, or did not find though the host has it
  pathwalk run --stats git status          how many calls of which kind, and what they cost

The exit status is the program's; 126 or 127 if it could not be run, 2 if the tree could not be made.")]
pub struct Args {
    /// Mount a file system: see pathwalk help mounts
    #[arg(long, value_name = "SPEC", value_parser = OsStringValueParser::new().try_map(spec::mount))]
    mount: Vec<Spec>,
    /// Make this directory of the host the root, read-only without :rw
    #[arg(long, value_name = "DIR[:rw]", value_parser = OsStringValueParser::new().try_map(spec::rootfs))]
    rootfs: Option<Spec>,
    /// Show a directory of the host in the tree
    #[arg(long, value_name = "SRC:DST[:ro]", value_parser = OsStringValueParser::new().try_map(spec::bind))]
    bind: Vec<Spec>,
    /// Mount an empty file system in memory
    #[arg(long, value_name = "DST", value_parser = OsStringValueParser::new().try_map(spec::tmpfs))]
    tmpfs: Vec<Spec>,
    /// Be this user in the tree; 0 may chown, mknod, mount, chroot and become somebody else there, and nothing more on the host
    #[arg(long, value_name = "U", value_parser = value_parser!(u32).range(..i64::from(u32::MAX)))]
    uid: Option<u32>,
    /// Be of this group in the tree; that of the number of --uid if that alone is given
    #[arg(long, value_name = "G", value_parser = value_parser!(u32).range(..i64::from(u32::MAX)))]
    gid: Option<u32>,
    /// Be of these groups too; of none if --uid is given and this is not
    #[arg(long, value_name = "G,…", value_delimiter = ',',
        value_parser = value_parser!(u32).range(..i64::from(u32::MAX)))]
    groups: Option<Vec<u32>>,
    /// Begin in this directory of the tree; without a slash in front, from where it would begin otherwise
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Set a variable of the environment
    #[arg(long, value_name = "NAME=VALUE", value_parser = OsStringValueParser::new().try_map(variable))]
    env: Vec<(OsString, OsString)>,
    /// Make no directory of the host writable that is not asked for
    #[arg(long)]
    ro: bool,
    /// Say at the end how many calls were answered, how long it took, and why walks had to hold their place
    #[arg(long)]
    stats: bool,
    /// Say each path call as it is answered, and with an error where on the path it comes from
    #[arg(long)]
    trace: bool,
    /// Say as --trace does what was not given: EACCES, EPERM, EROFS, and ENOENT where the host has the file
    #[arg(long)]
    deny_trace: bool,
    /// Receive each call and let the kernel go on with it, in no tree: what this takes alone
    #[arg(long, hide = true, conflicts_with_all = ["mount", "rootfs", "bind", "tmpfs", "uid", "gid", "groups", "cwd", "ro", "stats", "trace", "deny_trace"])]
    pass_all: bool,
    /// After how many calls by one library a process finds answers by itself that were given before, and others of the same program from
    /// the first call on; 0 for never
    #[arg(long, value_name = "CALLS", default_value_t = 64)]
    inside: u32,
    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

fn variable(text: OsString) -> Result<(OsString, OsString), &'static str> {
    let text = text.as_bytes();
    match text.iter().position(|&byte| byte == b'=') {
        Some(end) if end > 0 => {
            let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            Ok((part(&text[..end]), part(&text[end + 1..])))
        }
        _ => Err("not NAME=VALUE"),
    }
}

impl Args {
    /// The tree, in the order in which it is mounted, without what is there by default where something is at its root.
    pub(crate) fn tree(&self, cwd: &std::path::Path) -> Vec<Spec> {
        let mut specs = match &self.rootfs {
            Some(root) => crate::tree::rootfs_tree(root.clone()),
            None if self.has_root() => Vec::new(),
            None => crate::tree::host_tree(cwd, self.ro),
        };
        specs.extend(self.asked().cloned());
        specs
    }

    fn asked(&self) -> impl Iterator<Item = &Spec> {
        self.mount.iter().chain(&self.bind).chain(&self.tmpfs)
    }

    /// Whether something that was asked for is the root, beside `--rootfs`.
    fn has_root(&self) -> bool {
        self.asked().any(|spec| spec.at == b"/")
    }

    /// Whether it matters in which directory this was started: it may be gone.
    pub(crate) fn begins_here(&self) -> bool {
        let from_here = self.cwd.as_ref().is_none_or(|cwd| cwd.is_relative());
        self.rootfs.is_none() && (from_here || !self.has_root())
    }

    /// Where the program begins: where this was started, or at the root of another tree than the host's; or in the directory that was said,
    /// from there.
    pub(crate) fn cwd(&self, host: &std::path::Path) -> PathBuf {
        let begins = if self.rootfs.is_some() { std::path::Path::new("/") } else { host };
        self.cwd.as_ref().map_or_else(|| begins.to_owned(), |cwd| begins.join(cwd))
    }

    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().chain(self.env.iter().cloned()).collect()
    }

    pub(crate) fn program(&self) -> (&OsString, &[OsString]) {
        self.program.split_first().expect("clap asks for one")
    }

    /// Who the program is in the tree, if that is to be somebody whom the kernel does not know.
    pub(crate) fn credentials(&self) -> Option<Credentials> {
        if self.uid.is_none() && self.gid.is_none() && self.groups.is_none() {
            return None;
        }
        let uid = self.uid.unwrap_or_else(|| getuid().as_raw());
        let gid = self.gid.or(self.uid).unwrap_or_else(|| getgid().as_raw());
        let groups = match (&self.groups, self.uid) {
            (Some(groups), _) => groups.clone(),
            (None, Some(_)) => Vec::new(),
            (None, None) => getgroups().into_iter().flatten().map(|group| group.as_raw()).collect(),
        };
        Some(Credentials::new(uid, gid, &groups))
    }

    /// Whether nothing is answered.
    pub(crate) fn only_passes(&self) -> bool {
        self.pass_all
    }

    /// After how many calls a process finds answers by itself, if ever.
    pub(crate) fn inside(&self) -> Option<u32> {
        (self.inside > 0).then_some(self.inside)
    }

    /// Which calls are told, and whether they are counted.
    pub(crate) fn told(&self) -> (Lines, bool) {
        let lines = match (self.trace, self.deny_trace) {
            (true, _) => Lines::All,
            (false, true) => Lines::Denied,
            (false, false) => Lines::None,
        };
        (lines, self.stats)
    }
}
