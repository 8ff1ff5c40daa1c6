//! Masking of secrets in texts that are recorded.

use std::collections::VecDeque;

/// Text in place of a secret.
const MASK: &str = "***";

/// Length in bytes from which a granted value is masked: a shorter one would mask ordinary words.
const MIN_MASKED: usize = 6;

/// Maximum number of values of [`SecretValues`] that were added one by one.
const MAX_ADDED: usize = 1024;

/// Beginnings of tokens that services issue, and the least number of characters that follow.
const TOKEN_PREFIXES: [(&str, usize); 20] = [
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("sk-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xapp-", 10),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("npm_", 30),
    ("pypi-", 16),
    ("hf_", 20),
    ("dop_v1_", 20),
    // The beginning of a JSON Web Token.
    ("eyJ", 20),
];

/// Characters between a name and its value.
const SEPARATORS: [char; 14] = ['"', '\'', '\\', '=', ':', ',', ';', '&', '(', ')', '{', '}', '[', ']'];

/// Ends of names whose values are secrets, in lower case.
const SECRET_NAMES: [&str; 10] = [
    "authorization",
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "private_key",
];

/// Values that texts must not contain.
#[derive(Clone, Default)]
pub struct SecretValues {
    granted: Vec<String>,
    /// The latest of those that were added, the oldest first.
    added: VecDeque<String>,
}

impl SecretValues {
    /// Creates a list of granted values.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        Self { granted: values.into_iter().filter(|value| is_masked(value)).collect(), added: VecDeque::new() }
    }

    /// Adds a value. Of those that were added, the latest 1,024 are kept.
    pub fn add(&mut self, value: String) {
        if !is_masked(&value) || self.granted.contains(&value) || self.added.contains(&value) {
            return;
        }
        if self.added.len() == MAX_ADDED {
            self.added.pop_front();
        }
        self.added.push_back(value);
    }

    /// Returns the values.
    #[must_use]
    pub fn all(&self) -> Vec<&str> {
        self.granted.iter().chain(&self.added).map(String::as_str).collect()
    }
}

fn is_masked(value: &str) -> bool {
    value.len() >= MIN_MASKED
}

/// Replaces secrets in a text: these values if they have at least 6 bytes, tokens by the forms that services issue, the value of `NAME=VALUE` and `NAME: VALUE` with a name
/// like `password`, the text after `Bearer`, and the password in an address.
///
/// It recognizes forms and not meanings: a secret of another form stays.
#[must_use]
pub fn mask_secrets(text: &str, values: &[&str]) -> String {
    let mut masked = text.to_owned();
    let mut values: Vec<&str> = values.iter().copied().filter(|value| is_masked(value)).collect();
    // A value can contain another one.
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    for value in values {
        if masked.contains(value) {
            masked = masked.replace(value, MASK);
        }
    }
    let mut result = String::with_capacity(masked.len());
    let mut rest = masked.as_str();
    // True if the next word is a secret because of the words before.
    let mut is_next_secret = false;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '~' | '*');
        if let Some(length) = password_len(&result, rest) {
            result.push_str(MASK);
            rest = &rest[length..];
            continue;
        }
        let is_value = is_next_secret && !first.is_whitespace() && !SEPARATORS.contains(&first);
        if !is_word(first) && !is_value {
            result.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, _) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let is_scheme = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
        if is_next_secret && !is_scheme {
            // A value has any characters up to the next space, quote or separator.
            let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '&' | ',' | ';' | '}' | ')');
            // In quotes, a backslash is followed by a character of the value. Quotes after a backslash are those of text in a text.
            let is_quoted = result.ends_with(['"', '\'']);
            let is_nested = result.ends_with("\\\"") || result.ends_with("\\'");
            let mut end = rest.len();
            let mut chars = rest.char_indices();
            while let Some((at, c)) = chars.next() {
                if c == '\\' && is_quoted && !is_nested {
                    chars.next();
                } else if is_end(c) {
                    let is_nested_end = is_nested && matches!(c, '"' | '\'');
                    end = if is_nested_end { rest[..at].trim_end_matches('\\').len() } else { at };
                    break;
                }
            }
            rest = &rest[end..];
            result.push_str(MASK);
            is_next_secret = false;
            continue;
        }
        rest = &rest[word.len()..];
        if is_token(word) {
            result.push_str(MASK);
            is_next_secret = false;
            continue;
        }
        result.push_str(word);
        // A value follows `NAME=`, `NAME:`, also in quotes and after spaces, and the option `--NAME`.
        let unescaped = rest.strip_prefix('\\').unwrap_or(rest);
        let separator = unescaped.strip_prefix(['"', '\'']).unwrap_or(rest).trim_start_matches(' ');
        let has_value = separator.starts_with(['=', ':']) || word.starts_with("--") && rest.starts_with(' ');
        let is_authorization = is_scheme && result[..result.len() - word.len()].trim_end().ends_with(':');
        is_next_secret = is_secret_name(word) && has_value
            || word.eq_ignore_ascii_case("bearer")
            || is_scheme && (is_next_secret || is_authorization);
    }
    result
}

