//! Conversion of a text through a syntax tree.

use std::path::Path;

use oxc::allocator::Allocator;
use oxc::ast::ast::{ImportOrExportKind, Program, Statement};
use oxc::codegen::{Codegen, CodegenOptions, IndentChar};
use oxc::diagnostics::OxcDiagnostic;
use oxc::parser::Parser;
use oxc::semantic::{Scoping, SemanticBuilder};
use oxc::span::SourceType;
use oxc::transformer::{JsxOptions, JsxRuntime, TransformOptions, Transformer};
use oxc_sourcemap::{SourceMap, Token};

use crate::commonjs;
use crate::error::StripError;
use crate::legacy::{LegacyDecorators, use_own_helpers};
use crate::location::Location;
use crate::lower::{Columns, LoweredText, lowered_text};
use crate::unsupported::unsupported;
use crate::{MAX_TEXT_LEN, StrippedProgram};

/// Returns the source type of a file. Only `.tsx` and `.jsx` have JSX, because `<T>value` is a conversion in other files.
fn source_type(file: &str) -> SourceType {
    if file.ends_with(".cts") {
        SourceType::ts().with_commonjs(true)
    } else {
        SourceType::ts().with_unambiguous(true).with_jsx(has_jsx(file))
    }
}

fn has_jsx(file: &str) -> bool {
    file.ends_with(".tsx") || file.ends_with(".jsx")
}

pub(crate) fn parse_only(file: &str, text: &str) -> bool {
    let allocator = Allocator::new();
    let parsed = Parser::new(&allocator, text, source_type(file)).parse();
    !parsed.panicked && !parsed.diagnostics.has_errors()
}

pub(crate) fn strip(file: &str, text: &str) -> Result<StrippedProgram, StripError> {
    match run_pass(file, text, None)? {
        Pass::StrippedProgram(stripped) => Ok(stripped),
        Pass::LoweredText(lowered_text) => match run_pass(file, &lowered_text.text, Some(&lowered_text.columns))? {
            Pass::StrippedProgram(stripped) => Ok(stripped),
            // A lowered text needs no further lowering.
            Pass::LoweredText(_) => Err(StripError::Lowering),
        },
    }
}

/// The result of one pass over a text.
enum Pass {
    StrippedProgram(StrippedProgram),
    /// A lowered text for the next pass.
    LoweredText(LoweredText),
}

