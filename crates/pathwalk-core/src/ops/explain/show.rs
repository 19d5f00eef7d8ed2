//! An explanation as people read it: a table of the steps, and what came of them.

use super::{Cause, Explanation, Failure, Step, Target};
use crate::{inode::Attr, perm::Rule, walk::observe::Stand};
use pathwalk_abi::{
    Errno, FileType, MAXSYMLINKS, NAME_MAX, PATH_MAX,
    mode::{S_ISGID, S_ISUID, S_ISVTX},
};
use std::fmt::{self, Display, Formatter, Write};

/// The columns; the last one is ragged.
const HEAD: [&str; 7] = ["component", "mode", "owner", "inode", "mount", "walk", "what happened"];

/// Deeper links are not set in any further.
const DEEPEST: u32 = 8;

/// Writes the table, then what the answer is, why, and how the walk went, a line each.
impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} as {}", Bytes(&self.path), self.who())?;
        if !self.steps.is_empty() {
            f.write_char('\n')?;
            self.table(f)?;
        }
        f.write_char('\n')?;
        match &self.outcome {
            Ok(_) => self.arrival(f)?,
            Err(failure) => writeln!(f, "{}: {}.", failure.errno, self.because(failure))?,
        }
        if !self.steps.is_empty() {
            self.manner(f)?;
        }
        Ok(())
    }
}

impl Explanation {
    fn who(&self) -> String {
        let cred = &self.cred;
        let mut who = format!("user {}, group {}", cred.fsuid, cred.fsgid);
        for (index, group) in cred.groups.iter().enumerate() {
            who += if index == 0 { " and " } else { ", " };
            who += &group.to_string();
        }
        if !cred.caps.is_empty() {
            who += ", with capabilities";
        }
        who
    }

