//! Resolution of dotted names, and the choice of the `import a = b.c` aliases that exist at run time.

use std::collections::HashSet;

use oxc::ast::ast::{Expression, IdentifierReference, TSModuleReference, TSTypeName};
use oxc::semantic::SymbolId;
use oxc::syntax::reference::ReferenceId;

use super::table::{Alias, EntityId, Table, Target};

/// The longest chain of aliases that is followed.
const MAX_ALIAS_DEPTH: u32 = 32;

/// The declaration that a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Referent {
    /// A namespace or an enum.
    Entity(EntityId),
    /// A member of an enum.
    Member(EntityId, String),
    /// Any other symbol.
    Symbol(SymbolId),
    /// A type.
    Type,
}

impl<'a> Alias<'a> {
    /// Creates the alias of a reference into namespaces. Returns `None` for `require`.
    pub(super) fn new(reference: &TSModuleReference<'a>, exported: bool) -> Option<Self> {
        let mut path = Vec::new();
        let root = match reference {
            TSModuleReference::ExternalModuleReference(_) => return None,
            TSModuleReference::IdentifierReference(root) => root,
            TSModuleReference::QualifiedName(name) => {
                path.push(name.right.name.as_str());
                let mut left = &name.left;
                loop {
                    match left {
                        TSTypeName::IdentifierReference(root) => break root,
                        TSTypeName::QualifiedName(name) => {
                            path.push(name.right.name.as_str());
                            left = &name.left;
                        }
                        TSTypeName::ThisExpression(_) => return None,
                    }
                }
            }
        };
        path.reverse();
        Some(Self { root: root.reference_id.get()?, root_name: root.name.as_str(), path, exported })
    }
}

impl Table<'_, '_> {
    /// Returns the meaning of `a`, `a.b` and `a["b"]`, if the program declares it.
    pub(super) fn resolve(&self, expression: &Expression<'_>) -> Option<Referent> {
        match expression {
            Expression::Identifier(name) => self.resolve_name(name),
            Expression::StaticMemberExpression(member) if !member.optional => {
                let object = self.resolve(&member.object)?;
                self.member(&object, member.property.name.as_str())
            }
            Expression::ComputedMemberExpression(member) if !member.optional => {
                let object = self.resolve(&member.object)?;
                let name = match &member.expression {
                    Expression::StringLiteral(name) => name.value.as_str(),
                    Expression::TemplateLiteral(name) => name.single_quasi()?.as_str(),
                    _ => return None,
                };
                // Only enum members are resolved through a computed name.
                self.member(&object, name).filter(|found| matches!(found, Referent::Member(..)))
            }
            _ => None,
        }
    }

    pub(super) fn resolve_name(&self, name: &IdentifierReference<'_>) -> Option<Referent> {
        self.resolve_target(self.target(name), name.name.as_str(), 0)
    }

    fn resolve_target(&self, target: Target, name: &str, depth: u32) -> Option<Referent> {
        match target {
            Target::Unknown => None,
            Target::Property(entity) => self.member_at(&Referent::Entity(entity), name, depth),
            Target::Symbol(symbol) => self.resolve_symbol(symbol, depth),
        }
    }

    fn resolve_symbol(&self, symbol: SymbolId, depth: u32) -> Option<Referent> {
        if let Some(alias) = self.aliases.get(&symbol) {
            return self.resolve_alias(alias, depth + 1);
        }
        if let Some(entity) = self.by_symbol.get(&symbol) {
            return Some(Referent::Entity(*entity));
        }
        if self.scoping.symbol_flags(symbol).is_enum_member()
            && let Some(super::table::Part::Enum(entity)) = self.parts.get(&self.scoping.symbol_scope_id(symbol))
        {
            return Some(Referent::Member(*entity, self.scoping.symbol_name(symbol).to_owned()));
        }
        Some(Referent::Symbol(symbol))
    }

    fn resolve_alias(&self, alias: &Alias<'_>, depth: u32) -> Option<Referent> {
        if depth > MAX_ALIAS_DEPTH {
            return None;
        }
        let mut found = self.resolve_target(self.target_of(alias.root, alias.root_name), alias.root_name, depth)?;
        for name in &alias.path {
            found = self.member_at(&found, name, depth)?;
        }
        Some(found)
    }

    fn member(&self, object: &Referent, name: &str) -> Option<Referent> {
        self.member_at(object, name, 0)
    }

    fn member_at(&self, object: &Referent, name: &str, depth: u32) -> Option<Referent> {
        let Referent::Entity(id) = object else { return None };
        let entity = &self.entities[*id];
        if entity.members.contains_key(name) {
            return Some(Referent::Member(*id, name.to_owned()));
        }
        let export = entity.exports.get(name)?;
        match (export.entity, export.symbol) {
            (Some(entity), _) => Some(Referent::Entity(entity)),
            (None, Some(symbol)) if export.is_value => self.resolve_symbol(symbol, depth),
            (None, _) => Some(Referent::Type),
        }
    }

    /// Returns true if an alias is known to name only a type.
    fn is_type(&self, alias: &Alias<'_>) -> bool {
        match self.resolve_alias(alias, 0) {
            Some(Referent::Type) => true,
            Some(Referent::Entity(entity)) => {
                let entity = &self.entities[entity];
                !entity.is_value && entity.symbol.is_none_or(|symbol| !self.scoping.symbol_flags(symbol).is_value())
            }
            Some(Referent::Symbol(symbol)) => {
                let flags = self.scoping.symbol_flags(symbol);
                !flags.is_value() && !flags.is_import()
            }
            _ => false,
        }
    }

    /// Decides which aliases exist at run time: exported aliases of values, and aliases that are used as values.
    pub(super) fn select_runtime_aliases(&mut self) {
        let mut unused: HashSet<ReferenceId> = HashSet::new();
        for symbol in self.alias_order.clone().into_iter().rev() {
            let Some(alias) = self.aliases.get(&symbol) else { continue };
            let is_used = || {
                let references = self.scoping.get_resolved_reference_ids(symbol).iter();
                references.filter(|id| !unused.contains(id)).any(|id| self.scoping.get_reference(*id).is_value())
            };
            // A name in another part of the namespace is not resolved to the alias, but the alias is exported in that
            // case.
            if !self.is_type(alias) && (alias.exported || is_used()) {
                self.runtime_aliases.insert(symbol);
            } else {
                unused.insert(alias.root);
            }
        }
        // An alias of a type is not a value of its namespace.
        let kept = &self.runtime_aliases;
        let aliases = &self.aliases;
        for export in self.entities.iter_mut().flat_map(|entity| entity.exports.values_mut()) {
            if let Some(symbol) = export.symbol
                && aliases.contains_key(&symbol)
            {
                export.is_value = kept.contains(&symbol);
            }
        }
    }
}
