//! The first pass over a program, which collects the exports of namespaces and the members of enums.

use oxc::ast::ast::{
    BindingPattern, Class, Declaration, ExportDeclaration, Function, Program, Statement, TSEnumDeclaration,
    TSEnumMember, TSExternalModuleDeclaration, TSGlobalDeclaration, TSImportEqualsDeclaration, TSNamespaceDeclaration,
    TSNamespaceDeclarationBody, VariableDeclaration,
};
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::{ScopeFlags, Scoping, SymbolId};
use oxc::syntax::scope::ScopeId;

use super::evaluate::Site;
use super::table::{Alias, Constant, EntityId, Export, Member, Part, Table};
use super::value::{Evaluated, Value};

impl<'s, 'a> Table<'s, 'a> {
    /// Collects the namespaces and enums of a program.
    pub(super) fn collect(program: &Program<'a>, scoping: &'s Scoping) -> Self {
        let mut table = Self::new(scoping);
        Collector::new(&mut table, false).visit_program(program);
        if !table.is_empty() {
            table.locate_scopes();
        }
        if table.entities.iter().any(|entity| !entity.members.is_empty()) {
            // Two passes are needed, because a function may use a constant that is declared after it.
            Collector::new(&mut table, true).visit_program(program);
            Collector::new(&mut table, true).visit_program(program);
        }
        table.select_runtime_aliases();
        table
    }
}

/// Visitor that fills a [`Table`].
pub(super) struct Collector<'t, 's, 'a> {
    table: &'t mut Table<'s, 'a>,
    /// The namespace whose body is visited, outside of functions and blocks.
    namespace: Option<EntityId>,
    /// True for a declaration after `export`.
    exported: bool,
    /// False in the first visit, in which names cannot be resolved yet.
    evaluates: bool,
}

/// Returns true if a namespace exists at run time, which means that it contains more than types.
pub(super) fn is_instantiated(namespace: &TSNamespaceDeclaration<'_>) -> bool {
    match &namespace.body {
        TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => is_instantiated(inner),
        TSNamespaceDeclarationBody::TSModuleBlock(block) => block.body.iter().any(|statement| match statement {
            Statement::TSInterfaceDeclaration(_)
            | Statement::TSTypeAliasDeclaration(_)
            | Statement::TSImportEqualsDeclaration(_)
            | Statement::ImportDeclaration(_) => false,
            Statement::TSNamespaceDeclaration(inner) => is_instantiated(inner),
            Statement::ExportDeclaration(export) => match &export.declaration {
                Declaration::TSInterfaceDeclaration(_) | Declaration::TSTypeAliasDeclaration(_) => false,
                Declaration::TSNamespaceDeclaration(inner) => is_instantiated(inner),
                _ => true,
            },
            _ => true,
        }),
    }
}

/// Calls `found` for each name that a pattern binds.
pub(super) fn for_each_binding<'a>(pattern: &BindingPattern<'a>, found: &mut dyn FnMut(&'a str, Option<SymbolId>)) {
    match pattern {
        BindingPattern::BindingIdentifier(name) => found(name.name.as_str(), name.symbol_id.get()),
        BindingPattern::ObjectPattern(object) => {
            object.properties.iter().for_each(|property| for_each_binding(&property.value, found));
            object.rest.iter().for_each(|rest| for_each_binding(&rest.argument, found));
        }
        BindingPattern::ArrayPattern(array) => {
            array.elements.iter().flatten().for_each(|element| for_each_binding(element, found));
            array.rest.iter().for_each(|rest| for_each_binding(&rest.argument, found));
        }
        BindingPattern::AssignmentPattern(assigned) => for_each_binding(&assigned.left, found),
    }
}

impl<'t, 's, 'a> Collector<'t, 's, 'a> {
    pub(super) fn new(table: &'t mut Table<'s, 'a>, evaluates: bool) -> Self {
        Self { table, namespace: None, exported: false, evaluates }
    }

    /// Returns the namespace that exports the current declaration.
    fn exporter(&self) -> Option<EntityId> {
        self.namespace.filter(|_| self.exported)
    }

    fn entity(&mut self, symbol: SymbolId, name: &'a str) -> EntityId {
        match self.exporter() {
            Some(container) => self.table.entity_of_export(container, symbol, name),
            None => self.table.entity_of_symbol(symbol, name),
        }
    }

    fn add_value(&mut self, name: &'a str, symbol: Option<SymbolId>) {
        if let Some(container) = self.exporter() {
            self.table.add_export(container, name, Export { is_value: true, symbol, entity: None });
        }
    }

    fn add_type(&mut self, name: &'a str) {
        if let Some(container) = self.exporter() {
            self.table.add_export(container, name, Export::default());
        }
    }

    fn within(&mut self, namespace: Option<EntityId>, exported: bool, visit: impl FnOnce(&mut Self)) {
        let outside = (self.namespace, self.exported);
        (self.namespace, self.exported) = (namespace, exported);
        visit(self);
        (self.namespace, self.exported) = outside;
    }

    /// Evaluates the members of one part of an enum.
    fn members(&mut self, id: EntityId, declaration: &TSEnumDeclaration<'a>, scope: ScopeId) {
        let mut next = Evaluated { value: Value::Number(0.0), is_absent: false };
        for member in &declaration.body.members {
            let at = member.span.start;
            let value = match &member.initializer {
                Some(initializer) => self.table.evaluate(initializer, Site { at, scope }),
                None => next,
            };
            let kept = Evaluated { is_absent: value.is_absent || declaration.declare, ..value };
            self.table.entities[id].members.insert(static_name(member), Member { at, value: Some(kept) });
            next = match value.value {
                Value::Number(number) => Evaluated { value: Value::Number(number + 1.0), is_absent: false },
                _ => Evaluated::UNKNOWN,
            };
        }
    }
}

