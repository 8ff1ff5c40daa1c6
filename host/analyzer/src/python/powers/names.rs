//! Resolution of names, scope by scope.
//!
//! Bindings are evaluated in the order of the text, regardless of branches. The last binding of a name counts, except
//! for a fallback in an `except` clause after a failed import, and except for `None`.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::{ExceptHandler, Expr, ExprCall, Parameters, Stmt};

use super::table;

/// The longest dotted path that is followed. No path in the table is half as long, and a hostile path could grow with
/// each line.
const LONGEST: usize = 96;

/// The largest number of modules with star imports that are remembered.
const MOST_STARS: usize = 16;

/// The object to which a name is bound.
#[derive(Clone)]
enum Meaning {
    /// A module, or a member of a module, by its dotted path.
    Path(String),
    /// Any other object.
    Own,
}

impl Meaning {
    fn path(path: &str) -> Self {
        if path.len() > LONGEST { Self::Own } else { Self::Path(path.to_owned()) }
    }
}

/// The kind of a scope, which determines the visibility of its names in nested functions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The names are visible in nested functions.
    Function,
    /// The names are not visible in nested functions.
    Class,
}

/// The precedence of a binding over an earlier one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    First,
    /// A replacement for an operation that failed, which does not override an earlier binding.
    Fallback,
}

struct Scope<'a> {
    kind: Kind,
    names: HashMap<&'a str, Meaning>,
    /// Names that the scope declares as `global` or `nonlocal`.
    outer: HashSet<&'a str>,
}

