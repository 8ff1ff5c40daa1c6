//! Extraction of imports from a syntax tree.

use std::collections::BTreeSet;

use ruff_python_ast::statement_visitor::{self, StatementVisitor};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall, Stmt};

/// Returns all modules that `suite`, whose text is `text`, imports.
pub(super) fn from_suite(text: &str, suite: &[Stmt]) -> BTreeSet<String> {
    let mut found = ImportCollector::default();
    // Expressions are most of a tree. They are visited only if one of these two names occurs in the text.
    if text.contains("__import__") || text.contains("import_module") {
        Visitor::visit_body(&mut ExpressionVisitor(&mut found), suite);
    } else {
        StatementVisitor::visit_body(&mut found, suite);
    }
    found.modules
}

#[derive(Default)]
struct ImportCollector {
    modules: BTreeSet<String>,
}

impl ImportCollector {
    fn module(&mut self, dotted: &str) {
        let first = dotted.split('.').next().unwrap_or(dotted);
        for name in [first, dotted] {
            if !name.is_empty() && !self.modules.contains(name) {
                self.modules.insert(name.to_owned());
            }
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.module(alias.name.as_str());
                }
            }
            Stmt::ImportFrom(import) if import.level == 0 => {
                if let Some(module) = &import.module {
                    self.module(module.as_str());
                }
            }
            _ => {}
        }
    }

    /// Handles `__import__("x")`, `importlib.import_module("x")` and `import_module("x")`.
    fn call(&mut self, call: &ExprCall) {
        let name = match call.func.as_ref() {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            _ => return,
        };
        if !matches!(name, "__import__" | "import_module") {
            return;
        }
        if let Some(Expr::StringLiteral(literal)) = call.arguments.args.first() {
            let module = literal.value.to_str();
            if is_dotted_name(module) {
                self.module(module);
            }
        }
    }
}

/// Returns true if a text is an absolute module name. Other contents of a string must not appear in messages.
fn is_dotted_name(text: &str) -> bool {
    text.split('.').all(|part| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

impl<'a> StatementVisitor<'a> for ImportCollector {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        self.statement(statement);
        statement_visitor::walk_stmt(self, statement);
    }
}

struct ExpressionVisitor<'f>(&'f mut ImportCollector);

impl<'a> Visitor<'a> for ExpressionVisitor<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        self.0.statement(statement);
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Call(call) = expression {
            self.0.call(call);
        }
        visitor::walk_expr(self, expression);
    }
}
