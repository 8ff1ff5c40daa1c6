//! Source distributions that build themselves, by a backend in them, so that they need nothing of an index.

use serde_json::json;

use crate::index::{Offered, sdist};

/// What builds their wheels: it writes the members that the source names, and runs what the source has it run.
const BACKEND: &str = r#"
import json, os, sys, time, zipfile
with open("wheel.json") as file:
    SAID = json.load(file)


def get_requires_for_build_wheel(settings=None):
    return SAID["wants"]


def build_wheel(directory, settings=None, metadata=None):
    name = SAID["file"]
    exec(SAID["runs"])
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        for member, text in SAID["members"].items():
            wheel.writestr(member, text.replace("BUILT_AT", repr(time.time_ns())))
    return name
"#;

/// The parts of such a source distribution.
pub struct Source<'s> {
    pub name: &'s str,
    /// The wheel's tag.
    pub tag: &'s str,
    /// What the wheel needs.
    pub requires: &'s [&'s str],
    /// What the build says that it needs, once it is asked.
    pub wants: &'s [&'s str],
    /// What the wheel's one module is.
    pub module: &'s str,
    /// What the build runs, in Python.
    pub runs: &'s str,
    /// What the wheel is called, where it is not called as it should be.
    pub file: Option<String>,
    /// Further members of the wheel.
    pub members: &'s [(&'s str, &'s str)],
}

impl<'s> Source<'s> {
    /// One whose wheel is for any platform and has a module `NAME` with these words.
    pub fn of(name: &'s str, module: &'s str) -> Self {
        Self { name, tag: "py3-none-any", requires: &[], wants: &[], module, runs: "", file: None, members: &[] }
    }

    /// Version 1 of it, with what its wheel needs told beforehand.
    pub fn stated(&self) -> Offered {
        let needs: String = self.requires.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
        self.offered(&[("PKG-INFO", &format!("Metadata-Version: 2.2\nName: {}\nVersion: 1\n{needs}", self.name))])
    }

    /// The same, where only the wheel tells what it needs.
    pub fn unstated(&self) -> Offered {
        let info = format!("Metadata-Version: 2.2\nName: {}\nVersion: 1\nDynamic: Requires-Dist\n", self.name);
        self.offered(&[("PKG-INFO", &info)])
    }

    /// The same, where what is told beforehand is that its wheel needs nothing.
    pub fn misstated(&self) -> Offered {
        self.offered(&[("PKG-INFO", &format!("Metadata-Version: 2.2\nName: {}\nVersion: 1\n", self.name))])
    }

    fn offered(&self, files: &[(&str, &str)]) -> Offered {
        let Self { name, tag, requires, wants, module, runs, file, members } = self;
        let stem = name.replace('-', "_");
        let needs: String = requires.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
        let mut all = serde_json::Map::from_iter([
            (format!("{stem}.py"), json!(module)),
            (
                format!("{stem}-1.dist-info/METADATA"),
                json!(format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{needs}")),
            ),
            (format!("{stem}-1.dist-info/WHEEL"), json!(format!("Wheel-Version: 1.0\nTag: {tag}\n"))),
            (format!("{stem}-1.dist-info/RECORD"), json!("")),
        ]);
        all.extend(members.iter().map(|(name, text)| ((*name).to_owned(), json!(text))));
        let file = file.clone().unwrap_or_else(|| format!("{stem}-1-{tag}.whl"));
        let said = json!({"file": file, "wants": wants, "runs": runs, "members": all}).to_string();
        let project = "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";
        let own = [("pyproject.toml", project), ("backend.py", BACKEND), ("wheel.json", said.as_str())];
        sdist(name, "1", &[&own, files].concat())
    }
}
