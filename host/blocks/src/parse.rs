//! Parsing of Markdown.

use codebox_core::{Language, ResultKind, RunnerError};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// Maximum number of blocks of a text.
pub const MAX_BLOCKS: usize = 1000;

/// Language of a block that codebox runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockLanguage {
    /// Python: `py`, `python`, `python3`.
    Python,
    /// JavaScript: `js`, `javascript`, `mjs`.
    JavaScript,
    /// TypeScript: `ts`, `typescript`, `mts`.
    TypeScript,
    /// A POSIX shell, in a container: `sh`, `shell`.
    Sh,
    /// Bash, in a container: `bash`.
    Bash,
}

impl BlockLanguage {
    /// Returns the language of a name in an info string; `None` if codebox does not run it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "py" | "python" | "python3" => Self::Python,
            "js" | "javascript" | "mjs" => Self::JavaScript,
            "ts" | "typescript" | "mts" => Self::TypeScript,
            "sh" | "shell" => Self::Sh,
            "bash" => Self::Bash,
            _ => return None,
        })
    }

    /// Returns the name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Sh => "sh",
            Self::Bash => "bash",
        }
    }

    /// Returns the language of the block's session; `None` for a shell, which has none.
    #[must_use]
    pub const fn of_session(self) -> Option<Language> {
        match self {
            Self::Python => Some(Language::Python),
            Self::JavaScript => Some(Language::JavaScript),
            Self::TypeScript => Some(Language::TypeScript),
            Self::Sh | Self::Bash => None,
        }
    }
}

/// Fenced code block of a language that codebox runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Number of the block among those that codebox runs, from 1.
    pub number: usize,
    /// Language.
    pub language: BlockLanguage,
    /// Line of the text with the first line of the code, from 1.
    pub line: usize,
    /// Code, without the indentation of a list or a quotation around the block.
    pub code: String,
    /// True if the info string has `skip`: the block is not run.
    pub skip: bool,
    /// True if the info string has `expect-error`: the block is expected to fail.
    pub expects_error: bool,
    /// True if the block may fail. Only cells of notebooks can.
    pub may_fail: bool,
}

/// Returns the fenced code blocks of a CommonMark text whose language codebox runs, in order.
///
/// The language is the first word of the info string; `skip` and `expect-error` may follow, separated by spaces or commas. Other words are
/// ignored.
///
/// # Errors
/// Returns an error if there are more than [`MAX_BLOCKS`].
pub fn parse(text: &str) -> Result<Vec<Block>, RunnerError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // All three ends of lines are allowed; the parser does not know a single carriage return.
    let text = if text.contains('\r') { &*text.replace("\r\n", "\n").replace('\r', "\n") } else { text };
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    // The line of an offset, which grows.
    let (mut line, mut counted) = (1, 0);
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                line += text[counted..range.start].matches('\n').count();
                counted = range.start;
                open = block_of(&info, line + 1);
            }
            Event::Text(part) => {
                if let Some(block) = &mut open {
                    block.code.push_str(&part);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some(block) = open.take() {
                    if blocks.len() == MAX_BLOCKS {
                        let line = format!("the text has more than {MAX_BLOCKS} blocks of code");
                        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("split the text"));
                    }
                    blocks.push(Block { number: blocks.len() + 1, ..block });
                }
            }
            _ => {}
        }
    }
    Ok(blocks)
}

/// Returns an empty block with the language and flags of an info string.
fn block_of(info: &str, line: usize) -> Option<Block> {
    let mut words = info.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    let language = BlockLanguage::from_name(words.next()?)?;
    let mut block =
        Block { number: 0, language, line, code: String::new(), skip: false, expects_error: false, may_fail: false };
    for word in words {
        match word {
            "skip" => block.skip = true,
            "expect-error" => block.expects_error = true,
            _ => {}
        }
    }
    Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(BlockLanguage, usize, String)> {
        let blocks = parse(text).expect("few blocks");
        blocks.into_iter().map(|block| (block.language, block.line, block.code)).collect()
    }

    #[test]
    fn blocks_have_the_line_and_the_text_of_their_code() {
        let text = "# Title\n\n```python\nx = 1\n\nprint(x)\n```\n\ntext `py`\n\n~~~js title=\"a\"\nlet a\n~~~\n\n```rust\nfn f() {}\n```\n";
        let expected = [
            (BlockLanguage::Python, 4, "x = 1\n\nprint(x)\n".to_owned()),
            (BlockLanguage::JavaScript, 12, "let a\n".to_owned()),
        ];
        assert_eq!(parsed(text), expected);
    }

    #[test]
    fn blocks_in_lists_and_quotations_are_found() {
        let text = "1. step\n\n   ```py\n   if x:\n       y\n   ```\n\n> ```ts\n> let a: number\n> ```\n";
        let expected = [
            (BlockLanguage::Python, 4, "if x:\n    y\n".to_owned()),
            (BlockLanguage::TypeScript, 9, "let a: number\n".to_owned()),
        ];
        assert_eq!(parsed(text), expected);
    }

    #[test]
    fn fences_follow_commonmark() {
        // A longer fence contains a shorter one, an open block ends with the text, indented code has no language.
        assert_eq!(parsed("````py\n```\nx\n```\n````"), [(BlockLanguage::Python, 2, "```\nx\n```\n".to_owned())]);
        assert_eq!(parsed("```sh\nls"), [(BlockLanguage::Sh, 2, "ls".to_owned())]);
        assert_eq!(parsed("    x = 1\n\n<pre>\n```py\nx\n```\n</pre>\n"), []);
        for text in ["```PYTHON\r\nx\r\n```\r\n", "\u{feff}```py\nx\n```\n", "```py\rx\r```\r"] {
            assert_eq!(parsed(text), [(BlockLanguage::Python, 2, "x\n".to_owned())], "{text:?}");
        }
        assert_eq!(parsed("```bash\n```"), [(BlockLanguage::Bash, 2, String::new())]);
    }

    #[test]
    fn flags_follow_the_language() {
        let block = |info: &str| parse(&format!("```{info}\nx\n```")).expect("few blocks").pop();
        let flags = |info: &str| block(info).map(|block| (block.skip, block.expects_error));
        assert_eq!(flags("py"), Some((false, false)));
        assert_eq!(flags("py skip"), Some((true, false)));
        assert_eq!(flags("py,expect-error,linenos"), Some((false, true)));
        assert_eq!(flags("py  skip , expect-error"), Some((true, true)));
        assert_eq!(flags("skip"), None);
        assert_eq!(flags(""), None);
    }

    #[test]
    fn number_of_blocks_is_limited() {
        let text = "```py\n```\n".repeat(MAX_BLOCKS);
        assert_eq!(parse(&text).expect("it is the maximum").len(), MAX_BLOCKS);
        assert!(parse(&(text + "```py\n```\n")).is_err());
    }
}
