//! `codebox image`.

use std::fs;

use crate::support::{assert_one_line, folder, lock_images, run_in};

#[test]
fn lists_built_in_images() {
    let listing = run_in(folder().path(), &["image", "list"]).stdout_text();
    for name in ["python ", "python-data "] {
        assert!(listing.lines().any(|line| line.starts_with(name) && line.contains("built in")), "{listing}");
    }
}

#[test]
fn configured_image_applies_to_its_language_only() {
    let dir = folder();
    fs::write(dir.path().join("codebox.toml"), "image = \"python-data\"\n").expect("a file");
    for (language, code, image) in [("python", "print(1)", "python-data"), ("js", "console.log(1)", "javascript")] {
        let result = run_in(dir.path(), &["-v", "run", "--lang", language, "-c", code]);
        assert_eq!((result.code, result.stdout_text().as_str()), (Some(0), "1\n"), "{}", result.stderr_text());
        assert!(result.stderr_text().contains(&format!(", image {image}, ")), "{}", result.stderr_text());
    }
    let result = run_in(dir.path(), &["run", "--lang", "js", "--image", "python-data", "-c", "1"]);
    assert_one_line(&result, 125, "unknown image \"python-data\" for javascript; available: javascript");
    for (image, message) in [
        ("no-such-image", "the configuration sets image to \"no-such-image\""),
        ("node:22", "not the name of a memory image"),
    ] {
        fs::write(dir.path().join("codebox.toml"), format!("image = \"{image}\"\n")).expect("a file");
        assert_one_line(&run_in(dir.path(), &["run", "-c", "print(1)"]), 125, message);
    }
}

#[test]
fn builds_uses_and_removes_image() {
    let _image_lock = lock_images();
    let dir = folder();
    let name = format!("test-{}", std::process::id());
    let built = run_in(dir.path(), &["image", "build", &name, "--import", "wave,colorsys,lxml.etree"]);
    assert_eq!(built.code, Some(0), "{}", built.stderr_text());
    assert!(built.stderr_text().contains(&format!("codebox run --image {name}")), "{}", built.stderr_text());
    let listed = run_in(dir.path(), &["image", "list"]).stdout_text();
    assert!(listed.lines().any(|line| line.starts_with(&name) && line.contains("colorsys")), "{listed}");
    // lxml is in a part of the code with which no image of the runtime starts.
    let program = "import sys; from lxml import etree
print('wave' in sys.modules, etree.fromstring('<a/>').tag, sys.argv)";
    let result = run_in(dir.path(), &["run", "--image", &name, "-c", program]);
    assert_eq!(result.stdout_text(), "True a ['-c']\n", "{}", result.stderr_text());
    let removed = run_in(dir.path(), &["image", "remove", &name]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr_text());
    assert_eq!(run_in(dir.path(), &["run", "--image", &name, "-c", "1"]).code, Some(125));
    assert_one_line(&run_in(dir.path(), &["image", "remove", &name]), 125, &name);
}
