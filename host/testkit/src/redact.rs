//! Redaction that makes output independent of machine and date.

use std::path::Path;

/// Replaces each of `places` by its name in brackets, digests by `[sha256]`, abbreviated digests by `[digest]`,
/// durations by `[time]`, and the numbers of sizes in KiB, MiB or GiB by `[size]`.
#[must_use]
pub fn redact(text: &str, places: &[(&Path, &str)]) -> String {
    let mut text = text.to_owned();
    let mut places: Vec<_> = places.iter().map(|(path, name)| (path.display().to_string(), *name)).collect();
    // The longest paths come first, because one place may be inside another.
    places.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    for (path, name) in places.iter().filter(|(path, _)| !path.is_empty()) {
        text = text.replace(path, &format!("[{name}]"));
    }
    let lines: Vec<String> = text.split('\n').map(|line| redact_words(&redact_sizes(line))).collect();
    lines.join("\n")
}

/// Replaces numbers that are followed by KiB, MiB or GiB.
fn redact_sizes(line: &str) -> String {
    let mut parts: Vec<&str> = line.split(' ').collect();
    for at in 1..parts.len() {
        let number = parts[at - 1].trim_start_matches('(').parse::<f64>().is_ok();
        if number && matches!(parts[at].trim_end_matches([')', ',', ';']), "MiB" | "GiB" | "KiB") {
            parts[at - 1] = "[size]";
        }
    }
    parts.join(" ")
}

/// Replaces digests and durations that are single words.
fn redact_words(line: &str) -> String {
    let mut redacted = String::with_capacity(line.len());
    let mut word = String::new();
    for character in line.chars().chain(['\0']) {
        if character.is_ascii_alphanumeric() || character == '.' {
            word.push(character);
            continue;
        }
        redacted.push_str(replacement(&word));
        word.clear();
        if character != '\0' {
            redacted.push(character);
        }
    }
    redacted
}

fn replacement(word: &str) -> &str {
    let hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    // A word of digits alone can be a date.
    let mixed = word.bytes().any(|byte| byte.is_ascii_digit())
        && !(word.starts_with("20") && word.bytes().all(|byte| byte.is_ascii_digit()));
    let digest = hex && word.len() >= 40;
    // Abbreviated digest, as in names and versions.
    let abbreviated = hex && mixed && matches!(word.len(), 8 | 12);
    let number = word.strip_suffix("ms").or_else(|| word.strip_suffix("us"));
    if digest {
        "[sha256]"
    } else if abbreviated {
        "[digest]"
    } else if number.is_some_and(|number| number.parse::<f64>().is_ok()) {
        "[time]"
    } else {
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_redacted_parts() {
        let home = Path::new("/a/home");
        assert_eq!(redact("js-0.1-6a40038d, 20261121, 22532378", &[]), "js-0.1-[digest], 20261121, [digest]");
        let text = format!("in /a/home/x: 1.5 MiB, sha256 is {}, 12.25ms (keep 5s)", "ab".repeat(32));
        assert_eq!(redact(&text, &[(home, "HOME")]), "in [HOME]/x: [size] MiB, sha256 is [sha256], [time] (keep 5s)");
    }
}
