//! Assignment of functions to parts, and of table slots to the functions that are called across parts.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{
    ConstExpr, ElementItems, ElementKind, FunctionBody, KnownCustom, Name, Operator, Parser, Payload, RecGroup,
    TableInit, TypeRef,
};

use super::SplitSpec;

/// A module whose functions are assigned to parts.
pub(crate) struct Plan<'a> {
    pub(super) wasm: &'a [u8],
    pub(super) types: Vec<RecGroup>,
    /// The type of every function, those of imported functions first.
    pub(super) function_types: Vec<u32>,
    /// The number of imported functions.
    pub(super) imported: u32,
    pub(super) bodies: Vec<FunctionBody<'a>>,
    /// The functions that each function calls directly.
    callees: Vec<Vec<u32>>,
    /// The part of every function.
    part_of: Vec<usize>,
    /// The functions that load their part when they are called.
    entries: BTreeSet<u32>,
    /// The function in each slot of the table, in the order of slots.
    pub(super) slots: BTreeMap<u32, u32>,
    /// The slot of each function that has one.
    slot_of: BTreeMap<u32, u32>,
    /// The number of slots that the table needs.
    pub(super) table_len: u32,
}

impl<'a> Plan<'a> {
    /// Assigns the functions of `code` to the parts of a description. `named` is the module from which the code was
    /// taken, with its name section.
    ///
    /// A function that an earlier part calls directly moves to that part, unless it is an entry. A function that calls
    /// the host is in the first part, because host functions find the guest's memory among the caller's exports.
    ///
    /// # Errors
    /// A description of the construct that prevents the division.
    pub(crate) fn new(code: &'a [u8], named: &[u8], spec: &SplitSpec) -> Result<Self, String> {
        let mut plan = Self::read(code)?;
        plan.entries = entries(named, &spec.entry_prefix)?;
        if plan.entries.is_empty() {
            return Err(format!("no name of a function starts with {}", spec.entry_prefix));
        }
        plan.assign(spec)?;
        plan.assign_slots();
        Ok(plan)
    }

