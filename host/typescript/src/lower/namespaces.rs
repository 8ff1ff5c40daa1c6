//! Lowering of namespaces, their exports, and aliases.

use oxc::ast::ast::{
    BindingPattern, BindingProperty, Declaration, ExportDeclaration, Statement, TSImportEqualsDeclaration,
    TSNamespaceDeclaration, TSNamespaceDeclarationBody, VariableDeclaration,
};
use oxc::ast_visit::{Visit, walk};
use oxc::span::{GetSpan, Span};

use super::exports::is_instantiated;
use super::rewrite::{DeclarationHead, ExportTarget, Rewriter};
use super::table::EntityId;

/// The length of the keyword `export`.
const EXPORT: u32 = 6;

impl<'a> Rewriter<'_, '_, 'a> {
    /// Rewrites `namespace N { … }` to `var N; (function (_N) { … })(N || (N = {}));`.
    ///
    /// oxc removes a namespace that contains only types. Inside another namespace, it is removed here.
    pub(super) fn namespace(
        &mut self,
        namespace: &TSNamespaceDeclaration<'a>,
        statement: Span,
        exported: ExportTarget,
    ) {
        if namespace.declare || !is_instantiated(namespace) {
            if let Some(symbol) = namespace.id.symbol_id.get() {
                self.remove_type(symbol, statement);
            }
            return;
        }
        let mut opening = String::new();
        let mut closings = Vec::new();
        let (mut part, mut part_exported) = (namespace, exported);
        let (block, container) = loop {
            let Some(symbol) = part.id.symbol_id.get() else { return };
            let Some(entity) = self.table.by_symbol.get(&symbol).copied() else { return };
            let head = DeclarationHead { name: part.id.name.as_str(), symbol, entity, exported: part_exported };
            opening.push_str(&self.opening(&head));
            closings.push(self.closing(&head));
            match &part.body {
                TSNamespaceDeclarationBody::TSModuleBlock(block) => break (block, entity),
                TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => {
                    (part, part_exported) = (inner, ExportTarget::Namespace(entity));
                }
            }
        };
        self.edits.replace(statement.start, block.span.start + 1, opening);
        for statement in &block.body {
            self.inner(statement, container);
        }
        closings.reverse();
        self.edits.replace(block.span.end - 1, block.span.end, closings.concat());
    }

    /// Rewrites a statement of a namespace's body.
    fn inner(&mut self, statement: &Statement<'a>, container: EntityId) {
        match statement {
            Statement::ExportDeclaration(export) => self.export(export, ExportTarget::Namespace(container)),
            Statement::TSNamespaceDeclaration(inner) if !is_instantiated(inner) => self.remove(inner.span),
            _ if statement.as_declaration().is_some_and(Declaration::declare) => self.remove(statement.span()),
            _ => self.visit_statement(statement),
        }
    }

    /// Rewrites an export of a module or a namespace.
    pub(super) fn export(&mut self, export: &ExportDeclaration<'a>, exported: ExportTarget) {
        let declaration = &export.declaration;
        match (declaration, exported) {
            (_, ExportTarget::Namespace(_)) if is_type(declaration) => self.remove(export.span),
            (Declaration::TSNamespaceDeclaration(inner), _) => self.namespace(inner, export.span, exported),
            (Declaration::TSEnumDeclaration(inner), _) => self.lower_enum(inner, export.span, exported),
            (Declaration::TSImportEqualsDeclaration(inner), _) => self.alias(inner, export.span, exported),
            (Declaration::VariableDeclaration(variables), ExportTarget::Namespace(container)) => {
                self.variables(variables, export.span, container);
            }
            (_, ExportTarget::Namespace(container)) => {
                self.edits.replace(export.span.start, export.span.start + EXPORT, "");
                walk::walk_declaration(self, declaration);
                if let Some(id) = declaration.id() {
                    let (parameter, name) = (self.parameter(container), id.name.as_str());
                    self.edits.insert(export.span.end, format!(" {parameter}.{name} = {name};"));
                }
            }
            _ => walk::walk_declaration(self, declaration),
        }
    }

