//! Extended attributes.

use super::{
    attr::{Foreign, no_directory, of_no_kind},
    behind, done, open_file,
};
use crate::{
    engine::{Base, Caller, Descriptor, Engine, Reply},
    setid::CAPABILITY,
    sys::{answer, memory, process::by_number},
};
use pathwalk::{
    AtFlags, CapSet, Errno, FileType, Result, XattrFlags,
    abi::{AT_FDCWD, XATTR_LIST_MAX, XATTR_NAME_MAX, XATTR_SIZE_MAX, XattrArgs},
    fs::Access,
};
use rustix::{fs, io};
use std::os::fd::OwnedFd;

/// Which file a call is about.
enum Which {
    /// What a path leads to, from a directory.
    Path(i32, Vec<u8>, AtFlags),
    /// An open one.
    Open,
}

/// Where it is.
enum Found {
    /// In the tree: from a directory, by a path.
    Tree(Base, Vec<u8>, AtFlags),
    /// On the host, which has its attributes, as a pipe or a memfd.
    Host(OwnedFd),
}

const FOLLOW: AtFlags = AtFlags::empty();
const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

impl Which {
    fn path(caller: &Caller, flags: AtFlags) -> Result<Self> {
        Self::path_at(caller, AT_FDCWD, 0, flags)
    }

    /// An empty path is the descriptor's file, if it may be.
    fn path_at(caller: &Caller, dir: i32, index: usize, flags: AtFlags) -> Result<Self> {
        let empty = flags.contains(AtFlags::EMPTY_PATH);
        let path = match caller.args[index] {
            0 if empty => Vec::new(),
            _ => caller.path(index)?,
        };
        match path.is_empty() {
            true if !empty => Err(Errno::ENOENT),
            // Of these calls alone it must be open.
            true if dir != AT_FDCWD => Ok(Self::Open),
            _ => Ok(Self::Path(dir, path, flags)),
        }
    }

    /// The current directory has the number [`AT_FDCWD`] here, too.
    fn descriptor(caller: &Caller) -> Self {
        match caller.fd(0) {
            AT_FDCWD => Self::Path(AT_FDCWD, Vec::new(), AtFlags::EMPTY_PATH),
            _ => Self::Open,
        }
    }

    /// Only a descriptor can be named by no path, not the current directory: so Linux has it for listing and removing.
    ///
    /// # Errors
    ///
    /// - `EBADF`: it is the current directory.
    fn not_cwd(self) -> Result<Self> {
        match &self {
            Self::Path(AT_FDCWD, path, _) if path.is_empty() => Err(Errno::EBADF),
            _ => Ok(self),
        }
    }

    /// Finds it.
    ///
    /// # Errors
    ///
    /// - those of [`Engine::base`] and [`open_file`].
    /// - `EACCES`: it is a directory of the host that was not given.
    fn found(self, engine: &mut Engine, caller: &Caller) -> Result<Found> {
        match self {
            Self::Path(dir, path, flags) => {
                let base = engine.base(caller, dir, &path)?;
                // What stands for the current directory is mostly open with `O_PATH`, by which alone there would be none.
                let path = if path.is_empty() { b".".to_vec() } else { path };
                Ok(Found::Tree(base, path, flags))
            }
            Self::Open => match open_file(engine, caller, 0)? {
                Descriptor::Ours(known, _) => {
                    Ok(Found::Tree(Base::Dir(known), Vec::new(), AtFlags::EMPTY_PATH))
                }
                Descriptor::Foreign(fd) => no_directory(fd).map(Found::Host),
            },
        }
    }
}

pub(crate) fn setxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    set(engine, caller, Which::path(caller, FOLLOW), &value(caller))
}

pub(crate) fn lsetxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    set(engine, caller, Which::path(caller, NOFOLLOW), &value(caller))
}

pub(crate) fn fsetxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    set(engine, caller, Ok(Which::descriptor(caller)), &value(caller))
}

pub(crate) fn setxattrat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let args = xattr_args(caller)?;
    let which = Which::path_at(caller, caller.fd(0), 1, at_flags(caller)?);
    set(engine, caller, which, &Value { name: 3, args })
}

