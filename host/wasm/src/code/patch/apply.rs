//! Applies a patch to a module.

use std::collections::{BTreeMap, BTreeSet};

use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{CodeSection, Function, Module, RawSection};
use wasmparser::{FunctionBody, Operator, Parser, Payload};

use super::names::{Functions, read_error};
use super::operator::{Access, Pattern, Symbols, access};
use super::overflow::{self, Overflow};
use super::{Addresses, Edit, Patch, PatchError};

/// Lowest address of static data; smaller offsets are fields of structures.
const STATIC_DATA_START: u64 = 1 << 20;

/// Bytes of one word of static memory.
const WORD_SIZE: u64 = 4;

/// Returns the module with every edit of the patch applied.
///
/// # Errors
/// [`PatchError`] if a name is missing or ambiguous, or if a sequence does not occur exactly as often as expected.
pub(crate) fn apply(patch: &Patch, wasm: &[u8]) -> Result<Vec<u8>, PatchError> {
    let functions = Functions::read(wasm, &patch.names())?;
    let addresses = match &patch.addresses {
        Some(addresses) => addresses.read(&functions)?,
        None => BTreeMap::new(),
    };
    let symbols = Symbols { functions: &functions.indices, addresses: &addresses };
    let mut by_function: BTreeMap<&str, Changes<'_>> = BTreeMap::new();
    for edit in &patch.edits {
        by_function.entry(&edit.function).or_default().edits.push(edit);
    }
    for overflow in &patch.overflows {
        by_function.entry(&overflow.function).or_default().overflow = Some(overflow);
    }
    let mut changed = BTreeMap::new();
    for (name, changes) in by_function {
        let (place, body) = functions.body(name)?;
        changed.insert(place, rewrite(name, body, &changes, &symbols)?);
    }
    assemble(wasm, functions.bodies(), &changed)
}

impl Patch {
    /// Returns the name of every function that the patch mentions.
    fn names(&self) -> BTreeSet<&str> {
        let edits = self.edits.iter().flat_map(|edit| {
            let called = edit.find.iter().chain(&edit.replace).filter_map(Pattern::callee);
            called.chain([edit.function.as_str()])
        });
        let overflows = self.overflows.iter().flat_map(|overflow| [overflow.function.as_str(), &overflow.call]);
        edits.chain(overflows).chain(self.addresses.as_ref().map(|addresses| addresses.function.as_str())).collect()
    }
}

impl Addresses {
    /// Reads the addresses from the function's stores to static memory.
    fn read(&self, functions: &Functions<'_>) -> Result<BTreeMap<String, u64>, PatchError> {
        let (_, body) = functions.body(&self.function)?;
        let stores = operators(body)?.into_iter().filter_map(|op| match access(&op) {
            Some((Access::Store32, offset)) if offset >= STATIC_DATA_START => Some(offset),
            _ => None,
        });
        let stores: Vec<u64> = stores.collect();
        let first = stores.first().copied().unwrap_or_default();
        let words = (0..).map(|index| first + index * WORD_SIZE);
        let consecutive = stores.iter().zip(words).take_while(|(store, word)| *store == word).count();
        if consecutive != self.count || stores.len() != self.count {
            let found = if consecutive == self.count { stores.len() } else { consecutive };
            return Err(PatchError::Words { function: self.function.clone(), expected: self.count, found });
        }
        let named = self.names.iter().map(|(name, index)| {
            let address = stores.get(*index).copied();
            Ok((name.clone(), address.ok_or_else(|| PatchError::Address(name.clone()))?))
        });
        named.collect()
    }
}

fn operators<'a>(body: &FunctionBody<'a>) -> Result<Vec<Operator<'a>>, PatchError> {
    body.get_operators_reader().map_err(read_error)?.into_iter().collect::<Result<_, _>>().map_err(read_error)
}

/// All changes of a patch to one function.
#[derive(Default)]
struct Changes<'a> {
    edits: Vec<&'a Edit>,
    overflow: Option<&'a Overflow>,
}

/// A match of an edit's sequence in a function.
struct EditMatch<'a> {
    edit: &'a Edit,
    /// The matched offset of a pattern that accepts any offset.
    found: Option<u64>,
}

