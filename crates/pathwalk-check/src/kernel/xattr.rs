//! The calls about extended attributes, as the kernel wants them.

use super::{
    calls::{Caller, text},
    sys::{Arg, syscall},
};
use crate::{
    answer::Raw,
    call::Call,
    field::{Len, Text, Where},
    value::Value,
};
use libc::{c_long, size_t};
use pathwalk::{AtFlags, Result, XattrFlags, abi::XattrArgs};
use std::os::fd::OwnedFd;

/// setxattrat(2) and its like, which the C library does not know yet.
const SYS_SETXATTRAT: c_long = 463;
const SYS_GETXATTRAT: c_long = 464;
const SYS_LISTXATTRAT: c_long = 465;
const SYS_REMOVEXATTRAT: c_long = 466;

/// By which of its four forms a call reaches its file.
enum By<'c> {
    Path(&'c Text),
    Link(&'c Text),
    File(Arg<'static>),
    At(&'c Where, AtFlags),
}

impl Caller<'_> {
    /// Makes the call if it is one about extended attributes.
    pub(super) fn xattr_call(&self, call: &Call) -> Option<Result<Raw<OwnedFd>>> {
        Some(match call {
            Call::Setxattr { path, name, value, flags } => {
                self.set(By::Path(path), name, value, *flags)
            }
            Call::Lsetxattr { path, name, value, flags } => {
                self.set(By::Link(path), name, value, *flags)
            }
            Call::Fsetxattr { slot, name, value, flags } => {
                self.set(By::File(self.fd(*slot)), name, value, *flags)
            }
            Call::Setxattrat { path, at, name, value, flags } => {
                self.set(By::At(path, *at), name, value, *flags)
            }
            Call::Getxattr { path, name, size } => self.get(By::Path(path), name, *size),
            Call::Lgetxattr { path, name, size } => self.get(By::Link(path), name, *size),
            Call::Fgetxattr { slot, name, size } => self.get(By::File(self.fd(*slot)), name, *size),
            Call::Getxattrat { path, at, name, size } => self.get(By::At(path, *at), name, *size),
            Call::Listxattr { path, size } => self.names(By::Path(path), *size),
            Call::Llistxattr { path, size } => self.names(By::Link(path), *size),
            Call::Flistxattr { slot, size } => self.names(By::File(self.fd(*slot)), *size),
            Call::Listxattrat { path, at, size } => self.names(By::At(path, *at), *size),
            Call::Removexattr { path, name } => self.remove(By::Path(path), name),
            Call::Lremovexattr { path, name } => self.remove(By::Link(path), name),
            Call::Fremovexattr { slot, name } => self.remove(By::File(self.fd(*slot)), name),
            Call::Removexattrat { path, at, name } => self.remove(By::At(path, *at), name),
            _ => return None,
        })
    }

    fn set(
        &self,
        by: By<'_>,
        name: &Text,
        value: &Value,
        flags: XattrFlags,
    ) -> Result<Raw<OwnedFd>> {
        let name = text(&name.0);
        let (name, len) = (Arg::Str(&name), value.0.len());
        let (size, bits) = (Arg::Int(len as i64), Arg::Int(flags.bits().into()));
        let (value, path) = (Arg::In(&value.0), by.path());
        match by {
            By::Path(_) => syscall(libc::SYS_setxattr, [Arg::Str(&path), name, value, size, bits]),
            By::Link(_) => syscall(libc::SYS_lsetxattr, [Arg::Str(&path), name, value, size, bits]),
            By::File(fd) => syscall(libc::SYS_fsetxattr, [fd, name, value, size, bits]),
            By::At(place, at) => {
                let mut args = XattrArgs { value: 0, size: len as u32, flags: flags.bits() };
                let args = Arg::Xattr(Box::new(value), &mut args);
                let at = Arg::Int(at.bits().into());
                syscall(SYS_SETXATTRAT, [self.dir(place), Arg::Str(&path), at, name, args, SIZE])
            }
        }
        .map(|_| Raw::Done)
    }

    fn get(&self, by: By<'_>, name: &Text, Len(size): Len) -> Result<Raw<OwnedFd>> {
        let name = text(&name.0);
        let (name, path) = (Arg::Str(&name), by.path());
        let mut buf = vec![0; size];
        let (room, len) = (Arg::Out(&mut buf), Arg::Int(size as i64));
        let got = match by {
            By::Path(_) => syscall(libc::SYS_getxattr, [Arg::Str(&path), name, room, len]),
            By::Link(_) => syscall(libc::SYS_lgetxattr, [Arg::Str(&path), name, room, len]),
            By::File(fd) => syscall(libc::SYS_fgetxattr, [fd, name, room, len]),
            By::At(place, at) => {
                let mut args = XattrArgs { value: 0, size: size as u32, flags: 0 };
                let args = Arg::Xattr(Box::new(room), &mut args);
                let at = Arg::Int(at.bits().into());
                syscall(SYS_GETXATTRAT, [self.dir(place), Arg::Str(&path), at, name, args, SIZE])
            }
        }?;
        Ok(filled(buf, got))
    }

    fn names(&self, by: By<'_>, Len(size): Len) -> Result<Raw<OwnedFd>> {
        let path = by.path();
        let mut buf = vec![0; size];
        let (room, len) = (Arg::Out(&mut buf), Arg::Int(size as i64));
        let got = match by {
            By::Path(_) => syscall(libc::SYS_listxattr, [Arg::Str(&path), room, len]),
            By::Link(_) => syscall(libc::SYS_llistxattr, [Arg::Str(&path), room, len]),
            By::File(fd) => syscall(libc::SYS_flistxattr, [fd, room, len]),
            By::At(place, at) => {
                let at = Arg::Int(at.bits().into());
                syscall(SYS_LISTXATTRAT, [self.dir(place), Arg::Str(&path), at, room, len])
            }
        }?;
        Ok(match filled(buf, got) {
            Raw::Value(names) => Raw::Bytes(names),
            number => number,
        })
    }

    fn remove(&self, by: By<'_>, name: &Text) -> Result<Raw<OwnedFd>> {
        let name = text(&name.0);
        let (name, path) = (Arg::Str(&name), by.path());
        match by {
            By::Path(_) => syscall(libc::SYS_removexattr, [Arg::Str(&path), name]),
            By::Link(_) => syscall(libc::SYS_lremovexattr, [Arg::Str(&path), name]),
            By::File(fd) => syscall(libc::SYS_fremovexattr, [fd, name]),
            By::At(place, at) => {
                let at = Arg::Int(at.bits().into());
                syscall(SYS_REMOVEXATTRAT, [self.dir(place), Arg::Str(&path), at, name])
            }
        }
        .map(|_| Raw::Done)
    }
}

/// The size of [`XattrArgs`].
const SIZE: Arg<'static> = Arg::Int(size_of::<XattrArgs>() as size_t as i64);

impl By<'_> {
    fn path(&self) -> std::ffi::CString {
        match self {
            Self::Path(path) | Self::Link(path) => text(&path.0),
            Self::File(_) => c"".into(),
            Self::At(place, _) => text(&place.path),
        }
    }
}

/// What was filled in or, without room, how much there is.
fn filled(mut buf: Vec<u8>, got: i64) -> Raw<OwnedFd> {
    if buf.is_empty() {
        return Raw::Number(got);
    }
    buf.truncate(got as usize);
    Raw::Value(buf)
}
