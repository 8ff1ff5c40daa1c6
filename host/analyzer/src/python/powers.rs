//! The capabilities that a Python program needs, found in its syntax tree.

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Comprehension, ExceptHandler, Expr, ExprCall, Stmt, StmtClassDef, StmtFunctionDef, StmtTry};

use codebox_analysis::{Capability, Need, Weight, packages};

use super::need_set::NeedSet;
use caught::{CaughtErrors, FailureKind};
use names::{Names, ScopeKind};
use reach::{EnclosingItem, UsedNames};

mod caught;
mod names;
mod reach;
mod table;

/// Returns the needs of `suite`, whose text is `text`.
///
/// `imports` are the imports of the program. If none of them is relevant, expressions are not visited. Modules that are
/// files next to the program are included; only the host can see these files, and it removes such needs.
pub(super) fn from_suite(text: &str, suite: &[Stmt], imports: &BTreeSet<String>) -> Vec<Need> {
    if !may_have_needs(text, imports) {
        return Vec::new();
    }
    let mut need_visitor = NeedVisitor {
        names: Names::default(),
        caught: CaughtErrors::default(),
        optional_depth: 0,
        enclosing: Vec::new(),
        class: None,
        used: UsedNames::from_suite(suite),
        loops: imports.contains("asyncio"),
        found: NeedSet::default(),
    };
    need_visitor.names.enter(ScopeKind::Function, None, suite);
    need_visitor.visit_body(suite);
    need_visitor.found.in_order(text)
}

/// Returns true if a program with these imports can have needs.
fn may_have_needs(text: &str, imports: &BTreeSet<String>) -> bool {
    // Nearly all programs import `os`, but few of them for processes.
    let os = || ["system", "popen", "fork", "exec", "spawn"].iter().any(|word| text.contains(word));
    table::CALLABLE_MODULES.iter().any(|module| imports.contains(*module))
        || imports.iter().any(|module| packages::capability_of_import(module).is_some())
        || ["compression", "dbm"].iter().any(|module| imports.contains(*module))
        || imports.contains("os") && os()
}

struct NeedVisitor<'a> {
    names: Names<'a>,
    caught: CaughtErrors,
    /// The number of enclosing parts that run only after a failure, or never.
    optional_depth: u32,
    enclosing: Vec<EnclosingItem<'a>>,
    /// The class whose body directly contains the place, outside of any method.
    class: Option<&'a StmtClassDef>,
    used: UsedNames<'a>,
    loops: bool,
    found: NeedSet,
}

impl<'a> NeedVisitor<'a> {
    fn add(&mut self, power: Capability, words: String, failure_kind: FailureKind, at: usize) {
        let optional =
            self.optional_depth > 0 || self.caught.catches(&power, failure_kind) || !self.used.reaches(&self.enclosing);
        let weight = if optional { Weight::Optional } else { Weight::Required };
        self.found.add(power, words, weight, at);
    }

    fn import(&mut self, module: &str, at: usize) {
        if let Some(power) = packages::capability_of_import(module) {
            let name = match &power {
                Capability::Module(name) => name.clone(),
                // The import is in a table by its first component.
                _ => module.split('.').next().unwrap_or(module).to_owned(),
            };
            self.add(power, format!("import {name}"), FailureKind::Import, at);
        }
    }

