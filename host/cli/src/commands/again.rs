//! The command of this process, for another isolation.

/// The same command with `--isolation container`, quoted for a shell.
pub(super) fn again() -> String {
    in_container(std::env::args().skip(1))
}

fn in_container(words: impl Iterator<Item = String>) -> String {
    let mut line = vec!["codebox".to_owned()];
    let mut words = words.peekable();
    let mut told = false;
    while let Some(word) = words.next() {
        if !told && word == "run" {
            line.extend(["run", "--isolation", "container"].map(str::to_owned));
            told = true;
        } else if told && word == "--isolation" {
            words.next();
        } else if !(told && word.starts_with("--isolation=")) {
            line.push(quoted(&word));
        }
    }
    line.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_the_same_but_for_the_isolation() {
        let of = |words: &[&str]| in_container(words.iter().map(|word| (*word).to_owned()));
        assert_eq!(of(&["-q", "run", "x.py", "a b"]), "codebox -q run --isolation container x.py 'a b'");
        assert_eq!(
            of(&["run", "--isolation", "wasm", "-c", "it's"]),
            "codebox run --isolation container -c 'it'\\''s'"
        );
        assert_eq!(of(&["run", "--isolation=auto", ""]), "codebox run --isolation container ''");
    }
}
