//! From text to text, by way of a syntax tree.

use std::path::Path;

use oxc::codegen::{Codegen, CodegenOptions, IndentChar};
use oxc::diagnostics::OxcDiagnostic;
use oxc::parser::Parser;
use oxc::semantic::SemanticBuilder;
use oxc::span::SourceType;
use oxc::transformer::{TransformOptions, Transformer};

use crate::Stripped;
use crate::arena;
use crate::error::StripError;
use crate::merged::qualified;
use crate::place::Place;
use crate::unsupported::unsupported;

/// The kind of source that a file is. JSX is in none of them, so that its text never hides anything.
fn source_type(file: &str) -> SourceType {
    if file.ends_with(".cts") { SourceType::ts().with_commonjs(true) } else { SourceType::ts().with_unambiguous(true) }
}

pub(crate) fn parse_only(file: &str, text: &str) -> bool {
    let Some(allocator) = arena::for_text(text.len()) else { return false };
    let parsed = Parser::new(&allocator, text, source_type(file)).parse();
    !parsed.panicked && !parsed.diagnostics.has_errors()
}

pub(crate) fn strip(file: &str, text: &str) -> Result<Stripped, StripError> {
    match once(file, text)? {
        Once::Stripped(stripped) => Ok(stripped),
        // Nothing is left to qualify in it.
        Once::Qualified(text) => match once(file, &text)? {
            Once::Stripped(stripped) => Ok(stripped),
            Once::Qualified(_) => Err(StripError::NoRoom { length: text.len() }),
        },
    }
}

/// What came of one look at a text.
enum Once {
    Stripped(Stripped),
    /// A text to take instead, whose lines are the same.
    Qualified(String),
}

fn once(file: &str, text: &str) -> Result<Once, StripError> {
    let failed = |diagnostics: oxc::diagnostics::Diagnostics| {
        let first = diagnostics.errors().next().map(|error| syntax(file, text, error));
        first.map_or(Ok(()), Err)
    };
    let allocator = arena::for_text(text.len()).ok_or(StripError::NoRoom { length: text.len() })?;
    let parsed = Parser::new(&allocator, text, source_type(file)).parse();
    failed(parsed.diagnostics)?;
    let mut program = parsed.program;
    unsupported(text, &program)?;
    // Enums are not evaluated here: a short one can have values of any length.
    let analysed = SemanticBuilder::new().with_check_syntax_error(true).build(&program);
    failed(analysed.diagnostics)?;
    let scoping = analysed.semantic.into_scoping();
    if let Some(text) = qualified(text, &program, &scoping)? {
        return Ok(Once::Qualified(text));
    }
    let path = Path::new(file);
    let options = TransformOptions::default();
    let transformed = Transformer::new(&allocator, path, &options).build_with_scoping(scoping, &mut program);
    failed(transformed.diagnostics)?;
    // Without indentation, which would make a deep text's program far longer than the text.
    let options = CodegenOptions {
        source_map_path: Some(path.to_owned()),
        indent_char: IndentChar::Space,
        indent_width: 0,
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(&program);
    let mappings = printed.map.map(|map| map.to_json().mappings).unwrap_or_default();
    Ok(Once::Stripped(Stripped { code: printed.code, mappings }))
}

/// An error of the parser's in one line, with its place.
fn syntax(file: &str, text: &str, error: &OxcDiagnostic) -> StripError {
    let label = error.labels.first();
    let offset = label.map_or(0, |label| label.offset() as usize);
    let mut message = error.message.lines().collect::<Vec<_>>().join(" ");
    if let Some(help) = &error.help {
        message = format!("{message} ({})", help.lines().collect::<Vec<_>>().join(" "));
    }
    if file.ends_with("x") {
        message.push_str(" (JSX is not supported: only types are taken out)");
    }
    StripError::Syntax { message, place: Place::of(text, offset) }
}
