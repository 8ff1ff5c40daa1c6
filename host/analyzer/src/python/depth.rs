//! How deeply a text nests.
//!
//! The parser grows its stack as it needs, but walking a syntax tree and freeing it do not. A hostile program must not
//! bring the host down by being looked at, so its tokens are counted first: an upper bound of the depth of a valid
//! program's tree.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// The deepest tree that is made. Programs written by people stay below 50; four hundred fit every stack.
const DEEPEST: u32 = 400;

/// Whether the syntax tree of `text` is at most [`DEEPEST`] levels deep. Never so if its brackets do not match.
pub(super) fn is_shallow(text: &str) -> bool {
    let mut lexer = lexer::lex(text, Mode::Module);
    let mut nesting = Nesting::default();
    loop {
        let kind = lexer.next_token();
        if kind.is_eof() {
            return nesting.around.is_empty();
        }
        if nesting.take(kind).is_none() || nesting.depth() > DEEPEST {
            return false;
        }
    }
}

/// Open blocks and brackets, and what else may nest in each of them.
#[derive(Default)]
struct Nesting {
    blocks: u32,
    around: Vec<Bracket>,
    /// The levels in the brackets that are open around the present one.
    outside: u32,
    here: Levels,
}

struct Bracket {
    closes_with: TokenKind,
    before: Levels,
}

/// What may nest in one bracket, or in a line outside all.
#[derive(Clone, Copy, Default)]
struct Levels {
    /// Operators and brackets since the last comma, after which a sibling begins.
    operators: u32,
    /// Keywords that hold something after a comma, as in `lambda a, b: …`, and the heads of blocks, which the
    /// parser may see in a bracket once it has met an error.
    keywords: u32,
}

impl Levels {
    fn sum(self) -> u32 {
        self.operators + self.keywords
    }
}

impl Nesting {
    fn depth(&self) -> u32 {
        self.blocks + self.outside + self.here.sum()
    }

    /// Counts a token in; `None` if it is a bracket that does not match.
    fn take(&mut self, kind: TokenKind) -> Option<()> {
        match kind {
            TokenKind::Indent => self.blocks += 1,
            TokenKind::Dedent => self.blocks = self.blocks.saturating_sub(1),
            TokenKind::Lpar => self.open(TokenKind::Rpar),
            TokenKind::Lsqb => self.open(TokenKind::Rsqb),
            TokenKind::Lbrace => self.open(TokenKind::Rbrace),
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => return self.close(kind),
            TokenKind::Comma => self.here.operators = 0,
            TokenKind::Newline if self.around.is_empty() => self.here = Levels::default(),
            TokenKind::Name
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringMiddle
            | TokenKind::FStringEnd
            | TokenKind::TStringMiddle
            | TokenKind::TStringEnd
            | TokenKind::True
            | TokenKind::False
            | TokenKind::None
            | TokenKind::Comment
            | TokenKind::Newline
            | TokenKind::NonLogicalNewline => {}
            TokenKind::Lambda
            | TokenKind::If
            | TokenKind::Elif
            | TokenKind::Else
            | TokenKind::For
            | TokenKind::While
            | TokenKind::With
            | TokenKind::Try
            | TokenKind::Except
            | TokenKind::Finally
            | TokenKind::Def
            | TokenKind::Class
            | TokenKind::Match
            | TokenKind::Case
            | TokenKind::Async
            | TokenKind::Unknown => self.here.keywords += 1,
            _ => self.here.operators += 1,
        }
        Some(())
    }

    fn open(&mut self, closes_with: TokenKind) {
        // Counted where it stands, so that `f()()()`, which is never two brackets deep, adds up.
        self.here.operators += 1;
        self.outside += self.here.sum();
        self.around.push(Bracket { closes_with, before: std::mem::take(&mut self.here) });
    }

    fn close(&mut self, kind: TokenKind) -> Option<()> {
        let Bracket { closes_with, before } = self.around.pop()?;
        self.outside -= before.sum();
        self.here = before;
        (closes_with == kind).then_some(())
    }
}
