//! The operators that patches support: as text, in a module, and encoded.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use wasm_encoder::{Instruction, MemArg};
use wasmparser::Operator;

use super::PatchError;

/// One operator as written in a patch: `i32.const 7`, `call NAME`, `i32.load offset=NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Pattern {
    Const(i32),
    Call(String),
    LocalGet(u32),
    LocalSet(u32),
    Plain(Plain),
    Access(Access, Offset),
}

/// An operator without immediate operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plain {
    Eq,
    LeU,
    Add,
    ExtendS,
}

/// A load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Load32,
    Load8U,
    Store32,
    Store64,
}

/// The static offset of a load or store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Offset {
    Number(u64),
    Named(String),
    /// Any offset. In a replacement, it is the offset that was matched.
    Any,
}

/// The values of the names that a patch uses.
pub(super) struct Symbols<'a> {
    pub functions: &'a BTreeMap<String, u32>,
    pub addresses: &'a BTreeMap<String, u64>,
}

const PLAIN: [(&str, Plain); 4] =
    [("i32.eq", Plain::Eq), ("i32.le_u", Plain::LeU), ("i32.add", Plain::Add), ("i64.extend_i32_s", Plain::ExtendS)];

const ACCESSES: [(&str, Access); 4] = [
    ("i32.load", Access::Load32),
    ("i32.load8_u", Access::Load8U),
    ("i32.store", Access::Store32),
    ("i64.store", Access::Store64),
];

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let unknown = || format!("unknown operator: {text}");
        let (name, operand) = text.split_once(' ').unwrap_or((&text, ""));
        if let Some((_, plain)) = PLAIN.iter().find(|(known, _)| *known == name) {
            return if operand.is_empty() { Ok(Self::Plain(*plain)) } else { Err(unknown()) };
        }
        if let Some((_, access)) = ACCESSES.iter().find(|(known, _)| *known == name) {
            let offset = match operand.strip_prefix("offset=").ok_or_else(unknown)? {
                "*" => Offset::Any,
                "" => return Err(unknown()),
                number if number.starts_with(|c: char| c.is_ascii_digit()) => {
                    Offset::Number(number.parse().map_err(|_| unknown())?)
                }
                named => Offset::Named(named.to_owned()),
            };
            return Ok(Self::Access(*access, offset));
        }
        match name {
            "i32.const" => operand.parse().map(Self::Const).map_err(|_| unknown()),
            "local.get" => operand.parse().map(Self::LocalGet).map_err(|_| unknown()),
            "local.set" => operand.parse().map(Self::LocalSet).map_err(|_| unknown()),
            "call" if !operand.is_empty() => Ok(Self::Call(operand.to_owned())),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Const(value) => write!(f, "i32.const {value}"),
            Self::Call(name) => write!(f, "call {name}"),
            Self::LocalGet(index) => write!(f, "local.get {index}"),
            Self::LocalSet(index) => write!(f, "local.set {index}"),
            Self::Plain(plain) => f.write_str(mnemonic(&PLAIN, *plain)),
            Self::Access(access, offset) => {
                let mnemonic = mnemonic(&ACCESSES, *access);
                match offset {
                    Offset::Number(number) => write!(f, "{mnemonic} offset={number}"),
                    Offset::Named(name) => write!(f, "{mnemonic} offset={name}"),
                    Offset::Any => write!(f, "{mnemonic} offset=*"),
                }
            }
        }
    }
}

