use std::fmt::{self, Display, Write};

/// Maximum number of characters that are shown; names and messages can be as long as a file.
const LONGEST: usize = 2000;

/// A text that is safe to show on one line of a terminal: control characters, and characters that reorder or hide the
/// rest of the line, are escaped.
pub(crate) struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, c) in self.0.chars().enumerate() {
            if n == LONGEST {
                return f.write_char('…');
            }
            if is_active(c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// Returns true for control characters, and for those that invisibly change the direction, the line or the width of
/// text.
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes, inside JSON text, the control characters that JSON allows and terminals execute.
///
/// Those characters can only occur inside strings, so the meaning of the document does not change.
pub(crate) fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_names_stay_on_their_line() {
        for (name, shown) in [
            ("plot é.png", "plot é.png"),
            ("a\nb\t", "a\\nb\\t"),
            ("\u{1b}]0;x\u{7}", "\\u{1b}]0;x\\u{7}"),
            ("gpj.\u{202e}exe", "gpj.\\u{202e}exe"),
            ("\u{9b}2J", "\\u{9b}2J"),
        ] {
            assert_eq!(Escaped(name).to_string(), shown);
        }
        let long = "x".repeat(LONGEST + 5);
        assert_eq!(Escaped(&long).to_string().chars().count(), LONGEST + 1);
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in any::<String>()) {
            prop_assert!(!Escaped(&text).to_string().contains(char::is_control));
        }

        #[test]
        fn escaped_json_is_equivalent(text in any::<String>()) {
            let json = serde_json::to_string(&text).expect("strings serialise");
            let escaped = escape_json(&json);
            prop_assert!(!escaped.contains(char::is_control));
            let back: String = serde_json::from_str(&escaped).expect("it is JSON still");
            prop_assert_eq!(back, text);
        }
    }
}
