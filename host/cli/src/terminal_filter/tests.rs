use proptest::prelude::*;

use super::*;

fn inert(pieces: &[&[u8]]) -> String {
    let mut filter = TerminalFilter::default();
    let mut out = Vec::new();
    for piece in pieces {
        filter.push(piece, &mut out);
    }
    filter.finish(&mut out);
    String::from_utf8(out).expect("inert output is UTF-8")
}

#[test]
fn passes_text_and_colours() {
    for text in ["plain\r\n\tindented\u{8}", "é日本🎉", "\u{1b}[1;31mred\u{1b}[0m", "\u{1b}[38:2::255:0:0mrgb\u{1b}[m"]
    {
        assert_eq!(inert(&[text.as_bytes()]), text);
    }
}

#[test]
fn resets_attributes_at_end() {
    for left_on in ["38;5;0", "48;5;0", "38;2;0;0;0", "58;5;0", "4:0", "0;1", "1;0", ";", "38:5:0", "7", "000;8;"] {
        let text = format!("\u{1b}[{left_on}mtext");
        assert_eq!(inert(&[text.as_bytes()]), format!("{text}\u{1b}[0m"), "{left_on}");
    }
    for reset in ["", "0", "00"] {
        let text = format!("\u{1b}[38;5;0mtext\u{1b}[{reset}m.");
        assert_eq!(inert(&[text.as_bytes()]), text, "{reset}");
    }
}

#[test]
fn shows_control_sequences() {
    for (hostile, shown) in [
        ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
        ("\u{1b}]52;c;cm0=\u{1b}\\", "␛]52;c;cm0=␛\\"),
        ("\u{1b}]8;;http://x\u{1b}\\y", "␛]8;;http://x␛\\y"),
        ("\u{1b}Pq\u{1b}\\", "␛Pq␛\\"),
        ("\u{1b}[2J\u{1b}[6n\u{1b}[?1049h", "␛[2J␛[6n␛[?1049h"),
        ("\u{1b}c", "␛c"),
        ("\u{9b}2J\u{9d}0;t\u{9c}", "<9B>2J<9D>0;t<9C>"),
        ("\0\u{b}\u{7f}", "␀␋␡"),
        ("\u{1b}\u{1b}[1m!", "␛\u{1b}[1m!\u{1b}[0m"),
    ] {
        assert_eq!(inert(&[hostile.as_bytes()]), shown, "{hostile:?}");
    }
    assert_eq!(inert(&[b"\x9b2J\xff"]), "\u{fffd}2J\u{fffd}");
}

#[test]
fn joins_split_sequences() {
    assert_eq!(inert(&[b"\x1b", b"]0;t"]), "␛]0;t");
    assert_eq!(inert(&[b"\x1b[", b"3", b"1", b"m"]), "\u{1b}[31m\u{1b}[0m");
    assert_eq!(inert(&[b"\xc2", b"\x9b", b"2J"]), "<9B>2J");
    assert_eq!(inert(&[b"\xe2\x82", b"\xac"]), "€");
}

#[test]
fn shows_unterminated_sequence_at_end() {
    assert_eq!(inert(&[b"a\x1b"]), "a␛");
    assert_eq!(inert(&[b"a\x1b[31"]), "a␛[31");
    assert_eq!(inert(&[b"a\xe2\x82"]), "a\u{fffd}");
}

#[test]
fn bounds_held_bytes() {
    let mut filter = TerminalFilter::default();
    let mut out = Vec::new();
    filter.push(b"\x1b[", &mut out);
    for _ in 0..10_000 {
        filter.push(b"1;", &mut out);
        assert!(filter.held.len() <= MAX_SGR_LEN);
    }
    assert!(out.starts_with("␛[1;".as_bytes()));
}

/// Returns true if only the allowed control characters remain after every sequence is removed that sets colours, erases the line or moves in
/// it, or shows or hides the cursor.
fn has_only_allowed_controls(text: &str) -> bool {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        if !allowed(before) {
            return false;
        }
        let Some(after) = after.strip_prefix('[') else {
            return false;
        };
        let tail = after.trim_start_matches(|c: char| c.is_ascii_digit() || ";:".contains(c));
        let cursor = after.strip_prefix("?25h").or_else(|| after.strip_prefix("?25l"));
        let Some(tail) = tail.strip_prefix(['m', 'K', 'C', 'D', 'G']).or(cursor) else {
            return false;
        };
        rest = tail;
    }
    allowed(rest)
}

fn allowed(text: &str) -> bool {
    text.chars().all(|c| !c.is_control() || "\n\r\t\u{8}".contains(c))
}

/// Generates byte strings with many control bytes.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let interesting = prop::sample::select(b"\x1b\x9b\x90\x9d\xc2\xe2\x82\x07[]P;:0mKGA?25hl\\\n\x7fa".to_vec());
    prop::collection::vec(prop_oneof![3 => interesting, 1 => any::<u8>()], 0..200)
}

proptest! {
    #[test]
    fn removes_terminal_control_sequences(pieces in prop::collection::vec(hostile(), 0..6)) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let out = inert(&pieces);
        prop_assert!(has_only_allowed_controls(&out), "{out:?}");
    }

    #[test]
    fn chunk_boundaries_do_not_affect_result(bytes in hostile(), cut in 0_usize..200) {
        let (one, other) = bytes.split_at(cut.min(bytes.len()));
        prop_assert_eq!(inert(&[&bytes]), inert(&[one, other]));
    }

    #[test]
    fn plain_text_is_untouched(text in "[^\\p{Cc}]{0,100}[\n\r\t]?") {
        prop_assert_eq!(inert(&[text.as_bytes()]), text);
    }
}
