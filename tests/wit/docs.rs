//! Items of a WIT package that can have documentation.

use wit_parser::{Docs, Interface, PackageId, Resolve, TypeDef, TypeDefKind, TypeId, WorldId, WorldItem};

/// Item, and whether it has documentation.
pub struct Item {
    pub path: String,
    pub is_documented: bool,
}

/// Collects all items of a package.
pub fn items(resolve: &Resolve, package: PackageId) -> Vec<Item> {
    let mut collector = ItemCollector { resolve, items: Vec::new() };
    let package = &resolve.packages[package];
    let root = package.name.to_string();
    collector.add(&root, &package.docs);
    for (name, &interface) in &package.interfaces {
        collector.interface(&format!("{root}/{name}"), &resolve.interfaces[interface]);
    }
    for (name, &world) in &package.worlds {
        collector.world(&format!("{root}/{name}"), world);
    }
    collector.items
}

struct ItemCollector<'a> {
    resolve: &'a Resolve,
    items: Vec<Item>,
}

impl ItemCollector<'_> {
    fn add(&mut self, path: &str, docs: &Docs) {
        let text = docs.contents.as_deref().unwrap_or_default();
        self.items.push(Item { path: path.to_owned(), is_documented: !text.trim().is_empty() });
    }

    fn world(&mut self, path: &str, world: WorldId) {
        let resolve = self.resolve;
        let world = &resolve.worlds[world];
        self.add(path, &world.docs);
        for (key, item) in world.imports.iter().chain(&world.exports) {
            let path = format!("{path}#{}", resolve.name_world_key(key));
            match item {
                // An interface without functions is in the world only for its types and was not declared there.
                WorldItem::Interface { id, docs, .. } => {
                    if !resolve.interfaces[*id].functions.is_empty() {
                        self.add(&path, docs);
                    }
                }
                WorldItem::Function(function) => self.add(&path, &function.docs),
                WorldItem::Type { id, .. } => self.type_def(&path, *id),
            }
        }
    }

    fn interface(&mut self, path: &str, interface: &Interface) {
        self.add(path, &interface.docs);
        for (name, function) in &interface.functions {
            self.add(&format!("{path}.{name}"), &function.docs);
        }
        for (name, &id) in &interface.types {
            self.type_def(&format!("{path}.{name}"), id);
        }
    }

    fn type_def(&mut self, path: &str, id: TypeId) {
        let resolve = self.resolve;
        let TypeDef { kind, docs, .. } = &resolve.types[id];
        if is_imported_type(resolve, id) {
            return;
        }
        self.add(path, docs);
        let parts: Vec<(&str, &Docs)> = match kind {
            TypeDefKind::Record(record) => {
                record.fields.iter().map(|field| (field.name.as_str(), &field.docs)).collect()
            }
            TypeDefKind::Variant(variant) => {
                variant.cases.iter().map(|case| (case.name.as_str(), &case.docs)).collect()
            }
            TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| (case.name.as_str(), &case.docs)).collect(),
            TypeDefKind::Flags(flags) => flags.flags.iter().map(|flag| (flag.name.as_str(), &flag.docs)).collect(),
            _ => Vec::new(),
        };
        for (name, docs) in parts {
            self.add(&format!("{path}.{name}"), docs);
        }
    }
}

/// Returns true if a type was imported by a `use`, so that its documentation is at its definition.
fn is_imported_type(resolve: &Resolve, id: TypeId) -> bool {
    match resolve.types[id].kind {
        TypeDefKind::Type(wit_parser::Type::Id(origin)) => resolve.types[origin].owner != resolve.types[id].owner,
        _ => false,
    }
}
