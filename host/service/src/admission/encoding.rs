//! Encoding of a Python file, as a PEP 263 comment declares it.

/// Returns the encoding that a comment in one of the first two lines declares.
///
/// As in Python, the second line counts only if the first is empty or a comment.
pub(super) fn declared(text: &[u8]) -> Option<String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    let first = lines.next()?;
    in_line(first).or_else(|| {
        let blank = matches!(after_blanks(first), [] | [b'#', ..]);
        // `\r\n` splits into a line and an empty one.
        let crlf = text.get(first.len()..first.len() + 2) == Some(b"\r\n");
        let second = if crlf { lines.nth(1)? } else { lines.next()? };
        if blank { in_line(second) } else { None }
    })
}

/// Returns true if a declared encoding is a spelling of UTF-8.
pub(super) fn is_utf8(encoding: &str) -> bool {
    let name = encoding.to_ascii_lowercase().replace(['_', '.'], "-");
    matches!(name.as_str(), "utf-8" | "utf8" | "utf-8-sig" | "u8" | "utf") || name.starts_with("utf-8-")
}

/// Returns the name in `# … coding: NAME` or `# … coding=NAME`.
fn in_line(line: &[u8]) -> Option<String> {
    let comment = after_blanks(line).strip_prefix(b"#")?;
    let places = comment.windows(7).enumerate();
    let mut after = places.filter_map(|(at, word)| match word {
        b"coding:" | b"coding=" => Some(&comment[at + 7..]),
        _ => None,
    });
    after.find_map(|rest| {
        let skip = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let name: String = rest[skip..]
            .iter()
            .map(|byte| char::from(*byte))
            .take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c))
            .collect();
        (!name.is_empty()).then_some(name)
    })
}

fn after_blanks(line: &[u8]) -> &[u8] {
    let skip = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\x0c')).count();
    &line[skip..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_declarations_where_python_does() {
        for (text, encoding) in [
            ("# -*- coding: latin-1 -*-\nx", Some("latin-1")),
            ("#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n", Some("cp1252")),
            ("#!/usr/bin/python\r\n#coding=koi8-r\r\n", Some("koi8-r")),
            ("\n# coding: ascii", Some("ascii")),
            ("\u{feff}# coding: utf-8\n", Some("utf-8")),
            ("x = 1\n# coding: latin-1\n", None),
            ("\n\n# coding: latin-1\n", None),
            ("print('coding: latin-1')\n", None),
            ("# coding:\n", None),
            ("", None),
        ] {
            assert_eq!(declared(text.as_bytes()).as_deref(), encoding, "{text:?}");
        }
        assert!(is_utf8("UTF_8") && is_utf8("utf8") && !is_utf8("latin-1"));
    }
}
