//! Evaluation of enum members as far as the text determines their values.
//!
//! A member with a string has no reverse mapping, and a member without an initializer continues the preceding number.
//! The rules are those of the TypeScript compiler's `createEvaluator`. String values are not stored, because a short
//! text could give them any length; only the fact that a value is a string is kept.

use oxc::ast::ast::{BinaryOperator, Expression, IdentifierReference, UnaryOperator};
use oxc::semantic::SymbolId;
use oxc::syntax::scope::ScopeId;

use super::aliases::Referent;
use super::table::{EntityId, Table};
use super::value::{Evaluated, Value};

/// The position of an expression that is evaluated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site {
    /// The offset of the declaration that contains the expression.
    pub(super) at: u32,
    /// The enclosing scope.
    pub(super) scope: ScopeId,
}

impl Table<'_, '_> {
    pub(super) fn evaluate(&self, expression: &Expression<'_>, site: Site) -> Evaluated {
        match expression {
            Expression::ParenthesizedExpression(inner) => self.evaluate(&inner.expression, site),
            Expression::NumericLiteral(number) => Evaluated::known(Value::Number(number.value)),
            Expression::StringLiteral(_) => Evaluated::known(Value::Text),
            Expression::TemplateLiteral(template) => {
                let parts = template.expressions.iter().map(|part| self.evaluate(part, site));
                let mut result = Evaluated::known(Value::Text);
                for part in parts {
                    if matches!(part.value, Value::Unknown { .. }) {
                        result.value = Value::Unknown { is_text: true };
                    }
                    result.is_absent |= part.is_absent;
                }
                result
            }
            Expression::UnaryExpression(unary) => {
                let operand = self.evaluate(&unary.argument, site);
                let value = match (unary.operator, operand.value) {
                    (UnaryOperator::UnaryPlus, Value::Number(number)) => Value::Number(number),
                    (UnaryOperator::UnaryNegation, Value::Number(number)) => Value::Number(-number),
                    (UnaryOperator::BitwiseNot, Value::Number(number)) => Value::Number(f64::from(!int32(number))),
                    _ => Value::Unknown { is_text: false },
                };
                Evaluated { value, is_absent: operand.is_absent }
            }
            Expression::BinaryExpression(binary) => {
                let left = self.evaluate(&binary.left, site);
                let right = self.evaluate(&binary.right, site);
                let value = binary_value(binary.operator, left, right);
                Evaluated { value, is_absent: left.is_absent || right.is_absent }
            }
            Expression::Identifier(name) => self.evaluate_name(name, site),
            Expression::StaticMemberExpression(_) | Expression::ComputedMemberExpression(_) => {
                self.resolve(expression).map_or(Evaluated::UNKNOWN, |referent| self.evaluate_referent(&referent, site))
            }
            _ => Evaluated::UNKNOWN,
        }
    }

    fn evaluate_name(&self, name: &IdentifierReference<'_>, site: Site) -> Evaluated {
        match self.resolve_name(name) {
            Some(referent) => self.evaluate_referent(&referent, site),
            None => match name.name.as_str() {
                "Infinity" => Evaluated::known(Value::Number(f64::INFINITY)),
                "NaN" => Evaluated::known(Value::Number(f64::NAN)),
                _ => Evaluated::UNKNOWN,
            },
        }
    }

    fn evaluate_referent(&self, referent: &Referent, site: Site) -> Evaluated {
        match referent {
            Referent::Member(entity, name) => self.evaluate_member(*entity, name, site),
            Referent::Symbol(symbol) => self.evaluate_constant(*symbol, site),
            Referent::Entity(_) | Referent::Type => Evaluated::UNKNOWN,
        }
    }

    fn evaluate_member(&self, entity: EntityId, name: &str, site: Site) -> Evaluated {
        let Some(member) = self.entities[entity].members.get(name) else { return Evaluated::UNKNOWN };
        match member.value {
            // A member that is declared later evaluates to 0, and a reference of a member to itself has no value.
            _ if member.at == site.at => Evaluated::UNKNOWN,
            _ if member.at > site.at => Evaluated { value: Value::Number(0.0), is_absent: true },
            Some(value) => value,
            None => Evaluated::UNKNOWN,
        }
    }

    fn evaluate_constant(&self, symbol: SymbolId, site: Site) -> Evaluated {
        let Some(constant) = self.constants.get(&symbol) else { return Evaluated::UNKNOWN };
        if constant.at < site.at || self.is_deferred(symbol, site.scope) {
            Evaluated { is_absent: false, ..constant.value }
        } else {
            Evaluated::UNKNOWN
        }
    }
}

fn binary_value(operator: BinaryOperator, left: Evaluated, right: Evaluated) -> Value {
    let is_plus = operator == BinaryOperator::Addition;
    let (a, b) = match (left.value, right.value) {
        (Value::Number(a), Value::Number(b)) => (a, b),
        (Value::Number(_) | Value::Text, Value::Number(_) | Value::Text) if is_plus => return Value::Text,
        _ => return Value::Unknown { is_text: is_plus && (left.is_text() || right.is_text()) },
    };
    let shift = uint32(b) & 31;
    Value::Number(match operator {
        BinaryOperator::Addition => a + b,
        BinaryOperator::Subtraction => a - b,
        BinaryOperator::Multiplication => a * b,
        BinaryOperator::Division => a / b,
        BinaryOperator::Remainder => a % b,
        // In JavaScript, 1 to the power of an infinity or NaN is NaN.
        BinaryOperator::Exponential if a.abs() == 1.0 && !b.is_finite() => f64::NAN,
        BinaryOperator::Exponential => a.powf(b),
        BinaryOperator::BitwiseOR => f64::from(int32(a) | int32(b)),
        BinaryOperator::BitwiseAnd => f64::from(int32(a) & int32(b)),
        BinaryOperator::BitwiseXOR => f64::from(int32(a) ^ int32(b)),
        BinaryOperator::ShiftLeft => f64::from(int32(a) << shift),
        BinaryOperator::ShiftRight => f64::from(int32(a) >> shift),
        BinaryOperator::ShiftRightZeroFill => f64::from(uint32(a) >> shift),
        _ => return Value::Unknown { is_text: false },
    })
}

/// Implements ECMAScript's `ToUint32`.
fn uint32(number: f64) -> u32 {
    const MODULUS: f64 = 4_294_967_296.0;
    if !number.is_finite() {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the remainder is in range")]
    let bits = number.trunc().rem_euclid(MODULUS) as u32;
    bits
}

/// Implements ECMAScript's `ToInt32`.
fn int32(number: f64) -> i32 {
    uint32(number).cast_signed()
}

/// Formats a number as a JavaScript literal.
pub(super) fn number_literal(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        format!("{number:?}").trim_end_matches(".0").to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_wraps_numbers_as_javascript() {
        for (number, wrapped) in
            [(-1.5, -1), (4_294_967_295.0, -1), (2_147_483_648.0, i32::MIN), (1e300, 0), (f64::NAN, 0)]
        {
            assert_eq!(int32(number), wrapped, "{number}");
        }
        for (number, text) in [(1.0, "1"), (-0.0, "-0"), (0.1, "0.1"), (1e21, "1e21"), (f64::NEG_INFINITY, "-Infinity")]
        {
            assert_eq!(number_literal(number), text);
        }
    }
}
