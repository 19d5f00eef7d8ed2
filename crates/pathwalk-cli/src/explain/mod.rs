//! `pathwalk explain`: loads files into a file system in memory, looks a path up there and shows every step.

mod source;

mod host;

mod copy;

mod who;

mod json;

use crate::error::Error;
use pathwalk::{AccessMode, AtFlags, explain::ExplainHow};
use source::{Beginning, Source};
use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf, process::ExitCode};

/// The arguments of `pathwalk explain`.
#[derive(clap::Args)]
#[command(
    about = "Say why a path resolves as it does, component by component",
    long_about = "\
Say why a path resolves as it does, component by component.

The files are copied into a file system in memory (types, modes, owners and symlinks, no contents), and \
the path is looked up there as Linux does it. The table has a row for each step of the walk:

  component      the name that was looked up; what stands in a symlink is set in
  mode, owner    what is there: type and permission as ls -l shows them, user and group
  inode, mount   which file in which mount; the numbers are those of the copy
  walk           rcu: nothing is held, no counter is touched; ref: the walk had to hold its place
  what happened  which rule let the directory be searched, which symlink was followed, which mount entered",
    after_long_help = "\
Without --load and --host the copy is made of what the path needs of this machine, and the answer is compared with \
the running kernel's. Access control lists and security modules are not copied: where they decide, the \
answers differ, and the last line says so.

The exit status is 0 if the path leads to a file, 1 if it leads to an error or the kernel's answer is \
another, and 2 if the command line or the files cannot be used.

Examples:
  pathwalk explain /usr/bin/cc
  pathwalk explain --uid 1000 --groups 4,27 --access r /var/log/syslog
  pathwalk explain --no-follow /etc/resolv.conf
  pathwalk explain --load /srv/image /usr/bin/cc      as if chrooted into /srv/image
  pathwalk explain --host /srv/image /usr/bin/cc      the same, and only what is needed is looked at
  pathwalk explain --load files.tree --cwd /usr bin/cc
  pathwalk explain --json /bin/sh | jq -r '.steps[].name'

A .tree file has a line for each file: type (d, f or l), mode, path and symlink target, with tabs between \
them. A directory stands before what it holds, and all belongs to user 0 and group 0:
  d<TAB>0755<TAB>/usr<TAB>
  l<TAB>0777<TAB>/bin<TAB>usr/bin"
)]
pub(crate) struct Args {
    /// The path to look up
    #[arg(value_name = "PATH")]
    path: OsString,

    /// Look it up in this directory as the root, or in the files that a .tree file lists
    ///
    /// A directory is loaded whole, but not what is mounted in it.
    #[arg(long, value_name = "DIR|FILE", group = "begins_elsewhere")]
    load: Option<PathBuf>,

    /// Look it up in this directory as the root, by asking the host for one name at a time
    ///
    /// Nothing is loaded, nothing is changed, and the walk does not leave the directory; what is mounted in it is seen.
    #[arg(long, value_name = "DIR", conflicts_with = "load", group = "begins_elsewhere")]
    host: Option<PathBuf>,

    /// Look it up as this user; 0 has all capabilities, others have none [default: who runs this]
    #[arg(long, value_name = "ID")]
    uid: Option<u32>,

    /// Look it up as this group [default: the number of --uid, else who runs this]
    #[arg(long, value_name = "ID")]
    gid: Option<u32>,

    /// The supplementary groups [default: none with --uid, else those of who runs this]
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    groups: Option<Vec<u32>>,

    /// Where a relative path begins [default: here; with --load or --host its root]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Do not follow a symlink that the path ends in, as lstat(2)
    #[arg(long)]
    no_follow: bool,

    /// Ask at the end for this access too: some of r, w and x, as access(2)
    #[arg(long, value_name = "rwx", value_parser = access)]
    access: Option<AccessMode>,

    /// Explain the first lookup after loading, which fills caches, rather than a later one
    #[arg(long, requires = "begins_elsewhere")]
    first: bool,

    /// Print one JSON object instead of the table
    ///
    /// The members are path, uid, gid, groups, result ("OK" or the errno's name), resolved (the path
    /// without symlinks and dots), links, walk, left_rcu (why the walk had to hold its place),
    /// kernel (what the running kernel answers), failure and steps. Names that are not UTF-8 have
    /// their bytes beside them, in hex.
    #[arg(long)]
    json: bool,
}

/// Runs `pathwalk explain`.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let how = args.how();
    let cred = who::cred(args.uid, args.gid, args.groups.as_deref())?;
    let mut source = Source::open(args.beginning(), args.cwd.as_deref(), &args.path)?;
    let explanation = source.explain(cred, args.path.as_bytes(), how, args.first)?;
    let asks_for_itself = args.uid.is_none() && args.gid.is_none() && args.groups.is_none();
    let verdict = match source {
        Source::Host(_) if asks_for_itself => Some(host::ask_kernel(&explanation, how)),
        _ => None,
    };

    let text = if args.json {
        json::line(&explanation, verdict.as_ref())
    } else {
        match &verdict {
            None => explanation.to_string(),
            Some(verdict) => format!("{explanation}{verdict}\n"),
        }
    };
    crate::print(&text)?;
    let agreed = verdict.is_none_or(|verdict| verdict.agrees);
    let arrived = explanation.outcome.is_ok();
    Ok(if arrived && agreed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    /// Where the files are.
    fn beginning(&self) -> Beginning<'_> {
        match (&self.host, &self.load) {
            (Some(dir), _) => Beginning::Directory(dir),
            (None, Some(load)) => Beginning::Loaded(load),
            (None, None) => Beginning::Here,
        }
    }

    fn how(&self) -> ExplainHow {
        let nofollow = if self.no_follow { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        ExplainHow {
            access: self.access.unwrap_or_default(),
            flags: nofollow,
            ..ExplainHow::default()
        }
    }
}

fn access(text: &str) -> Result<AccessMode, String> {
    let mut access = AccessMode::empty();
    for letter in text.chars() {
        access |= match letter {
            'r' => AccessMode::R_OK,
            'w' => AccessMode::W_OK,
            'x' => AccessMode::X_OK,
            other => return Err(format!("{other:?} is none of r, w and x")),
        };
    }
    if access.is_empty() { Err("some of r, w and x are needed".into()) } else { Ok(access) }
}
