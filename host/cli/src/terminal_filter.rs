//! Filter for guest output on a terminal: text and colours pass, and all other control sequences are made visible.
//!
//! A terminal executes control sequences: they can set titles, write the clipboard, and send answers to the shell's
//! standard input. The filter therefore is an allow list: printable UTF-8, newline, carriage return, tab, backspace,
//! the colour sequence `ESC [ … m`, and what progress bars need in the current line: its erasure (`ESC [ … K`), moves in
//! it (`C`, `D`, `G`), and the visibility of the cursor (`ESC [ ? 25 h` and `l`). Any other control character is replaced by a visible symbol, so that nothing is
//! hidden and nothing is executed. No output is dropped: a filter that skips to the end of a sequence would let a guest
//! hide output.

/// Maximum number of bytes in one colour sequence; real ones are far shorter.
const MAX_SGR_LEN: usize = 64;

/// Filter state for a stream of bytes, which may arrive in arbitrary pieces.
#[derive(Debug, Default)]
pub(crate) struct TerminalFilter {
    /// Start of a character or colour sequence whose end has not arrived yet.
    held: Vec<u8>,
    coloured: Coloured,
    /// True if the guest has hidden the cursor.
    is_cursor_hidden: bool,
}

/// State of the colours at the end of the output so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Coloured {
    #[default]
    No,
    Yes,
}

/// Classification of the next bytes of a stream.
enum Front {
    /// Bytes that pass unchanged; holds their number.
    Pass(usize),
    /// A complete colour sequence of this many bytes.
    Sgr(usize),
    /// A sequence of this many bytes that changes the current line.
    Line(usize),
    /// A sequence of this many bytes that shows or hides the cursor.
    Cursor(usize),
    /// A control character of this many bytes that is replaced by a symbol.
    Show(char, usize),
    /// Bytes that are not valid UTF-8; holds their number.
    Broken(usize),
    /// An incomplete character or sequence; more bytes decide.
    Partial,
}

impl TerminalFilter {
    /// Appends the filtered form of `bytes` to `out`; holds back at most an unfinished character or sequence.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut whole = std::mem::take(&mut self.held);
        whole.extend_from_slice(bytes);
        let mut rest = whole.as_slice();
        while !rest.is_empty() {
            let taken = match front(rest) {
                Front::Pass(length) => {
                    out.extend_from_slice(&rest[..length]);
                    length
                }
                Front::Sgr(length) => {
                    self.coloured = after_sgr(&rest[2..length - 1]);
                    out.extend_from_slice(&rest[..length]);
                    length
                }
                Front::Line(length) => {
                    out.extend_from_slice(&rest[..length]);
                    length
                }
                Front::Cursor(length) => {
                    self.is_cursor_hidden = rest[length - 1] == b'l';
                    out.extend_from_slice(&rest[..length]);
                    length
                }
                Front::Show(control, length) => {
                    show(control, out);
                    length
                }
                Front::Broken(length) => {
                    push_char('\u{fffd}', out);
                    length
                }
                Front::Partial => {
                    self.held.extend_from_slice(rest);
                    return;
                }
            };
            rest = &rest[taken..];
        }
    }

    /// Appends the held bytes, and resets the colours and shows the cursor if the guest has changed them.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        match held.split_first() {
            Some((&ESC, rest)) => {
                show('\u{1b}', out);
                out.extend_from_slice(rest);
            }
            Some(_) => push_char('\u{fffd}', out),
            None => {}
        }
        if std::mem::take(&mut self.coloured) == Coloured::Yes {
            out.extend_from_slice(b"\x1b[0m");
        }
        if std::mem::take(&mut self.is_cursor_hidden) {
            out.extend_from_slice(b"\x1b[?25h");
        }
    }
}

const ESC: u8 = 0x1b;

const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t' | 0x08)
}

fn front(bytes: &[u8]) -> Front {
    let plain = bytes.iter().take_while(|&&byte| is_plain(byte)).count();
    match bytes[0] {
        _ if plain > 0 => Front::Pass(plain),
        ESC => front_of_escape(bytes),
        byte if byte.is_ascii() => Front::Show(char::from(byte), 1),
        _ => front_of_character(bytes),
    }
}

fn front_of_escape(bytes: &[u8]) -> Front {
    let shown = Front::Show('\u{1b}', 1);
    match bytes.get(1) {
        None => return Front::Partial,
        Some(b'[') => {}
        Some(_) => return shown,
    }
    if let Some(rest) = bytes[2..].strip_prefix(b"?") {
        return match rest {
            [b'2', b'5', b'h' | b'l', ..] => Front::Cursor(6),
            [] | [b'2'] | [b'2', b'5'] => Front::Partial,
            _ => shown,
        };
    }
    let parameters = bytes[2..].iter().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')).count();
    let length = 2 + parameters + 1;
    match bytes.get(length - 1) {
        _ if length > MAX_SGR_LEN => shown,
        None => Front::Partial,
        Some(b'm') => Front::Sgr(length),
        Some(b'K' | b'C' | b'D' | b'G') => Front::Line(length),
        Some(_) => shown,
    }
}

fn front_of_character(bytes: &[u8]) -> Front {
    let window = &bytes[..bytes.len().min(4)];
    let (valid, broken) = match std::str::from_utf8(window) {
        Ok(text) => (text, None),
        Err(fault) => {
            let valid = std::str::from_utf8(&window[..fault.valid_up_to()]).unwrap_or_default();
            (valid, Some(fault.error_len()))
        }
    };
    match (valid.chars().next(), broken) {
        (Some(c), _) if is_c1(c) => Front::Show(c, c.len_utf8()),
        (Some(c), _) => Front::Pass(c.len_utf8()),
        (None, Some(Some(length))) => Front::Broken(length),
        (None, _) => Front::Partial,
    }
}

/// Returns true for the C1 control characters, which some terminals execute: U+009B is `ESC [` in one character.
const fn is_c1(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}')
}

/// Returns the state after a colour sequence: normal only if the whole sequence is a reset.
///
/// A zero at the end of a longer sequence can belong to the preceding parameter, as in `38;5;0`.
fn after_sgr(parameters: &[u8]) -> Coloured {
    if parameters.iter().all(|&byte| byte == b'0') { Coloured::No } else { Coloured::Yes }
}

/// Writes a symbol for a control character: `␛` for ESC, and a code such as `<9B>` if Unicode has no symbol.
fn show(control: char, out: &mut Vec<u8>) {
    match u32::from(control) {
        0x7f => push_char('\u{2421}', out),
        code @ 0..0x20 => push_char(char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'), out),
        code => out.extend_from_slice(format!("<{code:02X}>").as_bytes()),
    }
}

fn push_char(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests;
