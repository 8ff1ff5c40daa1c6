//! Unpacking of selected members.

use std::fs;
use std::path::Path;

use codebox_packages::UnpackError;

use crate::support::{is_empty, wheel};
use crate::unpack_support::Case;

/// Returns the name and content of every file below a directory.
fn tree(root: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path.strip_prefix(root).expect("a name").to_string_lossy().into_owned();
                found.push((name, fs::read_to_string(path).expect("a text")));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn unpacks_only_selected_members() {
    let case = Case::new(&wheel());
    let select = ["tiny_runtime/artifacts/MANIFEST", "tiny_runtime/artifacts/LICENSES/"];
    fs::create_dir(case.out()).expect("an empty directory is created");
    case.unpack(&select).expect("the members");
    let expected = [
        ("tiny_runtime/artifacts/LICENSES/deep/two", "second licence"),
        ("tiny_runtime/artifacts/LICENSES/one", "first licence"),
        ("tiny_runtime/artifacts/MANIFEST", "manifest"),
    ];
    assert_eq!(tree(&case.out()), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    assert_eq!(fs::read_dir(case.target_dir.path()).expect("a directory").count(), 1);
    assert!(matches!(case.unpack(&select), Err(UnpackError::Occupied(_))));
}

#[test]
fn reports_missing_member() {
    for selector in ["tiny_runtime/nothing", "tiny_runtime/artifacts", "elsewhere/"] {
        let case = Case::new(&wheel());
        let error = case.unpack(&["tiny_runtime/artifacts/MANIFEST", selector]).expect_err("missing");
        assert!(matches!(&error, UnpackError::Missing(name) if name == selector), "{error}");
        assert!(is_empty(case.target_dir.path()));
    }
}
