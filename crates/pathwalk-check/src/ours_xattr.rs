//! pathwalk's calls about extended attributes.

use crate::{answer::Raw, call::Call, field::Len, ours::Asking};
use pathwalk::{File, Result, Task};

impl Asking<'_> {
    /// Makes the call if it is one about extended attributes.
    pub(crate) fn ask_xattr(&self, task: &Task, call: &Call) -> Option<Result<Raw<File>>> {
        Some(match call {
            Call::Setxattr { path, name, value, flags } => {
                done(task.setxattr(&path.0, &name.0, &value.0, *flags))
            }
            Call::Lsetxattr { path, name, value, flags } => {
                done(task.lsetxattr(&path.0, &name.0, &value.0, *flags))
            }
            Call::Fsetxattr { slot, name, value, flags } => self
                .file(*slot)
                .and_then(|file| done(task.fsetxattr(file, &name.0, &value.0, *flags))),
            Call::Setxattrat { path, at, name, value, flags } => self.at(path).and_then(|dir| {
                done(task.setxattrat(dir, &path.path, *at, &name.0, &value.0, *flags))
            }),
            Call::Getxattr { path, name, size } => {
                value(*size, |buf| task.getxattr(&path.0, &name.0, buf))
            }
            Call::Lgetxattr { path, name, size } => {
                value(*size, |buf| task.lgetxattr(&path.0, &name.0, buf))
            }
            Call::Fgetxattr { slot, name, size } => self
                .file(*slot)
                .and_then(|file| value(*size, |buf| task.fgetxattr(file, &name.0, buf))),
            Call::Getxattrat { path, at, name, size } => self.at(path).and_then(|dir| {
                value(*size, |buf| task.getxattrat(dir, &path.path, *at, &name.0, buf))
            }),
            Call::Listxattr { path, size } => names(*size, |buf| task.listxattr(&path.0, buf)),
            Call::Llistxattr { path, size } => names(*size, |buf| task.llistxattr(&path.0, buf)),
            Call::Flistxattr { slot, size } => {
                self.file(*slot).and_then(|file| names(*size, |buf| task.flistxattr(file, buf)))
            }
            Call::Listxattrat { path, at, size } => self
                .at(path)
                .and_then(|dir| names(*size, |buf| task.listxattrat(dir, &path.path, *at, buf))),
            Call::Removexattr { path, name } => done(task.removexattr(&path.0, &name.0)),
            Call::Lremovexattr { path, name } => done(task.lremovexattr(&path.0, &name.0)),
            Call::Fremovexattr { slot, name } => {
                self.file(*slot).and_then(|file| done(task.fremovexattr(file, &name.0)))
            }
            Call::Removexattrat { path, at, name } => self
                .at(path)
                .and_then(|dir| done(task.removexattrat(dir, &path.path, *at, &name.0))),
            _ => return None,
        })
    }
}

fn done(result: Result<()>) -> Result<Raw<File>> {
    result.map(|()| Raw::Done)
}

fn value(Len(size): Len, ask: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<Raw<File>> {
    let mut buf = vec![0; size];
    let got = ask(&mut buf)?;
    if buf.is_empty() {
        return Ok(Raw::Number(got as i64));
    }
    buf.truncate(got);
    Ok(Raw::Value(buf))
}

fn names(size: Len, ask: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<Raw<File>> {
    Ok(match value(size, ask)? {
        Raw::Value(names) => Raw::Bytes(names),
        number => number,
    })
}
