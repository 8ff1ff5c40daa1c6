//! Files with variables for a program, as `.env` files are written.

use std::io::{self, Read as _};
use std::path::Path;

use codebox_core::ResultKind;
use codebox_files::{open_dir_without_symlinks, open_for_reading};
use thiserror::Error;

use super::denied::Denied;
use super::host_environment::{HostEnvironment, absolute};
use super::links;
use super::request::EnvRequest;
use super::script::MAX_PROGRAM;

/// Returns the variables of a regular file.
///
/// A link at or below the working directory is refused, as is a file that is itself a link: an earlier job may have created it to be given
/// another file of the user.
///
/// # Errors
/// Returns an error if the file cannot be read without following such a link, is larger than 16 MiB, or has an invalid line.
pub fn read_env_file(path: &Path, host_environment: &dyn HostEnvironment) -> Result<Vec<EnvRequest>, Denied> {
    let shown = path.display().to_string();
    let refused = |kind: ResultKind, detail: String, fix: &str| Denied::new(kind, "use", &shown, detail, fix);
    let fail = |error: io::Error| {
        refused(ResultKind::InvalidRequest, error.to_string(), "name a regular file with variables that can be read")
    };
    let typed = absolute(path, host_environment).map_err(fail)?;
    if let Some(link) = links::below_working_directory(&typed, host_environment).map_err(fail)? {
        return Err(refused(ResultKind::PathRejected, link.reason(), "name the file itself"));
    }
    let parts = typed.parent().zip(typed.file_name().and_then(|name| name.to_str()));
    let (dir, name) = parts.ok_or_else(|| fail(io::ErrorKind::InvalidInput.into()))?;
    let dir = dir.canonicalize().and_then(|dir| open_dir_without_symlinks(&dir)).map_err(fail)?;
    let mut text = String::new();
    // One byte above the maximum shows that the file is too large.
    let file = open_for_reading(&dir, name).map_err(fail)?;
    file.take(MAX_PROGRAM.get() + 1).read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > MAX_PROGRAM.get() {
        let detail = format!("it is larger than {MAX_PROGRAM}");
        return Err(refused(ResultKind::InvalidRequest, detail, "name a file with variables"));
    }
    parse_env_file(&text)
        .map_err(|error| refused(ResultKind::InvalidRequest, error.to_string(), "write each variable as NAME=VALUE"))
}

/// Line of a file with variables that is invalid. The message omits values, because they may be secrets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub(super) struct EnvFileError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Reason.
    pub reason: String,
}

/// Returns the variables of a text. A line is `NAME=VALUE`, with `export` before it or not; empty lines and those that begin with `#` are left
/// out. A value in single quotes is taken as it is, one in double quotes has the escapes `\n`, `\r`, `\t`, `\"`, `\\` and `\$`, and any other one
/// ends before ` #`, without the spaces around it. Values in quotes can have several lines. References to other variables are not replaced: a file
/// must not read the environment of this machine. Of several lines with one name, the last one counts.
///
/// # Errors
/// Returns the first line that has no `=`, a name that is no name of a variable, a quote without end, or other text than a comment after a
/// value in quotes.
fn parse_env_file(text: &str) -> Result<Vec<EnvRequest>, EnvFileError> {
    let mut variables: Vec<EnvRequest> = Vec::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut number = 1;
    while !rest.is_empty() {
        let fault = |reason: &str| EnvFileError { line: number, reason: reason.to_owned() };
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            (rest, number) = (after, number + 1);
            continue;
        }
        let (name, _) = line.split_once('=').ok_or_else(|| fault("'=' is missing"))?;
        let begin = rest[name.len() + 1..].trim_start_matches([' ', '\t']);
        let name = name.trim();
        let name = name.strip_prefix("export ").map_or(name, str::trim);
        if name.contains(char::is_whitespace) {
            return Err(fault("a name has no spaces"));
        }
        let (value, end) = match begin.chars().next() {
            Some(quote @ ('\'' | '"')) => {
                let (value, after) = quoted(&begin[1..], quote).ok_or_else(|| fault("a quote has no end"))?;
                let (more, after) = after.split_once('\n').unwrap_or((after, ""));
                if !more.trim().is_empty() && !more.trim_start().starts_with('#') {
                    return Err(fault("there is text after a value in quotes"));
                }
                (value, after)
            }
            _ => {
                let (value, after) = begin.split_once('\n').unwrap_or((begin, ""));
                let value = value.split_once(" #").map_or(value, |(value, _)| value);
                (value.trim().to_owned(), after)
            }
        };
        let variable = format!("{name}={value}").parse::<EnvRequest>().map_err(|error| fault(&error.to_string()))?;
        variables.retain(|other| other.name() != variable.name());
        variables.push(variable);
        number += rest[..rest.len() - end.len()].matches('\n').count();
        rest = end;
    }
    Ok(variables)
}

/// Returns a value in quotes, whose first one is not part of `text`, and the text after the last one. `None` without a second one.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => {
                return Some((value, &text[at + 1..]));
            }
            '\\' if quote == '"' => match chars.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                c @ ('"' | '\\' | '$') => value.push(c),
                other => value.extend(['\\', other]),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_variables() {
        let text = "\u{feff}# all\n\nA=1\nexport B = two words # not this\r\nC='$HOME \\n #'\nD=\"x\\n\\\"y\\\" \\$Z\\q\"  # no\nE=\nF=a#b\nG=\"1\n2\"\nA=3\nH=#x";
        let parsed = parse_env_file(text).expect("variables");
        let shown: Vec<(String, String)> = parsed
            .into_iter()
            .map(|variable| match variable {
                EnvRequest::Set(name, value) => (name.as_str().to_owned(), value),
                EnvRequest::FromHost(name) => panic!("{name:?} is read from this machine"),
            })
            .collect();
        let expected = [
            ("B", "two words"),
            ("C", "$HOME \\n #"),
            ("D", "x\n\"y\" $Z\\q"),
            ("E", ""),
            ("F", "a#b"),
            ("G", "1\n2"),
            ("A", "3"),
            ("H", "#x"),
        ];
        assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn invalid_lines_are_named_without_their_values() {
        for (text, line) in [
            ("A=1\nSECRET", 2),
            ("A='x\ny'\n=secret", 3),
            ("A=1\n\nB=\"secret", 3),
            ("a b=secret", 1),
            ("A='secret's", 1),
            ("A=\"x\"\"secret\"", 1),
        ] {
            let error = parse_env_file(text).expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(!error.to_string().to_lowercase().contains("secret"), "{error}");
        }
    }
}