    fn table(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 7]> =
            self.steps.iter().enumerate().map(|(index, step)| self.row(index, step)).collect();
        let head = HEAD.map(String::from);
        let width = |column: usize| {
            let cells = rows.iter().chain([&head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; 7] = std::array::from_fn(width);
        for row in [&head].into_iter().chain(&rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                // Numbers stand below each other by their last digit.
                let width = widths[column];
                if matches!(column, 3 | 4) {
                    write!(line, "  {cell:>width$}")?;
                } else {
                    write!(line, "  {cell:<width$}")?;
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn row(&self, index: usize, step: &Step) -> [String; 7] {
        let indent = "  ".repeat(step.depth.min(DEEPEST) as usize);
        let stand = step.stand.as_ref();
        let attr = stand.and_then(|stand| stand.attr);
        [
            format!("{indent}{}", step.to),
            attr.map_or_else(String::new, |attr| mode(attr.mode)),
            attr.map_or_else(String::new, |attr| format!("{}:{}", attr.uid, attr.gid)),
            attr.map_or_else(String::new, |attr| attr.ino.to_string()),
            stand.map_or_else(String::new, |stand| stand.mount.to_string()),
            if step.holding { "ref" } else { "rcu" }.to_owned(),
            self.events(index, step).join("; "),
        ]
    }

    /// What happened at a step, in the order in which it did.
    fn events(&self, index: usize, step: &Step) -> Vec<String> {
        let mut events = Vec::new();
        if step.holding && !self.steps[..index].iter().any(|step| step.holding) {
            events.push(match self.left {
                Some(left) => format!("held from here on: {}", left.describe()),
                None => "held from here on".to_owned(),
            });
        }
        events.extend(self.crossings(index, step));
        if let Some(link) = &step.link {
            let target = Bytes(&link.body);
            events.push(format!("symlink {} of {MAXSYMLINKS} to {target}", link.number));
        }
        match step.search {
            Some(Ok(rule)) => events.push(format!("search: {}", rule.describe())),
            Some(Err(rule)) => events.push(format!("no search: {}", rule.describe())),
            None => {}
        }
        match &self.outcome {
            Ok(arrival) if arrival.step == index => events.push("arrived".to_owned()),
            Err(failure) if failure.step == Some(index) => {
                events.push(failure.errno.name().to_owned());
            }
            _ => {}
        }
        events
    }

    fn crossings(&self, index: usize, step: &Step) -> Vec<String> {
        let mut crossings: Vec<String> = Vec::new();
        if step.to == Target::Name(b"..".to_vec()) {
            let (before, after) = (self.stood_before(index), step.stand.as_ref());
            match (before, after) {
                (Some(before), Some(after)) if before.mount != after.mount => {
                    crossings.push(format!("out of mount {}", before.mount));
                }
                (Some(before), Some(after)) if before.is_same(after) => {
                    crossings.push("stays: this is the root".to_owned());
                }
                _ => {}
            }
        }
        crossings.extend(step.crossed.iter().map(|mount| format!("into mount {mount}")));
        crossings
    }

    /// Where the walk stood before a step.
    fn stood_before(&self, index: usize) -> Option<&Stand> {
        let before = self.steps[..index].iter().rev().find(|step| step.link.is_none());
        before.and_then(|step| step.stand.as_ref())
    }

    fn arrival(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Ok(arrival) = self.outcome else { return Ok(()) };
        let real = self.path_of(arrival.step);
        let stand = self.steps[arrival.step].stand.as_ref();
        let Some(attr) = stand.and_then(|stand| stand.attr) else {
            return writeln!(f, "It is {}.", Bytes(&real));
        };
        writeln!(f, "It is {}, {}.", Bytes(&real), noun(&attr))?;
        if let Some(rule) = arrival.access {
            writeln!(f, "The access is granted: {}.", rule.describe())?;
        }
        Ok(())
    }

    /// Why the lookup failed, as half a sentence.
    pub fn because(&self, failure: &Failure) -> String {
        let at = failure.step.map_or_else(Vec::new, |step| self.path_of(step));
        let at = Bytes(&at);
        match failure.cause {
            Cause::EmptyPath => "the path is empty".to_owned(),
            Cause::LongPath => {
                let len = self.path.len();
                format!("the path has {len} bytes, and {} is the most", PATH_MAX - 1)
            }
            Cause::UnknownFlag => "a flag is not known".to_owned(),
            Cause::Absent => format!("there is no {at}"),
            Cause::LongName => {
                let len = self.name(failure).map_or(0, <[u8]>::len);
                format!("a name has {len} bytes, and {NAME_MAX} is the most")
            }
            Cause::NulByte => "a name has a NUL byte".to_owned(),
            Cause::NotDirectory => match self.attr(failure) {
                Some(attr) => format!("{at} is {}, and a directory is needed", noun(&attr)),
                None => format!("{at} is no directory"),
            },
            Cause::Search(rule) => {
                format!("{at} may not be searched: {}", self.refused(failure, rule, "x"))
            }
            Cause::TooManyLinks => {
                format!(
                    "{at} would be symlink {} of {MAXSYMLINKS} that may be followed",
                    self.links + 1
                )
            }
            Cause::ProtectedLink => format!(
                "the symlink {at} belongs neither to the user nor to the owner of its directory, \
                 which is sticky and may be written by everyone (fs.protected_symlinks)"
            ),
            Cause::LinksForbidden => {
                format!("the symlink {at} may not be followed: the mount or the call forbids it")
            }
            Cause::Scope => match failure.errno {
                Errno::EAGAIN => {
                    "the tree was changed during a walk that must not leave it".to_owned()
                }
                _ if failure.step.is_none() => {
                    "an absolute path begins outside of what the walk must stay in".to_owned()
                }
                _ => format!("at {at} the walk would leave what it must stay in"),
            },
            Cause::WouldHold => {
                let why = self.left.map_or("", |left| left.describe());
                format!("the answer cannot be had without holding anything: {why}")
            }
            Cause::Access(rule) => {
                format!(
                    "{at} may not be used so: {}",
                    self.refused(failure, rule, "what is asked for")
                )
            }
            Cause::NoExec => format!("{at} may not be executed: its mount is noexec"),
            Cause::ReadOnly => {
                format!("{at} may not be written: its mount or file system is read-only")
            }
            Cause::FileSystem => format!("the file system answered so about {at}"),
        }
    }

    /// What the lookup arrived at, as half a sentence; none where it failed.
    pub fn found(&self) -> Option<String> {
        let step = self.outcome.as_ref().ok()?.step;
        let attr = self.steps[step].stand.as_ref()?.attr?;
        let at = self.path_of(step);
        Some(format!("{} is {}", Bytes(&at), noun(&attr)))
    }

    /// Why a rule refuses: the class that the user falls into, why, and what its bits are.
    fn refused(&self, failure: &Failure, rule: Rule, lacks: &str) -> String {
        let Some(attr) = self.attr(failure) else { return rule.describe().to_owned() };
        let (user, groups) = (self.cred.fsuid, "of its groups");
        let (class, shift) = match rule {
            Rule::Owner => (format!("user {user} is the owner, and the owner's bits"), 6),
            Rule::Group => (format!("group {} is one {groups}, and the group's bits", attr.gid), 3),
            Rule::Other => {
                let owner = format!("user {user} is not the owner {}", attr.uid);
                (format!("{owner}, group {} is none {groups}, and others' bits", attr.gid), 0)
            }
            _ => return format!("{} refuses", rule.describe()),
        };
        format!("{class} {} lack {lacks}", class_bits(attr.mode >> shift))
    }

    /// How the walk went: links, and what it held.
    fn manner(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.links {
            0 => f.write_str("No symlink was followed; ")?,
            1 => write!(f, "1 symlink of {MAXSYMLINKS} was followed; ")?,
            links => write!(f, "{links} symlinks of {MAXSYMLINKS} were followed; ")?,
        }
        match self.left {
            None => f.write_str("the walk held nothing (RCU-walk).")?,
            Some(left) if self.restarts.is_empty() => {
                write!(f, "the walk had to hold its place (ref-walk): {}.", left.describe())?;
            }
            Some(left) => {
                write!(f, "the walk had to begin anew (ref-walk): {}.", left.describe())?;
            }
        }
        for errno in self.restarts.iter().filter(|&&errno| errno == Errno::ESTALE) {
            write!(
                f,
                " It began once more, asking the file systems for every name, after {errno}."
            )?;
        }
        f.write_char('\n')
    }

    fn attr(&self, failure: &Failure) -> Option<Attr> {
        self.steps[failure.step?].stand.as_ref()?.attr
    }

    fn name(&self, failure: &Failure) -> Option<&[u8]> {
        match &self.steps[failure.step?].to {
            Target::Name(name) => Some(name),
            Target::Root | Target::Cwd | Target::Place(_) => None,
        }
    }
}

impl Stand {
    fn is_same(&self, other: &Self) -> bool {
        let ino = |stand: &Self| stand.attr.map(|attr| attr.ino);
        self.mount == other.mount && ino(self) == ino(other)
    }
}

/// Writes `/` for the root, `(cwd)` for the current directory, the path of a place in parentheses, else the name.
impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("/"),
            Self::Cwd => f.write_str("(cwd)"),
            Self::Name(name) => Bytes(name).fmt(f),
            Self::Place(path) => write!(f, "({})", Bytes(path)),
        }
    }
}

/// Bytes as text: what is no printable UTF-8 is written `\x1b`, and a backslash twice, so that no name can spell an
/// escape sequence of a terminal.
struct Bytes<'b>(&'b [u8]);

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for char in chunk.valid().chars() {
                match char {
                    '\\' => f.write_str("\\\\")?,
                    char if char.is_control() => {
                        for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                            write!(f, "\\x{byte:02x}")?;
                        }
                    }
                    char => f.write_char(char)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// The type in words.
fn noun(attr: &Attr) -> &'static str {
    match attr.file_type() {
        FileType::Regular => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symlink",
        FileType::CharDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Fifo => "a fifo",
        FileType::Socket => "a socket",
    }
}

