//! The places of a runtime's functions in its compiled code.

use std::sync::{Arc, OnceLock};

use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, ExportKind, ExportSection, Function, FunctionSection, Instruction, Module as Encoder, RawSection,
    TypeSection,
};
use wasmparser::{BinaryReader, CodeSectionReader, Parser, Payload, TypeRef};
use wasmtime::Module;

use crate::code::LaterParts;
use crate::sys::DivertibleCode;

/// Addresses of the compiled functions of one module, without the code by which they and the host call each other.
pub(crate) struct FunctionTable {
    base: usize,
    /// Offsets of the functions and of their ends, in ascending order.
    ranges: Vec<(usize, usize)>,
}

impl FunctionTable {
    pub(crate) fn new(module: &Module) -> Self {
        let mut ranges: Vec<_> = module.functions().map(|f| (f.offset, f.offset + f.len)).collect();
        ranges.sort_unstable();
        Self { base: module.text().as_ptr() as usize, ranges }
    }

    /// Returns true if an address is in a function. Takes no lock and allocates nothing.
    pub(crate) fn contains(&self, address: usize) -> bool {
        let Some(offset) = address.checked_sub(self.base) else { return false };
        let after = self.ranges.partition_point(|(start, _)| *start <= offset);
        after.checked_sub(1).is_some_and(|index| offset < self.ranges[index].1)
    }
}

/// The compiled functions of a runtime, of which a guest may have some or all.
pub(crate) struct RuntimeFunctions {
    primary: Module,
    table: OnceLock<FunctionTable>,
    later: Option<Arc<LaterParts>>,
}

impl RuntimeFunctions {
    /// Returns the functions of a module and of its later parts.
    pub(crate) fn new(primary: &Module, later: Option<Arc<LaterParts>>) -> Self {
        Self { primary: primary.clone(), table: OnceLock::new(), later }
    }
}

// SAFETY: `contains` searches tables that are complete when it sees them. A table has the functions that a module defines,
// in whose code the engine's record of the guest's entry is set.
unsafe impl DivertibleCode for RuntimeFunctions {
    fn prepare(&self) {
        self.table.get_or_init(|| FunctionTable::new(&self.primary));
        if let Some(later) = &self.later {
            later.prepare_tables();
        }
    }

    fn contains(&self, address: usize) -> bool {
        self.table.get().is_some_and(|table| table.contains(address))
            || self.later.as_ref().is_some_and(|later| later.has_function_at(address))
    }
}

/// Name of the export of a function whose only instruction traps.
pub(crate) const TRAP: &str = "codebox:trap";

/// Returns a module with the additional export [`TRAP`]. Its function is the last one, so no index changes. A module
/// without exports, such as a later part, is not changed.
///
/// # Errors
/// A description of the failure if the module cannot be parsed.
pub(crate) fn with_trap(wasm: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |e: &dyn std::fmt::Display| e.to_string();
    let mut module = Encoder::new();
    let has_exports = |payload: &_| matches!(payload, Ok(Payload::ExportSection(_)));
    if !Parser::new(0).parse_all(wasm).any(|payload| has_exports(&payload)) {
        return Ok(wasm.to_vec());
    }
    let (mut type_index, mut function_index) = (0, 0);
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(|e| failed(&e))?;
        match &payload {
            Payload::TypeSection(section) => {
                let mut types = TypeSection::new();
                RoundtripReencoder.parse_type_section(&mut types, section.clone()).map_err(|e| failed(&e))?;
                type_index = section.clone().into_iter().try_fold(0, |sum, group| {
                    let types = group.map_err(|e| failed(&e))?.types().len();
                    Ok::<_, String>(sum + u32::try_from(types).unwrap_or(u32::MAX))
                })?;
                types.ty().function([], []);
                module.section(&types);
                continue;
            }
            Payload::ImportSection(imports) => {
                for import in imports.clone().into_imports() {
                    let import = import.map_err(|e| failed(&e))?;
                    function_index += u32::from(matches!(import.ty, TypeRef::Func(_) | TypeRef::FuncExact(_)));
                }
            }
            Payload::FunctionSection(section) => {
                function_index += section.count();
                let mut functions = FunctionSection::new();
                RoundtripReencoder.parse_function_section(&mut functions, section.clone()).map_err(|e| failed(&e))?;
                functions.function(type_index);
                module.section(&functions);
                continue;
            }
            Payload::ExportSection(section) => {
                let mut exports = ExportSection::new();
                RoundtripReencoder.parse_export_section(&mut exports, section.clone()).map_err(|e| failed(&e))?;
                exports.export(TRAP, ExportKind::Func, function_index);
                module.section(&exports);
                continue;
            }
            Payload::CodeSectionStart { range, .. } => {
                let mut code = CodeSection::new();
                let bodies = BinaryReader::new(&wasm[range.clone()], range.start);
                for body in CodeSectionReader::new(bodies).map_err(|e| failed(&e))? {
                    code.raw(&wasm[body.map_err(|e| failed(&e))?.range()]);
                }
                let mut trap = Function::new([]);
                trap.instruction(&Instruction::Unreachable).instruction(&Instruction::End);
                code.function(&trap);
                module.section(&code);
                continue;
            }
            Payload::CodeSectionEntry(_) => continue,
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            module.section(&RawSection { id, data: &wasm[range] });
        }
    }
    Ok(module.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_trap_as_last_function() {
        let text = r#"(module (import "host" "f" (func (param i32))) (memory 1)
            (type (func (result i64))) (func (export "a") (call 0 (i32.const 1))) (func (export "b") (nop)))"#;
        let extended = with_trap(&wat::parse_str(text).expect("a module")).expect("it can be extended");
        wasmparser::validate(&extended).expect("it is valid");
        let exports = Parser::new(0).parse_all(&extended).find_map(|payload| match payload {
            Ok(Payload::ExportSection(section)) => Some(section),
            _ => None,
        });
        let exports: Vec<_> = exports
            .expect("it has exports")
            .into_iter()
            .map(|export| export.map(|export| (export.name, export.index)).expect("it is valid"))
            .collect();
        assert_eq!(exports, [("a", 1), ("b", 2), (TRAP, 3)]);
    }

    #[test]
    fn keeps_module_without_exports() {
        let module = wat::parse_str("(module (func (nop)))").expect("a module");
        assert_eq!(with_trap(&module).expect("it is a module"), module);
    }

    #[test]
    fn finds_only_functions() {
        let table = FunctionTable { base: 1000, ranges: vec![(0, 10), (16, 32)] };
        let found: Vec<usize> = (990..1040).filter(|address| table.contains(*address)).collect();
        assert_eq!(found, (1000..1010).chain(1016..1032).collect::<Vec<_>>());
    }
}
