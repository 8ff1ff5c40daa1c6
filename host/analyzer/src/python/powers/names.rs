//! Resolution of names, scope by scope.
//!
//! Bindings are evaluated in the order of the text, regardless of branches. The last binding of a name counts, except
//! for a fallback in an `except` clause after a failed import, and except for `None`.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::{ExceptHandler, Expr, ExprCall, Parameters, Stmt};

use super::table;

/// The longest dotted path that is followed. No path in the table is half as long, and a hostile path could grow with
/// each line.
const MAX_PATH_LEN: usize = 96;

/// The largest number of modules with star imports that are remembered.
const MAX_STAR_IMPORTS: usize = 16;

/// The object to which a name is bound.
#[derive(Clone)]
enum Binding {
    /// A module, or a member of a module, by its dotted path.
    Path(String),
    /// Any other object.
    Other,
}

impl Binding {
    fn path(path: &str) -> Self {
        if path.len() > MAX_PATH_LEN { Self::Other } else { Self::Path(path.to_owned()) }
    }
}

/// The kind of a scope, which determines the visibility of its names in nested functions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScopeKind {
    /// The names are visible in nested functions.
    Function,
    /// The names are not visible in nested functions.
    Class,
}

/// The precedence of a binding over an earlier one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Precedence {
    Normal,
    /// A replacement for an operation that failed, which does not override an earlier binding.
    Fallback,
}

struct Scope<'a> {
    kind: ScopeKind,
    names: HashMap<&'a str, Binding>,
    /// Names that the scope declares as `global` or `nonlocal`.
    outer: HashSet<&'a str>,
}