/// The name of an attribute and where its value is.
struct Value {
    name: usize,
    args: XattrArgs,
}

fn value(caller: &Caller) -> Value {
    let args = XattrArgs { value: caller.args[2], size: caller.word(3), flags: caller.word(4) };
    Value { name: 1, args }
}

fn set(
    engine: &mut Engine,
    caller: &Caller,
    which: Result<Which>,
    Value { name, args }: &Value,
) -> Result<Reply> {
    let flags = XattrFlags::from_bits_retain(args.flags);
    if !XattrFlags::all().contains(flags) {
        return Err(Errno::EINVAL);
    }
    let name = attribute(caller, *name)?;
    let size = args.size as usize;
    if size > XATTR_SIZE_MAX {
        return Err(Errno::E2BIG);
    }
    let mut value = vec![0; size];
    if size > 0 && memory::read(caller.tid, args.value, &mut value)? != size {
        return Err(Errno::EFAULT);
    }
    let told = fs::XattrFlags::from_bits_retain(flags.bits());
    done(match which?.found(engine, caller)? {
        Found::Tree(base, path, at_flags) => {
            let set = engine.task.setxattrat(base.at(), &path, at_flags, &name, &value, flags);
            if set.is_ok() && name == CAPABILITY {
                engine.has_set_ids(engine.task.fstatat(base.at(), &path, at_flags));
            }
            let of = (&base, &path[..], at_flags);
            let gives = name == CAPABILITY && !value.is_empty();
            let set = if gives { set } else { unless_of_no_kind(engine, of, &name, set) };
            engine.or_behind(set, of, false, |at| fs::setxattr(at, &name[..], &value, told))
        }
        Found::Host(fd) => {
            // Of no capabilities Linux asks nobody.
            if name != CAPABILITY || !value.is_empty() {
                Foreign::of(engine, &fd)?.may_have_attribute(&name, Access::WRITE)?;
            }
            answer(fs::fsetxattr(fd, &name[..], &value, told))
        }
    })
}

pub(crate) fn getxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    get(engine, caller, Which::path(caller, FOLLOW), &value(caller))
}

pub(crate) fn lgetxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    get(engine, caller, Which::path(caller, NOFOLLOW), &value(caller))
}

pub(crate) fn fgetxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    get(engine, caller, Ok(Which::descriptor(caller)), &value(caller))
}

pub(crate) fn getxattrat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let args = xattr_args(caller)?;
    if args.flags != 0 {
        return Err(Errno::EINVAL);
    }
    let which = Which::path_at(caller, caller.fd(0), 1, at_flags(caller)?);
    get(engine, caller, which, &Value { name: 3, args })
}

fn get(
    engine: &mut Engine,
    caller: &Caller,
    which: Result<Which>,
    Value { name, args }: &Value,
) -> Result<Reply> {
    let name = attribute(caller, *name)?;
    caller.attribute.borrow_mut().clone_from(&name);
    let mut value = vec![0; (args.size as usize).min(XATTR_SIZE_MAX)];
    let len = match which?.found(engine, caller)? {
        Found::Tree(base, path, at_flags) => {
            let got = engine.task.getxattrat(base.at(), &path, at_flags, &name, &mut value);
            // Whose ACLs may be read is asked nowhere.
            let anyone = name.starts_with(b"system.posix_acl_");
            engine.or_behind(got, (&base, &path, at_flags), anyone, |at| match value.len() {
                0 => fs::getxattr_query(at, &name[..]),
                _ => fs::getxattr(at, &name[..], &mut value[..]),
            })?
        }
        Found::Host(fd) => {
            Foreign::of(engine, &fd)?.may_have_attribute(&name, Access::READ)?;
            answer(match value.len() {
                0 => fs::fgetxattr_query(fd, &name[..]),
                _ => fs::fgetxattr(fd, &name[..], &mut value[..]),
            })?
        }
    };
    if args.size > 0 {
        memory::write(caller.tid, args.value, &value[..len])?;
    }
    Ok(Reply::Value(len as i64))
}

