//! Rules about Rust code, seen as tokens: what stands in a comment or a string is not code.

use std::str::FromStr;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use super::Breach;
use super::checkout::File;

/// The only crates that name an ordering other than Relaxed: what locks and walks stand on, and memory that is shared with processes
/// in which there is no other crate.
const ORDERINGS: [&str; 2] = ["crates/pathwalk-sync/", "crates/pathwalk-inside/"];

/// The sources of the crate that makes no system call.
const CORE: &str = "crates/pathwalk-core/src/";

/// The files with `unsafe` in them, and what for.
pub(super) const ROOMS: &[(&str, &str)] = &[
    ("crates/pathwalk-abi/tests/against_libc.rs", "asks the C library for the names of errors"),
    ("crates/pathwalk-bench/src/kernel/mod.rs", "gives a thread a root of its own"),
    ("crates/pathwalk-check/src/kernel/sys.rs", "makes system calls with wrong arguments too"),
    (
        "crates/pathwalk-check/tests/automounts.rs",
        "asks the kernel in a namespace of a thread's own, to execute too",
    ),
    (
        "crates/pathwalk-check/tests/landlock.rs",
        "asks the kernel's Landlock, which no crate here does",
    ),
    ("crates/pathwalk-inside/src/image.rs", "makes the calls of a program, in whose process it is"),
    ("crates/pathwalk-inside/src/table.rs", "turns mapped memory into words"),
    ("crates/pathwalk-run/src/sys/memory.rs", "reads and writes another process's memory"),
    ("crates/pathwalk-run/src/sys/process.rs", "makes a process, and hears of signals"),
    ("crates/pathwalk-run/src/sys/ptrace.rs", "stops threads, to change their registers"),
    ("crates/pathwalk-run/src/sys/seccomp.rs", "receives other processes' calls"),
    ("crates/pathwalk-run/src/sys/socket.rs", "passes addresses on as they are"),
    ("crates/pathwalk-sync/src/bytes.rs", "compares eight bytes in one instruction"),
    ("crates/pathwalk-sync/src/chain.rs", "promises that zeroes are a node, for the tests"),
    ("crates/pathwalk-sync/src/clock.rs", "asks the C library for the time"),
    ("crates/pathwalk-sync/src/gate.rs", "parks threads in queues keyed by an address"),
    ("crates/pathwalk-sync/src/lock.rs", "promises that a lock lets in one at a time"),
    ("crates/pathwalk-sync/src/mapping.rs", "turns mapped memory into slots"),
    ("crates/pathwalk-sync/src/shelf.rs", "room for a value that its last user drops"),
    ("crates/pathwalk-sync/src/striped.rs", "promises that zeroes are a counter"),
    (
        "crates/pathwalk-sync/tests/vacant.rs",
        "locks a page, which then does not go back to the system",
    ),
];

/// A Rust file as its tokens, in order; a group's delimiters are tokens too.
pub(super) struct Source {
    path: String,
    tokens: Vec<Token>,
}

struct Token {
    text: String,
    line: usize,
}

impl Source {
    /// The tokens from each place on.
    fn tails(&self) -> impl Iterator<Item = &[Token]> {
        (0..self.tokens.len()).map(|start| &self.tokens[start..])
    }

    fn breach(&self, token: &Token, what: impl Into<String>) -> Breach {
        Breach::new(&self.path, token.line, what)
    }
}

/// Splits the Rust files into tokens; one that cannot be split is a breach.
pub(super) fn split(files: &[File]) -> (Vec<Source>, Vec<Breach>) {
    let mut sources = Vec::new();
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        match TokenStream::from_str(&file.text) {
            Ok(stream) => {
                let mut tokens = Vec::new();
                flatten(stream, &mut tokens);
                sources.push(Source { path: file.path.clone(), tokens });
            }
            Err(error) => {
                let what = format!("this is not Rust: {error}");
                breaches.push(Breach::new(&file.path, error.span().start().line, what));
            }
        }
    }
    (sources, breaches)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    fn token(text: impl ToString, span: Span) -> Token {
        Token { text: text.to_string(), line: span.start().line }
    }
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(token(open, group.span_open()));
                flatten(group.stream(), tokens);
                tokens.push(token(close, group.span_close()));
            }
            TokenTree::Ident(ident) => tokens.push(token(&ident, ident.span())),
            TokenTree::Punct(punct) => tokens.push(token(punct.as_char(), punct.span())),
            TokenTree::Literal(literal) => tokens.push(token(&literal, literal.span())),
        }
    }
}

/// The core's sources do not go around its file systems by way of `std`.
pub(super) fn core_asks_no_system(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with(CORE)) {
        for tail in source.tails() {
            for module in modules_of_std(tail) {
                if ["fs", "net", "process"].contains(&&*module.text) {
                    let what = format!(
                        "the core makes no system call, std::{} does: let a file system do it",
                        module.text
                    );
                    breaches.push(source.breach(module, what));
                }
            }
        }
    }
    breaches
}

/// What `tokens` takes from `std`, if they begin with `std::name` or `std::{name, name::…}`.
fn modules_of_std(tokens: &[Token]) -> Vec<&Token> {
    if !begins(tokens, &["std", ":", ":"]) {
        return Vec::new();
    }
    let taken = &tokens[3..];
    if !begins(taken, &["{"]) {
        return taken.first().into_iter().collect();
    }
    let mut modules = Vec::new();
    let mut depth = 0;
    for pair in taken.windows(2) {
        match &*pair[0].text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(&*pair[0].text, "{" | ",") {
            modules.push(&pair[1]);
        }
    }
    modules
}

