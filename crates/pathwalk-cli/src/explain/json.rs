//! An explanation as one JSON object.

use super::host::Verdict;
use pathwalk::{
    FileType, Rule,
    explain::{Explanation, Step, Target},
};
use serde::Serialize;

#[derive(Serialize)]
struct Line<'e> {
    path: Text,
    uid: u32,
    gid: u32,
    groups: &'e [u32],
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved: Option<Text>,
    /// The rule that granted the access that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<&'static str>,
    links: u32,
    walk: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_rcu: Option<&'static str>,
    restarts: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureLine>,
    steps: Vec<StepLine>,
}

#[derive(Serialize)]
struct FailureLine {
    errno: i32,
    /// The number of the step, from 0, and where it is.
    step: Option<usize>,
    path: Option<Text>,
    why: String,
}

#[derive(Serialize)]
struct StepLine {
    name: Text,
    depth: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    mount: Option<u64>,
    #[serde(flatten)]
    file: Option<File>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    crossed: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<Search>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<Link>,
    walk: &'static str,
}

#[derive(Serialize)]
struct File {
    r#type: char,
    /// The permission bits in octal, as chmod(1) takes them.
    mode: String,
    uid: u32,
    gid: u32,
    ino: u64,
}

#[derive(Serialize)]
struct Search {
    allowed: bool,
    rule: &'static str,
}

#[derive(Serialize)]
struct Link {
    number: u32,
    target: Text,
}

/// Bytes as text; where text cannot hold them, also as they are.
#[derive(Serialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Bytes { lossy: String, hex: String },
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::Plain(text.into()),
            Err(_) => Self::Bytes {
                lossy: String::from_utf8_lossy(bytes).into(),
                hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            },
        }
    }
}

/// The object, and a newline.
pub(super) fn line(explanation: &Explanation, verdict: Option<&Verdict>) -> String {
    let cred = &explanation.cred;
    let arrival = explanation.outcome.ok();
    let failure = explanation.outcome.err();
    let line = Line {
        path: explanation.path[..].into(),
        uid: cred.fsuid,
        gid: cred.fsgid,
        groups: &cred.groups,
        result: failure.map_or("OK", |failure| failure.errno.name()),
        resolved: arrival.map(|arrival| explanation.path_of(arrival.step)[..].into()),
        access: arrival.and_then(|arrival| arrival.access).map(Rule::describe),
        links: explanation.links,
        walk: walk(explanation.left.is_some()),
        left_rcu: explanation.left.map(|left| left.describe()),
        restarts: explanation.restarts.iter().map(|errno| errno.name()).collect(),
        kernel: verdict.map(|verdict| match verdict.kernel {
            None => "another file",
            Some(Ok(())) => "OK",
            Some(Err(errno)) => errno.name(),
        }),
        failure: failure.map(|failure| FailureLine {
            errno: failure.errno.raw(),
            step: failure.step,
            path: failure.step.map(|step| explanation.path_of(step)[..].into()),
            why: explanation.because(&failure),
        }),
        steps: explanation.steps.iter().map(step).collect(),
    };
    let mut text = serde_json::to_string(&line).expect("strings and numbers can be written");
    text.push('\n');
    text
}

fn step(step: &Step) -> StepLine {
    let attr = step.stand.as_ref().and_then(|stand| stand.attr);
    StepLine {
        name: match &step.to {
            Target::Root => b"/"[..].into(),
            Target::Cwd => b"."[..].into(),
            Target::Name(name) | Target::Place(name) => name[..].into(),
        },
        depth: step.depth,
        mount: step.stand.as_ref().map(|stand| stand.mount),
        file: attr.map(|attr| File {
            r#type: FileType::letter(attr.file_type()),
            mode: format!("{:04o}", attr.mode & 0o7777),
            uid: attr.uid,
            gid: attr.gid,
            ino: attr.ino,
        }),
        crossed: step.crossed.clone(),
        search: step.search.map(|search| {
            let (Ok(rule) | Err(rule)) = search;
            Search { allowed: search.is_ok(), rule: rule.describe() }
        }),
        link: step
            .link
            .as_ref()
            .map(|link| Link { number: link.number, target: link.body[..].into() }),
        walk: walk(step.holding),
    }
}

fn walk(holding: bool) -> &'static str {
    if holding { "ref" } else { "rcu" }
}
