//! How deeply a text nests.
//!
//! The parser calls itself for each level and tries some of them twice, so what nests deeply costs it time and stack
//! out of all proportion. Nothing that people write nests so deeply, so a look at the tokens comes first. Where a
//! slash could begin a regular expression or be a division, and the two would hide different text from the look,
//! the text is refused: a hostile one must not pass by being read in two ways.

use crate::tokens::{Token, Tokens};

/// The deepest brackets, and the most statements in one another without any, that are parsed.
const DEEPEST: usize = 200;

/// The most names with dots between them.
const MOST_DOTS: u32 = 500;

/// The most `<` that are open at once: each may be a comparison or begin type arguments.
const MOST_ANGLES: u32 = 100;

/// Why a text is not parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It nests too deeply at this offset.
    Deep(usize),
    /// The slash at this offset can be read in two ways.
    Unclear(usize),
}

impl Refusal {
    /// Where in the text it is.
    pub(crate) fn offset(self) -> usize {
        match self {
            Self::Deep(at) | Self::Unclear(at) => at,
        }
    }
}

/// What is open in one pair of brackets.
#[derive(Clone, Copy, Default)]
struct Level {
    angles: u32,
    statements: usize,
}

/// Looks through a text.
pub(crate) fn check(text: &str) -> Result<(), Refusal> {
    let mut outside: Vec<Level> = Vec::new();
    let mut here = Level::default();
    let mut dots = 0;
    let mut tokens = Tokens::new(text);
    while let Some((at, token)) = tokens.next().map_err(Refusal::Unclear)? {
        match token {
            Token::Open => {
                outside.push(here);
                here = Level::default();
            }
            Token::Close => {
                // Text that closes more than it opens is no program; the parser says so.
                here = outside.pop().unwrap_or_default();
            }
            Token::CloseBlock => {
                here = outside.pop().unwrap_or_default();
                here.statements = 0;
            }
            Token::Semicolon => here = Level::default(),
            Token::Less => here.angles += 1,
            Token::Greater => here.angles = here.angles.saturating_sub(1),
            Token::Statement => here.statements += 1,
            Token::Dot | Token::Name | Token::Other => {}
        }
        dots = match token {
            Token::Dot => dots + 1,
            Token::Name => dots,
            _ => 0,
        };
        let angles = outside.iter().map(|level| level.angles).sum::<u32>() + here.angles;
        if dots > MOST_DOTS || outside.len() > DEEPEST || here.statements > DEEPEST || angles > MOST_ANGLES {
            return Err(Refusal::Deep(at));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deep(text: &str) -> bool {
        matches!(check(text), Err(Refusal::Deep(_)))
    }

    #[test]
    fn what_people_write_is_shallow() {
        for text in [
            "",
            "#!/usr/bin/env tsx ((((\nconst a: number = 1",
            "const half = (a + b) / 2; // the \"middle\"\nconst re = /['\"(]/g",
            "if (x) /['\"`]/.test(y)",
            "const s = !/[`'\"]/.test(x) && x.replace(/\\//g, `${a}/${b}`)",
            "return /[\"']/.test(s)",
            "export default /`/",
            "const f = (s: string) => /['(]/.test(s)",
            "let n = a[0] / b.of / 2 / c.return / \"x\".length",
            "let t = `a ${ b ? `c ${d} '` : \"`\" } (((`; let u = 'it\\'s ((('",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn depth_is_seen_wherever_it_is() {
        let nest = "(".repeat(300);
        for text in [
            nest.clone(),
            format!("const a = /['\"`]/; {nest}"),
            format!("a.if (x) / '{nest}' / {nest}"),
            format!("if (x) /'/; {nest}"),
            format!("`${{ {nest}"),
            format!("// comment\u{2028}{nest}"),
            format!("'unfinished\n{nest}"),
            format!("/* ` */ {nest}"),
            format!("x / `${{y}}` / {nest}"),
            format!("let x = [...typeof /'/, {nest}"),
            format!("x = a++ + /re/.exec('`') + {nest}"),
        ] {
            assert!(deep(&text), "{}", &text[..40]);
        }
        assert!(deep(&"if(1)".repeat(300)));
        assert!(deep(&"do ".repeat(300)));
        assert!(deep(&"f<".repeat(300)));
        assert!(deep(&("(".to_owned() + &"a<".repeat(50)).repeat(3)));
        assert!(deep(&format!("namespace a{} {{}}", ".b".repeat(600))));
        assert!(!deep(&"if (a) { b() }\n".repeat(300)));
        assert!(!deep(&"let m: Map<string, number> = f<A>(x)\n".repeat(300)));
        assert!(!deep(&"if (a < b) c(d)\nfoo();\n".repeat(300)));
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for text in
            ["}\n/2// ((((", "x! / '(' / y", "i++ / `a` / b", "for (const m of /['\"]/g) {}", "let a = 1 <!-- `"]
        {
            assert!(matches!(check(text), Err(Refusal::Unclear(_))), "{text}");
        }
        for text in ["total! / count", "i++ / 2", "x! / 2 + 1", "while (i --> 0) {}"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }
}
