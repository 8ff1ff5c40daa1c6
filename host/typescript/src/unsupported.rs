//! TypeScript that would become code which no engine here runs.

use oxc::ast::ast::{Decorator, Program};
use oxc::ast_visit::Visit;

use crate::error::StripError;
use crate::place::Place;

/// Refuses decorators, which JavaScript does not have yet.
pub(crate) fn unsupported(text: &str, program: &Program<'_>) -> Result<(), StripError> {
    if !text.contains('@') {
        return Ok(());
    }
    let mut first = First(None);
    first.visit_program(program);
    first.0.map_or(Ok(()), |offset| {
        let message = "Decorators are not supported: call the function on the class, or compile the file before";
        Err(StripError::Syntax { message: message.to_owned(), place: Place::of(text, offset) })
    })
}

/// The offset of the first decorator.
struct First(Option<usize>);

impl<'a> Visit<'a> for First {
    fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
        self.0.get_or_insert(decorator.span.start as usize);
    }
}
