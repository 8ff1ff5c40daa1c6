//! Values of expressions, as far as the text determines them.

/// The knowledge about the value of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Text,
    /// The value is unknown, but it is a string if `is_text` is true.
    Unknown {
        is_text: bool,
    },
}

/// A value and whether its expression can be evaluated at run time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evaluated {
    pub(super) value: Value,
    /// True if the expression refers to a name that does not exist at run time.
    pub(super) is_absent: bool,
}

impl Evaluated {
    pub(super) const UNKNOWN: Self = Self { value: Value::Unknown { is_text: false }, is_absent: false };

    pub(super) fn known(value: Value) -> Self {
        Self { value, is_absent: false }
    }

    /// Returns true if the value is a string, which has no reverse mapping.
    pub(super) fn is_text(self) -> bool {
        matches!(self.value, Value::Text | Value::Unknown { is_text: true })
    }
}