    /// Reads the code without assigning functions to parts.
    fn read(wasm: &'a [u8]) -> Result<Self, String> {
        let mut plan = Self {
            wasm,
            types: Vec::new(),
            function_types: Vec::new(),
            imported: 0,
            bodies: Vec::new(),
            callees: Vec::new(),
            part_of: Vec::new(),
            entries: BTreeSet::new(),
            slots: BTreeMap::new(),
            slot_of: BTreeMap::new(),
            table_len: 0,
        };
        for payload in Parser::new(0).parse_all(wasm) {
            match payload.map_err(invalid)? {
                Payload::TypeSection(section) => {
                    plan.types = section.into_iter().collect::<Result<_, _>>().map_err(invalid)?;
                    if plan.types.iter().any(|group| group.types().len() != 1) {
                        return Err("it has recursive types".into());
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let TypeRef::Func(ty) = import.map_err(invalid)?.ty else {
                            return Err("it imports something that is not a function".into());
                        };
                        plan.function_types.push(ty);
                        plan.imported += 1;
                    }
                }
                Payload::FunctionSection(section) => {
                    for ty in section {
                        plan.function_types.push(ty.map_err(invalid)?);
                    }
                }
                Payload::TableSection(section) => {
                    let tables: Vec<_> = section.into_iter().collect::<Result<_, _>>().map_err(invalid)?;
                    let [table] = &tables[..] else { return Err("it has more than one table".into()) };
                    if table.ty.table64 || !matches!(table.init, TableInit::RefNull) {
                        return Err("its table is not a plain one".into());
                    }
                    plan.table_len = u32::try_from(table.ty.initial).map_err(|e| e.to_string())?;
                }
                Payload::ElementSection(section) => {
                    for element in section {
                        plan.read_element(element.map_err(invalid)?)?;
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    plan.callees.push(callees(&body)?);
                    plan.bodies.push(body);
                }
                _ => {}
            }
        }
        Ok(plan)
    }

    fn read_element(&mut self, element: wasmparser::Element<'_>) -> Result<(), String> {
        let ElementKind::Active { table_index: None | Some(0), offset_expr } = element.kind else {
            return Err("it has elements that are not active ones of its table".into());
        };
        let ElementItems::Functions(functions) = element.items else {
            return Err("it has elements that are not functions".into());
        };
        let first = constant(&offset_expr)?;
        for (slot, function) in (first..).zip(functions) {
            let function = function.map_err(invalid)?;
            // Such an element would let a later part call the host.
            if function < self.imported {
                return Err("its table has an imported function".into());
            }
            self.slots.insert(slot, function);
        }
        Ok(())
    }

    /// Assigns a part to every function.
    fn assign(&mut self, spec: &SplitSpec) -> Result<(), String> {
        let total = self.function_types.len();
        let last = spec.parts.len().checked_sub(1).ok_or("its description has no parts")?;
        self.part_of = vec![last; total];
        self.part_of[..self.imported as usize].fill(0);
        for (part, described) in spec.parts.iter().enumerate() {
            for &(first, end) in &described.functions {
                let range = self.part_of.get_mut(first as usize..end as usize).filter(|_| first >= self.imported);
                let range = range.ok_or_else(|| format!("it has no functions {first} to {end}"))?;
                if range.iter().any(|part| *part != last) {
                    return Err(format!("two parts have functions of {first} to {end}"));
                }
                range.fill(part);
                // An entry is followed by the functions of its extension module.
                if end.checked_sub(1).is_some_and(|function| self.entries.contains(&function)) {
                    return Err(format!("the range {first} to {end} ends with an entry"));
                }
            }
        }
        for index in self.imported as usize..total {
            if self.callees_of(index as u32).iter().any(|callee| *callee < self.imported) {
                self.part_of[index] = 0;
            }
        }
        for part in 0..last {
            let mut queue: Vec<u32> = (self.imported..total as u32).filter(|f| self.part(*f) == part).collect();
            while let Some(function) = queue.pop() {
                for index in 0..self.callees_of(function).len() {
                    let callee = self.callees_of(function)[index];
                    if self.part(callee) > part && !self.entries.contains(&callee) {
                        self.part_of[callee as usize] = part;
                        queue.push(callee);
                    }
                }
            }
        }
        Ok(())
    }

    /// Assigns a slot to every function that a function of another part calls.
    fn assign_slots(&mut self) {
        self.slot_of = self.slots.iter().map(|(slot, function)| (*function, *slot)).collect();
        let mut called = BTreeSet::new();
        for function in self.imported..self.function_types.len() as u32 {
            let part = self.part(function);
            called.extend(self.callees_of(function).iter().filter(|callee| {
                **callee >= self.imported && self.part(**callee) != part && !self.slot_of.contains_key(callee)
            }));
        }
        for function in called {
            self.slots.insert(self.table_len, function);
            self.slot_of.insert(function, self.table_len);
            self.table_len += 1;
        }
    }

    /// Returns the part of a function.
    pub(super) fn part(&self, function: u32) -> usize {
        self.part_of[function as usize]
    }

    /// Returns the functions that a function calls directly. Imported functions call none.
    pub(super) fn callees_of(&self, function: u32) -> &[u32] {
        function.checked_sub(self.imported).map_or(&[], |place| &self.callees[place as usize])
    }

    /// Returns the slot of a function that is called across parts.
    pub(super) fn slot(&self, function: u32) -> Result<u32, String> {
        self.slot_of.get(&function).copied().ok_or_else(|| format!("function {function} has no slot in the table"))
    }

    /// Returns the entries that have a slot in the table.
    pub(super) fn entries_in_table(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().copied().filter(|entry| self.slot_of.contains_key(entry))
    }

    /// Returns the functions that the module defines, in order.
    pub(super) fn defined(&self) -> std::ops::Range<u32> {
        self.imported..self.function_types.len() as u32
    }
}

/// Returns the indices of the functions whose name has a prefix.
fn entries(wasm: &[u8], prefix: &str) -> Result<BTreeSet<u32>, String> {
    let mut entries = BTreeSet::new();
    for payload in Parser::new(0).parse_all(wasm) {
        let Payload::CustomSection(section) = payload.map_err(invalid)? else { continue };
        let KnownCustom::Name(names) = section.as_known() else { continue };
        for names in names {
            let Name::Function(names) = names.map_err(invalid)? else { continue };
            for naming in names {
                let naming = naming.map_err(invalid)?;
                if naming.name.starts_with(prefix) {
                    entries.insert(naming.index);
                }
            }
        }
    }
    Ok(entries)
}

/// Returns the functions that a body calls directly, each once.
fn callees(body: &FunctionBody<'_>) -> Result<Vec<u32>, String> {
    let mut callees = Vec::new();
    let mut ops = body.get_operators_reader().map_err(invalid)?;
    while !ops.eof() {
        match ops.read().map_err(invalid)? {
            Operator::Call { function_index } | Operator::ReturnCall { function_index } => callees.push(function_index),
            Operator::RefFunc { .. } => return Err("its code uses ref.func".into()),
            _ => {}
        }
    }
    callees.sort_unstable();
    callees.dedup();
    Ok(callees)
}

fn constant(expression: &ConstExpr<'_>) -> Result<u32, String> {
    match expression.get_operators_reader().read().map_err(invalid)? {
        Operator::I32Const { value } => Ok(value.cast_unsigned()),
        other => Err(format!("the offset of its elements is {other:?} and not a constant")),
    }
}

fn invalid(error: wasmparser::BinaryReaderError) -> String {
    error.to_string()
}
