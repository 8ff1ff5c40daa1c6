//! JSON Schemas of tools.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use thiserror::Error;

/// Maximum length of a message about a value that does not match.
const MAX_MESSAGE: usize = 500;

/// Schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the schema is invalid: {0}")]
pub struct SchemaError(String);

/// A JSON Schema, compiled. It refers to no other documents.
#[derive(Debug, Clone)]
pub(crate) struct Schema(Validator);

impl Schema {
    pub(crate) fn new(schema: &Value) -> Result<Self, SchemaError> {
        // Patterns are matched in linear time, because programs choose the texts.
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        options.build(schema).map(Self).map_err(|error| SchemaError(error.to_string()))
    }

    /// Checks a value.
    ///
    /// # Errors
    /// Returns the place and the rule that it breaks.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        self.0.validate(value).map_err(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
            let mut message = format!("{place}{error}");
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            message
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_checked() {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
        let schema = Schema::new(&schema).expect("it is valid");
        assert_eq!(schema.check(&json!({ "a": 1 })), Ok(()));
        assert!(schema.check(&json!({ "a": "x" })).expect_err("it is a text").starts_with("/a: "));
        assert!(schema.check(&json!({})).expect_err("it is missing").contains("\"a\""));
        assert!(schema.check(&json!("x".repeat(10_000))).expect_err("it is long").len() <= MAX_MESSAGE);
    }

    #[test]
    fn invalid_schemas_are_refused() {
        for schema in [json!({ "type": 1 }), json!({ "$ref": "https://example.org/schema" }), json!({ "pattern": "(" })]
        {
            assert!(Schema::new(&schema).is_err(), "{schema}");
        }
    }

    /// A pattern and a text with which a matcher that goes back would not end.
    #[test]
    fn patterns_are_linear() {
        let schema = Schema::new(&json!({ "pattern": "^(a+)+$" })).expect("it is valid");
        assert!(schema.check(&json!("a".repeat(100_000) + "b")).is_err());
    }
}
