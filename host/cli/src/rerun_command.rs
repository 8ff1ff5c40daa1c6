//! Command line of a run, changed to run in a container.

use std::ffi::OsString;

use codebox_core::Isolation;

/// Treatment of the `--image` option in the changed command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageOption {
    /// The option names a container image and is kept.
    Keep,
    /// The option names a memory image and is dropped.
    Drop,
}

/// Returns the same command with this isolation, quoted for a shell. Its last `program_words` words are the program
/// and its arguments.
pub(crate) fn rerun_command(
    args: &[OsString],
    program_words: usize,
    image: ImageOption,
    isolation: Isolation,
) -> String {
    let words: Vec<String> = args.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    with_isolation(&words, program_words, image, isolation)
}

/// Returns the command of a run with an option and its value in addition, quoted for a shell. `None` if it is no run.
pub(crate) fn command_with(args: &[OsString], option: [&str; 2]) -> Option<String> {
    let words: Vec<String> = args.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let place = words.iter().position(is_command)?;
    let (before, after) = words.split_at(place + 1);
    let line = ["codebox"].into_iter().chain(before.iter().map(String::as_str)).chain(option);
    Some(shell_line(line.chain(after.iter().map(String::as_str))))
}

/// Returns true for the name of a command that runs a program, after which its options are.
fn is_command(word: &String) -> bool {
    word == "run" || word == "x"
}

/// Returns words as a line, quoted for a shell.
pub(crate) fn shell_line<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn with_isolation(words: &[String], program_words: usize, image: ImageOption, isolation: Isolation) -> String {
    let (options, program) = words.split_at(words.len().saturating_sub(program_words));
    let mut line = vec!["codebox".to_owned()];
    let mut options = options.iter();
    let mut seen_run = false;
    while let Some(word) = options.next() {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if !seen_run && is_command(word) {
            line.extend([word, "--isolation", isolation.as_str()].map(str::to_owned));
            seen_run = true;
        } else if seen_run && (name == "--isolation" || name == "--image" && image == ImageOption::Drop) {
            if value.is_none() {
                options.next();
            }
        } else {
            line.push(quoted(word));
            // The program text after `-c` may look like an option.
            if word.ends_with('c') && word.starts_with('-') && !word.starts_with("--") {
                // A newline at the end of the text makes no difference.
                line.extend(options.next().map(|code| quoted(code.trim_end_matches('\n'))));
            }
        }
    }
    line.extend(program.iter().map(|word| quoted(word)));
    line.join(" ")
}

/// Quotes a word for a POSIX shell, on one line if possible, because control characters in a displayed line are
/// escaped.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    // Command substitution removes newlines at the end, so a word that ends with one is quoted directly.
    if !word.contains(|c: char| c.is_ascii_control()) || word.ends_with('\n') {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut text = String::new();
    for c in word.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\\' => text.push_str("\\\\"),
            '\'' => text.push_str("'\\''"),
            c if c.is_ascii_control() => text.push_str(&format!("\\0{:03o}", u32::from(c))),
            c => text.push(c),
        }
    }
    format!("\"$(printf %b '{text}')\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_only_isolation() {
        let of = |words: &[&str], program_words| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            with_isolation(&words, program_words, ImageOption::Keep, Isolation::Container)
        };
        assert_eq!(of(&["-q", "run", "x.py", "a b"], 2), "codebox -q run --isolation container x.py 'a b'");
        assert_eq!(
            of(&["run", "--isolation", "wasm", "-c", "it's"], 0),
            "codebox run --isolation container -c 'it'\\''s'"
        );
        assert_eq!(of(&["run", "--isolation=auto", ""], 1), "codebox run --isolation container ''");
        assert_eq!(of(&["run", "-c", "--isolation"], 0), "codebox run --isolation container -c --isolation");
        assert_eq!(
            of(&["run", "x.py", "--isolation", "wasm"], 3),
            "codebox run --isolation container x.py --isolation wasm"
        );
    }

    #[test]
    fn quotes_words_for_shell() {
        for word in ["a\nb\t\\n 'c' \"$HOME\" `x` %s\u{1b}[0m", "it's", "", "\\", "é\u{1}7"] {
            let shown = quoted(word);
            assert!(!shown.contains(|c: char| c.is_ascii_control()), "{shown}");
            let shell = std::process::Command::new("/bin/sh").args(["-c", &format!("printf %s {shown}")]).output();
            assert_eq!(String::from_utf8_lossy(&shell.expect("a shell runs").stdout), word, "{shown}");
        }
    }

    #[test]
    fn drops_memory_image() {
        let words = ["run", "--image", "python-data", "--lang=python", "--image=x", "-"].map(str::to_owned);
        assert_eq!(
            with_isolation(&words, 1, ImageOption::Drop, Isolation::Container),
            "codebox run --isolation container --lang=python -"
        );
        let kept = with_isolation(&words, 1, ImageOption::Keep, Isolation::Vm);
        assert_eq!(kept, "codebox run --isolation vm --image python-data --lang=python --image=x -");
    }
}