    /// Rewrites exported variables to assignments: `export let a = 1, b` to `_N.a = 1`.
    fn variables(&mut self, variables: &VariableDeclaration<'a>, statement: Span, container: EntityId) {
        let parameter = self.parameter(container);
        let mut end = statement.start;
        let mut separator = ";";
        for variable in &variables.declarations {
            let Some(init) = &variable.init else { continue };
            if let BindingPattern::BindingIdentifier(name) = &variable.id {
                self.edits.replace(end, init.span().start, format!("{separator}{parameter}.{} = ", name.name));
                self.visit_expression(init);
                end = init.span().end;
            } else {
                self.edits.replace(end, variable.id.span().start, format!("{separator}("));
                self.pattern(&variable.id, parameter);
                self.edits.replace(variable.id.span().end, init.span().start, " = ");
                self.visit_expression(init);
                end = init.span().end;
                self.edits.insert(end, ")");
            }
            separator = ", ";
        }
        self.edits.replace(end, statement.end, ";");
    }

    /// Turns a declaration pattern into an assignment pattern.
    fn pattern(&mut self, pattern: &BindingPattern<'a>, parameter: &str) {
        match pattern {
            BindingPattern::BindingIdentifier(name) => self.edits.insert(name.span.start, format!("{parameter}.")),
            BindingPattern::ObjectPattern(object) => {
                object.properties.iter().for_each(|property| self.property(property, parameter));
                object.rest.iter().for_each(|rest| self.pattern(&rest.argument, parameter));
            }
            BindingPattern::ArrayPattern(array) => {
                array.elements.iter().flatten().for_each(|element| self.pattern(element, parameter));
                array.rest.iter().for_each(|rest| self.pattern(&rest.argument, parameter));
            }
            BindingPattern::AssignmentPattern(assigned) => {
                self.pattern(&assigned.left, parameter);
                self.visit_expression(&assigned.right);
            }
        }
    }

    fn property(&mut self, property: &BindingProperty<'a>, parameter: &str) {
        if property.shorthand {
            let name = property.key.static_name().unwrap_or_default();
            self.edits.insert(property.span.start, format!("{name}: "));
        } else {
            self.visit_property_key(&property.key);
        }
        self.pattern(&property.value, parameter);
    }

    /// Rewrites `import a = b.c` to `var a = b.c`, or to an assignment to the namespace's export.
    pub(super) fn alias(&mut self, import: &TSImportEqualsDeclaration<'a>, statement: Span, exported: ExportTarget) {
        let Some(symbol) = import.id.symbol_id.get() else { return };
        let name = import.id.name.as_str();
        if !self.table.aliases.contains_key(&symbol) {
            // The target is `require`, which oxc handles.
            return;
        }
        if !self.table.runtime_aliases.contains(&symbol) || import.import_kind.is_type() {
            match exported {
                // With a type of the same name, oxc removes exports of the alias.
                ExportTarget::No | ExportTarget::Module => {
                    self.edits.replace(statement.start, statement.end, format!(";type {name} = any;"));
                }
                ExportTarget::Namespace(_) => self.remove(statement),
            }
            return;
        }
        let start = match exported {
            ExportTarget::No => format!("var {name} = "),
            ExportTarget::Module => format!("export var {name} = "),
            ExportTarget::Namespace(container) => format!(";{}.{name} = ", self.parameter(container)),
        };
        let target = import.module_reference.span();
        self.edits.replace(statement.start, target.start, start);
        self.visit_ts_module_reference(&import.module_reference);
        self.edits.replace(target.end, statement.end, ";");
    }
}

/// Returns true if a declaration has no run-time part.
fn is_type(declaration: &Declaration<'_>) -> bool {
    match declaration {
        Declaration::TSTypeAliasDeclaration(_) | Declaration::TSInterfaceDeclaration(_) => true,
        Declaration::TSNamespaceDeclaration(namespace) => namespace.declare || !is_instantiated(namespace),
        Declaration::FunctionDeclaration(function) => function.declare || function.body.is_none(),
        _ => declaration.declare(),
    }
}
