//! Unpacking of selected members.

use std::fs;
use std::path::Path;

use codebox_packages::UnpackError;

use crate::support::{is_empty, wheel};
use crate::unpacking::Case;

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
fn takes_out_what_is_selected_and_nothing_else() {
    let case = Case::new(&wheel());
    let select = ["tiny_runtime/artifacts/MANIFEST", "tiny_runtime/artifacts/LICENSES/"];
    fs::create_dir(case.out()).expect("an empty directory is no hindrance");
    case.unpack(&select).expect("the members");
    let expected = [
        ("tiny_runtime/artifacts/LICENSES/deep/two", "second licence"),
        ("tiny_runtime/artifacts/LICENSES/one", "first licence"),
        ("tiny_runtime/artifacts/MANIFEST", "manifest"),
    ];
    assert_eq!(tree(&case.out()), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    assert_eq!(fs::read_dir(case.room.path()).expect("a directory").count(), 1);
    assert!(matches!(case.unpack(&select), Err(UnpackError::Occupied(_))));
}

#[test]
fn a_member_that_is_not_there_is_named() {
    for wanted in ["tiny_runtime/nothing", "tiny_runtime/artifacts", "elsewhere/"] {
        let case = Case::new(&wheel());
        let error = case.unpack(&["tiny_runtime/artifacts/MANIFEST", wanted]).expect_err("missing");
        assert!(matches!(&error, UnpackError::Missing(name) if name == wanted), "{error}");
        assert!(is_empty(case.room.path()));
    }
}
