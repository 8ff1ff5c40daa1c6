//! The memory that a syntax tree is made in: so much and no more.
//!
//! The parser tries some forms twice at each level, and so takes time that doubles with every level. It allocates at each try,
//! so a bound on memory bounds its time as well. Where it is reached the parser panics, on a thread of its own.

use std::alloc::{GlobalAlloc as _, Layout, System};
use std::ptr::NonNull;

use oxc::allocator::Allocator;

/// Memory for the shortest text, and for each byte of a longer one. Programs take about 30 bytes for a byte.
const LEAST: usize = 16 << 20;
const PER_BYTE: usize = 128;

/// What the arena's ends are aligned to: a page, which is more than it asks for.
const ALIGN: usize = 4096;

/// An allocator for the tree of a text of this many bytes; nothing where the system has no room for it.
pub(crate) fn for_text(length: usize) -> Option<Allocator> {
    let size = (LEAST + length * PER_BYTE).next_multiple_of(ALIGN);
    let layout = Layout::from_size_align(size, ALIGN).ok()?;
    // SAFETY: the layout's size is not zero.
    let start = NonNull::new(unsafe { System.alloc(layout) })?;
    // SAFETY: the region is all of an allocation that was just made by the system's allocator with this layout, writable,
    // aligned to a page at both ends and far larger than the arena's footer. The arena owns it from here on.
    Some(unsafe { Allocator::from_raw_parts(start, size, start, layout) })
}
