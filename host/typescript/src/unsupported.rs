//! Rejection of TypeScript whose JavaScript form no engine here supports.

use oxc::ast::ast::{
    AccessorPropertyType, Class, ClassElement, FormalParameter, Program, PropertyKey, Statement,
    TSNamespaceDeclaration, TSNamespaceDeclarationBody,
};
use oxc::ast_visit::{Visit, walk};
use oxc::span::GetSpan;

use crate::error::StripError;
use crate::location::Location;
use crate::lower::needs_lowering;

const PARAMETER: &str =
    "Decorators of parameters need experimentalDecorators: set it in compilerOptions of tsconfig.json";
const PRIVATE: &str =
    "Decorators of private methods and accessors are not supported: decorate a public one, or compile the file first";
const LEGACY_ACCESSOR: &str =
    "Decorators of `accessor` fields are not supported with experimentalDecorators: write a getter and a setter";
const COMPUTED: &str = "`accessor` with a computed name is not supported: write a getter and a setter";
const IN_NAMESPACE: &str = "Decorators and `accessor` are not supported in namespaces: move the class to a module";
const EXPORT: &str = "Export declarations are not permitted in a namespace";

/// The words of which at least one occurs in a text with unsupported syntax.
const MARKERS: [&str; 4] = ["@", "accessor", "namespace", "module"];

/// Rejects decorators and `accessor` fields that are not lowered, and exports that are not allowed in a namespace.
pub(crate) fn unsupported(text: &str, program: &Program<'_>, are_legacy: bool) -> Result<(), StripError> {
    if !MARKERS.iter().any(|sign| text.contains(sign)) {
        return Ok(());
    }
    let mut first = FirstUnsupported { found: None, is_in_namespace: false, are_legacy };
    first.visit_program(program);
    first.found.map_or(Ok(()), |(offset, message)| {
        Err(StripError::Syntax { message: message.to_owned(), location: Location::from_text(text, offset as usize) })
    })
}

/// The offset and the message of the first unsupported construct.
struct FirstUnsupported {
    found: Option<(u32, &'static str)>,
    /// True inside of a namespace.
    is_in_namespace: bool,
    /// True if decorators are those of `experimentalDecorators`.
    are_legacy: bool,
}

impl FirstUnsupported {
    fn element(&mut self, element: &ClassElement<'_>) {
        let is_private = |key: &PropertyKey<'_>| matches!(key, PropertyKey::PrivateIdentifier(_));
        let refused = match element {
            ClassElement::MethodDefinition(method) if !method.decorators.is_empty() && is_private(&method.key) => {
                PRIVATE
            }
            ClassElement::AccessorProperty(field) if self.are_legacy && !field.decorators.is_empty() => LEGACY_ACCESSOR,
            ClassElement::AccessorProperty(field) if field.r#type != AccessorPropertyType::AccessorProperty => return,
            ClassElement::AccessorProperty(field) if field.computed => COMPUTED,
            ClassElement::AccessorProperty(field) if !field.decorators.is_empty() && is_private(&field.key) => PRIVATE,
            _ => return,
        };
        self.found.get_or_insert((element.span().start, refused));
    }
}

impl<'a> Visit<'a> for FirstUnsupported {
    fn visit_formal_parameter(&mut self, parameter: &FormalParameter<'a>) {
        if let Some(decorator) = parameter.decorators.first().filter(|_| !self.are_legacy) {
            self.found.get_or_insert((decorator.span.start, PARAMETER));
        }
        walk::walk_formal_parameter(self, parameter);
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        if self.is_in_namespace && needs_lowering(class, self.are_legacy) {
            self.found.get_or_insert((class.span.start, IN_NAMESPACE));
        }
        class.body.body.iter().for_each(|element| self.element(element));
        walk::walk_class(self, class);
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
                self.found.get_or_insert((export.span().start, EXPORT));
            }
        }
        let is_outer = !std::mem::replace(&mut self.is_in_namespace, true);
        walk::walk_ts_namespace_declaration(self, namespace);
        self.is_in_namespace = !is_outer;
    }
}