/// An ordering other than Relaxed is named in its crates only, beside its partner.
pub(super) fn orderings_stay_in_sync(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for source in sources {
        if ORDERINGS.iter().any(|room| source.path.starts_with(room)) {
            continue;
        }
        for token in &source.tokens {
            if ["Acquire", "Release", "AcqRel", "SeqCst"].contains(&&*token.text) {
                let what = format!(
                    "{} is named in pathwalk-sync only: use one of its types, or add one there \
                     that says what the ordering is for",
                    token.text
                );
                breaches.push(source.breach(token, what));
            }
        }
    }
    breaches
}

/// `unsafe` stays in the files of `rooms`, and a file without it leaves the list.
pub(super) fn unsafe_stays_in_its_rooms(sources: &[Source], rooms: &[(&str, &str)]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let first_unsafe = |source: &Source| source.tokens.iter().position(|it| it.text == "unsafe");
    for source in sources {
        let listed = rooms.iter().any(|(path, _)| *path == source.path);
        match first_unsafe(source) {
            Some(index) if !listed => {
                let what = "unsafe is not for this file: use a safe type of pathwalk-sync or \
                            rustix, or argue for the file in ROOMS in xtask/src/tidy/code.rs";
                breaches.push(source.breach(&source.tokens[index], what));
            }
            None if listed => {
                let what =
                    "no unsafe is left here: take the file out of ROOMS in xtask/src/tidy/code.rs";
                breaches.push(Breach::new(&source.path, 1, what));
            }
            _ => {}
        }
    }
    for (path, _) in rooms {
        if !sources.iter().any(|source| source.path == *path) {
            let what = format!("ROOMS names {path}, which is gone: take it out");
            breaches.push(Breach::new("xtask/src/tidy/code.rs", 1, what));
        }
    }
    breaches
}

/// No code says that it is yet to be written.
pub(super) fn nothing_is_left_to_do(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for source in sources {
        for tail in source.tails() {
            if begins(tail, &["todo", "!"]) || begins(tail, &["unimplemented", "!"]) {
                let what = format!(
                    "{}! is a panic in waiting: write the code or return an errno",
                    tail[0].text
                );
                breaches.push(source.breach(&tail[0], what));
            }
        }
    }
    breaches
}

fn begins(tokens: &[Token], texts: &[&str]) -> bool {
    tokens.len() >= texts.len() && tokens.iter().zip(texts).all(|(token, text)| token.text == *text)
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Vec<Source> {
        let files: Vec<_> = files.iter().map(|(path, text)| File::new(path, text)).collect();
        let (sources, breaches) = split(&files);
        assert_eq!(places(breaches), [""; 0]);
        sources
    }

    #[test]
    fn a_file_that_is_not_rust_is_a_breach() {
        let files = [File::new("a.rs", "fn a() {}\nfn b() {"), File::new("a.txt", "{")];
        let (sources, breaches) = split(&files);
        assert_eq!((sources.len(), breaches.len()), (0, 1));
        assert_eq!(breaches[0].path, "a.rs");
    }

    #[test]
    fn a_core_that_opens_host_files_is_a_breach() {
        let path = "crates/pathwalk-core/src/a.rs";
        for bad in [
            "use std::fs;",
            "use std::fs::File;",
            "use std::{fs, io};",
            "use std::{io::{self, Read}, process::Command};",
            "fn a() { ::std::net::lookup_host(); }",
        ] {
            assert_eq!(
                places(core_asks_no_system(&sources(&[(path, bad)]))),
                [format!("{path}:1")],
                "{bad}"
            );
        }
        let good = "use std::{io::{self, net}, fmt};\n// use std::fs;\nuse crate::fs;";
        assert_eq!(places(core_asks_no_system(&sources(&[(path, good)]))), [""; 0]);
        let other = sources(&[("crates/pathwalk-bench/src/a.rs", "use std::fs;")]);
        assert_eq!(places(core_asks_no_system(&other)), [""; 0]);
    }

    #[test]
    fn an_ordering_outside_its_crate_is_a_breach() {
        let code = "//! Release, not SeqCst.\n\
                    use std::sync::atomic::Ordering::{self, Relaxed, SeqCst};\n\
                    fn a() { x.load(Ordering::Acquire); x.load(Ordering::Relaxed); \"AcqRel\"; }";
        let sources =
            sources(&[("crates/pathwalk-sync/src/a.rs", code), ("crates/a/tests/a.rs", code)]);
        assert_eq!(
            places(orderings_stay_in_sync(&sources)),
            ["crates/a/tests/a.rs:2", "crates/a/tests/a.rs:3"]
        );
    }

    #[test]
    fn unsafe_outside_its_rooms_is_a_breach() {
        let safe = "#![deny(unsafe_code)]\n// unsafe {}\nconst A: &str = \"unsafe\";";
        let code = "fn a() {\n    unsafe { b() }\n}";
        let sources = sources(&[
            ("listed.rs", code),
            ("new.rs", code),
            ("safe.rs", safe),
            ("stale.rs", safe),
        ]);
        let rooms = [("listed.rs", "maps"), ("stale.rs", "mapped"), ("gone.rs", "mapped")];
        assert_eq!(
            places(unsafe_stays_in_its_rooms(&sources, &rooms)),
            ["new.rs:2", "stale.rs:1", "xtask/src/tidy/code.rs:1"]
        );
    }

    #[test]
    fn code_that_is_yet_to_be_written_is_a_breach() {
        let code =
            "fn a() {\n    todo!()\n}\nfn b() { unimplemented!(\"b\") }\n// todo!()\nfn todo() {}";
        assert_eq!(
            places(nothing_is_left_to_do(&sources(&[("a.rs", code)]))),
            ["a.rs:2", "a.rs:4"]
        );
    }
}
