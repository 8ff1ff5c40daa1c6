//! What names stand for: modules, and things in them.

use std::collections::HashMap;

use oxc::ast::ast::{
    BindingPattern, CallExpression, Class, Expression, IdentifierReference, ImportDeclaration,
    ImportDeclarationSpecifier, TSImportEqualsDeclaration, TSModuleReference, VariableDeclarator,
};
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::{Scoping, SymbolId};

use super::table;

/// The longest dotted path that is followed, against hostile ones that grow line by line.
const LONGEST: usize = 96;

/// The names that imports and `require` bind, by symbol, so that whatever shadows them is not them.
pub(super) struct Names<'s> {
    scoping: &'s Scoping,
    paths: HashMap<SymbolId, String>,
}

impl<'s> Names<'s> {
    pub(super) fn new(scoping: &'s Scoping) -> Self {
        Self { scoping, paths: HashMap::new() }
    }

    /// The dotted path that an expression names: of a module, or of something global.
    pub(super) fn path(&self, expression: &Expression<'_>) -> Option<String> {
        match expression.get_inner_expression() {
            Expression::Identifier(name) => match self.symbol(name) {
                Some(symbol) => self.paths.get(&symbol).cloned(),
                None => Some(name.name.as_str()).filter(|name| table::is_global(name)).map(str::to_owned),
            },
            Expression::CallExpression(call) => module_path(self.required(call)?),
            Expression::AwaitExpression(awaited) => match awaited.argument.get_inner_expression() {
                Expression::ImportExpression(import) => match &import.source {
                    Expression::StringLiteral(specifier) => module_path(specifier.value.as_str()),
                    _ => None,
                },
                _ => None,
            },
            other => {
                let member = other.as_member_expression()?;
                let name = member.static_property_name()?;
                let path = self.path(member.object())?;
                join(&path, name)
            }
        }
    }

    /// The module that a call of `require` names.
    pub(super) fn required<'c>(&self, call: &'c CallExpression<'_>) -> Option<&'c str> {
        let Expression::Identifier(name) = &call.callee else { return None };
        // Also one that `createRequire` made.
        let is_require = name.name == "require" && self.symbol(name).is_none_or(|symbol| !self.is_function(symbol));
        call.arguments.first().filter(|_| is_require).and_then(|first| match first.as_expression()? {
            Expression::StringLiteral(specifier) => Some(specifier.value.as_str()),
            _ => None,
        })
    }

    /// Whether a name is nobody's in the program.
    pub(super) fn is_global(&self, name: &IdentifierReference<'_>) -> bool {
        self.symbol(name).is_none()
    }

    fn is_function(&self, symbol: SymbolId) -> bool {
        self.scoping.symbol_flags(symbol).is_function()
    }

    fn symbol(&self, name: &IdentifierReference<'_>) -> Option<SymbolId> {
        self.scoping.get_reference(name.reference_id.get()?).symbol_id()
    }

    fn bind(&mut self, symbol: Option<SymbolId>, path: Option<String>) {
        if let (Some(symbol), Some(path)) = (symbol, path) {
            self.paths.insert(symbol, path);
        }
    }

    fn bind_pattern(&mut self, pattern: &BindingPattern<'_>, path: &str) {
        match pattern {
            BindingPattern::BindingIdentifier(name) => self.bind(name.symbol_id.get(), Some(path.to_owned())),
            BindingPattern::ObjectPattern(object) => {
                for property in &object.properties {
                    if let Some(name) = property.key.static_name()
                        && let Some(path) = join(path, &name)
                    {
                        self.bind_pattern(&property.value, &path);
                    }
                }
            }
            BindingPattern::AssignmentPattern(assigned) => self.bind_pattern(&assigned.left, path),
            BindingPattern::ArrayPattern(_) => {}
        }
    }
}

/// What is called by a module's own name, without the part that says where it is from.
fn module_path(specifier: &str) -> Option<String> {
    Some(specifier.strip_prefix("node:").unwrap_or(specifier)).filter(|path| path.len() <= LONGEST).map(str::to_owned)
}

/// The path of something in something; `default` is the thing itself, and so is what is global in the global object.
fn join(path: &str, name: &str) -> Option<String> {
    match (path, name) {
        (path, "default") => Some(path.to_owned()),
        ("globalThis" | "global" | "window" | "self", name) => Some(name.to_owned()),
        _ => Some(format!("{path}.{name}")),
    }
    .filter(|path| path.len() <= LONGEST)
}

impl<'a> Visit<'a> for Names<'_> {
    fn visit_import_declaration(&mut self, import: &ImportDeclaration<'a>) {
        let Some(module) = module_path(import.source.value.as_str()) else { return };
        for specifier in import.specifiers.iter().flatten() {
            match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(one) => {
                    self.bind(one.local.symbol_id.get(), join(&module, one.imported.name().as_str()));
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(one) => {
                    self.bind(one.local.symbol_id.get(), Some(module.clone()));
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(one) => {
                    self.bind(one.local.symbol_id.get(), Some(module.clone()));
                }
            }
        }
    }

    fn visit_ts_import_equals_declaration(&mut self, import: &TSImportEqualsDeclaration<'a>) {
        if let TSModuleReference::ExternalModuleReference(external) = &import.module_reference {
            self.bind(import.id.symbol_id.get(), module_path(external.expression.value.as_str()));
        }
    }

    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        if let Some(init) = &declarator.init
            && let Some(path) = self.path(init)
        {
            self.bind_pattern(&declarator.id, &path);
        }
        walk::walk_variable_declarator(self, declarator);
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        // A class of the program's own that is a worker is used as one.
        if let (Some(id), Some(heritage)) = (&class.id, &class.heritage) {
            let path = self.path(&heritage.expression).filter(|path| table::of_call(path).is_some());
            self.bind(id.symbol_id.get(), path);
        }
        walk::walk_class(self, class);
    }
}
