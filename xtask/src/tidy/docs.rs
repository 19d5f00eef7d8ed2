//! Rules about the pages: what they point to is there.

use pulldown_cmark::{Event, LinkType, Parser, Tag};

use super::Breach;
use super::checkout::{Checkout, File};

/// A relative link leads to a file or a directory of the repository, and to no line of it.
pub(super) fn links_lead_somewhere(checkout: &Checkout) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages(checkout) {
        for (event, range) in Parser::new(&page.text).into_offset_iter() {
            let (link_type, link) = match event {
                Event::Start(Tag::Link { link_type, dest_url, .. }) => (link_type, dest_url),
                Event::Start(Tag::Image { link_type, dest_url, .. }) => (link_type, dest_url),
                _ => continue,
            };
            if link_type == LinkType::Email {
                continue;
            }
            if let Some(what) = fault(checkout, page, &link) {
                breaches.push(Breach::new(&page.path, line_at(page, range.start), what));
            }
        }
    }
    breaches
}

/// What is wrong with a link on `page`.
fn fault(checkout: &Checkout, page: &File, link: &str) -> Option<String> {
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    // A heading of the same page, or elsewhere in the world.
    if path.is_empty() || path.contains(':') {
        return None;
    }
    if fragment.strip_prefix('L').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        return Some(format!(
            "{link} names a line, which moves: link the file and name the function"
        ));
    }
    let found = resolve(&page.path, path).is_some_and(|path| checkout.has(&path));
    (!found).then(|| format!("{link} leads nowhere: correct the link or add the file"))
}

/// The path from the top that `link` means on the page at `page`; none if it leads out.
fn resolve(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// A file that a page names in backticks exists, and so does what it names in the file:
/// `crates/a/src/b.rs::c` is the word `c` in that file.
pub(super) fn named_files_exist(checkout: &Checkout) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages(checkout) {
        for (event, range) in Parser::new(&page.text).into_offset_iter() {
            let Event::Code(code) = event else { continue };
            // With `<name>` or `*` in it, it is a pattern and not a name.
            if !code.starts_with("crates/") || code.contains(['<', '*', '{', ' ']) {
                continue;
            }
            let (path, item) = code.split_once("::").unwrap_or((&code, ""));
            let line = line_at(page, range.start);
            if !checkout.has(path) {
                let what = format!("there is no {path}: correct the name");
                breaches.push(Breach::new(&page.path, line, what));
            } else if !item.is_empty() && !defines(checkout, path, item) {
                let what = format!("{path} has no {item}: correct the name");
                breaches.push(Breach::new(&page.path, line, what));
            }
        }
    }
    breaches
}

/// Whether every name of `item`, as `Type::method()`, is a word of the file at `path`.
fn defines(checkout: &Checkout, path: &str, item: &str) -> bool {
    let Some(file) = checkout.files.iter().find(|file| file.path == path) else { return false };
    let words = || file.text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let names = item.trim_end_matches("()").split("::");
    names.into_iter().all(|name| words().any(|word| word == name))
}

/// The pages that speak of the present state; the changelog may name what is gone.
fn pages(checkout: &Checkout) -> impl Iterator<Item = &File> {
    checkout.files.iter().filter(|file| {
        let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].contains(&&*file.path);
        top || (file.path.starts_with("docs/") && file.path.ends_with(".md"))
    })
}

fn line_at(page: &File, offset: usize) -> usize {
    page.text[..offset].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    fn checkout(page: &str, text: &str) -> Checkout {
        let code = File::new("crates/a/src/lib.rs", "struct Walk; impl Walk { fn step_into() {} }");
        Checkout::of(vec![File::new(page, text), code, File::new("docs/tour.md", "")])
    }

    #[test]
    fn a_link_to_nowhere_is_a_breach() {
        let bad = "[a](gone.md) and\n![b](docs/gone.png)\n\n[c](../outside.md), [d][ref]\n\n\
                   [e](docs/tour.md#L7)\n\n[ref]: docs/gone.md#heading\n";
        assert_eq!(
            places(links_lead_somewhere(&checkout("README.md", bad))),
            ["README.md:1", "README.md:2", "README.md:4", "README.md:4", "README.md:6"]
        );
        assert_eq!(places(links_lead_somewhere(&checkout("CHANGELOG.md", bad))), [""; 0]);
    }

    #[test]
    fn a_link_to_a_file_a_directory_or_the_world_is_none() {
        let good = "[a](tour.md#Loom) [b](../crates/a/) [c](./../crates/a/src/lib.rs)\n\
                    [d](#here) [..](..)\n\
                    [e](https://example.org/gone) <mail@example.org> `[f](gone.md)`\n\n\
                    ```\n[g](gone.md)\n```\n";
        assert_eq!(places(links_lead_somewhere(&checkout("docs/page.md", good))), [""; 0]);
    }

    #[test]
    fn a_file_that_is_named_but_gone_is_a_breach() {
        let text = "`crates/a/src/lib.rs::Walk::step_into()`, `crates/a`, `crates/<name>`\n\
                    `crates/a/src/gone.rs`\n`crates/a/src/lib.rs::step_out`\n`crates/a/src::Walk`\n";
        assert_eq!(
            places(named_files_exist(&checkout("docs/page.md", text))),
            ["docs/page.md:2", "docs/page.md:3", "docs/page.md:4"]
        );
    }
}