fn mnemonic<T: Copy + PartialEq>(mnemonics: &[(&'static str, T)], value: T) -> &'static str {
    mnemonics.iter().find(|(_, known)| *known == value).map_or("", |(mnemonic, _)| mnemonic)
}

impl Pattern {
    /// Returns the name of the called function, for a call.
    pub(super) fn callee(&self) -> Option<&str> {
        if let Self::Call(name) = self { Some(name) } else { None }
    }

    /// Returns true if the pattern accepts any offset.
    pub(super) fn matches_any_offset(&self) -> bool {
        matches!(self, Self::Access(_, Offset::Any))
    }

    /// Returns true if the pattern matches `op`.
    pub(super) fn matches(&self, op: &Operator<'_>, symbols: &Symbols<'_>) -> Result<bool, PatchError> {
        Ok(match (self, op) {
            (Self::Const(expected), Operator::I32Const { value }) => expected == value,
            (Self::Call(name), Operator::Call { function_index }) => {
                symbols.functions.get(name) == Some(function_index)
            }
            (Self::LocalGet(expected), Operator::LocalGet { local_index })
            | (Self::LocalSet(expected), Operator::LocalSet { local_index }) => expected == local_index,
            (Self::Plain(Plain::Eq), Operator::I32Eq)
            | (Self::Plain(Plain::LeU), Operator::I32LeU)
            | (Self::Plain(Plain::Add), Operator::I32Add)
            | (Self::Plain(Plain::ExtendS), Operator::I64ExtendI32S) => true,
            (Self::Access(expected, offset), op) => match access(op) {
                Some((found, at)) if found == *expected => symbols.offset(offset)?.is_none_or(|offset| offset == at),
                _ => false,
            },
            _ => false,
        })
    }

    /// Encodes the operator for a function of the module. `found` replaces an offset that is [`Offset::Any`].
    pub(super) fn encode(&self, symbols: &Symbols<'_>, found: Option<u64>) -> Result<Instruction<'static>, PatchError> {
        Ok(match self {
            Self::Const(value) => Instruction::I32Const(*value),
            Self::Call(name) => Instruction::Call(symbols.function(name)?),
            Self::LocalGet(index) => Instruction::LocalGet(*index),
            Self::LocalSet(index) => Instruction::LocalSet(*index),
            Self::Plain(Plain::Eq) => Instruction::I32Eq,
            Self::Plain(Plain::LeU) => Instruction::I32LeU,
            Self::Plain(Plain::Add) => Instruction::I32Add,
            Self::Plain(Plain::ExtendS) => Instruction::I64ExtendI32S,
            Self::Access(access, offset) => {
                let offset = symbols.offset(offset)?.or(found).ok_or_else(|| PatchError::Address("*".into()))?;
                // The alignment is a hint. Compilers write the natural alignment, and so does the encoder.
                let place = |align| MemArg { offset, align, memory_index: 0 };
                match access {
                    Access::Load32 => Instruction::I32Load(place(2)),
                    Access::Load8U => Instruction::I32Load8U(place(0)),
                    Access::Store32 => Instruction::I32Store(place(2)),
                    Access::Store64 => Instruction::I64Store(place(3)),
                }
            }
        })
    }
}

/// Returns the kind and the static offset of a load or store, or `None` for any other operator.
pub(super) fn access(op: &Operator<'_>) -> Option<(Access, u64)> {
    let (access, place) = match op {
        Operator::I32Load { memarg } => (Access::Load32, memarg),
        Operator::I32Load8U { memarg } => (Access::Load8U, memarg),
        Operator::I32Store { memarg } => (Access::Store32, memarg),
        Operator::I64Store { memarg } => (Access::Store64, memarg),
        _ => return None,
    };
    Some((access, place.offset))
}

impl Symbols<'_> {
    /// Returns the index of a function.
    pub(super) fn function(&self, name: &str) -> Result<u32, PatchError> {
        let index = self.functions.get(name).copied();
        index.ok_or_else(|| PatchError::Function { name: name.to_owned(), found: 0 })
    }

    /// Returns the value of an offset, or `None` for [`Offset::Any`].
    fn offset(&self, offset: &Offset) -> Result<Option<u64>, PatchError> {
        match offset {
            Offset::Number(number) => Ok(Some(*number)),
            Offset::Any => Ok(None),
            Offset::Named(name) => {
                let known = self.addresses.get(name).copied();
                known.map(Some).ok_or_else(|| PatchError::Address(name.clone()))
            }
        }
    }
}
