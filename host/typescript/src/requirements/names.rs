//! Resolution of names to modules and their members.

use std::collections::HashMap;

use oxc::ast::ast::{
    BindingPattern, CallExpression, Class, Expression, IdentifierReference, ImportDeclaration,
    ImportDeclarationSpecifier, TSImportEqualsDeclaration, TSModuleReference, VariableDeclarator,
};
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::{Scoping, SymbolId};

use super::table;

/// The longest dotted path that is followed. A hostile path could grow with each line.
const MAX_PATH_LEN: usize = 96;

/// The names that imports and `require` bind. They are stored by symbol, so that shadowing names are distinguished.
pub(super) struct Names<'s> {
    scoping: &'s Scoping,
    paths: HashMap<SymbolId, String>,
}

impl<'s> Names<'s> {
    pub(super) fn new(scoping: &'s Scoping) -> Self {
        Self { scoping, paths: HashMap::new() }
    }

    /// Returns the dotted path of the module member or global to which an expression refers.
    pub(super) fn path(&self, expression: &Expression<'_>) -> Option<String> {
        match expression.get_inner_expression() {
            Expression::Identifier(name) => match self.symbol(name) {
                Some(symbol) => self.paths.get(&symbol).cloned(),
                None => Some(name.name.as_str()).filter(|name| table::is_global(name)).map(str::to_owned),
            },
            Expression::CallExpression(call) => module_path(self.required_module(call)?),
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

    /// Returns the module that a call of `require` names.
    pub(super) fn required_module<'c>(&self, call: &'c CallExpression<'_>) -> Option<&'c str> {
        let Expression::Identifier(name) = &call.callee else { return None };
        // A function made by `createRequire` counts as well.
        let is_require = name.name == "require" && self.symbol(name).is_none_or(|symbol| !self.is_function(symbol));
        call.arguments.first().filter(|_| is_require).and_then(|first| match first.as_expression()? {
            Expression::StringLiteral(specifier) => Some(specifier.value.as_str()),
            _ => None,
        })
    }

    /// Returns true if the program does not declare a name.
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

/// Returns the path of a module, without the `node:` prefix.
fn module_path(specifier: &str) -> Option<String> {
    Some(specifier.strip_prefix("node:").unwrap_or(specifier))
        .filter(|path| path.len() <= MAX_PATH_LEN)
        .map(str::to_owned)
}

/// Appends a name to a path. `default` stands for the module itself, and a property of the global object for the
/// global.
fn join(path: &str, name: &str) -> Option<String> {
    match (path, name) {
        (path, "default") => Some(path.to_owned()),
        ("globalThis" | "global" | "window" | "self", name) => Some(name.to_owned()),
        _ => Some(format!("{path}.{name}")),
    }
    .filter(|path| path.len() <= MAX_PATH_LEN)
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
        // A subclass of a worker class is treated like a worker class.
        if let (Some(id), Some(heritage)) = (&class.id, &class.heritage) {
            let path = self.path(&heritage.expression).filter(|path| table::facility_of_call(path).is_some());
            self.bind(id.symbol_id.get(), path);
        }
        walk::walk_class(self, class);
    }
}
