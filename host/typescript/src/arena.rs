//! The memory that a syntax tree is made in.

use oxc::allocator::Allocator;

/// An allocator for the tree of a text of this many bytes. It grows as it has to: the process bounds it.
pub(crate) fn for_text(_length: usize) -> Option<Allocator> {
    Some(Allocator::new())
}