/// Runs one pass over a text. `columns` is set if the text is a lowered one, and maps back to the original.
fn run_pass(file: &str, text: &str, columns: Option<&Columns>) -> Result<Pass, StripError> {
    let failed = |diagnostics: oxc::diagnostics::Diagnostics| {
        let first = diagnostics.errors().next().map(|error| syntax(text, columns, error));
        first.map_or(Ok(()), Err)
    };
    let allocator = Allocator::new();
    let parsed = Parser::new(&allocator, text, source_type(file)).parse();
    failed(parsed.diagnostics)?;
    let mut program = parsed.program;
    let legacy = LegacyDecorators::of(text);
    unsupported(text, &program, legacy.is_some())?;
    // The semantic analysis does not evaluate enums, because a short enum can have values of any length. All enums
    // without `declare` are lowered before.
    let analysed = SemanticBuilder::new().with_check_syntax_error(true).build(&program);
    failed(analysed.diagnostics)?;
    let scoping = analysed.semantic.into_scoping();
    if columns.is_none()
        && let Some(lowered_text) = lowered_text(text, &program, &scoping, legacy.is_some())
    {
        let (length, max_len) = (lowered_text.text.len(), 2 * MAX_TEXT_LEN);
        if length > max_len {
            return Err(StripError::Long { length, max_len });
        }
        return Ok(Pass::LoweredText(lowered_text));
    }
    move_export_assignment_last(&mut program);
    convert_empty_imports_to_types(&mut program);
    let path = Path::new(file);
    let jsx = jsx_options(text, &program, &scoping);
    let definitions = commonjs::definitions(file, &program, &scoping);
    let (decorator, helper_loader) = legacy.map(LegacyDecorators::options).unwrap_or_default();
    let options = TransformOptions { jsx, decorator, helper_loader, ..TransformOptions::default() };
    let transformed = Transformer::new(&allocator, path, &options).build_with_scoping(scoping, &mut program);
    failed(transformed.diagnostics)?;
    let helpers = legacy.map_or("", |_| use_own_helpers(&mut program, &allocator));
    // The output is not indented, because indentation could make a deeply nested program much longer than its text.
    let options = CodegenOptions {
        source_map_path: Some(path.to_owned()),
        indent_char: IndentChar::Space,
        indent_width: 0,
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(&program);
    let mappings = printed.map.map(|map| mappings(map, columns)).unwrap_or_default();
    let code = printed.code + helpers;
    let (code, mappings) = match definitions.as_str() {
        "" => (code, mappings),
        line => commonjs::insert_line(line, &code, &mappings),
    };
    Ok(Pass::StrippedProgram(StrippedProgram { code, mappings }))
}

/// Returns the options for JSX, whose comments in the text take precedence.
///
/// Elements are calls of the functions of `react/jsx-runtime`, or of `React.createElement` if the text has a `React` of its own. As in the
/// TypeScript compiler, a comment that names the function selects that one.
fn jsx_options(text: &str, program: &Program<'_>, scoping: &Scoping) -> JsxOptions {
    if !program.source_type.is_jsx() {
        return JsxOptions::disable();
    }
    let is_import = |symbol| scoping.symbol_flags(symbol).is_import();
    let is_own = scoping.get_root_binding("React".into()).is_some_and(|symbol| !is_import(symbol));
    let runtime = match is_own || text.contains("@jsx ") {
        true => JsxRuntime::Classic,
        false => JsxRuntime::Automatic,
    };
    JsxOptions { runtime, pure: false, display_name_plugin: false, ..JsxOptions::enable() }
}

/// Moves `export = a` to the end, where the TypeScript compiler assigns it.
fn move_export_assignment_last(program: &mut Program<'_>) {
    let is_export = |statement: &Statement<'_>| matches!(statement, Statement::TSExportAssignment(_));
    if let Some(at) = program.body.iter().position(is_export) {
        let export = program.body.remove(at);
        program.body.push(export);
    }
}

/// Turns `import {} from 'a'` into a type import, because the TypeScript compiler removes it.
fn convert_empty_imports_to_types(program: &mut Program<'_>) {
    for statement in &mut program.body {
        if let Statement::ImportDeclaration(import) = statement
            && import.specifiers.as_ref().is_some_and(|specifiers| specifiers.is_empty())
        {
            import.import_kind = ImportOrExportKind::Type;
        }
    }
}

/// Returns the mappings of a source map, relative to the original text.
fn mappings(map: SourceMap<'_>, columns: Option<&Columns>) -> String {
    let Some(columns) = columns else { return map.to_json().mappings };
    let token = |token: Token| {
        let (line, column) = (token.get_src_line(), token.get_src_col());
        let column = columns.original(line, column);
        Token::new(token.get_dst_line(), token.get_dst_col(), line, column, token.get_source_id(), token.get_name_id())
    };
    let tokens = map.get_tokens().map(token).collect();
    SourceMap::new(None, Vec::new(), None, Vec::new(), Vec::new(), tokens, None).to_json().mappings
}

/// Converts an error of the parser to one line with its position.
fn syntax(text: &str, columns: Option<&Columns>, error: &OxcDiagnostic) -> StripError {
    let label = error.labels.first();
    let offset = label.map_or(0, |label| label.offset() as usize);
    let mut message = error.message.lines().collect::<Vec<_>>().join(" ");
    if let Some(help) = &error.help {
        message = format!("{message} ({})", help.lines().collect::<Vec<_>>().join(" "));
    }
    let mut location = Location::from_text(text, offset);
    if let Some(columns) = columns {
        location.column = columns.original(location.line - 1, location.column - 1) + 1;
    }
    StripError::Syntax { message, location }
}