pub(crate) fn listxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    list(engine, caller, Which::path(caller, FOLLOW), [1, 2])
}

pub(crate) fn llistxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    list(engine, caller, Which::path(caller, NOFOLLOW), [1, 2])
}

pub(crate) fn flistxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    list(engine, caller, Ok(Which::Open), [1, 2])
}

pub(crate) fn listxattrat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let which = Which::path_at(caller, caller.fd(0), 1, at_flags(caller)?);
    list(engine, caller, which.and_then(Which::not_cwd), [3, 4])
}

fn list(
    engine: &mut Engine,
    caller: &Caller,
    which: Result<Which>,
    [to, size]: [usize; 2],
) -> Result<Reply> {
    let mut names = vec![0; (caller.args[size] as usize).min(XATTR_LIST_MAX)];
    let len = match which?.found(engine, caller)? {
        Found::Tree(base, path, at_flags) => {
            let listed = engine.task.listxattrat(base.at(), &path, at_flags, &mut names)?;
            match behind(engine, &base, &path, at_flags).filter(|_| engine.people.is_none()) {
                Some(behind) => Foreign::of(engine, &behind)?.names(&behind, &mut names)?,
                None => listed,
            }
        }
        Found::Host(fd) => Foreign::of(engine, &fd)?.names(&fd, &mut names)?,
    };
    if !names.is_empty() {
        caller.put(to, &names[..len])?;
    }
    Ok(Reply::Value(len as i64))
}

pub(crate) fn removexattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    remove(engine, caller, Which::path(caller, FOLLOW), 1)
}

pub(crate) fn lremovexattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    remove(engine, caller, Which::path(caller, NOFOLLOW), 1)
}

pub(crate) fn fremovexattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    remove(engine, caller, Ok(Which::Open), 1)
}

pub(crate) fn removexattrat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let which = Which::path_at(caller, caller.fd(0), 1, at_flags(caller)?);
    remove(engine, caller, which.and_then(Which::not_cwd), 3)
}

fn remove(
    engine: &mut Engine,
    caller: &Caller,
    which: Result<Which>,
    name: usize,
) -> Result<Reply> {
    let name = attribute(caller, name)?;
    done(match which?.found(engine, caller)? {
        Found::Tree(base, path, at_flags) => {
            let removed = engine.task.removexattrat(base.at(), &path, at_flags, &name);
            let of = (&base, &path[..], at_flags);
            let removed = unless_of_no_kind(engine, of, &name, removed);
            engine.or_behind(removed, of, false, |at| fs::removexattr(at, &name[..]))
        }
        Found::Host(fd) => {
            Foreign::of(engine, &fd)?.may_have_attribute(&name, Access::WRITE)?;
            answer(fs::fremovexattr(fd, &name[..]))
        }
    })
}

/// Whether it is for modules and file systems to say who may have it.
fn is_handled(name: &[u8]) -> bool {
    name.starts_with(b"security.") || name.starts_with(b"system.")
}

/// The name of an attribute; that it has none or is too long is `ERANGE`.
fn attribute(caller: &Caller, index: usize) -> Result<Vec<u8>> {
    match memory::read_string(caller.tid, caller.args[index], XATTR_NAME_MAX) {
        Ok(name) if name.is_empty() => Err(Errno::ERANGE),
        Err(Errno::ENAMETOOLONG) => Err(Errno::ERANGE),
        answer => answer,
    }
}

/// The flags of the calls with a directory.
fn at_flags(caller: &Caller) -> Result<AtFlags> {
    let flags = AtFlags::from_bits_retain(caller.word(2));
    if (AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
        Ok(flags)
    } else {
        Err(Errno::EINVAL)
    }
}