/// The enclosing scopes of a place, beginning with the module's.
#[derive(Default)]
pub(super) struct Names<'a> {
    scopes: Vec<Scope<'a>>,
    /// Modules with star imports.
    star_imports: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// Enters the scope of a body.
    pub(super) fn enter(&mut self, kind: ScopeKind, parameters: Option<&'a Parameters>, body: &'a [Stmt]) {
        self.scopes.push(Scope { kind, names: HashMap::new(), outer: HashSet::new() });
        for parameter in parameters.into_iter().flat_map(Parameters::iter) {
            self.set(parameter.name().as_str(), Binding::Other, Precedence::Normal);
        }
        self.bind_all(body, Precedence::Normal);
    }

    /// Enters the scope of an expression that binds names, such as a comprehension.
    pub(super) fn enter_expression(&mut self, targets: impl IntoIterator<Item = &'a Expr>) {
        self.scopes.push(Scope { kind: ScopeKind::Function, names: HashMap::new(), outer: HashSet::new() });
        for target in targets {
            self.bind_other(target, Precedence::Normal);
        }
    }

    /// Leaves the innermost scope.
    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// Returns the dotted path to which an expression refers.
    pub(super) fn path(&self, expression: &Expr) -> Option<String> {
        match expression {
            Expr::Name(name) => match self.binding(name.id.as_str()) {
                Some(Binding::Path(path)) => Some(path.clone()),
                Some(Binding::Other) => None,
                None => self.resolve_star_import(name.id.as_str()),
            },
            Expr::Attribute(attribute) => {
                let mut path = self.path(&attribute.value)?;
                if path.len() + attribute.attr.as_str().len() >= MAX_PATH_LEN {
                    return None;
                }
                path.push('.');
                path.push_str(attribute.attr.as_str());
                Some(path)
            }
            Expr::Call(call) => {
                self.dynamic_import(call).filter(|module| module.len() <= MAX_PATH_LEN).map(str::to_owned)
            }
            _ => None,
        }
    }

    /// Returns the module that `__import__("x")` or `import_module("x")` imports.
    pub(super) fn dynamic_import<'e>(&self, call: &'e ExprCall) -> Option<&'e str> {
        let by_name = match call.func.as_ref() {
            Expr::Name(name) => matches!(name.id.as_str(), "__import__" | "import_module"),
            Expr::Attribute(attribute) => attribute.attr.as_str() == "import_module",
            _ => false,
        };
        match call.arguments.args.first() {
            Some(Expr::StringLiteral(literal)) if by_name => Some(literal.value.to_str()),
            _ => None,
        }
    }

    fn binding(&self, name: &str) -> Option<&Binding> {
        let innermost = self.scopes.len().checked_sub(1)?;
        let visible = |(index, scope): &(usize, &Scope<'a>)| scope.kind == ScopeKind::Function || *index == innermost;
        let scopes = self.scopes.iter().enumerate().filter(visible).rev();
        scopes.map(|(_, scope)| scope).find_map(|scope| scope.names.get(name))
    }

    fn resolve_star_import(&self, name: &str) -> Option<String> {
        let paths = self.star_imports.iter().map(|module| format!("{module}.{name}"));
        paths.into_iter().find(|path| table::capability_of_call(path).is_some())
    }

    fn set(&mut self, name: &'a str, binding: Binding, precedence: Precedence) {
        let Some(scope) = self.scopes.last_mut() else { return };
        if scope.outer.contains(name) || precedence == Precedence::Fallback && scope.names.contains_key(name) {
            return;
        }
        scope.names.insert(name, binding);
    }

    /// Binds every name in a target to an object of the program itself.
    fn bind_other(&mut self, target: &'a Expr, precedence: Precedence) {
        match target {
            Expr::Name(name) => self.set(name.id.as_str(), Binding::Other, precedence),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|each| self.bind_other(each, precedence)),
            Expr::List(list) => list.elts.iter().for_each(|each| self.bind_other(each, precedence)),
            Expr::Starred(starred) => self.bind_other(&starred.value, precedence),
            _ => {}
        }
    }

    fn bind_assignment(&mut self, target: &'a Expr, value: Option<&'a Expr>, precedence: Precedence) {
        let (Expr::Name(name), Some(value)) = (target, value) else { return self.bind_other(target, precedence) };
        match value {
            Expr::NoneLiteral(_) => self.set(name.id.as_str(), Binding::Other, Precedence::Fallback),
            Expr::Name(_) | Expr::Attribute(_) | Expr::Call(_) => {
                let binding = self.path(value).map_or(Binding::Other, Binding::Path);
                self.set(name.id.as_str(), binding, precedence);
            }
            _ => self.bind_other(target, precedence),
        }
    }

    fn bind_all(&mut self, body: &'a [Stmt], precedence: Precedence) {
        for statement in body {
            self.bind(statement, precedence);
        }
    }

    fn bind(&mut self, statement: &'a Stmt, precedence: Precedence) {
        match statement {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let module = alias.name.as_str();
                    let first = module.split('.').next().unwrap_or(module);
                    let (name, path) = alias.asname.as_ref().map_or((first, first), |name| (name.as_str(), module));
                    self.set(name, Binding::path(path), precedence);
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().filter(|_| import.level == 0);
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    match module {
                        Some(module) if alias.name.as_str() == "*" => self.add_star_import(module.as_str()),
                        Some(module) => {
                            self.set(name, Binding::path(&format!("{module}.{}", alias.name)), precedence);
                        }
                        None => self.set(name, Binding::Other, precedence),
                    }
                }
            }
            Stmt::FunctionDef(function) => self.set(function.name.as_str(), Binding::Other, precedence),
            Stmt::ClassDef(class) => {
                // A subclass of a thread class is treated like a thread class.
                let bases = class.arguments.iter().flat_map(|arguments| arguments.args.iter());
                let base =
                    bases.filter_map(|base| self.path(base)).find(|path| table::capability_of_call(path).is_some());
                self.set(class.name.as_str(), base.map_or(Binding::Other, Binding::Path), precedence);
            }
            Stmt::Assign(assign) => match assign.targets.as_slice() {
                [target] => self.bind_assignment(target, Some(&assign.value), precedence),
                targets => targets.iter().for_each(|target| self.bind_other(target, precedence)),
            },
            Stmt::AnnAssign(assign) => self.bind_assignment(&assign.target, assign.value.as_deref(), precedence),
            Stmt::AugAssign(assign) => self.bind_other(&assign.target, precedence),
            Stmt::For(each) => {
                self.bind_other(&each.target, precedence);
                self.bind_all(&each.body, precedence);
                self.bind_all(&each.orelse, precedence);
            }
            Stmt::While(each) => {
                self.bind_all(&each.body, precedence);
                self.bind_all(&each.orelse, precedence);
            }
            Stmt::If(branches) => {
                self.bind_all(&branches.body, precedence);
                branches.elif_else_clauses.iter().for_each(|clause| self.bind_all(&clause.body, precedence));
            }
            Stmt::With(with) => {
                with.items
                    .iter()
                    .filter_map(|item| item.optional_vars.as_deref())
                    .for_each(|t| self.bind_other(t, precedence));
                self.bind_all(&with.body, precedence);
            }
            Stmt::Try(attempt) => {
                self.bind_all(&attempt.body, precedence);
                for ExceptHandler::ExceptHandler(handler) in &attempt.handlers {
                    self.bind_all(&handler.body, Precedence::Fallback);
                }
                self.bind_all(&attempt.orelse, precedence);
                self.bind_all(&attempt.finalbody, precedence);
            }
            Stmt::Match(choice) => choice.cases.iter().for_each(|case| self.bind_all(&case.body, precedence)),
            Stmt::Global(global) => self.outer(&global.names),
            Stmt::Nonlocal(nonlocal) => self.outer(&nonlocal.names),
            _ => {}
        }
    }

    fn add_star_import(&mut self, module: &'a str) {
        if module.len() <= MAX_PATH_LEN
            && self.star_imports.len() < MAX_STAR_IMPORTS
            && !self.star_imports.contains(&module)
        {
            self.star_imports.push(module);
        }
    }

    fn outer(&mut self, names: &'a [ruff_python_ast::Identifier]) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.outer.extend(names.iter().map(ruff_python_ast::Identifier::as_str));
        }
    }
}
