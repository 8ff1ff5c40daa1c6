//! The namespaces and enums of a program, and the names that they provide to the code inside of them.

use std::collections::{HashMap, HashSet};

use oxc::ast::ast::IdentifierReference;
use oxc::semantic::{Scoping, SymbolId};
use oxc::syntax::reference::ReferenceId;
use oxc::syntax::scope::ScopeId;

use super::value::Evaluated;

/// The longest prefix of a namespace's name in the name of its parameter, in characters, so that each qualified
/// reference grows by a bounded length.
const MAX_PARAMETER_LEN: usize = 16;

/// The index of an [`Entity`].
pub(super) type EntityId = usize;

/// A namespace or an enum with all its parts and the declarations that are merged with it.
#[derive(Debug)]
pub(super) struct Entity<'a> {
    /// The name of the parameter of its functions, which is unique in the program.
    pub(super) parameter: String,
    /// The symbol of one of its declarations.
    pub(super) symbol: Option<SymbolId>,
    /// The exports of all parts of the namespace.
    pub(super) exports: HashMap<&'a str, Export>,
    /// The members of all parts of the enum.
    pub(super) members: HashMap<&'a str, Member>,
    /// True if a part exists at run time.
    pub(super) is_value: bool,
    /// True if this pass turns a part into a variable.
    pub(super) is_lowered: bool,
}

/// An export of a namespace.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Export {
    /// False for interfaces and other types.
    pub(super) is_value: bool,
    /// The symbol of the last part that declares the export.
    pub(super) symbol: Option<SymbolId>,
    /// The exported namespace or enum.
    pub(super) entity: Option<EntityId>,
}

/// A member of an enum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// The offset of the declaration.
    pub(super) at: u32,
    /// The value, once the member is evaluated.
    pub(super) value: Option<Evaluated>,
}

/// A part of a namespace or of an enum, which has its own scope.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Namespace(EntityId),
    Enum(EntityId),
}

/// The target of `import a = b.c`.
#[derive(Debug)]
pub(super) struct Alias<'a> {
    /// The reference to `b`.
    pub(super) root: ReferenceId,
    /// The name `b`.
    pub(super) root_name: &'a str,
    /// The names after `b`.
    pub(super) path: Vec<&'a str>,
    /// True for `export import`.
    pub(super) exported: bool,
}

/// A variable whose value follows from the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Constant {
    /// The offset of the declaration.
    pub(super) at: u32,
    /// The value of the variable.
    pub(super) value: Evaluated,
}

/// The namespaces and enums of a program.
#[derive(Debug)]
pub(super) struct Table<'s, 'a> {
    pub(super) scoping: &'s Scoping,
    pub(super) entities: Vec<Entity<'a>>,
    pub(super) by_symbol: HashMap<SymbolId, EntityId>,
    pub(super) parts: HashMap<ScopeId, Part>,
    /// Exported variables and aliases, which are only properties of the namespace's object.
    pub(super) properties: HashSet<SymbolId>,
    /// Functions and classes, with which a namespace merges without a variable declaration.
    pub(super) functions: HashSet<SymbolId>,
    pub(super) aliases: HashMap<SymbolId, Alias<'a>>,
    /// Aliases in the order of the text.
    pub(super) alias_order: Vec<SymbolId>,
    /// Aliases that become variables or properties.
    pub(super) runtime_aliases: HashSet<SymbolId>,
    pub(super) constants: HashMap<SymbolId, Constant>,
    /// The position of each scope, so that names are resolved without a walk over all enclosing scopes.
    scope_positions: HashMap<ScopeId, ScopePosition>,
    /// The names of all exports and members.
    pub(super) names: HashSet<&'a str>,
    parameters: HashSet<String>,
}

/// The position of a scope among the other scopes.
#[derive(Debug, Clone, Copy)]
struct ScopePosition {
    depth: u32,
    /// The depth of the innermost enclosing function.
    function: u32,
    /// The innermost enclosing part.
    part: Option<ScopeId>,
}

