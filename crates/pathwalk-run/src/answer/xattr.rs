//! Extended attributes.

use super::{done, open_file};
use crate::{
    engine::{Caller, Descriptor, Engine, Reply},
    setid::CAPABILITY,
    sys::memory,
};
use pathwalk::{
    At, AtFlags, Errno, Result, XattrFlags,
    abi::{AT_FDCWD, XATTR_LIST_MAX, XATTR_NAME_MAX, XATTR_SIZE_MAX, XattrArgs},
};

/// Which file a call is about.
enum Which {
    /// What a path leads to, from a directory.
    Path(i32, Vec<u8>, AtFlags),
    /// An open one.
    Open,
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
        if path.is_empty() && !empty {
            return Err(Errno::ENOENT);
        }
        Ok(Self::Path(dir, path, flags))
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

    /// Does something with the file.
    fn with<T>(
        self,
        engine: &mut Engine,
        caller: &Caller,
        f: impl FnOnce(&mut Engine, At<'_>, &[u8], AtFlags) -> Result<T>,
    ) -> Result<T> {
        match self {
            Self::Path(dir, path, flags) => {
                let base = engine.base(caller, dir, &path)?;
                f(engine, base.at(), &path, flags)
            }
            Self::Open => match open_file(engine, caller, 0)? {
                Descriptor::Ours(known, _) => {
                    f(engine, At::Dir(&known.file), b"", AtFlags::EMPTY_PATH)
                }
                Descriptor::Foreign(_) => Err(Errno::EOPNOTSUPP),
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
    set(engine, caller, Ok(Which::Open), &value(caller))
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
    done(which?.with(engine, caller, |engine, at, path, at_flags| {
        engine.task.setxattrat(at, path, at_flags, &name, &value, flags)?;
        if name == CAPABILITY {
            engine.has_set_ids(engine.task.fstatat(at, path, at_flags));
        }
        Ok(())
    }))
}

pub(crate) fn getxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    get(engine, caller, Which::path(caller, FOLLOW), &value(caller))
}

pub(crate) fn lgetxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    get(engine, caller, Which::path(caller, NOFOLLOW), &value(caller))
}

pub(crate) fn fgetxattr(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    get(engine, caller, Ok(Which::Open), &value(caller))
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
    let len = which?.with(engine, caller, |engine, at, path, at_flags| {
        engine.task.getxattrat(at, path, at_flags, &name, &mut value)
    })?;
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
    let len = which?.with(engine, caller, |engine, at, path, at_flags| {
        engine.task.listxattrat(at, path, at_flags, &mut names)
    })?;
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
    done(which?.with(engine, caller, |engine, at, path, at_flags| {
        engine.task.removexattrat(at, path, at_flags, &name)
    }))
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
