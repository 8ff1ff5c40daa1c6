//! Command line reference as Markdown, generated from the definition that parses the command line.

use std::fmt::{self, Write};

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory};

use crate::args::Cli;
use crate::exit::{Status, TABLE};

/// Returns the whole reference: every command that is not hidden, its arguments and options, and the exit statuses.
#[must_use]
pub fn reference() -> String {
    let mut root = Cli::command().term_width(usize::MAX);
    root.build();
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_reference(&root, &mut text);
    text
}

fn write_reference(root: &Command, out: &mut String) -> fmt::Result {
    out.write_str("# Command line\n\n")?;
    out.write_str("<!-- Made by `codebox help-markdown`. Do not edit. -->\n\n")?;
    if let Some(about) = root.get_about() {
        writeln!(out, "{}.\n", plain(about))?;
    }
    out.write_str("These options work with every command:\n\n")?;
    for arg in root.get_arguments().filter(|arg| is_shown(arg)) {
        write_option(arg, out)?;
    }
    out.write_char('\n')?;
    for command in shown_commands(root) {
        write_command(command, "codebox", out)?;
    }
    write_statuses(out)
}

fn write_command(command: &Command, parent: &str, out: &mut String) -> fmt::Result {
    let name = format!("{parent} {}", command.get_name());
    writeln!(out, "## {name}\n")?;
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        writeln!(out, "{}\n", sentence(&plain(about)))?;
    }
    let inner: Vec<_> = shown_commands(command).collect();
    if inner.is_empty() {
        writeln!(out, "```text\n{}\n```\n", usage(command))?;
        write_arguments(command, out)?;
    }
    inner.into_iter().try_for_each(|command| write_command(command, &name, out))
}

fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let lines: Vec<&str> = usage.lines().map(str::trim).collect();
    lines.join("\n")
}

/// Writes positional arguments, then options by heading. Global options are written once, before the commands.
fn write_arguments(command: &Command, out: &mut String) -> fmt::Result {
    let shown = || command.get_arguments().filter(|arg| is_shown(arg) && !arg.is_global_set());
    let mut heading = None;
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) = shown().partition(|a| a.is_positional());
    for arg in &positional {
        let name = arg.get_value_names().unwrap_or_default().join(" ");
        writeln!(out, "- `{name}`: {}", help(arg))?;
    }
    for arg in &options {
        if arg.get_help_heading() != heading {
            heading = arg.get_help_heading();
            writeln!(out, "\n{}:\n", heading.unwrap_or("Other options"))?;
        }
        write_option(arg, out)?;
    }
    if !(positional.is_empty() && options.is_empty()) {
        out.write_char('\n')?;
    }
    Ok(())
}

fn write_option(arg: &Arg, out: &mut String) -> fmt::Result {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let mut name = [short, long].into_iter().flatten().collect::<Vec<_>>().join(", ");
    if arg.get_action().takes_values() {
        let values = arg.get_value_names().unwrap_or_default().join(" ");
        name.push_str(&format!(" {values}"));
    }
    writeln!(out, "- `{name}`: {}", help(arg))
}

fn help(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut text = help.map(plain).unwrap_or_default().replace("\n\n", ". ");
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|_| arg.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        text.push_str(&format!(": {}", values.join(", ")));
    }
    let defaults = arg.get_default_values().iter();
    if let Some(default) = defaults.filter_map(|value| value.to_str()).next()
        && arg.get_action().takes_values()
    {
        text.push_str(&format!(" (default: `{default}`)"));
    }
    text
}

fn shown_commands(command: &Command) -> impl Iterator<Item = &Command> {
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    command.get_subcommands().filter(shown)
}

fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version")
}

fn plain(text: &StyledStr) -> String {
    text.to_string()
}

fn sentence(text: &str) -> String {
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

fn write_statuses(out: &mut String) -> fmt::Result {
    out.write_str("## Exit statuses\n\n")?;
    out.write_str("The same with and without `--json`; the report names the kind.\n\n")?;
    out.write_str("| status | meaning |\n|---|---|\n")?;
    TABLE.iter().try_for_each(|(status, meaning)| match status {
        Status::Guest(words) => writeln!(out, "| {words} | {meaning} |"),
        Status::Code(code) => writeln!(out, "| {code} | {meaning} |"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_option_is_in_it() {
        let text = reference();
        for words in [
            "## codebox run\n",
            "## codebox runtime install\n",
            "## codebox image build\n",
            "- `--dir HOST:GUEST[:ro|rw]`: ",
            "- `--isolation WHERE`: ",
            "`auto`, `wasm`, `container`, `vm` (default: `auto`)",
            "- `-q, --quiet`: ",
            "codebox run [OPTIONS] FILE [--] [ARGS]...",
            "| 137 | ",
            "Limits (each a value, or `unlimited`):",
        ] {
            assert!(text.contains(words), "{words:?} is missing from\n{text}");
        }
        assert!(!text.contains("help-markdown\n"), "{text}");
        assert_eq!(text.matches("--quiet").count(), 1);
    }
}
