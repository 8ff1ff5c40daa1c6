use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

use super::guest::GuestPath;
use super::host::HostPath;
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

/// Marks of a JSON Schema for the strings of a value that are paths: the keyword `x-codebox-path`, which is true for a string that is
/// always a path and false for one that never is.
///
/// The marks are those of `properties`, `additionalProperties`, `items`, `prefixItems`, `allOf`, `anyOf` and `oneOf`. References to other parts of a
/// schema are not followed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathMarks {
    is_path: Option<bool>,
    properties: BTreeMap<String, PathMarks>,
    additional: Option<Box<PathMarks>>,
    prefix_items: Vec<PathMarks>,
    items: Option<Box<PathMarks>>,
}

/// Keyword of a schema for strings that are paths.
const PATH_KEYWORD: &str = "x-codebox-path";

/// Marks of values that the schema does not describe.
static NO_MARKS: PathMarks =
    PathMarks { is_path: None, properties: BTreeMap::new(), additional: None, prefix_items: Vec::new(), items: None };

impl PathMarks {
    /// Returns the marks of a schema.
    #[must_use]
    pub fn of_schema(schema: &Value) -> Self {
        let mut marks = Self::default();
        marks.add(schema, MaxDepth::default().0);
        marks
    }

    fn add(&mut self, schema: &Value, remaining_depth: usize) {
        let (Value::Object(schema), Some(remaining_depth)) = (schema, remaining_depth.checked_sub(1)) else { return };
        self.is_path = schema.get(PATH_KEYWORD).and_then(Value::as_bool).or(self.is_path);
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            self.properties.entry(name.clone()).or_default().add(property, remaining_depth);
        }
        for (keyword, marks) in [("additionalProperties", &mut self.additional), ("items", &mut self.items)] {
            if let Some(part) = schema.get(keyword).filter(|part| part.is_object()) {
                marks.get_or_insert_default().add(part, remaining_depth);
            }
        }
        for (index, part) in schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten().enumerate() {
            if self.prefix_items.len() <= index {
                self.prefix_items.push(Self::default());
            }
            self.prefix_items[index].add(part, remaining_depth);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let parts = schema.get(keyword).and_then(Value::as_array);
            parts.into_iter().flatten().for_each(|part| self.add(part, remaining_depth));
        }
    }

    fn of_field(&self, name: &str) -> &Self {
        self.properties.get(name).or(self.additional.as_deref()).unwrap_or(&NO_MARKS)
    }

    fn of_item(&self, index: usize) -> &Self {
        self.prefix_items.get(index).or(self.items.as_deref()).unwrap_or(&NO_MARKS)
    }
}

/// Error for a JSON value that cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MapJsonError {
    /// A string that the schema marks as a path, and that is no absolute path under a mount.
    #[error("{pointer}: the path {path:?} is in no granted directory")]
    NotMapped {
        /// JSON pointer of the string.
        pointer: String,
        /// The string.
        path: String,
    },
    /// A value that nests too deep.
    #[error("JSON nests deeper than {} levels", max.0)]
    TooDeep {
        /// Maximum depth.
        max: MaxDepth,
    },
}

// For one pair of types, so that the code is compiled here, with the optimisation of this crate.
impl PathMap<HostPath, GuestPath> {
    /// Maps every string in `value` that is, as a whole, an absolute path under a mount.
    ///
    /// All other values stay unchanged: object keys, URLs, globs, flags, regular expressions, lists of paths in one
    /// string, prose, and paths that are under no mount. One trailing `/` of a path is kept.
    ///
    /// # Errors
    /// Returns an error if arrays and objects nest deeper than `max`.
    pub fn map_json(&self, value: Value, direction: Direction, max: MaxDepth) -> Result<Value, MapJsonError> {
        self.map_marked_json(value, direction, max, &NO_MARKS)
    }

    /// Maps a value as [`map_json`](Self::map_json) does, with the marks of its schema: a string that is marked as a path has to be mapped, and
    /// one that is marked as none stays unchanged.
    ///
    /// # Errors
    /// As for [`map_json`](Self::map_json), and the first marked path that is under no mount, with its JSON pointer.
    pub fn map_marked_json(
        &self,
        mut value: Value,
        direction: Direction,
        max: MaxDepth,
        marks: &PathMarks,
    ) -> Result<Value, MapJsonError> {
        self.map_value(&mut value, Mapping { direction, max }, max.0, marks, &mut Vec::new())?;
        Ok(value)
    }

