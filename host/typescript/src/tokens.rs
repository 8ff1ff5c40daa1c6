//! The tokens of a TypeScript text, as far as its nesting follows from them.

/// What a token does to the nesting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// A bracket of any kind opens, or code inside a template.
    Open,
    /// A round or square bracket closes.
    Close,
    /// A brace closes.
    CloseBlock,
    /// `;`
    Semicolon,
    /// `<`
    Less,
    /// `>` that is no part of an arrow.
    Greater,
    /// A word that begins a statement with another one in it.
    Statement,
    /// A dot before a name.
    Dot,
    /// Any other word.
    Name,
    /// Anything else.
    Other,
}

/// What a slash would be after the last token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A regular expression.
    Operator,
    /// A division.
    Value,
    /// A dot: the word that follows is a name. A slash after it is no program, or follows a number such as `1.`.
    Dot,
    /// `if`, `while`, `for` or `with`: the bracket that follows is theirs.
    Control,
    /// Either.
    Unclear,
}

/// An open bracket.
#[derive(Clone, Copy)]
enum Open {
    /// Round brackets; whether they are a statement's.
    Round { control: bool },
    /// Square brackets or braces.
    Plain,
    /// `${` in a template.
    Template,
}

/// Words after which a slash begins a regular expression.
const RESERVED: [&str; 14] = [
    "return",
    "typeof",
    "case",
    "do",
    "else",
    "in",
    "instanceof",
    "new",
    "void",
    "delete",
    "throw",
    "default",
    "extends",
    "export",
];
/// Words that may be names and may also stand before a regular expression.
const CONTEXTUAL: [&str; 3] = ["of", "yield", "await"];
/// Words before the brackets of a statement's head.
const CONTROL: [&str; 4] = ["if", "while", "for", "with"];

/// Reads tokens one after another.
pub(crate) struct Tokens<'t> {
    whole: &'t str,
    text: &'t [u8],
    at: usize,
    before: Before,
    open: Vec<Open>,
    /// Whether anything but space stands before in its line.
    line_begun: bool,
}