/// `struct xattr_args`, whose size may be larger if the rest is zero.
fn xattr_args(caller: &Caller) -> Result<XattrArgs> {
    let size = caller.args[5] as usize;
    if size < XattrArgs::SIZE_VER0 {
        return Err(Errno::EINVAL);
    }
    if size > 4096 {
        return Err(Errno::E2BIG);
    }
    let mut bytes = vec![0; size];
    if memory::read(caller.tid, caller.args[4], &mut bytes)? != size {
        return Err(Errno::EFAULT);
    }
    if bytes[XattrArgs::SIZE_VER0..].iter().any(|&byte| byte != 0) {
        return Err(Errno::E2BIG);
    }
    let word =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let value = u64::from(word(4)) << 32 | u64::from(word(0));
    Ok(XattrArgs { value, size: word(8), flags: word(12) })
}

impl Engine {
    /// What was refused about a file, asked of the host where it has no place in the tree: who is the same for the host has the rights
    /// there that the host gives.
    fn or_behind<T>(
        &self,
        refused: Result<T>,
        (base, path, at_flags): (&Base, &[u8], AtFlags),
        anyone: bool,
        on_host: impl FnOnce(String) -> io::Result<T>,
    ) -> Result<T> {
        if refused.is_ok() || self.people.is_some() && !anyone {
            return refused;
        }
        match behind(self, base, path, at_flags) {
            Some(behind) => answer(on_host(by_number(&behind))),
            None => refused,
        }
    }
}

/// What is refused of an attribute of a file: one of no kind has none that others have a say in.
fn unless_of_no_kind(
    engine: &Engine,
    (base, path, at_flags): (&Base, &[u8], AtFlags),
    name: &[u8],
    refused: Result<()>,
) -> Result<()> {
    if is_handled(name) { of_no_kind(engine, base, (path, at_flags), refused) } else { refused }
}

impl Foreign<'_> {
    /// Whether who asks may have this of an attribute, as far as that is not the host's to say: it knows who started this.
    ///
    /// # Errors
    ///
    /// - `EPERM`, or of reading `ENODATA`: a capability is missing, or it is nobody's.
    /// - `EACCES`: it may not be read, or written.
    ///
    /// Linux: `xattr_permission`, `cap_inode_setxattr`, `set_posix_acl`.
    fn may_have_attribute(&self, name: &[u8], access: Access) -> Result<()> {
        let Some(cred) = self.cred else { return Ok(()) };
        let writes = access.contains(Access::WRITE);
        let has = |cap, refusal| if cred.caps.contains(cap) { Ok(()) } else { Err(refusal) };
        let refusal = if writes { Errno::EPERM } else { Errno::ENODATA };
        match name {
            CAPABILITY if writes => has(CapSet::SETFCAP, refusal),
            // Of what is of no kind no module is asked, and there is none.
            _ if is_handled(name) && self.kind().is_none() => Ok(()),
            _ if name.starts_with(b"security.") && writes => has(CapSet::SYS_ADMIN, refusal),
            _ if name.starts_with(b"system.") && writes => self.may(CapSet::FOWNER),
            _ if is_handled(name) => Ok(()),
            _ if name.starts_with(b"trusted.") => has(CapSet::SYS_ADMIN, refusal),
            _ if name.starts_with(b"user.") && self.kind() != Some(FileType::Regular) => {
                Err(refusal)
            }
            _ => self.permission(access, &cred.subject()),
        }
    }

    /// Copies those of its names, each with a NUL, that are shown to who asks; tells their size where there is no room at all.
    ///
    /// # Errors
    ///
    /// - `ERANGE`: there is too little room.
    fn names(&self, held: &OwnedFd, names: &mut [u8]) -> Result<usize> {
        let mut all = vec![0; XATTR_LIST_MAX];
        let len = answer(fs::listxattr(by_number(held), &mut all[..]))?;
        let trusted = self.cred.is_none_or(|cred| cred.caps.contains(CapSet::SYS_ADMIN));
        let each = all[..len].split_inclusive(|&byte| byte == 0);
        let shown: Vec<u8> = each
            .filter(|name| trusted || !name.starts_with(b"trusted."))
            .flatten()
            .copied()
            .collect();
        if !names.is_empty() {
            names.get_mut(..shown.len()).ok_or(Errno::ERANGE)?.copy_from_slice(&shown);
        }
        Ok(shown.len())
    }
}