/// Masks the words of a command line as [`mask_secrets`] masks a text. The word after an option like `--password` is a secret.
pub fn mask_words(words: &mut [String], values: &[&str]) {
    let mut is_secret = false;
    for word in words {
        let is_next_secret = word.strip_prefix("--").is_some_and(is_secret_name);
        *word = if is_secret && !is_next_secret { MASK.to_owned() } else { mask_secrets(word, values) };
        is_secret = is_next_secret;
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.ends_with(secret))
}

fn is_token(word: &str) -> bool {
    TOKEN_PREFIXES.iter().any(|(prefix, least)| word.strip_prefix(prefix).is_some_and(|rest| rest.len() >= *least))
}

/// Returns the length of the password of an address like `https://user:password@host`, if the text so far ends before it.
fn password_len(before: &str, rest: &str) -> Option<usize> {
    let before = before.strip_suffix(':')?;
    let start = before.rfind("://")? + 3;
    if before[start..].contains(|c: char| c == '/' || c == '@' || c.is_whitespace()) {
        return None;
    }
    let end = rest.find(|c: char| c == '@' || c == '/' || c.is_whitespace())?;
    (end > 0 && rest[end..].starts_with('@')).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_values_and_tokens() {
        for (text, masked) in [
            ("git push https://me:hunter2@example.org/x", "git push https://me:***@example.org/x"),
            ("curl -H 'Authorization: Bearer abc.def'", "curl -H 'Authorization: Bearer ***'"),
            ("--password=hunter2 --user=me", "--password=*** --user=me"),
            ("DB_PASSWORD: x1 y", "DB_PASSWORD: *** y"),
            ("ghp_0123456789abcdefghij0123456789abcdef", "***"),
            ("key AKIAIOSFODNN7EXAMPLE.", "key ***"),
            ("in /a/ghp_0123456789abcdefghij0123456789abcdef/x", "in /a/***/x"),
            ("known secret-2 and secret here", "known *** and *** here"),
            ("short ones stay", "short ones stay"),
            ("{\"password\": \"hunter2\", 'token':'x y'}", "{\"password\": \"***\", 'token':'*** y'}"),
            ("mysql --password hunter2 -e x", "mysql --password *** -e x"),
            ("--password=p@ssw0rd!x$ y", "--password=*** y"),
            (
                "git clone https://me:p%40ss@host/x https://host:80/y@z",
                "git clone https://me:***@host/x https://host:80/y@z",
            ),
            ("Authorization: Basic dXNlcjpw end", "Authorization: Basic *** end"),
            ("password = \"hunter3\"; basic: x", "password = \"***\"; basic: x"),
            ("cat /etc/passwd | grep token", "cat /etc/passwd | grep token"),
            (r#"{\"token\":\"hunter2\",\"a\":1}"#, r#"{\"token\":\"***\",\"a\":1}"#),
            (r#"{"password":"ab\"rest"}"#, r#"{"password":"***"}"#),
            ("password=пароль next", "password=*** next"),
            ("password: «x y» z", "password: *** y» z"),
            ("sk-short eyJ", "sk-short eyJ"),
            ("é=ü token", "é=ü token"),
        ] {
            assert_eq!(mask_secrets(text, &["secret", "secret-2", "short"]), masked);
        }
    }

    #[test]
    fn the_latest_values_are_kept() {
        let mut values = SecretValues::new(["granted".to_owned(), "short".to_owned()]);
        for number in 0..=MAX_ADDED {
            values.add(format!("value-{number}"));
            values.add(format!("value-{number}"));
        }
        values.add("granted".to_owned());
        let all = values.all();
        assert_eq!((all.len(), all[0], all[1]), (MAX_ADDED + 1, "granted", "value-1"));
    }

    #[test]
    fn masks_the_word_after_an_option() {
        let mut words = ["mysql", "--password", "hunter2", "--token", "--api-key", "x", "end"].map(str::to_owned);
        mask_words(&mut words, &[]);
        assert_eq!(words, ["mysql", "--password", "***", "--token", "--api-key", "***", "end"]);
    }
}
