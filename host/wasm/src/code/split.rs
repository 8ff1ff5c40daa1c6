//! Splits a module into its code and its initial memory.

use std::path::Path;

use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{ExportKind, ExportSection, Module, RawSection};
use wasmparser::{DataKind, ExternalKind, Operator, Parser, Payload, TypeRef};

use crate::code::audit::Audit;
use crate::error::WasmError;

/// Prefix of the exports through which the host reads and writes a module's mutable globals.
pub(crate) const GLOBAL_PREFIX: &str = "codebox:global:";

/// Bytes of a wasm page.
const WASM_PAGE_SIZE: u64 = 65_536;

/// A module, split into code and initial memory.
pub(crate) struct SplitModule {
    /// The module without data segments. Its mutable globals are exported under [`GLOBAL_PREFIX`].
    pub code: Vec<u8>,
    /// The memory after the module's active data segments are applied. Its length is the memory's initial size.
    pub memory: Vec<u8>,
}

/// Splits a module that keeps all of its mutable state in one memory and in its globals.
///
/// # Errors
/// [`WasmError::Module`] if the module cannot be parsed, has mutable state that an image would not hold (a second
/// memory, a table that code changes, passive data) or lacks an export of the reactor ABI.
pub(crate) fn split(path: &Path, wasm: &[u8]) -> Result<SplitModule, WasmError> {
    let module_error = |reason: String| WasmError::Module { path: path.to_owned(), reason };
    split_module(wasm).map_err(module_error)
}

fn split_module(wasm: &[u8]) -> Result<SplitModule, String> {
    let mut module = Module::new();
    let mut audit = Audit::default();
    let mut memory = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(|e| e.to_string())?;
        match &payload {
            Payload::ImportSection(imports) => {
                for import in imports.clone().into_imports() {
                    let import = import.map_err(|e| e.to_string())?;
                    audit.import(&import);
                    if let TypeRef::Memory(_) | TypeRef::Table(_) | TypeRef::Global(_) = import.ty {
                        return Err(format!("it imports {}.{}, which is not a function", import.module, import.name));
                    }
                }
            }
            Payload::MemorySection(section) => {
                for (index, ty) in section.clone().into_iter().enumerate() {
                    let ty = ty.map_err(|e| e.to_string())?;
                    if index > 0 || ty.shared || ty.memory64 {
                        return Err("it has more than one plain memory".into());
                    }
                    let bytes = ty.initial.saturating_mul(WASM_PAGE_SIZE);
                    memory = vec![0; usize::try_from(bytes).map_err(|e| e.to_string())?];
                }
            }
            Payload::GlobalSection(section) => {
                for global in section.clone() {
                    audit.global(global.map_err(|e| e.to_string())?.ty.mutable);
                }
            }
            Payload::ExportSection(section) => {
                let mut exports = ExportSection::new();
                for export in section.clone() {
                    let export = export.map_err(|e| e.to_string())?;
                    audit.export(export.name);
                    exports.export(export.name, kind(export.kind)?, export.index);
                }
                for index in audit.mutable_globals() {
                    exports.export(&format!("{GLOBAL_PREFIX}{index}"), ExportKind::Global, index);
                }
                module.section(&exports);
                continue;
            }
            Payload::StartSection { .. } => return Err("it has a start function".into()),
            Payload::CodeSectionEntry(body) => audit.body(body)?,
            Payload::DataSection(section) => {
                for segment in section.clone() {
                    write_segment(&mut memory, segment.map_err(|e| e.to_string())?)?;
                }
                continue;
            }
            // The data count section must not remain without a data section. The audit has refused code that needs it.
            Payload::DataCountSection { .. } => continue,
            // Names and debug information are most of a module's unused bytes.
            Payload::CustomSection(_) => continue,
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            module.section(&RawSection { id, data: &wasm[range] });
        }
    }
    audit.finish()?;
    Ok(SplitModule { code: module.finish(), memory })
}

fn kind(kind: ExternalKind) -> Result<ExportKind, String> {
    RoundtripReencoder.export_kind(kind).map_err(|e| e.to_string())
}

fn write_segment(memory: &mut [u8], segment: wasmparser::Data<'_>) -> Result<(), String> {
    let DataKind::Active { memory_index: 0, offset_expr } = segment.kind else {
        return Err("it has passive data".into());
    };
    let mut ops = offset_expr.get_operators_reader();
    let offset = match ops.read().map_err(|e| e.to_string())? {
        Operator::I32Const { value } => value as u32 as usize,
        other => return Err(format!("a data segment's offset is {other:?} and not a constant")),
    };
    let end = offset.checked_add(segment.data.len()).filter(|end| *end <= memory.len());
    let end = end.ok_or("a data segment lies outside of memory")?;
    memory[offset..end].copy_from_slice(segment.data);
    Ok(())
}
