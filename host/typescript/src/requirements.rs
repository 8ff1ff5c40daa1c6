//! Analysis of a program's syntax tree for what the program needs from an operating system.

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    Argument, CallExpression, Class, ExportAllDeclaration, ExportFromDeclaration, Expression, Function,
    IdentifierReference, ImportDeclaration, ImportExpression, ImportOrExportKind, NewExpression, Statement,
    TSImportEqualsDeclaration, TSModuleReference, TryStatement, VariableDeclarator,
};
use oxc::ast_visit::{Visit, walk};
use oxc::parser::Parser;
use oxc::semantic::{ScopeFlags, Scoping, SemanticBuilder, SymbolId};
use oxc::span::SourceType;

use crate::location::Location;
use names::Names;

mod names;
mod table;

/// A facility of an operating system that a WebAssembly guest does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Facility {
    /// Threads.
    Threads,
    /// Processes.
    Processes,
    /// Sockets.
    Sockets,
    /// A module, or a global that is named after its module.
    Module(&'static str),
}

/// Certainty, as far as the text shows, that the program reaches the place and fails there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The program reaches the place and fails.
    Certain,
    /// A `catch` surrounds the place, or the place is unreachable.
    Possible,
}

/// A needed facility and the place that shows the need.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The needed facility.
    pub facility: Facility,
    /// The certainty that the program fails without the facility.
    pub certainty: Certainty,
    /// The line of the place, counted from 1.
    pub line: u32,
    /// A description of the place in this crate's own words, such as `child_process.spawn` or `import sharp`.
    pub words: String,
}

/// The largest number of needs of one certainty that are kept.
const MAX_PER_CERTAINTY: usize = 32;

/// The words of which at least one occurs in a program that uses more than the language itself.
const KEYWORDS: [&str; 10] =
    ["import", "require", "fetch", "WebSocket", "EventSource", "Worker", "WebAssembly", "Stream(", " from ", "subtle"];

pub(crate) fn may_have_requirements(text: &str) -> bool {
    KEYWORDS.iter().any(|word| text.contains(word))
}

/// Returns the source type of a file.
fn source_type(file: &str) -> SourceType {
    if file.ends_with(".cts") {
        SourceType::ts().with_commonjs(true)
    } else if file.ends_with(".ts") || file.ends_with(".mts") {
        SourceType::ts().with_unambiguous(true)
    } else if file.ends_with('x') {
        SourceType::tsx().with_unambiguous(true)
    } else if file.ends_with(".cjs") {
        SourceType::cjs()
    } else {
        SourceType::unambiguous()
    }
}

pub(crate) fn from_text(file: &str, text: &str) -> Vec<Requirement> {
    let allocator = Allocator::new();
    let parsed = Parser::new(&allocator, text, source_type(file)).parse();
    // Syntax errors are reported by the engine that runs the program. The part that can be parsed is analyzed.
    if parsed.panicked {
        return Vec::new();
    }
    let scoping = SemanticBuilder::new().build(&parsed.program).semantic.into_scoping();
    let mut names = Names::new(&scoping);
    names.visit_program(&parsed.program);
    let mut visitor = RequirementVisitor { names: &names, scoping: &scoping, optional: 0, found: Vec::new() };
    visitor.visit_program(&parsed.program);
    in_order(text, visitor.found)
}

/// Returns the needs in the order of the text, with their lines.
fn in_order(text: &str, mut found: Vec<(u32, Requirement)>) -> Vec<Requirement> {
    found.sort_by_key(|(at, _)| *at);
    let line = |(at, requirement): (u32, Requirement)| Requirement {
        line: Location::from_text(text, at as usize).line,
        ..requirement
    };
    found.into_iter().map(line).collect()
}

struct RequirementVisitor<'n> {
    names: &'n Names<'n>,
    scoping: &'n Scoping,
    /// The number of enclosing parts whose failure is caught or which are unreachable.
    optional: u32,
    found: Vec<(u32, Requirement)>,
}

impl RequirementVisitor<'_> {
    fn add(&mut self, facility: Facility, words: String, at: u32) {
        let certainty = if self.optional > 0 { Certainty::Possible } else { Certainty::Certain };
        let same =
            |(_, requirement): &&mut (u32, Requirement)| requirement.facility == facility && requirement.words == words;
        if let Some((known_at, requirement)) = self.found.iter_mut().find(same) {
            if certainty < requirement.certainty {
                (*known_at, requirement.certainty) = (at, certainty);
            }
            return;
        }
        if self.found.iter().filter(|(_, requirement)| requirement.certainty == certainty).count() < MAX_PER_CERTAINTY {
            self.found.push((at, Requirement { facility, certainty, line: 0, words }));
        }
    }

    fn module(&mut self, specifier: &str, at: u32) {
        if let Some((facility, name)) = table::facility_of_import(specifier) {
            self.add(facility, format!("import {name}"), at);
        }
    }

    fn check_call(&mut self, callee: &Expression<'_>, at: u32) {
        if let Some(path) = self.names.path(callee)
            && let Some(facility) = table::facility_of_call(&path)
        {
            self.add(facility, path, at);
        }
    }

    /// Visits a part that only `symbol` refers to.
    fn visit_referenced_by(&mut self, symbol: Option<SymbolId>, visit: impl FnOnce(&mut Self)) {
        let optional = symbol.is_some_and(|symbol| self.scoping.symbol_is_unused(symbol));
        self.optional += u32::from(optional);
        visit(self);
        self.optional -= u32::from(optional);
    }
}

