//! Variables and commands that a program lacks.

use std::ffi::OsString;

use codebox_core::GuestError;

use crate::rerun_command::command_with;

/// Parts of the names of variables with secrets.
const SECRET_WORDS: [&str; 16] = [
    "AUTH",
    "CERT",
    "CONN",
    "COOKIE",
    "CREDENTIAL",
    "DSN",
    "HOOK",
    "KEY",
    "PASS",
    "PRIVATE",
    "PWD",
    "SECRET",
    "SESSION",
    "SIGN",
    "TOKEN",
    "URL",
];

/// Returns the line about a variable that this process has and the program does not; `None` if it failed for another reason.
pub(super) fn variable(error: &GuestError, is_set: impl Fn(&str) -> bool, args: &[OsString]) -> Option<String> {
    let name = error.value.strip_prefix('\'')?.strip_suffix('\'').filter(|_| error.name == "KeyError")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_of_environment = || error.traceback.iter().any(|line| line.contains("environ"));
    if name.is_empty() || !name.chars().all(is_name) || !is_of_environment() || !is_set(name) {
        return None;
    }
    // The value of such a variable should not be passed without thought.
    if SECRET_WORDS.iter().any(|word| name.to_ascii_uppercase().contains(word)) {
        return Some("the program reads a variable that it does not have; pass one with --env NAME".to_owned());
    }
    let command = command_with(args, ["--env", name])?;
    Some(format!("the program does not have the variable {name}; pass it with: {command}"))
}

/// Returns the line about a program that a container does not have; `None` if the run failed for another reason.
pub(super) fn program(error: &GuestError, image: Option<&str>) -> Option<String> {
    let is_plain = |name: &&str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+'))
    };
    let starts_process = || error.traceback.iter().any(|line| line.contains("_execute_child"));
    let name = match error.value.strip_prefix("spawn ") {
        Some(rest) => rest.strip_suffix(" ENOENT"),
        None => error
            .value
            .strip_prefix("[Errno 2] No such file or directory: '")
            .and_then(|rest| rest.strip_suffix('\''))
            .filter(|_| starts_process()),
    };
    let name = name.filter(is_plain)?;
    let image = image.map_or_else(|| "the image".to_owned(), |image| format!("the image {}", image.escape_debug()));
    Some(format!("{image} does not have the program {name}; name one that has it with --image"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str, value: &str, line: &str) -> GuestError {
        let traceback = vec![line.to_owned()];
        GuestError { name: name.to_owned(), value: value.to_owned(), traceback, ..GuestError::default() }
    }

    #[test]
    fn variables_of_this_process_are_named() {
        let args = ["codebox", "run", "a.py"].map(OsString::from);
        let line = "    key = os.environ[\"PATH\"]";
        let is_set = |name: &str| matches!(name, "PATH" | "API_KEY");
        let advice = variable(&error("KeyError", "'PATH'", line), is_set, &args).expect("it is set");
        assert!(advice.ends_with("codebox run --env PATH a.py"), "{advice}");
        let advice = variable(&error("KeyError", "'API_KEY'", line), is_set, &args).expect("it is set");
        assert!(advice.ends_with("pass one with --env NAME") && !advice.contains("API_KEY"), "{advice}");
        for (name, value, line) in [
            ("KeyError", "'NO_SUCH_VARIABLE_HERE'", line),
            ("KeyError", "'PATH'", "    key = d[\"PATH\"]"),
            ("ValueError", "'PATH'", line),
            ("KeyError", "''", line),
            ("KeyError", "1", line),
        ] {
            assert_eq!(variable(&error(name, value, line), is_set, &args), None, "{value}");
        }
    }

    #[test]
    fn programs_that_an_image_lacks_are_named() {
        let child = "  File \"subprocess.py\", line 1, in _execute_child";
        for (value, line, name) in [
            ("[Errno 2] No such file or directory: 'git'", child, Some("git")),
            ("[Errno 2] No such file or directory: 'git'", "  File \"a.py\"", None),
            ("[Errno 2] No such file or directory: '/a/b'", child, None),
            ("spawn ffmpeg ENOENT", "", Some("ffmpeg")),
            ("spawn \u{1b}[2J ENOENT", "", None),
        ] {
            let advice = program(&error("Error", value, line), Some("python:3.13-slim"));
            let expected = name.map(|name| {
                format!(
                    "the image python:3.13-slim does not have the program {name}; name one that has it with --image"
                )
            });
            assert_eq!(advice, expected, "{value}");
        }
    }
}