impl<'t> Tokens<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let mut tokens = Self {
            whole: text,
            text: text.as_bytes(),
            at: 0,
            before: Before::Operator,
            open: Vec::new(),
            line_begun: false,
        };
        if text.strip_prefix('\u{feff}').unwrap_or(text).starts_with("#!") {
            tokens.skip_line();
        }
        tokens
    }

    /// The next token and its offset, none at the end, or the offset of what can be read in two ways.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, Token)>, usize> {
        loop {
            let start = self.at;
            let Some(byte) = self.peek(0) else { return Ok(None) };
            if let Some(length) = self.line_end() {
                self.at += length;
                self.line_begun = false;
                continue;
            }
            if let Some(space) = self.whole[start..].chars().next().filter(|c| is_space(*c)) {
                self.at += space.len_utf8();
                continue;
            }
            match byte {
                b'/' if self.peek(1) == Some(b'/') => self.skip_line(),
                b'/' if self.peek(1) == Some(b'*') => self.skip_comment(),
                _ => {
                    let token = self.token(byte)?;
                    self.line_begun = true;
                    return Ok(Some((start, token)));
                }
            }
        }
    }

    fn token(&mut self, byte: u8) -> Result<Token, usize> {
        let next = self.peek(1);
        match byte {
            b'(' => {
                let control = self.before == Before::Control;
                return Ok(self.opens(Open::Round { control }));
            }
            b'[' | b'{' => return Ok(self.opens(Open::Plain)),
            b')' | b']' => {
                self.at += 1;
                let control = matches!(self.open.pop(), Some(Open::Round { control: true }));
                self.before = if control { Before::Operator } else { Before::Value };
                return Ok(Token::Close);
            }
            b'}' => {
                self.at += 1;
                if let Some(Open::Template) = self.open.pop() {
                    // Code in a template ends where the template's own text goes on.
                    return Ok(if self.template() { Token::Other } else { Token::CloseBlock });
                }
                self.before = Before::Unclear;
                return Ok(Token::CloseBlock);
            }
            b'`' => {
                self.at += 1;
                return Ok(if self.template() { Token::Open } else { Token::Other });
            }
            b'\'' | b'"' => self.skip_string(byte),
            b'/' => self.slash()?,
            b';' => {
                self.operator(1);
                return Ok(Token::Semicolon);
            }
            b'<' if self.text[self.at..].starts_with(b"<!--") => return Err(self.at),
            b'-' if !self.line_begun && self.text[self.at..].starts_with(b"-->") => return Err(self.at),
            b'<' => {
                self.operator(1);
                return Ok(Token::Less);
            }
            b'=' if next == Some(b'>') => self.operator(2),
            b'>' => {
                self.at += 1;
                self.before = Before::Unclear;
                return Ok(Token::Greater);
            }
            b'+' | b'-' if next == Some(byte) => {
                self.at += 2;
                self.before = Before::Unclear;
            }
            b'!' if self.before == Before::Value || self.before == Before::Unclear => {
                self.at += 1;
                self.before = Before::Unclear;
            }
            b'.' if self.text[self.at..].starts_with(b"...") => self.operator(3),
            b'.' | b'#' => {
                self.at += 1;
                self.before = Before::Dot;
                return Ok(Token::Dot);
            }
            _ if is_word(byte) => return Ok(self.word()),
            _ => self.operator(1),
        }
        Ok(Token::Other)
    }

    fn opens(&mut self, bracket: Open) -> Token {
        self.open.push(bracket);
        self.operator(1);
        Token::Open
    }

    fn operator(&mut self, length: usize) {
        self.at += length;
        self.before = Before::Operator;
    }

    fn word(&mut self) -> Token {
        let rest = &self.whole[self.at..];
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$' || is_letter(c)));
        let word = &rest[..length.unwrap_or(rest.len())];
        self.at += word.len();
        let named = self.before == Before::Dot;
        self.before = match word {
            _ if named => Before::Value,
            _ if CONTROL.contains(&word) => Before::Control,
            // `for await (…)`
            "await" if self.before == Before::Control => Before::Control,
            _ if CONTEXTUAL.contains(&word) => Before::Unclear,
            _ if RESERVED.contains(&word) => Before::Operator,
            _ => Before::Value,
        };
        let statement = CONTROL.contains(&word) || word == "do";
        if statement && !named { Token::Statement } else { Token::Name }
    }

    /// A slash that begins no comment.
    fn slash(&mut self) -> Result<(), usize> {
        let end = self.regex_end();
        match (self.before, end) {
            (Before::Operator, Some(end)) => {
                self.at = end;
                self.before = Before::Value;
            }
            (Before::Unclear | Before::Dot | Before::Control, Some(end)) if !self.reads_alike(end) => {
                return Err(self.at);
            }
            _ => self.operator(1),
        }
        Ok(())
    }

    /// Where a regular expression that begins here would end.
    fn regex_end(&self) -> Option<usize> {
        let mut at = self.at + 1;
        let mut class = false;
        while self.line_end_at(at).is_none() {
            match self.text.get(at)? {
                b'\\' => at += 1,
                b'[' => class = true,
                b']' => class = false,
                b'/' if !class => return Some(at + 1),
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// Whether the text up to `end` hides nothing, as a regular expression or as a division and what follows it.
    fn reads_alike(&self, end: usize) -> bool {
        let hides = |byte: &u8| b"'\"`()[]{}\\;<".contains(byte);
        !self.text[self.at + 1..end - 1].iter().any(hides) && !matches!(self.text.get(end), Some(b'/' | b'*'))
    }

    /// Goes on in a template's text; tells whether code begins in it.
    fn template(&mut self) -> bool {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.at += 1,
                b'`' => {
                    self.at += 1;
                    self.before = Before::Value;
                    return false;
                }
                b'$' if self.peek(1) == Some(b'{') => {
                    self.open.push(Open::Template);
                    self.operator(2);
                    return true;
                }
                _ => {}
            }
            self.at += 1;
        }
        false
    }

    fn skip_string(&mut self, quote: u8) {
        self.at += 1;
        self.before = Before::Value;
        while let Some(byte) = self.peek(0) {
            match byte {
                // A string that its line does not end is none; what follows is looked at.
                b'\n' | b'\r' => return,
                b'\\' if self.peek(1) == Some(b'\r') && self.peek(2) == Some(b'\n') => self.at += 2,
                b'\\' => self.at += 1,
                _ if byte == quote => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn skip_line(&mut self) {
        while self.at < self.text.len() && self.line_end().is_none() {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) {
        let rest = &self.text[self.at + 2..];
        let end = rest.windows(2).position(|pair| pair == b"*/");
        self.at = end.map_or(self.text.len(), |end| self.at + end + 4);
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn line_end(&self) -> Option<usize> {
        self.line_end_at(self.at)
    }

    /// How long the end of a line at `at` is, if there is one.
    fn line_end_at(&self, at: usize) -> Option<usize> {
        match self.text.get(at)? {
            b'\n' | b'\r' => Some(1),
            0xe2 if matches!(self.text.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) => Some(3),
            _ => None,
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Whether a character beyond ASCII can be part of a name, as far as it matters here.
fn is_letter(c: char) -> bool {
    !c.is_ascii() && !is_space(c) && !matches!(c, '\u{2028}' | '\u{2029}')
}

fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && !matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}'))
}
