//! Encodes the primary and the secondary modules of a plan.

use std::collections::{HashMap, HashSet};

use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{
    CodeSection, ConstExpr, ElementSection, Elements, EntityType, ExportKind, ExportSection, Function, FunctionSection,
    GlobalSection, ImportSection, MemorySection, Module, RefType, TableSection, TableType, TagSection, TypeSection,
    ValType,
};
use wasmparser::{Parser, Payload};

use super::Plan;

/// Module and name of the host function that loads parts.
pub(crate) const PART_MODULE: &str = "codebox";
pub(crate) const LOAD_PARTS: &str = "load_parts";

/// The module from which a secondary module imports the primary module's state, by the names of its exports.
pub(crate) const PRIMARY_MODULE: &str = "codebox:primary";

/// The module from which a secondary module imports functions of earlier parts, by their slots in the table.
pub(crate) const FUNCTION_MODULE: &str = "codebox:function";

/// Name of the primary module's table among its exports.
pub(crate) const TABLE: &str = "codebox:table";

/// Name of the primary module's memory, which every module exports.
const MEMORY: &str = "memory";

/// Name of the export through which secondary modules call [`LOAD_PARTS`].
const LOADER: &str = "codebox:load_parts";

/// Prefixes of the exports of globals and tags.
const GLOBAL: &str = "codebox:part:global";
const TAG: &str = "codebox:part:tag";

/// The new index of a function that a module does not have.
const ABSENT: u32 = u32::MAX;

impl Plan<'_> {
    /// Encodes the primary module with the parts up to `last`.
    ///
    /// # Errors
    /// A description of the construct that prevents the division.
    pub(crate) fn primary(&self, last: usize) -> Result<Vec<u8>, String> {
        let own = self.defined().filter(|function| self.part(*function) <= last).collect();
        let mut encoder = Encoder::new(self, own, true);
        let mut imports = ImportSection::new();
        let mut functions = 0..self.imported;
        functions.clone().for_each(|function| encoder.ids.functions[function as usize] = function);
        for payload in Parser::new(0).parse_all(self.wasm) {
            if let Payload::ImportSection(section) = payload.map_err(|e| e.to_string())? {
                encoder.ids.parse_import_section(&mut imports, section).map_err(failed)?;
            }
        }
        encoder.loader = functions.end;
        functions.end += 1;
        imports.import(PART_MODULE, LOAD_PARTS, EntityType::Function(encoder.ids.type_of_loader()));
        encoder.number_functions(functions.end, last);
        encoder.finish(&imports)
    }

    /// Encodes the secondary module of one part.
    ///
    /// # Errors
    /// As for [`Plan::primary`].
    pub(crate) fn secondary(&self, part: usize) -> Result<Vec<u8>, String> {
        let own: Vec<u32> = self.defined().filter(|function| self.part(*function) == part).collect();
        let mut called: Vec<u32> = own.iter().flat_map(|function| self.callees_of(*function)).copied().collect();
        called.retain(|callee| self.part(*callee) < part);
        called.sort_unstable();
        called.dedup();
        let mut encoder = Encoder::new(self, own, false);
        let mut imports = ImportSection::new();
        imports.import(PRIMARY_MODULE, LOADER, EntityType::Function(encoder.ids.type_of_loader()));
        let mut next = 1;
        for function in called {
            let slot = self.slot(function)?.to_string();
            let ty = encoder.ids.type_index(self.function_types[function as usize]).map_err(failed)?;
            imports.import(FUNCTION_MODULE, &slot, EntityType::Function(ty));
            encoder.ids.functions[function as usize] = next;
            next += 1;
        }
        encoder.number_functions(next, part);
        encoder.import_state(&mut imports)?;
        encoder.finish(&imports)
    }
}

/// The new indices of a module's functions and types. A type gets its index when it is first used.
struct Ids {
    functions: Vec<u32>,
    /// The old indices of the used types; `None` is the type of [`LOAD_PARTS`].
    types: Vec<Option<u32>>,
    /// The new indices of the used types, by old index.
    by_type: HashMap<Option<u32>, u32>,
}

impl Ids {
    fn type_of_loader(&mut self) -> u32 {
        self.type_of(None)
    }

    fn type_of(&mut self, ty: Option<u32>) -> u32 {
        let next = self.types.len() as u32;
        *self.by_type.entry(ty).or_insert_with(|| {
            self.types.push(ty);
            next
        })
    }
}

