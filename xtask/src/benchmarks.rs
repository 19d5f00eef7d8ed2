//! BENCHMARKS.md from results: `pathwalk bench all` writes them, the page says what they mean.
//!
//! ```text
//!   <!-- results: scale -->     what stands between the two lines is
//!   …                           results/DATE-MACHINE/summary/scale.md
//!   <!-- end -->
//!
//!   <!-- results: ablated/scale -->
//!   …                           results/DATE-MACHINE/ablated/summary/scale.md
//! ```

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// The page.
const PAGE: &str = "BENCHMARKS.md";
const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- end -->";

/// Writes the results of `dir` into the page.
pub(crate) fn run(root: &Path, dir: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let page = root.join(PAGE);
    fs::write(&page, filled(&fs::read_to_string(&page)?, &summaries(dir))?)?;
    Ok(ExitCode::SUCCESS)
}

/// The summaries in a folder of results, by name.
fn summaries(dir: &Path) -> impl Fn(&str) -> Option<String> + use<'_> {
    move |name| {
        let (part, name) = name.rsplit_once('/').unwrap_or(("", name));
        fs::read_to_string(dir.join(part).join("summary").join(format!("{name}.md"))).ok()
    }
}

/// The page with each block replaced by the summary of its name.
fn filled(page: &str, summary: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        let Some(name) = line.strip_prefix(BEGIN) else { continue };
        let name = name.trim_end_matches(" -->");
        let summary = summary(name).ok_or(format!("the results have no {name}"))?;
        out += &format!("\n{}\n\n{END}\n", summary.trim());
        if !lines.any(|line| line == END) {
            return Err(format!("{PAGE}: the block {name} has no {END}"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(name: &str) -> Option<String> {
        (name == "two").then(|| "| 2 |\n".to_owned())
    }

    #[test]
    fn a_block_gets_the_summary_of_its_name() {
        let page = "# P\n\n<!-- results: two -->\nold\n<!-- end -->\n\nWhy.\n";
        let want = "# P\n\n<!-- results: two -->\n\n| 2 |\n\n<!-- end -->\n\nWhy.\n";
        let got = filled(page, &two).unwrap();
        assert_eq!(got, want);
        assert_eq!(filled(&got, &two).unwrap(), want, "once more changes nothing");
    }

    #[test]
    fn a_block_without_results_or_end_is_an_error() {
        let error = filled("<!-- results: three -->\n<!-- end -->\n", &two).unwrap_err();
        assert_eq!(error, "the results have no three");
        let error = filled("<!-- results: two -->\n", &two).unwrap_err();
        assert_eq!(error, "BENCHMARKS.md: the block two has no <!-- end -->");
    }

    /// The page says what some results in the repository say.
    #[test]
    fn the_page_is_made_from_results() {
        let page = fs::read_to_string(crate::root().join(PAGE)).unwrap();
        let results = fs::read_dir(crate::root().join("results")).unwrap();
        let fits = |dir: &Path| filled(&page, &summaries(dir)).is_ok_and(|filled| filled == page);
        assert!(
            results.filter_map(Result::ok).any(|dir| fits(&dir.path())),
            "run cargo xtask benchmarks results/DATE-MACHINE"
        );
    }
}