/// The declaration to which a name resolves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A declaration in an enclosing scope.
    Symbol(SymbolId),
    /// An export of a namespace or a member of an enum, declared in another part.
    Property(EntityId),
    /// A declaration outside of the program.
    Unknown,
}

impl<'s, 'a> Table<'s, 'a> {
    /// Creates an empty table.
    pub(super) fn new(scoping: &'s Scoping) -> Self {
        Self {
            scoping,
            entities: Vec::new(),
            by_symbol: HashMap::new(),
            parts: HashMap::new(),
            properties: HashSet::new(),
            functions: HashSet::new(),
            aliases: HashMap::new(),
            alias_order: Vec::new(),
            runtime_aliases: HashSet::new(),
            constants: HashMap::new(),
            scope_positions: HashMap::new(),
            names: HashSet::new(),
            parameters: HashSet::new(),
        }
    }

    /// Computes the positions of all scopes, once the parts are known.
    pub(super) fn locate_scopes(&mut self) {
        self.scope_positions = scope_positions(self.scoping, &self.parts);
    }

    /// Returns true if the program needs no lowering.
    pub(super) fn is_empty(&self) -> bool {
        self.entities.is_empty() && self.aliases.is_empty()
    }

    /// Adds an entity for a declaration of this name.
    fn add_entity(&mut self, symbol: SymbolId, name: &str) -> EntityId {
        if self.parameters.is_empty() {
            let unresolved = self.scoping.root_unresolved_references().keys().map(|name| name.as_str());
            let taken = self.scoping.symbol_names().chain(unresolved).filter(|name| name.starts_with('_'));
            self.parameters = taken.map(str::to_owned).collect();
            self.parameters.insert(String::new());
        }
        let base: String = "_".chars().chain(name.chars().take(MAX_PARAMETER_LEN)).collect();
        let mut parameter = base.clone();
        // Numbers from the count of entities on are free at the first attempt, whatever names a hostile text contains.
        let mut number = 2;
        while !self.parameters.insert(parameter.clone()) {
            parameter = format!("{base}{number}");
            number = if number < 16 { number + 1 } else { number.max(self.parameters.len()) + 1 };
        }
        let (exports, members) = (HashMap::new(), HashMap::new());
        self.entities.push(Entity {
            parameter,
            symbol: Some(symbol),
            exports,
            members,
            is_value: false,
            is_lowered: false,
        });
        self.entities.len() - 1
    }

    /// Returns the entity of a declaration that is not exported by a namespace, adding it if necessary.
    pub(super) fn entity_of_symbol(&mut self, symbol: SymbolId, name: &str) -> EntityId {
        if let Some(known) = self.by_symbol.get(&symbol) {
            return *known;
        }
        let made = self.add_entity(symbol, name);
        self.by_symbol.insert(symbol, made);
        made
    }

    /// Returns the entity of a declaration that `container` exports, adding it if necessary.
    pub(super) fn entity_of_export(&mut self, container: EntityId, symbol: SymbolId, name: &'a str) -> EntityId {
        let known = self.entities[container].exports.get(name).and_then(|export| export.entity);
        let entity =
            known.or_else(|| self.by_symbol.get(&symbol).copied()).unwrap_or_else(|| self.add_entity(symbol, name));
        self.by_symbol.insert(symbol, entity);
        self.add_export(container, name, Export { is_value: false, symbol: Some(symbol), entity: Some(entity) });
        entity
    }

    pub(super) fn add_export(&mut self, container: EntityId, name: &'a str, export: Export) {
        self.names.insert(name);
        let known = self.entities[container].exports.entry(name).or_default();
        known.is_value |= export.is_value;
        known.symbol = export.symbol.or(known.symbol);
        known.entity = export.entity.or(known.entity);
    }

