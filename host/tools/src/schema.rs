//! JSON Schemas of tools.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use thiserror::Error;

/// Maximum length of a message about a value that does not match.
const MAX_MESSAGE: usize = 500;

/// Maximum number of steps back of a pattern with lookaround or references.
const MAX_STEPS: usize = 100_000;

/// Schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the schema is invalid: {0}")]
pub struct SchemaError(String);

/// A JSON Schema, compiled. It refers to no other documents.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    validator: Validator,
    /// True if the schema refers to itself or to parts of itself. The time of a check can then grow exponentially with the depth of a
    /// value.
    pub has_references: bool,
    /// True if messages show the values that do not match.
    shows_values: bool,
}

impl Schema {
    pub(crate) fn new(schema: &Value) -> Result<Self, SchemaError> {
        // Patterns are matched in linear time, because programs choose the texts. Those that only a matcher which goes back can match have a
        // maximum number of steps, and do not match beyond it.
        let linear = jsonschema::options().with_pattern_options(PatternOptions::regex()).build(schema);
        let built = linear.or_else(|_| {
            let bounded = PatternOptions::fancy_regex().backtrack_limit(MAX_STEPS);
            jsonschema::options().with_pattern_options(bounded).build(schema)
        });
        let validator = built.map_err(|error| SchemaError(error.to_string()))?;
        Ok(Self { validator, has_references: has_references(schema), shows_values: true })
    }

    /// Returns the schema with messages that show no values, because those of an output can contain secrets, whole or in part.
    pub(crate) fn without_values(self) -> Self {
        Self { shows_values: false, ..self }
    }

    /// Checks a value.
    ///
    /// # Errors
    /// Returns the place and the rule that it breaks.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        self.validator.validate(value).map_err(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
            let mut message = match self.shows_values {
                true => format!("{place}{error}"),
                false => format!("{place}{}", error.masked()),
            };
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            message
        })
    }
}

/// Returns true if a schema has a keyword that refers to another schema. A property of this name counts as well.
fn has_references(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.keys().any(|name| matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef"))
                || members.values().any(has_references)
        }
        Value::Array(items) => items.iter().any(has_references),
        _ => false,
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
        let fault = schema.without_values().check(&json!({ "a": "secret" })).expect_err("it is a text");
        assert!(fault.starts_with("/a: ") && !fault.contains("secret"), "{fault}");
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
        // This one needs a matcher that goes back.
        let schema = Schema::new(&json!({ "pattern": "^(?!b)(a+)+$" })).expect("it is valid");
        assert_eq!(schema.check(&json!("aaa")), Ok(()));
        assert!(schema.check(&json!("a".repeat(100_000) + "b")).is_err());
        assert!(schema.check(&json!("baa")).is_err());
    }

    #[test]
    fn references_are_found() {
        let has_references = |schema: Value| Schema::new(&schema).expect("it is valid").has_references;
        assert!(has_references(json!({ "properties": { "a": { "anyOf": [{ "$ref": "#" }] } } })));
        assert!(!has_references(json!({ "properties": { "a": { "anyOf": [{ "type": "string" }] } } })));
    }
}
