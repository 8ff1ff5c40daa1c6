use serde_json::Value;
use thiserror::Error;

use super::kind::MappedPath;
use super::map::PathMap;

/// Direction in which paths are mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From outside paths to inside paths.
    ToGuest,
    /// From inside paths to outside paths.
    ToHost,
}

/// Maximum nesting depth of JSON to map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxDepth(pub usize);

impl Default for MaxDepth {
    /// Returns 128, the usual limit of JSON parsers.
    fn default() -> Self {
        Self(128)
    }
}

/// Error for a JSON value that cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MapJsonError {
    /// A value that nests too deep.
    #[error("JSON nests deeper than {} levels", max.0)]
    TooDeep {
        /// Maximum depth.
        max: MaxDepth,
    },
}

impl<A: MappedPath, B: MappedPath> PathMap<A, B> {
    /// Maps every string in `value` that is, as a whole, an absolute path under a mount.
    ///
    /// All other values stay unchanged: object keys, URLs, globs, flags, regular expressions, lists of paths in one
    /// string, prose, and paths that are under no mount. One trailing `/` of a path is kept.
    ///
    /// # Errors
    /// Returns an error if arrays and objects nest deeper than `max`; no string is mapped in this case.
    pub fn map_json(&self, value: &Value, direction: Direction, max: MaxDepth) -> Result<Value, MapJsonError> {
        self.map_value(value, direction, max, max.0)
    }

    fn map_value(
        &self,
        value: &Value,
        direction: Direction,
        max: MaxDepth,
        remaining_depth: usize,
    ) -> Result<Value, MapJsonError> {
        let deeper = || remaining_depth.checked_sub(1).ok_or(MapJsonError::TooDeep { max });
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
            Value::String(text) => Ok(Value::String(self.map_text(text, direction).unwrap_or_else(|| text.clone()))),
            Value::Array(items) => {
                let remaining_depth = deeper()?;
                let map = |item| self.map_value(item, direction, max, remaining_depth);
                Ok(Value::Array(items.iter().map(map).collect::<Result<_, _>>()?))
            }
            Value::Object(fields) => {
                let remaining_depth = deeper()?;
                let map = |(name, field): (&String, _)| {
                    Ok((name.clone(), self.map_value(field, direction, max, remaining_depth)?))
                };
                Ok(Value::Object(fields.iter().map(map).collect::<Result<_, _>>()?))
            }
        }
    }

    /// Returns the counterpart of `text`, if `text` is a path and has one.
    fn map_text(&self, text: &str, direction: Direction) -> Option<String> {
        if !could_be_path(text) {
            return None;
        }
        // All mounts of a map share the same path rules, so any mount serves as the sample.
        let sample = self.mounts().first()?;
        let (path, slash) = match text.strip_suffix('/') {
            Some(shorter) if !shorter.is_empty() => (shorter, true),
            _ => (text, false),
        };
        let (mut mapped, separator) = match direction {
            Direction::ToGuest => {
                let inside = self.to_guest(&sample.from.parse_with_same_rules(path).ok()?).ok()?;
                (inside.to_string(), inside.separator())
            }
            Direction::ToHost => {
                let outside = self.to_host(&sample.to.parse_with_same_rules(path).ok()?).ok()?;
                (outside.to_string(), outside.separator())
            }
        };
        if slash && !mapped.ends_with(separator) {
            mapped.push(separator);
        }
        Some(mapped)
    }
}

/// Returns true if a string that parses as a path is likely meant as one.
///
/// Globs and regular expressions that start with `/`, and lists such as `/a:/b`, also parse as paths. The characters
/// that identify them may also occur in file names; such a name is left unmapped, which is the safe error. Parentheses,
/// `+` and `$` inside a name do not count, because real names contain them.
fn could_be_path(text: &str) -> bool {
    let rooted = text.starts_with('/') || text.starts_with(r"\\") || is_drive(text);
    let doubled = text.starts_with("//");
    let body = if is_drive(text) { &text[2..] } else { text };
    let glob = body.contains(['*', '?', '[', ']', '{', '}']);
    let regex = body.contains(['^', '|']) || body.contains(".+") || body.ends_with('$');
    let escapes = text.starts_with('/') && text.contains('\\');
    let list = body.contains(":/") || body.contains(":\\") || body.contains(';');
    let lines = body.contains(['\n', '\r']);
    rooted && !(doubled || glob || regex || escapes || list || lines)
}

fn is_drive(text: &str) -> bool {
    let mut chars = text.chars();
    let (letter, colon, slash) = (chars.next(), chars.next(), chars.next());
    letter.is_some_and(|c| c.is_ascii_alphabetic()) && colon == Some(':') && matches!(slash, Some('\\' | '/'))
}

#[cfg(test)]
mod tests;
