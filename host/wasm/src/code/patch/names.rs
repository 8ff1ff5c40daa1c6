//! Functions of a module, found by the names of its name section.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{FunctionBody, KnownCustom, Name, Parser, Payload, TypeRef};

use super::PatchError;

/// The functions of a module that a patch names, and the bodies of all functions.
pub(super) struct Functions<'a> {
    /// Function indices by name. Each name stands for exactly one function.
    pub indices: BTreeMap<String, u32>,
    /// The number of imported functions, which come first in the module's index space.
    imported: u32,
    bodies: Vec<FunctionBody<'a>>,
}

impl<'a> Functions<'a> {
    /// Reads a module and resolves the `wanted` names.
    pub(super) fn read(wasm: &'a [u8], wanted: &BTreeSet<&str>) -> Result<Self, PatchError> {
        let mut found: BTreeMap<&str, Vec<u32>> = wanted.iter().map(|name| (*name, Vec::new())).collect();
        let (mut imported, mut bodies) = (0, Vec::new());
        for payload in Parser::new(0).parse_all(wasm) {
            match payload.map_err(read_error)? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        if let TypeRef::Func(_) | TypeRef::FuncExact(_) = import.map_err(read_error)?.ty {
                            imported += 1;
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => bodies.push(body),
                Payload::CustomSection(section) => {
                    let KnownCustom::Name(names) = section.as_known() else { continue };
                    for names in names {
                        let Name::Function(names) = names.map_err(read_error)? else { continue };
                        for naming in names {
                            let naming = naming.map_err(read_error)?;
                            if let Some(indices) = found.get_mut(naming.name) {
                                indices.push(naming.index);
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        let mut indices = BTreeMap::new();
        for (name, candidates) in found {
            let [index] = candidates[..] else {
                return Err(PatchError::Function { name: name.to_owned(), found: candidates.len() });
            };
            indices.insert(name.to_owned(), index);
        }
        Ok(Self { indices, imported, bodies })
    }

    /// Returns a function's position among the bodies, and its body. Fails for an imported function, which has no body.
    pub(super) fn body(&self, name: &str) -> Result<(u32, &FunctionBody<'a>), PatchError> {
        let place = self.indices.get(name).and_then(|index| index.checked_sub(self.imported));
        let body = place.and_then(|place| Some((place, self.bodies.get(place as usize)?)));
        body.ok_or_else(|| PatchError::Function { name: name.to_owned(), found: 0 })
    }

    /// Returns the bodies of all functions that the module defines, in order.
    pub(super) fn bodies(&self) -> &[FunctionBody<'a>] {
        &self.bodies
    }
}

pub(super) fn read_error(error: wasmparser::BinaryReaderError) -> PatchError {
    PatchError::Module(error.to_string())
}
