//! Pool of guest stacks, so that a short job does not have to map a stack.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::{StackCreator, StackMemory};

use crate::sys::Reservation;

/// Bytes of the inaccessible guard at the low end of a stack.
const GUARD_SIZE: usize = 64 << 10;

/// Maximum number of idle stacks. The used pages of a stack stay resident, a few tens of KiB each.
const MAX_IDLE_STACKS: usize = 64;

/// Pool of idle stacks.
///
/// Only the host's own code can read the old bytes of a stack: wasm has no instruction to read a stack slot that it has
/// not written.
#[derive(Default)]
pub(crate) struct StackPool {
    idle: Arc<Mutex<Vec<Reservation>>>,
}

// SAFETY: each stack is separate, page-aligned address space, accessible from the guard's end to its top, and belongs
// to one fiber until the fiber drops it.
unsafe impl StackCreator for StackPool {
    fn new_stack(&self, size: usize, _zeroed: bool) -> Result<Box<dyn StackMemory>, wasmtime::Error> {
        let size = size.next_multiple_of(GUARD_SIZE);
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let space = match idle {
            Some(space) => space,
            None => {
                let mut space = Reservation::new(GUARD_SIZE + size)?;
                space.make_accessible(GUARD_SIZE..GUARD_SIZE + size)?;
                space
            }
        };
        Ok(Box::new(Stack { space: Some(space), size, idle: self.idle.clone() }))
    }
}

struct Stack {
    space: Option<Reservation>,
    size: usize,
    idle: Arc<Mutex<Vec<Reservation>>>,
}

impl Stack {
    fn base(&self) -> *mut u8 {
        self.space.as_ref().expect("a stack keeps its space until it is dropped").base()
    }
}

// SAFETY: `range` is mapped and writable, `guard_range` is directly below it and inaccessible; both belong to this
// value alone.
unsafe impl StackMemory for Stack {
    fn top(&self) -> *mut u8 {
        self.base().wrapping_add(GUARD_SIZE + self.size)
    }

    fn range(&self) -> Range<usize> {
        let start = self.base() as usize + GUARD_SIZE;
        start..start + self.size
    }

    fn guard_range(&self) -> Range<*mut u8> {
        self.base()..self.base().wrapping_add(GUARD_SIZE)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE_STACKS {
            idle.extend(self.space.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_separate_and_used_again() {
        let pool = StackPool::default();
        let new = || pool.new_stack(64 << 10, false).expect("address space");
        let (first, second) = (new(), new());
        for stack in [&first, &second] {
            assert_eq!(stack.guard_range().end as usize, stack.range().start);
            assert_eq!(stack.top() as usize, stack.range().end);
            // SAFETY: the byte below the top belongs to the stack, which has no other user.
            unsafe { stack.top().sub(1).write(7) };
        }
        assert!(
            first.range().end <= second.guard_range().start as usize
                || second.range().end <= first.guard_range().start as usize
        );
        let place = first.range();
        drop(first);
        assert_eq!(new().range(), place);
        drop(second);
        for _ in 0..MAX_IDLE_STACKS {
            drop([new(), new()]);
        }
        assert!(pool.idle.lock().expect("no panic before").len() <= MAX_IDLE_STACKS);
    }
}
