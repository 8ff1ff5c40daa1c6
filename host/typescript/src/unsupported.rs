//! Rejection of TypeScript whose JavaScript form no engine here supports.

use oxc::ast::ast::{
    AccessorProperty, AccessorPropertyType, Decorator, Program, Statement, TSNamespaceDeclaration,
    TSNamespaceDeclarationBody,
};
use oxc::ast_visit::{Visit, walk};
use oxc::span::GetSpan;

use crate::error::StripError;
use crate::location::Location;

const DECORATOR: &str = "Decorators are not supported: call the function on the class, or compile the file first";
const ACCESSOR: &str = "`accessor` is not supported: write a getter and a setter, or compile the file first";
const EXPORT: &str = "Export declarations are not permitted in a namespace";

/// The words of which at least one occurs in a text with unsupported syntax.
const MARKERS: [&str; 4] = ["@", "accessor", "namespace", "module"];

/// Rejects decorators and `accessor` fields, which are not part of JavaScript yet, and exports that are not allowed in
/// a namespace.
pub(crate) fn unsupported(text: &str, program: &Program<'_>) -> Result<(), StripError> {
    if !MARKERS.iter().any(|sign| text.contains(sign)) {
        return Ok(());
    }
    let mut first = FirstUnsupported(None);
    first.visit_program(program);
    first.0.map_or(Ok(()), |(offset, message)| {
        Err(StripError::Syntax { message: message.to_owned(), location: Location::from_text(text, offset as usize) })
    })
}

/// The offset and the message of the first unsupported construct.
struct FirstUnsupported(Option<(u32, &'static str)>);

impl<'a> Visit<'a> for FirstUnsupported {
    fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
        self.0.get_or_insert((decorator.span.start, DECORATOR));
    }

    fn visit_accessor_property(&mut self, property: &AccessorProperty<'a>) {
        if property.r#type == AccessorPropertyType::AccessorProperty {
            self.0.get_or_insert((property.span.start, ACCESSOR));
        }
        walk::walk_accessor_property(self, property);
    }

    fn visit_ts_namespace_declaration(&mut self, namespace: &TSNamespaceDeclaration<'a>) {
        if namespace.declare {
            return;
        }
        if let TSNamespaceDeclarationBody::TSModuleBlock(block) = &namespace.body {
            let mut exports = block.body.iter().filter(|statement| {
                matches!(
                    statement,
                    Statement::ExportNamedDeclaration(_)
                        | Statement::ExportFromDeclaration(_)
                        | Statement::ExportAllDeclaration(_)
                )
            });
            if let Some(export) = exports.next() {
                self.0.get_or_insert((export.span().start, EXPORT));
            }
        }
        walk::walk_ts_namespace_declaration(self, namespace);
    }
}