/// Type and permission as `ls -l` shows them.
fn mode(mode: u32) -> String {
    let letter = FileType::from_mode(mode).map_or('?', FileType::letter);
    let mut shown: Vec<char> = std::iter::once(letter)
        .chain(
            [6, 3, 0]
                .iter()
                .flat_map(|class| class_bits(mode >> class).chars().collect::<Vec<_>>()),
        )
        .collect();
    for (bit, at, both, alone) in
        [(S_ISUID, 3, 's', 'S'), (S_ISGID, 6, 's', 'S'), (S_ISVTX, 9, 't', 'T')]
    {
        if mode & bit != 0 {
            shown[at] = if shown[at] == 'x' { both } else { alone };
        }
    }
    shown.into_iter().collect()
}

/// The three bits of a class.
fn class_bits(bits: u32) -> String {
    [(4, 'r'), (2, 'w'), (1, 'x')]
        .map(|(bit, letter)| if bits & bit != 0 { letter } else { '-' })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_shown_as_by_ls() {
        for (raw, want) in [
            (0o040_755, "drwxr-xr-x"),
            (0o041_777, "drwxrwxrwt"),
            (0o104_711, "-rws--x--x"),
            (0o102_644, "-rw-r-Sr--"),
            (0o041_770, "drwxrwx--T"),
            (0o120_777, "lrwxrwxrwx"),
            (0o020_620, "crw--w----"),
        ] {
            assert_eq!(mode(raw), want, "{raw:o}");
        }
    }

    #[test]
    fn no_name_reaches_the_terminal_as_a_command() {
        for (name, want) in [
            (&b"plain \xc3\xa9"[..], "plain \u{e9}"),
            (b"\x1b[31mred\n", "\\x1b[31mred\\x0a"),
            (b"half \xc3", "half \\xc3"),
            (b"\\x41", "\\\\x41"),
            (b"\xc2\x9b", "\\xc2\\x9b"),
        ] {
            assert_eq!(Bytes(name).to_string(), want);
        }
    }
}