/// The enclosing scopes of a place, beginning with the module's.
#[derive(Default)]
pub(super) struct Names<'a> {
    scopes: Vec<Scope<'a>>,
    /// Modules with star imports.
    stars: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// Enters the scope of a body.
    pub(super) fn enter(&mut self, kind: Kind, parameters: Option<&'a Parameters>, body: &'a [Stmt]) {
        self.scopes.push(Scope { kind, names: HashMap::new(), outer: HashSet::new() });
        for parameter in parameters.into_iter().flat_map(Parameters::iter) {
            self.set(parameter.name().as_str(), Meaning::Own, Standing::First);
        }
        self.bind_all(body, Standing::First);
    }

    /// Enters the scope of an expression that binds names, such as a comprehension.
    pub(super) fn enter_expression(&mut self, targets: impl IntoIterator<Item = &'a Expr>) {
        self.scopes.push(Scope { kind: Kind::Function, names: HashMap::new(), outer: HashSet::new() });
        for target in targets {
            self.own(target, Standing::First);
        }
    }

    /// Leaves the innermost scope.
    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// Returns the dotted path to which an expression refers.
    pub(super) fn path(&self, expression: &Expr) -> Option<String> {
        match expression {
            Expr::Name(name) => match self.meaning(name.id.as_str()) {
                Some(Meaning::Path(path)) => Some(path.clone()),
                Some(Meaning::Own) => None,
                None => self.of_star(name.id.as_str()),
            },
            Expr::Attribute(attribute) => {
                let mut path = self.path(&attribute.value)?;
                if path.len() + attribute.attr.as_str().len() >= LONGEST {
                    return None;
                }
                path.push('.');
                path.push_str(attribute.attr.as_str());
                Some(path)
            }
            Expr::Call(call) => self.imported_by(call).filter(|module| module.len() <= LONGEST).map(str::to_owned),
            _ => None,
        }
    }

    /// Returns the module that `__import__("x")` or `import_module("x")` imports.
    pub(super) fn imported_by<'e>(&self, call: &'e ExprCall) -> Option<&'e str> {
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

    fn meaning(&self, name: &str) -> Option<&Meaning> {
        let innermost = self.scopes.len().checked_sub(1)?;
        let visible = |(index, scope): &(usize, &Scope<'a>)| scope.kind == Kind::Function || *index == innermost;
        let scopes = self.scopes.iter().enumerate().filter(visible).rev();
        scopes.map(|(_, scope)| scope).find_map(|scope| scope.names.get(name))
    }

    fn of_star(&self, name: &str) -> Option<String> {
        let paths = self.stars.iter().map(|module| format!("{module}.{name}"));
        paths.into_iter().find(|path| table::of_call(path).is_some())
    }

    fn set(&mut self, name: &'a str, meaning: Meaning, standing: Standing) {
        let Some(scope) = self.scopes.last_mut() else { return };
        if scope.outer.contains(name) || standing == Standing::Fallback && scope.names.contains_key(name) {
            return;
        }
        scope.names.insert(name, meaning);
    }

    /// Binds every name in a target to an object of the program itself.
    fn own(&mut self, target: &'a Expr, standing: Standing) {
        match target {
            Expr::Name(name) => self.set(name.id.as_str(), Meaning::Own, standing),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|each| self.own(each, standing)),
            Expr::List(list) => list.elts.iter().for_each(|each| self.own(each, standing)),
            Expr::Starred(starred) => self.own(&starred.value, standing),
            _ => {}
        }
    }

    fn assigned(&mut self, target: &'a Expr, value: Option<&'a Expr>, standing: Standing) {
        let (Expr::Name(name), Some(value)) = (target, value) else { return self.own(target, standing) };
        match value {
            Expr::NoneLiteral(_) => self.set(name.id.as_str(), Meaning::Own, Standing::Fallback),
            Expr::Name(_) | Expr::Attribute(_) | Expr::Call(_) => {
                let meaning = self.path(value).map_or(Meaning::Own, Meaning::Path);
                self.set(name.id.as_str(), meaning, standing);
            }
            _ => self.own(target, standing),
        }
    }

    fn bind_all(&mut self, body: &'a [Stmt], standing: Standing) {
        for statement in body {
            self.bind(statement, standing);
        }
    }

    fn bind(&mut self, statement: &'a Stmt, standing: Standing) {
        match statement {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let module = alias.name.as_str();
                    let first = module.split('.').next().unwrap_or(module);
                    let (name, path) = alias.asname.as_ref().map_or((first, first), |name| (name.as_str(), module));
                    self.set(name, Meaning::path(path), standing);
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().filter(|_| import.level == 0);
                for alias in &import.names {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    match module {
                        Some(module) if alias.name.as_str() == "*" => self.star(module.as_str()),
                        Some(module) => {
                            self.set(name, Meaning::path(&format!("{module}.{}", alias.name)), standing);
                        }
                        None => self.set(name, Meaning::Own, standing),
                    }
                }
            }
            Stmt::FunctionDef(function) => self.set(function.name.as_str(), Meaning::Own, standing),
            Stmt::ClassDef(class) => {
                // A subclass of a thread class is treated like a thread class.
                let bases = class.arguments.iter().flat_map(|arguments| arguments.args.iter());
                let base = bases.filter_map(|base| self.path(base)).find(|path| table::of_call(path).is_some());
                self.set(class.name.as_str(), base.map_or(Meaning::Own, Meaning::Path), standing);
            }
            Stmt::Assign(assign) => match assign.targets.as_slice() {
                [target] => self.assigned(target, Some(&assign.value), standing),
                targets => targets.iter().for_each(|target| self.own(target, standing)),
            },
            Stmt::AnnAssign(assign) => self.assigned(&assign.target, assign.value.as_deref(), standing),
            Stmt::AugAssign(assign) => self.own(&assign.target, standing),
            Stmt::For(each) => {
                self.own(&each.target, standing);
                self.bind_all(&each.body, standing);
                self.bind_all(&each.orelse, standing);
            }
            Stmt::While(each) => {
                self.bind_all(&each.body, standing);
                self.bind_all(&each.orelse, standing);
            }
            Stmt::If(branches) => {
                self.bind_all(&branches.body, standing);
                branches.elif_else_clauses.iter().for_each(|clause| self.bind_all(&clause.body, standing));
            }
            Stmt::With(with) => {
                with.items.iter().filter_map(|item| item.optional_vars.as_deref()).for_each(|t| self.own(t, standing));
                self.bind_all(&with.body, standing);
            }
            Stmt::Try(attempt) => {
                self.bind_all(&attempt.body, standing);
                for ExceptHandler::ExceptHandler(handler) in &attempt.handlers {
                    self.bind_all(&handler.body, Standing::Fallback);
                }
                self.bind_all(&attempt.orelse, standing);
                self.bind_all(&attempt.finalbody, standing);
            }
            Stmt::Match(choice) => choice.cases.iter().for_each(|case| self.bind_all(&case.body, standing)),
            Stmt::Global(global) => self.outer(&global.names),
            Stmt::Nonlocal(nonlocal) => self.outer(&nonlocal.names),
            _ => {}
        }
    }

    fn star(&mut self, module: &'a str) {
        if module.len() <= LONGEST && self.stars.len() < MOST_STARS && !self.stars.contains(&module) {
            self.stars.push(module);
        }
    }

    fn outer(&mut self, names: &'a [ruff_python_ast::Identifier]) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.outer.extend(names.iter().map(ruff_python_ast::Identifier::as_str));
        }
    }
}
