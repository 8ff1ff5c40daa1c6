//! Mounts in a description.
//!
//! Engines read a mount in more ways than one: keys in upper case, values in quotation marks, the same key twice. Only a few plain forms
//! are recognized here, and everything else counts as a directory of the machine.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// A mount in a plain form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PlainMount {
    /// Temporary file system.
    Temporary,
    /// Directory of the machine.
    Dir(PathBuf),
}

/// Returns a mount in a plain form: an object, or the text of the engine's option `--mount`.
pub(crate) fn plain_mount(value: &Value) -> Option<PlainMount> {
    let fields: Vec<(&str, &str)> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect::<Option<_>>()?
        }
        Value::String(text) => text.split(',').map(|part| part.split_once('=')).collect::<Option<_>>()?,
        _ => return None,
    };
    let is_plain = |text: &str| !text.is_empty() && !text.contains([',', '"', '\'', '\\', '=']) && text.trim() == text;
    let (mut kind, mut source, mut target) = (None, None, None);
    for (name, value) in fields {
        let field = match name {
            "type" => &mut kind,
            "source" => &mut source,
            "target" => &mut target,
            "consistency" if matches!(value, "consistent" | "cached" | "delegated") => continue,
            _ => return None,
        };
        if !is_plain(value) || value.chars().any(char::is_control) || field.replace(value).is_some() {
            return None;
        }
    }
    target.filter(|target| target.starts_with('/'))?;
    match (kind, source) {
        (Some("tmpfs"), None) => Some(PlainMount::Temporary),
        (Some("bind"), Some(source)) if source.starts_with('/') => Some(PlainMount::Dir(PathBuf::from(source))),
        _ => None,
    }
}

/// Describes a mount.
pub(crate) fn shown(value: &Value) -> String {
    if let Value::Object(fields) = value {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        if let (Some(source), Some(target)) = (text("source"), text("target")) {
            return format!("{source} at {target}");
        }
    }
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns true if a path leads into a directory: by its name, and by its links if it exists.
pub(crate) fn leads_into(path: &Path, dir: &Path) -> bool {
    if !without_dots(path).starts_with(dir) {
        return false;
    }
    match path.canonicalize() {
        Ok(real) => real.starts_with(dir),
        // A link that leads nowhere may lead elsewhere later.
        Err(_) => path.ancestors().take_while(|above| *above != dir).all(|above| !above.is_symlink()),
    }
}

/// Returns a path without `.` and `..`, which are removed by name.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_plain_forms_are_recognized() {
        let dir = |path: &str| Some(PlainMount::Dir(path.into()));
        for (mount, expected) in [
            (json!("type=bind,source=/home/me,target=/x"), dir("/home/me")),
            (json!("type=bind,source=/home/me,target=/x,consistency=cached"), dir("/home/me")),
            (json!({"type": "bind", "source": "/home/me", "target": "/x"}), dir("/home/me")),
            (json!("type=tmpfs,target=/x"), Some(PlainMount::Temporary)),
            // Docker reads keys without regard to case, and fields as those of a table of comma-separated values.
            (json!("type=tmpfs,TYPE=bind,SOURCE=/,target=/x"), None),
            (json!("type=tmpfs,target=/x,\"type=bind\",\"source=/\""), None),
            (json!({"type": "tmpfs", "target": "/x,type=bind,source=/"}), None),
            (json!({"type": "tmpfs", "target": "/x", "Type": "bind"}), None),
            (json!("type=bind,source=/home/me,target=/x,source=/"), None),
            (json!("type=bind,source=/home/me,src=/,target=/x"), None),
            (json!("type=volume,source=v,target=/x"), None),
            (json!("source=v,target=/x"), None),
            (json!("type=bind,source=me,target=/x"), None),
            (json!("type=bind,source=/me,target=/x,readonly"), None),
            (json!("type=bind,source=/me\n,target=/x"), None),
            (json!(["type=tmpfs,target=/x"]), None),
            (json!(1), None),
        ] {
            assert_eq!(plain_mount(&mount), expected, "{mount}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn links_lead_elsewhere() {
        let dir = tempfile::tempdir().expect("a directory");
        let (root, inside) = (dir.path().canonicalize().expect("a path"), dir.path().join("project/inside"));
        std::fs::create_dir_all(&inside).expect("a directory");
        let project = root.join("project");
        std::os::unix::fs::symlink("/", project.join("link")).expect("a link");
        std::os::unix::fs::symlink("/nonexistent", project.join("dangling")).expect("a link");
        for (path, expected) in [
            (project.clone(), true),
            (project.join("inside"), true),
            (project.join("inside/.."), true),
            (project.join("link"), false),
            (project.join(".."), false),
            (project.join("missing"), true),
            (project.join("dangling"), false),
            (project.join("dangling/x"), false),
            (root.join("project2"), false),
        ] {
            assert_eq!(leads_into(&path, &project), expected, "{}", path.display());
        }
    }
}
