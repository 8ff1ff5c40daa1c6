//! The second pass over a program, which makes the edits.

use oxc::ast::ast::{
    AssignmentTargetPropertyIdentifier, Class, Declaration, ExportDeclaration, ExportDefaultDeclarationKind,
    IdentifierReference, ObjectProperty, Statement, TSClassImplements, TSEnumDeclaration, TSExternalModuleDeclaration,
    TSGlobalDeclaration, TSImportEqualsDeclaration, TSInterfaceDeclaration, TSNamespaceDeclaration, TSType,
    TSTypeAliasDeclaration,
};
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::SymbolId;
use oxc::span::Span;
use std::collections::HashSet;

use super::decorators::{ClassExport, ClassPlace, needs_lowering};
use super::edits::{Columns, Edits};
use super::table::{EntityId, Table};

/// Visitor that makes the edits of a program.
pub(super) struct Rewriter<'p, 's, 'a> {
    pub(super) text: &'p str,
    pub(super) table: &'p Table<'s, 'a>,
    pub(super) edits: Edits,
    /// True if decorators are those of `experimentalDecorators`, which are not lowered here.
    pub(super) are_legacy: bool,
    /// Namespaces and enums whose variable is already declared.
    pub(super) declared: HashSet<SymbolId>,
    /// Number of classes so far.
    pub(super) classes: u32,
    /// The place of the class that is visited next.
    class_place: ClassPlace,
    /// The offset of a shorthand property, such as `{ a }`.
    shorthand: Option<u32>,
}

/// The export of a declaration.
#[derive(Debug, Clone, Copy)]
pub(super) enum ExportTarget {
    No,
    /// Exported by the module.
    Module,
    /// Exported by a namespace.
    Namespace(EntityId),
}

/// The head of a namespace or enum declaration.
pub(super) struct DeclarationHead<'n> {
    pub(super) name: &'n str,
    pub(super) symbol: SymbolId,
    pub(super) entity: EntityId,
    pub(super) exported: ExportTarget,
}

impl<'p, 's, 'a> Rewriter<'p, 's, 'a> {
    pub(super) fn new(text: &'p str, table: &'p Table<'s, 'a>, are_legacy: bool) -> Self {
        Self {
            text,
            table,
            edits: Edits::default(),
            are_legacy,
            declared: HashSet::new(),
            classes: 0,
            class_place: ClassPlace::Expression,
            shorthand: None,
        }
    }

    pub(super) fn finish(self) -> (String, Columns) {
        self.edits.apply(self.text)
    }

    /// Returns the name of the parameter of the functions of a namespace or an enum.
    pub(super) fn parameter(&self, entity: EntityId) -> &'p str {
        &self.table.entities[entity].parameter
    }

    /// Removes a statement. The remaining semicolon separates the statements around it.
    pub(super) fn remove(&mut self, span: Span) {
        self.edits.replace(span.start, span.end, ";");
    }

    /// Removes a part that does not exist at run time, if another part of the same entity does. oxc removes the others.
    pub(super) fn remove_type(&mut self, symbol: SymbolId, statement: Span) {
        let entity = self.table.by_symbol.get(&symbol);
        if entity.is_some_and(|entity| self.table.entities[*entity].is_lowered) {
            self.remove(statement);
        }
    }

    /// Returns the text that begins a part: the variable, if this is the first part, and the function.
    pub(super) fn opening(&mut self, head: &DeclarationHead<'_>) -> String {
        let DeclarationHead { name, symbol, entity, exported } = *head;
        let parameter = self.parameter(entity);
        let is_first = !self.table.functions.contains(&symbol) && self.declared.insert(symbol);
        let scoping = self.table.scoping;
        let keyword = if scoping.symbol_scope_id(symbol) == scoping.root_scope_id() { "var" } else { "let" };
        let export = if matches!(exported, ExportTarget::Module) { "export " } else { "" };
        let variable = if is_first { format!("{export}{keyword} {name}") } else { String::new() };
        format!("{variable};(function ({parameter}) {{")
    }

    /// Returns the text that ends a part: the call of the function with the object of the namespace or the enum.
    pub(super) fn closing(&self, head: &DeclarationHead<'_>) -> String {
        let name = head.name;
        match head.exported {
            ExportTarget::Namespace(container) => {
                let container = self.parameter(container);
                format!("}})({name} = {container}.{name} || ({container}.{name} = {{}}));")
            }
            ExportTarget::No | ExportTarget::Module => format!("}})({name} || ({name} = {{}}));"),
        }
    }
}

