//! `codebox image`.

use crate::support::{folder, lock_images, run_in};

#[test]
fn lists_built_in_images() {
    let listing = run_in(folder().path(), &["image", "list"]).stdout_text();
    for name in ["python ", "python-data "] {
        assert!(listing.lines().any(|line| line.starts_with(name) && line.contains("built in")), "{listing}");
    }
}

#[test]
fn builds_uses_and_removes_image() {
    let _image_lock = lock_images();
    let dir = folder();
    let name = format!("test-{}", std::process::id());
    let built = run_in(dir.path(), &["image", "build", &name, "--import", "wave,colorsys"]);
    assert_eq!(built.code, Some(0), "{}", built.stderr_text());
    assert!(built.stderr_text().contains(&format!("codebox run --image {name}")), "{}", built.stderr_text());
    let listed = run_in(dir.path(), &["image", "list"]).stdout_text();
    assert!(listed.lines().any(|line| line.starts_with(&name) && line.contains("colorsys")), "{listed}");
    let program = "import sys; print('wave' in sys.modules, sys.argv)";
    let result = run_in(dir.path(), &["run", "--image", &name, "-c", program]);
    assert_eq!(result.stdout_text(), "True ['-c']\n", "{}", result.stderr_text());
    let removed = run_in(dir.path(), &["image", "remove", &name]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr_text());
    assert_eq!(run_in(dir.path(), &["run", "--image", &name, "-c", "1"]).code, Some(125));
    assert_eq!(run_in(dir.path(), &["image", "remove", &name]).code, Some(0));
}
