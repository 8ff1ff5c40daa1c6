//! `codebox image`.

use crate::support::{folder, images, run_in};

#[test]
fn list_has_the_built_in_ones() {
    let told = run_in(folder().path(), &["image", "list"]).stdout_text();
    for name in ["python ", "python-data "] {
        assert!(told.lines().any(|line| line.starts_with(name) && line.contains("built in")), "{told}");
    }
}

#[test]
fn an_image_is_built_used_and_removed() {
    let _images = images();
    let place = folder();
    let name = format!("test-{}", std::process::id());
    let built = run_in(place.path(), &["image", "build", &name, "--import", "wave,colorsys"]);
    assert_eq!(built.code, Some(0), "{}", built.stderr_text());
    assert!(built.stderr_text().contains(&format!("codebox run --image {name}")), "{}", built.stderr_text());
    let listed = run_in(place.path(), &["image", "list"]).stdout_text();
    assert!(listed.lines().any(|line| line.starts_with(&name) && line.contains("colorsys")), "{listed}");
    let program = "import sys; print('wave' in sys.modules, sys.argv)";
    let ran = run_in(place.path(), &["run", "--image", &name, "-c", program]);
    assert_eq!(ran.stdout_text(), "True ['-c']\n", "{}", ran.stderr_text());
    let removed = run_in(place.path(), &["image", "remove", &name]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr_text());
    assert_eq!(run_in(place.path(), &["run", "--image", &name, "-c", "1"]).code, Some(125));
    assert_eq!(run_in(place.path(), &["image", "remove", &name]).code, Some(0));
}
