//! Interprets assembled programs as the kernel does and compares the results with their tables.

use seccompiler::SeccompAction::{Allow, Errno, KillProcess};
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition};

use super::*;

/// Returns the result of `program` for call `number` of architecture `arch` with the first argument `first`.
fn run(program: &[sock_filter], arch: u32, number: u32, first: u64) -> u32 {
    let words = [number, arch, 0, 0, first as u32, (first >> 32) as u32];
    let mut accumulator = 0;
    let mut at = 0;
    loop {
        let sock_filter { code, jt, jf, k } = program[at].clone();
        at += 1;
        let mut branch = |holds: bool| at += usize::from(if holds { jt } else { jf });
        match u32::from(code) {
            LOAD => accumulator = words[k as usize / 4],
            JUMP => at += k as usize,
            JUMP_IF_AT_LEAST => branch(accumulator >= k),
            RETURN => return k,
            code if code == libc::BPF_JMP | libc::BPF_JEQ => branch(accumulator == k),
            code if code == libc::BPF_ALU | libc::BPF_AND => accumulator &= k,
            code => panic!("instruction {code:#x} is not known here"),
        }
    }
}

const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;

fn first_argument_is(value: u64) -> SeccompRule {
    let equal = SeccompCmpOp::Eq;
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, equal, value);
    SeccompRule::new(vec![condition.expect("a condition")]).expect("a rule")
}

/// Returns a table with runs and gaps over a thousand numbers, so that some jumps are long.
fn wide_table() -> Table {
    let policy = |number: u32| match number % 7 {
        0 => None,
        1 | 2 => Some(SyscallPolicy::Always(Allow)),
        3 => Some(SyscallPolicy::Always(KillProcess)),
        4 => Some(SyscallPolicy::Always(Errno(13))),
        _ => Some(SyscallPolicy::AllowedIf(vec![first_argument_is(5), first_argument_is(u64::MAX)])),
    };
    (0..1000).filter_map(|number| Some((number, policy(number)?))).collect()
}

#[test]
fn every_call_gets_its_policy_from_the_table() {
    let (table, unlisted) = (wide_table(), Errno(1));
    let program = assemble(&table, &unlisted, TargetArch::x86_64).expect("a program");
    for number in (0..1100).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
        for first in [0, 5, 0x1_0000_0005, u64::MAX] {
            let expected = match table.get(&number) {
                None => unlisted.clone(),
                Some(SyscallPolicy::Always(action)) => action.clone(),
                Some(SyscallPolicy::AllowedIf(_)) if [5, u64::MAX].contains(&first) => Allow,
                Some(SyscallPolicy::AllowedIf(_)) => unlisted.clone(),
            };
            let policy = run(&program, X86_64, number, first);
            assert_eq!(policy, u32::from(expected), "call {number} with {first:#x}");
        }
    }
}

#[test]
fn kills_process_of_another_architecture() {
    let program = assemble(&wide_table(), &Errno(1), TargetArch::x86_64).expect("a program");
    assert_eq!(run(&program, I386, 1, 0), u32::from(KillProcess));
}

#[test]
fn empty_table_treats_all_calls_alike() {
    let program = assemble(&Table::new(), &Errno(1), TargetArch::x86_64).expect("a program");
    assert_eq!(run(&program, X86_64, 0, 0), u32::from(Errno(1)));
}