/// Encodes a function again with its changes applied.
fn rewrite(
    name: &str,
    body: &FunctionBody<'_>,
    changes: &Changes<'_>,
    symbols: &Symbols<'_>,
) -> Result<Function, PatchError> {
    let ops = operators(body)?;
    let mut edit_matches: BTreeMap<usize, EditMatch<'_>> = BTreeMap::new();
    for edit in &changes.edits {
        let starts = occurrences(&ops, &edit.find, symbols)?;
        if starts.len() != edit.count {
            let sequence = edit.find.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let (function, expected) = (name.to_owned(), edit.count);
            return Err(PatchError::Count { function, sequence, expected, found: starts.len() });
        }
        for start in starts {
            let found = ops[start..start + edit.find.len()].iter().zip(&edit.find);
            let found = found.filter(|(_, pattern)| pattern.matches_any_offset()).find_map(|(op, _)| access(op));
            if edit_matches.insert(start, EditMatch { edit, found: found.map(|(_, offset)| offset) }).is_some() {
                return Err(PatchError::Overlap(name.to_owned()));
            }
        }
    }
    let mut encoder = RoundtripReencoder;
    let failed = |e: wasm_encoder::reencode::Error<_>| PatchError::Module(e.to_string());
    let mut function = match changes.overflow {
        None => encoder.new_function_with_parsed_locals(body).map_err(failed)?,
        Some(overflow) => with_prologue(overflow, body, symbols)?,
    };
    let mut next = 0;
    for (start, place) in edit_matches {
        if start < next {
            return Err(PatchError::Overlap(name.to_owned()));
        }
        for op in &ops[next..start] {
            function.instruction(&encoder.instruction(op.clone()).map_err(failed)?);
        }
        for pattern in &place.edit.replace {
            function.instruction(&pattern.encode(symbols, place.found)?);
        }
        next = start + place.edit.find.len();
    }
    for op in &ops[next..] {
        function.instruction(&encoder.instruction(op.clone()).map_err(failed)?);
    }
    Ok(function)
}

/// Returns a function that begins with the overflow check. It has the locals of `body` and those of the check.
fn with_prologue(overflow: &Overflow, body: &FunctionBody<'_>, symbols: &Symbols<'_>) -> Result<Function, PatchError> {
    let mut locals = Vec::new();
    for read in body.get_locals_reader().map_err(read_error)? {
        let (count, kind) = read.map_err(read_error)?;
        locals.push((count, RoundtripReencoder.val_type(kind).map_err(|e| PatchError::Module(e.to_string()))?));
    }
    let own = locals.iter().map(|(count, _)| count).sum();
    locals.extend(overflow::LOCALS);
    let mut function = Function::new(locals);
    for instruction in overflow.prologue(own, symbols.function(&overflow.call)?) {
        function.instruction(&instruction);
    }
    Ok(function)
}

/// Returns the positions at which a sequence begins, including overlapping occurrences.
fn occurrences(ops: &[Operator<'_>], find: &[Pattern], symbols: &Symbols<'_>) -> Result<Vec<usize>, PatchError> {
    let mut starts = Vec::new();
    'windows: for (start, window) in ops.windows(find.len()).enumerate() {
        for (op, pattern) in window.iter().zip(find) {
            if !pattern.matches(op, symbols)? {
                continue 'windows;
            }
        }
        starts.push(start);
    }
    Ok(starts)
}

/// Copies the module and replaces the changed functions.
fn assemble(
    wasm: &[u8],
    bodies: &[FunctionBody<'_>],
    changed: &BTreeMap<u32, Function>,
) -> Result<Vec<u8>, PatchError> {
    let mut module = Module::new();
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(read_error)?;
        if let Payload::CodeSectionStart { .. } = payload {
            let mut code = CodeSection::new();
            for (place, body) in (0..).zip(bodies) {
                match changed.get(&place) {
                    Some(function) => code.function(function),
                    None => code.raw(&wasm[body.range()]),
                };
            }
            module.section(&code);
        } else if let Some((id, range)) = payload.as_section() {
            module.section(&RawSection { id, data: &wasm[range] });
        }
    }
    Ok(module.finish())
}