    /// Returns the entity of a part that provides a value of this name to the code inside.
    fn provider_of(&self, part: Part, name: &str) -> Option<EntityId> {
        let (entity, found) = match part {
            Part::Namespace(entity) => {
                (entity, self.entities[entity].exports.get(name).is_some_and(|export| self.is_value(export)))
            }
            Part::Enum(entity) => (entity, self.entities[entity].members.contains_key(name)),
        };
        found.then_some(entity)
    }

    pub(super) fn is_value(&self, export: &Export) -> bool {
        export.is_value || export.entity.is_some_and(|entity| self.entities[entity].is_value)
    }

    /// Returns the declaration to which the name of a value resolves by TypeScript's rules.
    pub(super) fn target(&self, name: &IdentifierReference<'_>) -> Target {
        name.reference_id.get().map_or(Target::Unknown, |id| self.target_of(id, name.name.as_str()))
    }

    pub(super) fn target_of(&self, reference: ReferenceId, name: &str) -> Target {
        let reference = self.scoping.get_reference(reference);
        let symbol = reference.symbol_id();
        if self.names.contains(name) {
            let is_value = |symbol: &SymbolId| self.scoping.symbol_flags(*symbol).can_be_referenced_by_value();
            let home = symbol.filter(is_value).map(|symbol| self.scoping.symbol_scope_id(symbol));
            let home = home.and_then(|home| self.scope_positions.get(&home));
            let part_of = |scope: ScopeId| self.scope_positions.get(&scope).and_then(|position| position.part);
            let mut enclosing = part_of(reference.scope_id());
            while let Some((scope, position)) =
                enclosing.and_then(|scope| Some((scope, self.scope_positions.get(&scope)?)))
            {
                if home.is_some_and(|home| home.depth >= position.depth) {
                    break;
                }
                if let Some(entity) = self.parts.get(&scope).and_then(|part| self.provider_of(*part, name)) {
                    return Target::Property(entity);
                }
                enclosing = self.scoping.scope_parent_id(scope).and_then(part_of);
            }
        }
        symbol.map_or(Target::Unknown, Target::Symbol)
    }

    /// Returns true if a function boundary lies between a scope and the scope of a symbol, so that the symbol is
    /// initialized when the code of the scope runs.
    pub(super) fn is_deferred(&self, symbol: SymbolId, scope: ScopeId) -> bool {
        let home = self.scope_positions.get(&self.scoping.symbol_scope_id(symbol));
        home.zip(self.scope_positions.get(&scope)).is_some_and(|(home, position)| position.function > home.depth)
    }

    /// Returns the parameter that qualifies a name, if the name is a property of an entity.
    pub(super) fn qualifier(&self, name: &IdentifierReference<'_>) -> Option<&str> {
        let entity = match self.target(name) {
            Target::Property(entity) => entity,
            Target::Symbol(symbol)
                if self.properties.contains(&symbol) || self.scoping.symbol_flags(symbol).is_enum_member() =>
            {
                match self.parts.get(&self.scoping.symbol_scope_id(symbol))? {
                    Part::Namespace(entity) | Part::Enum(entity) => *entity,
                }
            }
            _ => return None,
        };
        Some(&self.entities[entity].parameter)
    }
}

/// Computes the positions of all scopes, outer scopes first.
fn scope_positions(scoping: &Scoping, parts: &HashMap<ScopeId, Part>) -> HashMap<ScopeId, ScopePosition> {
    let mut scope_positions: HashMap<ScopeId, ScopePosition> = HashMap::new();
    for scope in scoping.scope_descendants_from_root() {
        let outer = scoping.scope_parent_id(scope).and_then(|outer| scope_positions.get(&outer).copied());
        let depth = outer.map_or(0, |outer| outer.depth + 1);
        let is_function = scoping.scope_flags(scope).is_function();
        let function = if is_function { depth } else { outer.map_or(0, |outer| outer.function) };
        let part = if parts.contains_key(&scope) { Some(scope) } else { outer.and_then(|outer| outer.part) };
        scope_positions.insert(scope, ScopePosition { depth, function, part });
    }
    scope_positions
}