    fn imports(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Import(import) => {
                let at = import.range.start().to_usize();
                import.names.iter().for_each(|alias| self.import(alias.name.as_str(), at));
            }
            Stmt::ImportFrom(import) if import.level == 0 => {
                let Some(module) = &import.module else { return };
                let at = import.range.start().to_usize();
                self.import(module.as_str(), at);
                if matches!(module.as_str(), "dbm" | "compression" | "concurrent") {
                    import.names.iter().for_each(|alias| self.import(&format!("{module}.{}", alias.name), at));
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, call: &'a ExprCall) {
        let at = call.range_start.to_usize();
        if let Some(module) = self.names.dynamic_import(call) {
            return self.import(module, at);
        }
        if let Some(path) = self.names.path(&call.func) {
            if let Some(power) = table::capability_of_call(&path) {
                self.add(power, path, FailureKind::Call, at);
            }
        } else if self.loops
            && let Expr::Attribute(method) = call.func.as_ref()
            && let Some((power, words)) = table::capability_of_loop_method(method.attr.as_str())
        {
            self.add(power, words.to_owned(), FailureKind::Call, at);
        }
    }

    fn function(&mut self, function: &'a StmtFunctionDef) {
        function.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
        self.visit_parameters(&function.parameters);
        let class = self.class.take();
        // The callers are elsewhere, so enclosing handlers do not catch failures of the body.
        let caught = std::mem::take(&mut self.caught);
        self.enclosing.push(EnclosingItem::function(function, class));
        self.names.enter(ScopeKind::Function, Some(&function.parameters), &function.body);
        self.visit_body(&function.body);
        self.names.leave();
        self.enclosing.pop();
        (self.class, self.caught) = (class, caught);
    }

    fn class(&mut self, class: &'a StmtClassDef) {
        class.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
        if let Some(arguments) = &class.arguments {
            self.visit_arguments(arguments);
        }
        let outside = self.class.replace(class);
        self.enclosing.push(EnclosingItem::class(class));
        self.names.enter(ScopeKind::Class, None, &class.body);
        self.visit_body(&class.body);
        self.names.leave();
        self.enclosing.pop();
        self.class = outside;
    }

    fn try_statement(&mut self, try_statement: &'a StmtTry) {
        let before = self.caught;
        self.caught = before.with_handlers(try_statement);
        self.visit_body(&try_statement.body);
        self.caught = before;
        self.optional_depth += 1;
        for ExceptHandler::ExceptHandler(handler) in &try_statement.handlers {
            self.visit_body(&handler.body);
        }
        self.optional_depth -= 1;
        self.visit_body(&try_statement.orelse);
        self.visit_body(&try_statement.finalbody);
    }

    fn comprehension(&mut self, generators: &'a [Comprehension], expression: &'a Expr) {
        self.names.enter_expression(generators.iter().map(|generator| &generator.target));
        visitor::walk_expr(self, expression);
        self.names.leave();
    }
}

impl<'a> Visitor<'a> for NeedVisitor<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.imports(statement),
            Stmt::FunctionDef(function) => self.function(function),
            Stmt::ClassDef(class) => self.class(class),
            Stmt::Try(try_statement) => self.try_statement(try_statement),
            Stmt::With(with) => {
                let before = self.caught;
                with.items.iter().for_each(|item| self.visit_with_item(item));
                self.caught = with.items.iter().fold(before, CaughtErrors::with_suppressed);
                self.visit_body(&with.body);
                self.caught = before;
            }
            Stmt::If(branches) if caught::last_name(&branches.test) == Some("TYPE_CHECKING") => {
                self.optional_depth += 1;
                self.visit_body(&branches.body);
                self.optional_depth -= 1;
                branches.elif_else_clauses.iter().for_each(|clause| self.visit_elif_else_clause(clause));
            }
            _ => visitor::walk_stmt(self, statement),
        }
    }

    fn visit_annotation(&mut self, _annotation: &'a Expr) {}

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => {
                self.call(call);
                visitor::walk_expr(self, expression);
            }
            Expr::Lambda(lambda) => {
                self.names.enter(ScopeKind::Function, lambda.parameters.as_deref(), &[]);
                visitor::walk_expr(self, expression);
                self.names.leave();
            }
            Expr::ListComp(list) => self.comprehension(&list.generators, expression),
            Expr::SetComp(set) => self.comprehension(&set.generators, expression),
            Expr::DictComp(dict) => self.comprehension(&dict.generators, expression),
            Expr::Generator(generator) => self.comprehension(&generator.generators, expression),
            _ => visitor::walk_expr(self, expression),
        }
    }
}

#[cfg(test)]
mod tests;