    /// Maps a value at a place: the names and numbers that lead to it.
    fn map_value<'v>(
        &self,
        value: &'v mut Value,
        mapping: Mapping,
        remaining_depth: usize,
        marks: &PathMarks,
        place: &mut Vec<Step<'v>>,
    ) -> Result<(), MapJsonError> {
        let deeper = || remaining_depth.checked_sub(1).ok_or(MapJsonError::TooDeep { max: mapping.max });
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => {
                if marks.is_path.unwrap_or_else(|| could_be_path(text)) {
                    match self.map_path(text, mapping.direction) {
                        Some(mapped) => *text = mapped,
                        None if marks.is_path == Some(true) => {
                            return Err(MapJsonError::NotMapped { pointer: pointer(place), path: text.clone() });
                        }
                        None => {}
                    }
                }
            }
            Value::Array(items) => {
                let remaining_depth = deeper()?;
                for (index, item) in items.iter_mut().enumerate() {
                    place.push(Step::Item(index));
                    self.map_value(item, mapping, remaining_depth, marks.of_item(index), place)?;
                    place.pop();
                }
            }
            Value::Object(fields) => {
                let remaining_depth = deeper()?;
                for (name, field) in fields {
                    place.push(Step::Field(name));
                    self.map_value(field, mapping, remaining_depth, marks.of_field(name), place)?;
                    place.pop();
                }
            }
        }
        Ok(())
    }

    /// Returns the counterpart of a path, if it has one.
    fn map_path(&self, text: &str, direction: Direction) -> Option<String> {
        // All mounts of a map share the same path rules, so any mount serves as the sample.
        let sample = self.mounts().first()?;
        let (path, slash) = match text.strip_suffix('/') {
            Some(shorter) if !shorter.is_empty() => (shorter, true),
            _ => (text, false),
        };
        let (mut mapped, separator) = match direction {
            Direction::ToGuest => {
                let inside = self.to_guest(&sample.from.parse_with_same_rules(path).ok()?).ok()?;
                let separator = inside.separator();
                (inside.into_string(), separator)
            }
            Direction::ToHost => {
                let path = without_empty_components(path);
                let outside = self.to_host(&sample.to.parse_with_same_rules(&path).ok()?).ok()?;
                let separator = outside.separator();
                (outside.into_string(), separator)
            }
        };
        if slash && !mapped.ends_with(separator) {
            mapped.push(separator);
        }
        Some(mapped)
    }
}

/// Removes the empty and `.` components of a guest path, as programs write them that join names with `/`. Components `..` stay: where they
/// lead depends on links of the guest.
fn without_empty_components(path: &str) -> Cow<'_, str> {
    let is_plain = !path.contains("//") && !path.contains("/.") && !path.ends_with('/');
    if is_plain || path.starts_with("//") || !path.starts_with('/') {
        return path.into();
    }
    let components = path.split('/').filter(|component| !matches!(*component, "" | "."));
    components.fold(String::new(), |path, component| path + "/" + component).into()
}

/// Direction and maximum depth of a mapping.
#[derive(Clone, Copy)]
struct Mapping {
    direction: Direction,
    max: MaxDepth,
}

/// Step to a part of a value.
#[derive(Clone, Copy)]
enum Step<'v> {
    Field(&'v str),
    Item(usize),
}

/// Returns the JSON pointer (RFC 6901) of a place.
fn pointer(place: &[Step<'_>]) -> String {
    place.iter().fold(String::new(), |pointer, step| match step {
        Step::Field(name) => pointer + "/" + &name.replace('~', "~0").replace('/', "~1"),
        Step::Item(index) => format!("{pointer}/{index}"),
    })
}

/// Returns true if a string that parses as a path is likely meant as one.
///
/// Globs and regular expressions that start with `/`, and lists such as `/a:/b`, also parse as paths. The characters
/// that identify them may also occur in file names; such a name is left unmapped, which is the safe error. Parentheses,
/// `+` and `$` inside a name do not count, because real names contain them.
#[expect(clippy::needless_bitwise_bool, reason = "lazy operators keep the loop from using vector instructions")]
fn could_be_path(text: &str) -> bool {
    let is_drive = is_drive(text);
    let is_rooted = text.starts_with('/') || text.starts_with(r"\\") || is_drive;
    if !is_rooted || text.starts_with("//") || text.ends_with('$') {
        return false;
    }
    let has_escapes = text.starts_with('/');
    let bytes = if is_drive { &text.as_bytes()[2..] } else { text.as_bytes() };
    // Without branches, so that it takes vector instructions. All of these bytes follow the first one, which is a separator.
    !bytes.iter().zip(&bytes[1..]).fold(false, |found, (&previous, &byte)| {
        let is_separator = (byte == b'/') | (byte == b'\\');
        let is_glob = is_any(byte, *b"*?[]{}");
        let is_regex = is_any(byte, *b"^|") | ((previous == b'.') & (byte == b'+')) | (has_escapes & (byte == b'\\'));
        let is_list = (byte == b';') | ((previous == b':') & is_separator);
        found | is_glob | is_regex | is_list | is_any(byte, *b"\n\r")
    })
}

#[expect(clippy::needless_bitwise_bool, reason = "as in `could_be_path`")]
fn is_any<const N: usize>(byte: u8, of: [u8; N]) -> bool {
    of.iter().fold(false, |found, &each| found | (byte == each))
}

fn is_drive(text: &str) -> bool {
    let mut chars = text.chars();
    let (letter, colon, slash) = (chars.next(), chars.next(), chars.next());
    letter.is_some_and(|c| c.is_ascii_alphabetic()) && colon == Some(':') && matches!(slash, Some('\\' | '/'))
}

#[cfg(test)]
mod tests;
