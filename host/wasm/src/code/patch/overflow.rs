//! Overflow checks for products of 32-bit integers.
//!
//! The integer loops of numpy's ufuncs do not report an overflow. A loop that a patch names here first checks its
//! factors, and sets numpy's floating-point error status if a product does not fit. numpy reads that status after each
//! ufunc and warns, unless the program has turned the warning off.

use serde::Deserialize;
use wasm_encoder::{BlockType, Instruction, MemArg, ValType};

/// Number of parameters of a ufunc's loop: pointers to the operands' pointers, to the count and to the operands' steps,
/// and data.
const PARAMETER_COUNT: u32 = 4;
const OPERANDS: u32 = 0;
const COUNT: u32 = 1;
const STEPS: u32 = 2;

/// Bytes of a pointer.
const POINTER_SIZE: u64 = 4;

/// A loop whose products are checked for overflow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Overflow {
    /// The function that contains the loop.
    pub function: String,
    /// The positions of the two factors among the operands. The operand after the later factor is the product.
    pub factors: [u32; 2],
    /// The function to call if a product overflows. It takes no parameters.
    pub call: String,
}

/// The locals that [`Overflow::prologue`] needs in addition to the function's own.
pub(super) const LOCALS: [(u32, ValType); 2] = [(3, ValType::I32), (1, ValType::I64)];

impl Overflow {
    /// Returns the operators to put at the start of the function, which has `locals` locals of its own. `call` is the
    /// index of the function to call on overflow.
    ///
    /// The check skips reductions and accumulations, where one of the factors is the previous product.
    pub(super) fn prologue(&self, locals: u32, call: u32) -> Vec<Instruction<'static>> {
        let [left, right, count] = [0, 1, 2].map(|more| PARAMETER_COUNT + locals + more);
        let product = count + 1;
        let [first, second] = self.factors;
        let result = first.max(second) + 1;
        let word = |local: u32, position: u32| {
            let offset = u64::from(position) * POINTER_SIZE;
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
        // In a reduction or accumulation, the product is stored at the address of the next iteration's first factor.
        code.extend(word(OPERANDS, result));
        code.extend(word(OPERANDS, first));
        code.extend([Instruction::LocalTee(left), Instruction::I32Sub]);
        code.extend(word(STEPS, first));
        code.extend([Instruction::I32Eq, Instruction::BrIf(0), Instruction::Loop(BlockType::Empty)]);
        // A count is never negative; if it is, the check reads no factors.
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
