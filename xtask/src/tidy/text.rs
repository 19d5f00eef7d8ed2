//! Rules about the text of files.

use super::Breach;
use super::checkout::File;

/// A Rust file of more lines answers more than one question.
const MOST_LINES: usize = 900;

/// Words that stand for work not done. In two halves, so that this file keeps its own rule.
const MARKERS: [&str; 2] = [concat!("FIX", "ME"), concat!("X", "XX")];

/// Where a checkout lies on one machine: names of places that exist on no other. In two halves too.
const PRIVATE: [&str; 3] =
    [concat!("/wor", "k/"), concat!("../sha", "red"), concat!("/tmp/bash", "_jobs")];

/// Work that is not done is finished or filed, not marked.
pub(super) fn no_marker_is_left(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (number, line) in file.lines() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(marker) = words.find(|word| MARKERS.contains(word)) {
                let what = format!(
                    "{marker} marks work that is not done: do it, or file it and drop the word"
                );
                breaches.push(Breach::new(&file.path, number, what));
            }
        }
    }
    breaches
}

/// A Rust file is short enough to be read in one go.
pub(super) fn no_file_is_a_giant(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = file.lines().count();
        if lines > MOST_LINES {
            let what = format!(
                "{lines} lines, {MOST_LINES} is the most: split by the question each part answers"
            );
            breaches.push(Breach::new(&file.path, MOST_LINES + 1, what));
        }
    }
    breaches
}

/// No file names a place that exists on one machine only.
pub(super) fn no_place_is_private(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in files {
        for (number, line) in file.lines() {
            if let Some(place) = PRIVATE.iter().find(|place| names(line, place)) {
                let what =
                    format!("{place} exists on one machine only: name a place in the repository");
                breaches.push(Breach::new(&file.path, number, what));
            }
        }
    }
    breaches
}

/// Whether `place` begins a path in `line`; in the middle of one it is another place.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        place.starts_with('.')
            || !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '}'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_marker_is_a_breach() {
        for marker in MARKERS {
            let text =
                format!("// {marker}: later\n// {marker}{marker}\nconst {marker}_A: u8 = 0;");
            let files = [File::new("a.rs", &text), File::new("a.sh", &text)];
            assert_eq!(places(no_marker_is_left(&files)), ["a.rs:1"]);
        }
    }

    #[test]
    fn a_giant_is_a_breach() {
        let files = [
            File::new("a.rs", &"\n".repeat(MOST_LINES)),
            File::new("b.rs", &"\n".repeat(MOST_LINES + 1)),
            File::new("b.tsv", &"\n".repeat(MOST_LINES + 1)),
        ];
        assert_eq!(places(no_file_is_a_giant(&files)), ["b.rs:901"]);
    }

    #[test]
    fn a_private_place_is_a_breach() {
        for place in PRIVATE {
            let text = format!("nothing\nsee `{place}x`\n{place}\n../{place}\n");
            assert_eq!(
                places(no_place_is_private(&[File::new("a.md", &text)]))[..2],
                ["a.md:2", "a.md:3"]
            );
        }
        let inside = File::new("a.md", "upper/work/index and ./work/ and ${dir}/work/");
        assert_eq!(places(no_place_is_private(&[inside])), [""; 0]);
    }
}
