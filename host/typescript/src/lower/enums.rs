//! Lowering of enums.

use oxc::ast::ast::{TSEnumDeclaration, TSEnumMember, TSEnumMemberName};
use oxc::ast_visit::Visit;
use oxc::span::{GetSpan, Span};

use super::evaluate::number_literal;
use super::exports::static_name;
use super::rewrite::{DeclarationHead, ExportTarget, Rewriter};
use super::value::{Evaluated, Value};

impl<'a> Rewriter<'_, '_, 'a> {
    /// Rewrites `enum E { A = 1 }` to `var E; (function (_E) { _E[_E["A"] = 1] = "A"; })(E || (E = {}));`.
    pub(super) fn lower_enum(&mut self, declaration: &TSEnumDeclaration<'a>, statement: Span, exported: ExportTarget) {
        let Some(symbol) = declaration.id.symbol_id.get() else { return };
        let Some(entity) = self.table.by_symbol.get(&symbol).copied() else { return };
        if declaration.declare {
            self.remove_type(symbol, statement);
            return;
        }
        let head = DeclarationHead { name: declaration.id.name.as_str(), symbol, entity, exported };
        let opening = self.opening(&head);
        let body = declaration.body.span;
        self.edits.replace(statement.start, body.start + 1, opening);
        let mut end = body.start + 1;
        for member in &declaration.body.members {
            self.edits.replace(end, member.span.start, "");
            self.member(member, self.parameter(entity), self.value_of(entity, member));
            end = member.span.end;
        }
        let closing = self.closing(&head);
        self.edits.replace(end, body.end, closing);
    }

    fn value_of(&self, entity: usize, member: &TSEnumMember<'_>) -> Evaluated {
        let known = self.table.entities[entity].members.get(static_name(member));
        known.and_then(|known| known.value).unwrap_or(Evaluated::UNKNOWN)
    }

    fn member(&mut self, member: &TSEnumMember<'a>, parameter: &str, value: Evaluated) {
        let name = self.name_of(&member.id);
        let (before, after) = match value.is_text() {
            true => (format!("{parameter}[{name}] = "), ";".to_owned()),
            false => (format!("{parameter}[{parameter}[{name}] = "), format!("] = {name};")),
        };
        let span = member.span;
        match (&member.initializer, value.value) {
            // The TypeScript compiler has no negative zero either.
            (Some(initializer), Value::Number(number)) if value.is_absent || number == 0.0 => {
                let number = number_literal(number + 0.0);
                self.edits.replace(span.start, initializer.span().end, format!("{before}{number}{after}"));
            }
            (Some(initializer), _) => {
                self.edits.replace(span.start, initializer.span().start, before);
                self.visit_expression(initializer);
                self.edits.insert(initializer.span().end, after);
            }
            (None, Value::Number(number)) => {
                self.edits.replace(span.start, span.end, format!("{before}{}{after}", number_literal(number)));
            }
            (None, _) => self.edits.replace(span.start, span.end, format!("{before}void 0{after}")),
        }
    }

    /// Returns a member's name as a literal.
    fn name_of(&self, id: &TSEnumMemberName<'_>) -> String {
        let source = |span: Span| self.text.get(span.start as usize..span.end as usize).unwrap_or_default().to_owned();
        match id {
            TSEnumMemberName::Identifier(name) => format!("\"{}\"", name.name),
            TSEnumMemberName::String(name) | TSEnumMemberName::ComputedString(name) => source(name.span),
            TSEnumMemberName::ComputedTemplateString(name) => source(name.span),
        }
    }
}
