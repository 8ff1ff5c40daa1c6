//! The capabilities that a Python program needs, found in its syntax tree.

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Comprehension, ExceptHandler, Expr, ExprCall, Stmt, StmtClassDef, StmtFunctionDef, StmtTry};

use codebox_analysis::{Need, Power, Weight, packages};

use super::gathered::Gathered;
use caught::{Caught, Failing};
use names::{Kind, Names};
use reach::{Around, Used};

mod caught;
mod names;
mod reach;
mod table;

/// Returns the needs of `suite`, whose text is `text`.
///
/// `imports` are the imports of the program. If none of them is relevant, expressions are not visited. Modules that are
/// files next to the program are included; only the host can see these files, and it removes such needs.
pub(super) fn of(text: &str, suite: &[Stmt], imports: &BTreeSet<String>) -> Vec<Need> {
    if !worth_a_look(text, imports) {
        return Vec::new();
    }
    let mut look = Look {
        names: Names::default(),
        caught: Caught::default(),
        spare: 0,
        around: Vec::new(),
        class: None,
        used: Used::of(suite),
        loops: imports.contains("asyncio"),
        found: Gathered::default(),
    };
    look.names.enter(Kind::Function, None, suite);
    look.visit_body(suite);
    look.found.in_order(text)
}

/// Returns true if a program with these imports can have needs.
fn worth_a_look(text: &str, imports: &BTreeSet<String>) -> bool {
    // Nearly all programs import `os`, but few of them for processes.
    let os = || ["system", "popen", "fork", "exec", "spawn"].iter().any(|word| text.contains(word));
    table::CALLED.iter().any(|module| imports.contains(*module))
        || imports.iter().any(|module| packages::of_import(module).is_some())
        || ["compression", "dbm"].iter().any(|module| imports.contains(*module))
        || imports.contains("os") && os()
}

struct Look<'a> {
    names: Names<'a>,
    caught: Caught,
    /// The number of enclosing parts that run only after a failure, or never.
    spare: u32,
    around: Vec<Around<'a>>,
    /// The class whose body directly contains the place, outside of any method.
    class: Option<&'a StmtClassDef>,
    used: Used<'a>,
    loops: bool,
    found: Gathered,
}

impl<'a> Look<'a> {
    fn add(&mut self, power: Power, words: String, failing: Failing, at: usize) {
        let optional = self.spare > 0 || self.caught.catches(&power, failing) || !self.used.leads_to(&self.around);
        let weight = if optional { Weight::Optional } else { Weight::Required };
        self.found.add(power, words, weight, at);
    }

    fn import(&mut self, module: &str, at: usize) {
        if let Some(power) = packages::of_import(module) {
            let name = match &power {
                Power::Module(name) => name.clone(),
                // The import is in a table by its first component.
                _ => module.split('.').next().unwrap_or(module).to_owned(),
            };
            self.add(power, format!("import {name}"), Failing::Import, at);
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
        if let Some(module) = self.names.imported_by(call) {
            return self.import(module, at);
        }
        if let Some(path) = self.names.path(&call.func) {
            if let Some(power) = table::of_call(&path) {
                self.add(power, path, Failing::Call, at);
            }
        } else if self.loops
            && let Expr::Attribute(method) = call.func.as_ref()
            && let Some((power, words)) = table::of_loop_method(method.attr.as_str())
        {
            self.add(power, words.to_owned(), Failing::Call, at);
        }
    }

    fn function(&mut self, function: &'a StmtFunctionDef) {
        function.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
        self.visit_parameters(&function.parameters);
        let class = self.class.take();
        // The callers are elsewhere, so enclosing handlers do not catch failures of the body.
        let caught = std::mem::take(&mut self.caught);
        self.around.push(Around::function(function, class));
        self.names.enter(Kind::Function, Some(&function.parameters), &function.body);
        self.visit_body(&function.body);
        self.names.leave();
        self.around.pop();
        (self.class, self.caught) = (class, caught);
    }

    fn class(&mut self, class: &'a StmtClassDef) {
        class.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
        if let Some(arguments) = &class.arguments {
            self.visit_arguments(arguments);
        }
        let outside = self.class.replace(class);
        self.around.push(Around::class(class));
        self.names.enter(Kind::Class, None, &class.body);
        self.visit_body(&class.body);
        self.names.leave();
        self.around.pop();
        self.class = outside;
    }

    fn attempt(&mut self, attempt: &'a StmtTry) {
        let before = self.caught;
        self.caught = before.and_by(attempt);
        self.visit_body(&attempt.body);
        self.caught = before;
        self.spare += 1;
        for ExceptHandler::ExceptHandler(handler) in &attempt.handlers {
            self.visit_body(&handler.body);
        }
        self.spare -= 1;
        self.visit_body(&attempt.orelse);
        self.visit_body(&attempt.finalbody);
    }

    fn comprehension(&mut self, generators: &'a [Comprehension], expression: &'a Expr) {
        self.names.enter_expression(generators.iter().map(|generator| &generator.target));
        visitor::walk_expr(self, expression);
        self.names.leave();
    }
}

impl<'a> Visitor<'a> for Look<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.imports(statement),
            Stmt::FunctionDef(function) => self.function(function),
            Stmt::ClassDef(class) => self.class(class),
            Stmt::Try(attempt) => self.attempt(attempt),
            Stmt::With(with) => {
                let before = self.caught;
                with.items.iter().for_each(|item| self.visit_with_item(item));
                self.caught = with.items.iter().fold(before, Caught::and_suppressed);
                self.visit_body(&with.body);
                self.caught = before;
            }
            Stmt::If(branches) if caught::last_name(&branches.test) == Some("TYPE_CHECKING") => {
                self.spare += 1;
                self.visit_body(&branches.body);
                self.spare -= 1;
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
                self.names.enter(Kind::Function, lambda.parameters.as_deref(), &[]);
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