/// Returns the name of an enum member.
pub(super) fn static_name<'a>(member: &TSEnumMember<'a>) -> &'a str {
    use oxc::ast::ast::TSEnumMemberName;
    match &member.id {
        TSEnumMemberName::Identifier(name) => name.name.as_str(),
        TSEnumMemberName::String(name) | TSEnumMemberName::ComputedString(name) => name.value.as_str(),
        TSEnumMemberName::ComputedTemplateString(name) => name.single_quasi().map_or("", |name| name.as_str()),
    }
}

impl<'a> Visit<'a> for Collector<'_, '_, 'a> {
    fn visit_export_declaration(&mut self, export: &ExportDeclaration<'a>) {
        self.within(self.namespace, true, |inner| walk::walk_declaration(inner, &export.declaration));
    }

    fn visit_ts_namespace_declaration(&mut self, namespace: &TSNamespaceDeclaration<'a>) {
        if namespace.declare {
            return;
        }
        let Some(symbol) = namespace.id.symbol_id.get() else { return };
        let entity = self.entity(symbol, namespace.id.name.as_str());
        let is_instantiated = is_instantiated(namespace);
        self.table.entities[entity].is_value |= is_instantiated;
        self.table.entities[entity].is_lowered |= is_instantiated;
        if let Some(scope) = namespace.scope_id.get() {
            self.table.parts.insert(scope, Part::Namespace(entity));
        }
        match &namespace.body {
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(nested) => {
                self.within(Some(entity), true, |inner| inner.visit_ts_namespace_declaration(nested));
            }
            TSNamespaceDeclarationBody::TSModuleBlock(block) => {
                self.within(Some(entity), false, |inner| inner.visit_statements(&block.body));
            }
        }
    }

    fn visit_ts_enum_declaration(&mut self, declaration: &TSEnumDeclaration<'a>) {
        let (Some(symbol), Some(scope)) = (declaration.id.symbol_id.get(), declaration.body.scope_id.get()) else {
            return;
        };
        let entity = self.entity(symbol, declaration.id.name.as_str());
        self.table.entities[entity].is_value = true;
        self.table.entities[entity].is_lowered |= !declaration.declare;
        self.table.parts.insert(scope, Part::Enum(entity));
        for member in &declaration.body.members {
            let at = member.span.start;
            self.table.names.insert(static_name(member));
            self.table.entities[entity].members.entry(static_name(member)).or_insert(Member { at, value: None });
        }
        if self.evaluates {
            self.members(entity, declaration, scope);
        }
        self.within(None, false, |inner| walk::walk_ts_enum_body(inner, &declaration.body));
    }

    fn visit_ts_import_equals_declaration(&mut self, import: &TSImportEqualsDeclaration<'a>) {
        let Some(symbol) = import.id.symbol_id.get() else { return };
        let Some(alias) = Alias::new(&import.module_reference, self.exported) else { return };
        if self.table.aliases.insert(symbol, alias).is_none() {
            self.table.alias_order.push(symbol);
        }
        if let Some(container) = self.exporter() {
            let export = Export { is_value: true, symbol: Some(symbol), entity: None };
            self.table.add_export(container, import.id.name.as_str(), export);
            self.table.properties.insert(symbol);
        }
    }

    fn visit_variable_declaration(&mut self, variables: &VariableDeclaration<'a>) {
        for variable in &variables.declarations {
            let exporter = self.exporter();
            for_each_binding(&variable.id, &mut |name, symbol| {
                if let Some(container) = exporter {
                    self.table.add_export(container, name, Export { is_value: true, symbol, entity: None });
                    self.table.properties.extend(symbol);
                }
            });
            if let BindingPattern::BindingIdentifier(name) = &variable.id
                && let (Some(symbol), Some(init)) = (name.symbol_id.get(), &variable.init)
                && variables.kind.is_const()
                && variable.type_annotation.is_none()
                && self.evaluates
            {
                let site = Site { at: variable.span.start, scope: self.table.scoping.symbol_scope_id(symbol) };
                let value = self.table.evaluate(init, site);
                self.table.constants.insert(symbol, Constant { at: variable.span.start, value });
            }
        }
        self.within(None, false, |inner| walk::walk_variable_declaration(inner, variables));
    }

    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        if let Some(id) = function.id.as_ref().filter(|_| function.is_declaration()) {
            self.add_value(id.name.as_str(), id.symbol_id.get());
            if function.body.is_some() && !function.declare {
                self.table.functions.extend(id.symbol_id.get());
            }
        }
        self.within(None, false, |inner| walk::walk_function(inner, function, flags));
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        if let Some(id) = class.id.as_ref().filter(|_| class.is_declaration()) {
            self.add_value(id.name.as_str(), id.symbol_id.get());
            if !class.declare {
                self.table.functions.extend(id.symbol_id.get());
            }
        }
        self.within(None, false, |inner| walk::walk_class(inner, class));
    }

    fn visit_ts_interface_declaration(&mut self, declaration: &oxc::ast::ast::TSInterfaceDeclaration<'a>) {
        self.add_type(declaration.id.name.as_str());
    }

    fn visit_ts_type_alias_declaration(&mut self, declaration: &oxc::ast::ast::TSTypeAliasDeclaration<'a>) {
        self.add_type(declaration.id.name.as_str());
    }

    fn visit_ts_type(&mut self, _: &oxc::ast::ast::TSType<'a>) {}

    fn visit_ts_global_declaration(&mut self, _: &TSGlobalDeclaration<'a>) {}

    fn visit_ts_external_module_declaration(&mut self, _: &TSExternalModuleDeclaration<'a>) {}
}