/// Returns true if the last statement of a handler throws or ends the program.
fn rethrows_or_exits(body: &[Statement<'_>]) -> bool {
    match body.last() {
        Some(Statement::ThrowStatement(_)) => true,
        Some(Statement::ExpressionStatement(statement)) => match &statement.expression {
            Expression::CallExpression(call) => call.callee_name() == Some("exit"),
            _ => false,
        },
        _ => false,
    }
}

impl<'a> Visit<'a> for RequirementVisitor<'_> {
    fn visit_import_declaration(&mut self, import: &ImportDeclaration<'a>) {
        if import.import_kind == ImportOrExportKind::Value {
            self.module(import.source.value.as_str(), import.span.start);
        }
    }

    fn visit_export_from_declaration(&mut self, export: &ExportFromDeclaration<'a>) {
        if export.export_kind == ImportOrExportKind::Value {
            self.module(export.source.value.as_str(), export.span.start);
        }
    }

    fn visit_export_all_declaration(&mut self, export: &ExportAllDeclaration<'a>) {
        self.module(export.source.value.as_str(), export.span.start);
    }

    fn visit_ts_import_equals_declaration(&mut self, import: &TSImportEqualsDeclaration<'a>) {
        if let TSModuleReference::ExternalModuleReference(external) = &import.module_reference {
            self.module(external.expression.value.as_str(), import.span.start);
        }
    }

    fn visit_import_expression(&mut self, import: &ImportExpression<'a>) {
        if let Expression::StringLiteral(specifier) = &import.source {
            self.module(specifier.value.as_str(), import.span.start);
        }
        walk::walk_import_expression(self, import);
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        let at = call.span.start;
        if let Some(specifier) = self.names.required_module(call) {
            self.module(specifier, at);
        } else {
            self.check_call(&call.callee, at);
        }
        // A function that is passed to `promisify` is assumed to be called.
        if call.callee_name() == Some("promisify")
            && let Some(function) = call.arguments.first().and_then(Argument::as_expression)
        {
            self.check_call(function, at);
        }
        walk::walk_call_expression(self, call);
    }

    fn visit_new_expression(&mut self, new: &NewExpression<'a>) {
        self.check_call(&new.callee, new.span.start);
        walk::walk_new_expression(self, new);
    }

    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        if name.name == "WebAssembly" && self.names.is_global(name) {
            self.add(Facility::Module("WebAssembly"), "WebAssembly".to_owned(), name.span.start);
        }
    }

    fn visit_try_statement(&mut self, attempt: &TryStatement<'a>) {
        let caught = attempt.handler.as_ref().is_some_and(|handler| !rethrows_or_exits(&handler.body.body));
        self.optional += u32::from(caught);
        self.visit_block_statement(&attempt.block);
        self.optional -= u32::from(caught);
        if let Some(handler) = &attempt.handler {
            self.optional += 1;
            self.visit_catch_clause(handler);
            self.optional -= 1;
        }
        if let Some(last) = &attempt.finalizer {
            self.visit_block_statement(last);
        }
    }

    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        // The name of a function expression is visible only inside of the function.
        let symbol = function.id.as_ref().filter(|_| function.is_declaration()).and_then(|id| id.symbol_id.get());
        self.visit_referenced_by(symbol, |visitor| walk::walk_function(visitor, function, flags));
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        let symbol = class.id.as_ref().filter(|_| class.is_declaration()).and_then(|id| id.symbol_id.get());
        self.visit_referenced_by(symbol, |visitor| walk::walk_class(visitor, class));
    }

    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        let is_function = matches!(
            &declarator.init,
            Some(
                Expression::ArrowFunctionExpression(_)
                    | Expression::FunctionExpression(_)
                    | Expression::ClassExpression(_)
            )
        );
        let symbol = declarator.id.get_binding_identifier().filter(|_| is_function).and_then(|id| id.symbol_id.get());
        self.visit_referenced_by(symbol, |visitor| walk::walk_variable_declarator(visitor, declarator));
    }
}

#[cfg(test)]
mod tests;
