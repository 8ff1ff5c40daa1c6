//! Decorators as of `experimentalDecorators`, which oxc converts to calls of functions that this module adds.

use oxc::allocator::{Allocator, Vec as ArenaVec};
use oxc::ast::ast::{Argument, Expression, Program, Statement};
use oxc::ast::builder::AstBuilder;
use oxc::ast_visit::{VisitMut, walk_mut};
use oxc::transformer::{DecoratorOptions, HelperLoaderMode, HelperLoaderOptions};

/// Object whose functions the converted program calls.
const HELPERS_OBJECT: &str = "babelHelpers";

/// Function that calls the decorators of a class or a member.
const DECORATE: &str = "__codebox_decorate";

/// The functions. Declarations of functions can follow their use.
const HELPERS: &str = include_str!("legacy.js");

/// Options of `tsconfig.json` for decorators.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LegacyDecorators {
    has_metadata: bool,
    is_strict: bool,
}

impl LegacyDecorators {
    /// Returns the options that the first comment of a text names, which the loader of modules has written; `None` for standard decorators.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let text = match text.strip_prefix("#!") {
            Some(rest) => rest.split_once('\n')?.1,
            None => text,
        };
        let (comment, _) = text.strip_prefix("/**")?.split_once("*/")?;
        let has = |name: &str| comment.split_whitespace().any(|word| word == name);
        has("@experimentalDecorators")
            .then(|| Self { has_metadata: has("@emitDecoratorMetadata"), is_strict: has("@strictNullChecks") })
    }

    pub(crate) fn options(self) -> (DecoratorOptions, HelperLoaderOptions) {
        let decorators = DecoratorOptions {
            legacy: true,
            emit_decorator_metadata: self.has_metadata,
            strict_null_checks: self.is_strict,
        };
        (decorators, HelperLoaderOptions { mode: HelperLoaderMode::External, ..HelperLoaderOptions::default() })
    }
}

/// Makes a converted program call the functions of this module, and returns their text, which is to follow the program. It is empty if the
/// program calls none.
pub(crate) fn use_own_helpers<'a>(program: &mut Program<'a>, allocator: &'a Allocator) -> &'static str {
    let mut renaming = Renaming { ast: AstBuilder::new(allocator), is_used: false };
    renaming.visit_program(program);
    if renaming.is_used { HELPERS } else { "" }
}

/// Returns true for a call that decorates a static member, and false for one that decorates another member; `None` for any other statement.
fn is_static(statement: &Statement<'_>) -> Option<bool> {
    let Statement::ExpressionStatement(statement) = statement else { return None };
    let Expression::CallExpression(call) = &statement.expression else { return None };
    if !call.callee.is_specific_id(DECORATE) || call.arguments.len() < 3 {
        return None;
    }
    let is_prototype = |target: &Argument<'_>| matches!(target, Argument::StaticMemberExpression(member) if member.property.name == "prototype");
    call.arguments.get(1).map(|target| !is_prototype(target))
}

struct Renaming<'a> {
    ast: AstBuilder<'a>,
    is_used: bool,
}

impl<'a> VisitMut<'a> for Renaming<'a> {
    fn visit_statements(&mut self, statements: &mut ArenaVec<'a, Statement<'a>>) {
        walk_mut::walk_statements(self, statements);
        // The TypeScript compiler decorates the static members of a class after the others.
        let mut start = 0;
        while start < statements.len() {
            let length = statements[start..].iter().take_while(|statement| is_static(statement).is_some()).count();
            statements[start..start + length].sort_by_key(is_static);
            start += length + 1;
        }
    }

    fn visit_expression(&mut self, expression: &mut Expression<'a>) {
        if let Expression::StaticMemberExpression(member) = expression
            && member.object.is_specific_id(HELPERS_OBJECT)
        {
            let name = match member.property.name.as_str() {
                "decorateParam" => "__codebox_decorateParam",
                "decorateMetadata" => "__codebox_decorateMetadata",
                _ => DECORATE,
            };
            *expression = Expression::new_identifier(member.span, name, &self.ast);
            self.is_used = true;
            return;
        }
        walk_mut::walk_expression(self, expression);
    }
}
