//! What a package of the command brings along, made from the definition of its options: manual pages and completions.

use crate::error::Error;
use clap::{Args, Command, CommandFactory};
use clap_complete::{Generator, Shell};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};
use std::{fs, path::PathBuf};

/// Write the manual pages: pathwalk(1), and one for each command
#[derive(Args)]
#[command(after_help = "\
Examples:
  pathwalk man \"$DESTDIR/usr/share/man/man1\"    what a package does
  pathwalk man /tmp/man1 && man /tmp/man1/pathwalk-run.1")]
pub(crate) struct ManArgs {
    /// The directory to write them to; it is made if it is not there
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
}

/// Print what a shell needs to complete command lines of pathwalk
#[derive(Args)]
#[command(after_help = "\
Examples:
  pathwalk completions bash > ~/.local/share/bash-completion/completions/pathwalk
  pathwalk completions zsh > \"${fpath[1]}/_pathwalk\"
  pathwalk completions fish > ~/.config/fish/completions/pathwalk.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Writes a page for the command and for each of its commands.
///
/// # Errors
///
/// Those of making the directory and writing to it.
pub(crate) fn man(args: &ManArgs) -> Result<(), Error> {
    let at_dir = |error| Error::at(&args.dir, &error);
    fs::create_dir_all(&args.dir).map_err(at_dir)?;
    for (name, text) in pages() {
        let path = args.dir.join(name);
        fs::write(&path, text).map_err(|error| Error::at(&path, &error))?;
    }
    Ok(())
}

/// The completions of a shell, as it reads them.
///
/// # Errors
///
/// Those of making them.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<String, Error> {
    let mut command = crate::Cli::command();
    command.set_bin_name("pathwalk");
    command.build();
    let mut text = Vec::new();
    let made = args.shell.try_generate(&command, &mut text);
    made.map_err(|error| Error::doing("completions", error))?;
    String::from_utf8(text).map_err(|error| Error::doing("completions", error))
}

/// The pages, with the names of their files.
fn pages() -> Vec<(String, String)> {
    let mut command = crate::Cli::command().disable_help_subcommand(true);
    command.build();
    let commands = command.get_subcommands().cloned().map(page);
    [page(command.clone())].into_iter().chain(commands).collect()
}

fn page(command: Command) -> (String, String) {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let is_run = command.get_name() == "run";
    let after = command.get_after_long_help().or(command.get_after_help()).cloned();
    let about = command.get_long_about().cloned();
    let options = command.get_arguments().count() > 0;
    let commands = command.has_subcommands();
    let man = Man::new(command).source(concat!("pathwalk ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    let mut sections = || -> std::io::Result<()> {
        man.render_title(&mut text)?;
        man.render_name_section(&mut text)?;
        man.render_synopsis_section(&mut text)?;
        match &about {
            Some(about) => {
                let mut roff = Roff::new();
                roff.control("SH", ["DESCRIPTION"]);
                about.to_string().split("\n\n").for_each(|block| set(block, &mut roff));
                roff.to_writer(&mut text)?;
            }
            None => man.render_description_section(&mut text)?,
        }
        if options {
            man.render_options_section(&mut text)?;
        }
        if commands {
            man.render_subcommands_section(&mut text)?;
        }
        let mut roff = Roff::new();
        after.iter().for_each(|after| told_below(&after.to_string(), &mut roff));
        if is_run {
            told_below(pathwalk_run::MOUNTS_HELP, &mut roff);
        }
        if name != "pathwalk" {
            roff.control("SH", ["SEE ALSO"]).control("BR", ["pathwalk", "(1)"]);
        }
        roff.to_writer(&mut text)
    };
    sections().expect("memory can be written to");
    (format!("{name}.1"), String::from_utf8(text).expect("the definition is UTF-8"))
}

/// What stands below the options in `--help`, in the sections that a page has.
fn told_below(text: &str, roff: &mut Roff) {
    let mut section = "";
    for block in text.trim_end().split("\n\n") {
        let (first, rest) = block.split_once('\n').unwrap_or((block, ""));
        let (title, block) = match first {
            "Examples:" => ("EXAMPLES", rest),
            "Mounts of pathwalk run" => ("MOUNTS", rest),
            _ if first.starts_with("The exit status") => ("EXIT STATUS", block),
            _ if section == "MOUNTS" => (section, block),
            _ => ("NOTES", block),
        };
        if section != title {
            roff.control("SH", [title]);
            section = title;
        }
        if !block.is_empty() {
            set(block, roff);
        }
    }
}

/// A paragraph: lines that are indented are set as they are.
fn set(block: &str, roff: &mut Roff) {
    let mut as_it_is = false;
    roff.control("PP", []);
    for line in block.lines() {
        if line.starts_with(' ') != as_it_is {
            as_it_is = !as_it_is;
            roff.control(if as_it_is { "nf" } else { "fi" }, []);
        }
        roff.text([roman(line)]);
    }
    if as_it_is {
        roff.control("fi", []);
    }
}
