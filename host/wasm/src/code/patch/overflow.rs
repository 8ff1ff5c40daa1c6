//! Products of 32-bit integers that tell of an overflow.
//!
//! The loops of numpy's ufuncs compute integers without a word where they overflow. A loop that a patch names here looks
//! through its factors first, and sets numpy's status of floating-point errors if a product does not fit. numpy looks at that
//! status after each ufunc and warns, where the program has not turned that off.

use serde::Deserialize;
use wasm_encoder::{BlockType, Instruction, MemArg, ValType};

/// Parameters of a ufunc's loop: pointers to the operands' pointers, to the count, to the operands' steps, and data.
const PARAMETERS: u32 = 4;
const OPERANDS: u32 = 0;
const COUNT: u32 = 1;
const STEPS: u32 = 2;

/// Bytes of a pointer.
const POINTER: u64 = 4;

/// A loop whose products are checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Overflow {
    /// The loop's function.
    pub function: String,
    /// The positions of the two factors among the operands; the product comes next.
    pub factors: [u32; 2],
    /// The function without parameters that is called if a product overflows.
    pub call: String,
}

/// The locals that [`Overflow::prologue`] has beside the function's own.
pub(super) const LOCALS: [(u32, ValType); 2] = [(3, ValType::I32), (1, ValType::I64)];

impl Overflow {
    /// The operators that come first in the function, which has `locals` of its own. `call` is the index of the function
    /// that is called.
    ///
    /// Reductions and accumulations are passed over: there one of the factors is the product before.
    pub(super) fn prologue(&self, locals: u32, call: u32) -> Vec<Instruction<'static>> {
        let [left, right, count] = [0, 1, 2].map(|more| PARAMETERS + locals + more);
        let product = count + 1;
        let [first, second] = self.factors;
        let result = first.max(second) + 1;
        let word = |local: u32, position: u32| {
            let offset = u64::from(position) * POINTER;
            [Instruction::LocalGet(local), Instruction::I32Load(MemArg { offset, align: 2, memory_index: 0 })]
        };
        let advance = |local: u32, position: u32| {
            let [base, step] = word(STEPS, position);
            [Instruction::LocalGet(local), base, step, Instruction::I32Add, Instruction::LocalSet(local)]
        };
        let factor = |local: u32| {
            let load = Instruction::I64Load32S(MemArg { offset: 0, align: 2, memory_index: 0 });
            [Instruction::LocalGet(local), load]
        };
        let mut code = vec![Instruction::Block(BlockType::Empty)];
        code.extend(word(OPERANDS, second));
        code.push(Instruction::LocalSet(right));
        code.extend(word(COUNT, 0));
        code.push(Instruction::LocalSet(count));
        // The product is written where the next round reads its first factor.
        code.extend(word(OPERANDS, result));
        code.extend(word(OPERANDS, first));
        code.extend([Instruction::LocalTee(left), Instruction::I32Sub]);
        code.extend(word(STEPS, first));
        code.extend([Instruction::I32Eq, Instruction::BrIf(0), Instruction::Loop(BlockType::Empty)]);
        // A count is never negative, but nothing is read if it is.
        code.extend([
            Instruction::LocalGet(count),
            Instruction::I32Const(1),
            Instruction::I32LtS,
            Instruction::BrIf(1),
        ]);
        code.extend(factor(left));
        code.extend(factor(right));
        code.extend([Instruction::I64Mul, Instruction::LocalTee(product)]);
        code.extend([Instruction::LocalGet(product), Instruction::I64Extend32S, Instruction::I64Ne]);
        code.push(Instruction::If(BlockType::Empty));
        code.extend([Instruction::Call(call), Instruction::Br(2), Instruction::End]);
        code.extend(advance(left, first));
        code.extend(advance(right, second));
        code.extend([Instruction::LocalGet(count), Instruction::I32Const(1), Instruction::I32Sub]);
        code.extend([Instruction::LocalSet(count), Instruction::Br(0), Instruction::End, Instruction::End]);
        code
    }
}