impl Reencode for Ids {
    type Error = String;

    fn function_index(&mut self, function: u32) -> Result<u32, Error<String>> {
        match self.functions.get(function as usize) {
            Some(&index) if index != ABSENT => Ok(index),
            _ => Err(Error::UserError(format!("function {function} is in another part"))),
        }
    }

    fn type_index(&mut self, ty: u32) -> Result<u32, Error<String>> {
        Ok(self.type_of(Some(ty)))
    }
}

struct Encoder<'p, 'a> {
    plan: &'p Plan<'a>,
    ids: Ids,
    /// The functions of the module's own parts, in order.
    own: Vec<u32>,
    /// The entries of later parts that need a stub.
    stubs: Vec<u32>,
    /// The new index of [`LOAD_PARTS`].
    loader: u32,
    /// True for a primary module, which has state and exports. A secondary module has neither.
    is_primary: bool,
}

impl<'p, 'a> Encoder<'p, 'a> {
    fn new(plan: &'p Plan<'a>, own: Vec<u32>, is_primary: bool) -> Self {
        let functions = vec![ABSENT; plan.function_types.len()];
        let ids = Ids { functions, types: Vec::new(), by_type: HashMap::new() };
        Self { plan, ids, own, stubs: Vec::new(), loader: 0, is_primary }
    }

    /// Numbers the module's own functions from `first` on, and then the stubs of entries after the part `last`: those
    /// that the functions call and, in a primary module, those in the table.
    fn number_functions(&mut self, first: u32, last: usize) {
        let called = self.own.iter().flat_map(|function| self.plan.callees_of(*function)).copied();
        let in_table = self.plan.entries_in_table().filter(|_| self.is_primary);
        let mut later: Vec<u32> = called.chain(in_table).filter(|function| self.plan.part(*function) > last).collect();
        later.sort_unstable();
        later.dedup();
        self.stubs = later;
        for (index, function) in (first..).zip(self.own.iter().chain(&self.stubs)) {
            self.ids.functions[*function as usize] = index;
        }
    }