impl<'a> Visit<'a> for Rewriter<'_, '_, 'a> {
    fn visit_statement(&mut self, statement: &Statement<'a>) {
        let declaration = |start, export| ClassPlace::Declaration { start, export };
        self.class_place = match statement {
            Statement::ClassDeclaration(class) => declaration(class.span.start, ClassExport::No),
            Statement::ExportDeclaration(export) if matches!(export.declaration, Declaration::ClassDeclaration(_)) => {
                declaration(export.span.start, ClassExport::Named)
            }
            Statement::ExportDefaultDeclaration(export)
                if matches!(export.declaration, ExportDefaultDeclarationKind::ClassDeclaration(_)) =>
            {
                declaration(export.span.start, ClassExport::Default)
            }
            _ => ClassPlace::Expression,
        };
        walk::walk_statement(self, statement);
        self.class_place = ClassPlace::Expression;
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        let place = std::mem::replace(&mut self.class_place, ClassPlace::Expression);
        if needs_lowering(class, self.are_legacy) {
            self.lower_class(class, place);
        }
        walk::walk_class(self, class);
    }

    fn visit_export_declaration(&mut self, export: &ExportDeclaration<'a>) {
        self.export(export, ExportTarget::Module);
    }

    fn visit_ts_namespace_declaration(&mut self, namespace: &TSNamespaceDeclaration<'a>) {
        self.namespace(namespace, namespace.span, ExportTarget::No);
    }

    fn visit_ts_enum_declaration(&mut self, declaration: &TSEnumDeclaration<'a>) {
        self.lower_enum(declaration, declaration.span, ExportTarget::No);
    }

    fn visit_ts_import_equals_declaration(&mut self, import: &TSImportEqualsDeclaration<'a>) {
        self.alias(import, import.span, ExportTarget::No);
    }

    fn visit_object_property(&mut self, property: &ObjectProperty<'a>) {
        self.shorthand = property.shorthand.then_some(property.span.start);
        walk::walk_object_property(self, property);
        self.shorthand = None;
    }

    fn visit_assignment_target_property_identifier(&mut self, property: &AssignmentTargetPropertyIdentifier<'a>) {
        self.shorthand = Some(property.span.start);
        self.visit_identifier_reference(&property.binding);
        self.shorthand = None;
        if let Some(init) = &property.init {
            self.visit_expression(init);
        }
    }

    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        if let Some(parameter) = self.table.qualifier(name) {
            let qualifier = match self.shorthand == Some(name.span.start) {
                true => format!("{}: {parameter}.", name.name),
                false => format!("{parameter}."),
            };
            self.edits.insert(name.span.start, qualifier);
        }
    }

    // Types contain no references that exist at run time.
    fn visit_ts_type(&mut self, _: &TSType<'a>) {}

    fn visit_ts_class_implements(&mut self, _: &TSClassImplements<'a>) {}

    fn visit_ts_interface_declaration(&mut self, _: &TSInterfaceDeclaration<'a>) {}

    fn visit_ts_type_alias_declaration(&mut self, _: &TSTypeAliasDeclaration<'a>) {}

    fn visit_ts_global_declaration(&mut self, _: &TSGlobalDeclaration<'a>) {}

    fn visit_ts_external_module_declaration(&mut self, _: &TSExternalModuleDeclaration<'a>) {}
}
