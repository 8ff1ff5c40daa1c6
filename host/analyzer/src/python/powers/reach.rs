//! Reachability of functions in a text.

use std::collections::HashSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprContext, Stmt, StmtClassDef, StmtFunctionDef};

/// A function or class that encloses a place.
#[derive(Clone, Copy)]
pub(super) struct EnclosingItem<'a> {
    name: &'a str,
    /// True if a framework or the language itself may call it without its name in the text.
    called_implicitly: bool,
}

impl<'a> EnclosingItem<'a> {
    /// Describes a function, and the class of which it is a method.
    pub(super) fn function(function: &'a StmtFunctionDef, class: Option<&StmtClassDef>) -> Self {
        let name = function.name.as_str();
        let inherited = class.is_some_and(|class| class.arguments.is_some());
        let called_implicitly = inherited || !function.decorator_list.is_empty() || name.starts_with("__");
        Self { name, called_implicitly }
    }

    /// Describes a class.
    pub(super) fn class(class: &'a StmtClassDef) -> Self {
        Self { name: class.name.as_str(), called_implicitly: !class.decorator_list.is_empty() }
    }
}

/// The names that a program uses, collected on first use.
pub(super) struct UsedNames<'a> {
    suite: &'a [Stmt],
    names: Option<HashSet<&'a str>>,
}

impl<'a> UsedNames<'a> {
    pub(super) fn from_suite(suite: &'a [Stmt]) -> Self {
        Self { suite, names: None }
    }

    /// Returns true if the text refers to all of the enclosing functions and classes that are not called implicitly.
    pub(super) fn reaches(&mut self, enclosing: &[EnclosingItem<'a>]) -> bool {
        let suite = self.suite;
        enclosing.iter().filter(|each| !each.called_implicitly).all(|each| {
            let names = self.names.get_or_insert_with(|| {
                let mut found = NameCollector(HashSet::new());
                found.visit_body(suite);
                found.0
            });
            names.contains(each.name)
        })
    }
}

struct NameCollector<'a>(HashSet<&'a str>);

impl<'a> Visitor<'a> for NameCollector<'a> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) if matches!(name.ctx, ExprContext::Load) => {
                self.0.insert(name.id.as_str());
            }
            Expr::Attribute(attribute) => {
                self.0.insert(attribute.attr.as_str());
            }
            // Names in strings count because of `getattr(self, "name")` and tables of commands.
            Expr::StringLiteral(literal) => {
                self.0.insert(literal.value.to_str());
            }
            _ => {}
        }
        visitor::walk_expr(self, expression);
    }
}