    /// Imports the memory, the table, the globals and the tags of the primary module, with the same indices.
    fn import_state(&mut self, imports: &mut ImportSection) -> Result<(), String> {
        imports.import(PRIMARY_MODULE, TABLE, self.table());
        for payload in Parser::new(0).parse_all(self.plan.wasm) {
            match payload.map_err(|e| e.to_string())? {
                Payload::MemorySection(section) => {
                    for memory in section {
                        let memory = self.ids.memory_type(memory.map_err(|e| e.to_string())?).map_err(failed)?;
                        imports.import(PRIMARY_MODULE, MEMORY, memory);
                    }
                }
                Payload::GlobalSection(section) => {
                    for (index, global) in section.into_iter().enumerate() {
                        let global = self.ids.global_type(global.map_err(|e| e.to_string())?.ty).map_err(failed)?;
                        imports.import(PRIMARY_MODULE, &format!("{GLOBAL}:{index}"), global);
                    }
                }
                Payload::TagSection(section) => {
                    for (index, tag) in section.into_iter().enumerate() {
                        let tag = self.ids.tag_type(tag.map_err(|e| e.to_string())?).map_err(failed)?;
                        imports.import(PRIMARY_MODULE, &format!("{TAG}:{index}"), tag);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Encodes the module.
    fn finish(mut self, imports: &ImportSection) -> Result<Vec<u8>, String> {
        // The code uses types, so their section is encoded after it.
        let (functions, code) = (self.functions()?, self.code()?);
        let elements = self.elements();
        let (mut memories, mut tags) = (MemorySection::new(), TagSection::new());
        let (mut globals, mut exports) = (GlobalSection::new(), ExportSection::new());
        for payload in Parser::new(0).parse_all(self.plan.wasm) {
            let payload = payload.map_err(|e| e.to_string())?;
            match payload {
                Payload::MemorySection(section) => self.ids.parse_memory_section(&mut memories, section),
                Payload::TagSection(section) => self.ids.parse_tag_section(&mut tags, section),
                Payload::GlobalSection(section) => self.ids.parse_global_section(&mut globals, section),
                Payload::ExportSection(section) if self.is_primary => {
                    self.ids.parse_export_section(&mut exports, section)
                }
                _ => Ok(()),
            }
            .map_err(failed)?;
        }
        let types = self.types()?;
        let mut module = Module::new();
        module.section(&types).section(imports).section(&functions);
        if self.is_primary {
            exports.export(TABLE, ExportKind::Table, 0).export(LOADER, ExportKind::Func, self.loader);
            for index in 0..globals.len() {
                exports.export(&format!("{GLOBAL}:{index}"), ExportKind::Global, index);
            }
            for index in 0..tags.len() {
                exports.export(&format!("{TAG}:{index}"), ExportKind::Tag, index);
            }
            let mut tables = TableSection::new();
            tables.table(self.table());
            module.section(&tables).section(&memories);
            if !tags.is_empty() {
                module.section(&tags);
            }
            module.section(&globals).section(&exports);
        }
        module.section(&elements).section(&code);
        Ok(module.finish())
    }

    fn table(&self) -> TableType {
        let len = u64::from(self.plan.table_len);
        TableType { element_type: RefType::FUNCREF, table64: false, minimum: len, maximum: Some(len), shared: false }
    }

    fn functions(&mut self) -> Result<FunctionSection, String> {
        let mut section = FunctionSection::new();
        for function in self.own.iter().chain(&self.stubs) {
            let ty = self.plan.function_types[*function as usize];
            section.function(self.ids.type_index(ty).map_err(failed)?);
        }
        Ok(section)
    }

    fn code(&mut self) -> Result<CodeSection, String> {
        let mut section = CodeSection::new();
        for function in &self.own {
            let body = &self.plan.bodies[(function - self.plan.imported) as usize];
            self.ids.parse_function_body(&mut section, body.clone()).map_err(failed)?;
        }
        for stub in &self.stubs {
            section.function(&self.stub(*stub)?);
        }
        Ok(section)
    }

    /// Returns a function that loads the parts up to an entry's and calls the entry with its own arguments.
    fn stub(&self, entry: u32) -> Result<Function, String> {
        let ty = self.plan.function_types[entry as usize];
        let signature = self.plan.types.get(ty as usize).and_then(|group| group.types().next());
        let parameters = match signature.map(|ty| &ty.composite_type.inner) {
            Some(wasmparser::CompositeInnerType::Func(ty)) => ty.params().len() as u32,
            _ => return Err(format!("type {ty} is not one of a function")),
        };
        let type_index = self.ids.by_type.get(&Some(ty)).copied().ok_or("a stub's type is unknown")?;
        let mut body = Function::new([]);
        let mut code = body.instructions();
        code.i32_const(self.plan.part(entry) as i32).call(self.loader);
        for parameter in 0..parameters {
            code.local_get(parameter);
        }
        code.i32_const(self.plan.slot(entry)?.cast_signed()).call_indirect(0, type_index).end();
        Ok(body)
    }

    /// Returns the elements of the module's own functions, as runs of consecutive slots. The table of a primary module
    /// has its stubs too.
    fn elements(&self) -> ElementSection {
        let own: HashSet<u32> = self.own.iter().copied().collect();
        let is_stub = |function: &u32| self.is_primary && self.stubs.binary_search(function).is_ok();
        let mut runs: Vec<(u32, Vec<u32>)> = Vec::new();
        for (slot, function) in &self.plan.slots {
            if !own.contains(function) && !is_stub(function) {
                continue;
            }
            let index = self.ids.functions[*function as usize];
            match runs.last_mut() {
                Some((first, run)) if *first + run.len() as u32 == *slot => run.push(index),
                _ => runs.push((*slot, vec![index])),
            }
        }
        let mut section = ElementSection::new();
        for (first, run) in runs {
            section.active(None, &ConstExpr::i32_const(first.cast_signed()), Elements::Functions(run.into()));
        }
        section
    }

    /// Encodes the types that the module uses.
    fn types(&mut self) -> Result<TypeSection, String> {
        let mut section = TypeSection::new();
        let used = self.ids.types.clone();
        for ty in &used {
            match ty {
                None => section.ty().function([ValType::I32], []),
                Some(ty) => {
                    let group = self.plan.types.get(*ty as usize).cloned().ok_or("a type is missing")?;
                    self.ids.parse_recursive_type_group(section.ty(), group).map_err(failed)?;
                }
            }
        }
        // A type that refers to another one would need it earlier.
        if self.ids.types.len() != used.len() {
            return Err("it has types that refer to other types".into());
        }
        Ok(section)
    }
}

fn failed(error: Error<String>) -> String {
    error.to_string()
}
