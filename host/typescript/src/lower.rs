//! Lowering of namespaces, enums, `import a = b.c`, decorators and `accessor` to JavaScript, by edits of the text.
//!
//! oxc processes one part of a namespace at a time and copies exported variables, so an assignment inside the namespace
//! is not visible outside. This pass does the same as the TypeScript compiler: an exported variable exists only as a
//! property of the namespace's object, every reference to it is qualified, and all parts of a merged namespace or enum
//! share one object. Types are left to oxc, which parses the edited text. Lines are preserved, and [`Columns`] maps
//! columns back.

use oxc::ast::ast::Program;
use oxc::ast_visit::Visit;
use oxc::semantic::Scoping;

pub(crate) use decorators::needs_lowering;
use decorators::{HELPER_MARK, HELPERS, Search};
pub(crate) use edits::Columns;
use rewrite::Rewriter;
use table::Table;

mod aliases;
mod decorators;
mod edits;
mod enums;
mod evaluate;
mod exports;
mod namespaces;
mod rewrite;
mod table;
mod value;

/// A text without namespaces, enums and aliases of their members.
#[derive(Debug)]
pub(crate) struct LoweredText {
    /// The edited text.
    pub(crate) text: String,
    /// The mapping to the columns of the original text.
    pub(crate) columns: Columns,
}

/// The words of which at least one occurs in a text that needs lowering.
const KEYWORDS: [&str; 6] = ["enum", "namespace", "module", "import", "@", "accessor"];

/// Lowers a program, in which decorators can be those of `experimentalDecorators`. Returns `None` if the program needs no lowering.
pub(crate) fn lowered_text(
    text: &str,
    program: &Program<'_>,
    scoping: &Scoping,
    are_legacy: bool,
) -> Option<LoweredText> {
    if !KEYWORDS.iter().any(|word| text.contains(word)) {
        return None;
    }
    let table = Table::collect(program, scoping);
    let mut search = Search { are_legacy, is_found: false };
    search.visit_program(program);
    if table.is_empty() && !search.is_found {
        return None;
    }
    let mut rewriter = Rewriter::new(text, &table, are_legacy);
    rewriter.visit_program(program);
    let (mut text, columns) = rewriter.finish();
    if search.is_found && text.contains(HELPER_MARK) {
        text.push('\n');
        text.push_str(HELPERS);
    }
    Some(LoweredText { text, columns })
}
