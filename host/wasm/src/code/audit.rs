//! The static check that a module's only mutable state is its memory and its mutable globals.
//!
//! A memory image holds the bytes of one memory and the values of the globals. Changes to any other state (a table's
//! entries or size, dropped segments) would be lost at a restore or, worse, leak from one job into the next. A module
//! that contains an instruction able to change such state is therefore refused at install.

use wasmparser::{FunctionBody, Import, Operator};

/// The exports that the reactor ABI requires. All but `memory` are functions.
const REQUIRED_EXPORTS: [&str; 5] = ["memory", "host_alloc", "run", "turn", "shutdown"];

/// The modules that a reactor may import from.
const ALLOWED_IMPORT_MODULES: [&str; 2] = ["wasi_snapshot_preview1", "host"];

#[derive(Default)]
pub(crate) struct Audit {
    globals: Vec<bool>,
    exports: Vec<String>,
    unknown_import: Option<String>,
}

impl Audit {
    pub(crate) fn import(&mut self, import: &Import<'_>) {
        if !ALLOWED_IMPORT_MODULES.contains(&import.module) {
            self.unknown_import = Some(format!("{}.{}", import.module, import.name));
        }
    }

    pub(crate) fn global(&mut self, mutable: bool) {
        self.globals.push(mutable);
    }

    pub(crate) fn export(&mut self, name: &str) {
        self.exports.push(name.to_owned());
    }

    /// Returns the indices of the mutable globals. Imported globals have been refused, so these are module-wide
    /// indices.
    pub(crate) fn mutable_globals(&self) -> Vec<u32> {
        (0u32..).zip(&self.globals).filter(|(_, mutable)| **mutable).map(|(index, _)| index).collect()
    }

    pub(crate) fn body(&self, body: &FunctionBody<'_>) -> Result<(), String> {
        let mut ops = body.get_operators_reader().map_err(|e| e.to_string())?;
        while !ops.eof() {
            let op = ops.read().map_err(|e| e.to_string())?;
            if let Some(name) = unsupported_instruction(&op) {
                return Err(format!("its code uses {name}, which changes state that a memory image does not capture"));
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<(), String> {
        if let Some(import) = self.unknown_import {
            return Err(format!("it imports {import}, which codebox does not provide"));
        }
        match REQUIRED_EXPORTS.iter().find(|name| !self.exports.iter().any(|e| e == *name)) {
            Some(missing) => Err(format!("it does not export {missing}")),
            None => Ok(()),
        }
    }
}

fn unsupported_instruction(op: &Operator<'_>) -> Option<&'static str> {
    Some(match op {
        Operator::TableSet { .. } => "table.set",
        Operator::TableGrow { .. } => "table.grow",
        Operator::TableFill { .. } => "table.fill",
        Operator::TableCopy { .. } => "table.copy",
        Operator::TableInit { .. } => "table.init",
        Operator::ElemDrop { .. } => "elem.drop",
        Operator::MemoryInit { .. } => "memory.init",
        Operator::DataDrop { .. } => "data.drop",
        _ => return None,
    })
}
