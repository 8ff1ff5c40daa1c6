//! Source distributions with an in-tree build backend, which need nothing from an index.

use serde_json::json;

use crate::index::{IndexFile, sdist};

/// Build backend: it writes the members that the source lists and runs the code that the source contains.
const BACKEND: &str = r#"
import json, os, sys, time, zipfile
with open("wheel.json") as file:
    MANIFEST = json.load(file)


def get_requires_for_build_wheel(settings=None):
    return MANIFEST["build_requires"]


def build_wheel(directory, settings=None, metadata=None):
    name = MANIFEST["file"]
    exec(MANIFEST["build_code"])
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        for member, text in MANIFEST["members"].items():
            wheel.writestr(member, text.replace("BUILT_AT", repr(time.time_ns())))
    return name
"#;

/// Parts of such a source distribution.
pub struct Source<'s> {
    pub name: &'s str,
    /// Tag of the wheel.
    pub tag: &'s str,
    /// Requirements of the wheel.
    pub requires: &'s [&'s str],
    /// Build requirements that the backend returns from its hook.
    pub build_requires: &'s [&'s str],
    /// Content of the wheel's only module.
    pub module: &'s str,
    /// Python code that runs during the build.
    pub build_code: &'s str,
    /// File name of the wheel, if it is not the correct one.
    pub file: Option<String>,
    /// Additional members of the wheel.
    pub members: &'s [(&'s str, &'s str)],
}

impl<'s> Source<'s> {
    /// Creates a source whose wheel supports any platform and has a module `NAME` with this content.
    pub fn of(name: &'s str, module: &'s str) -> Self {
        Self {
            name,
            tag: "py3-none-any",
            requires: &[],
            build_requires: &[],
            module,
            build_code: "",
            file: None,
            members: &[],
        }
    }

    /// Returns version 1 with its requirements in static metadata.
    pub fn with_static_metadata(&self) -> IndexFile {
        let needs: String = self.requires.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
        self.index_file(&[("PKG-INFO", &format!("Metadata-Version: 2.2\nName: {}\nVersion: 1\n{needs}", self.name))])
    }

    /// Returns version 1 with its requirements only in the wheel.
    pub fn with_dynamic_metadata(&self) -> IndexFile {
        let info = format!("Metadata-Version: 2.2\nName: {}\nVersion: 1\nDynamic: Requires-Dist\n", self.name);
        self.index_file(&[("PKG-INFO", &info)])
    }

    /// Returns version 1 with static metadata that omits the wheel's requirements.
    pub fn with_wrong_metadata(&self) -> IndexFile {
        self.index_file(&[("PKG-INFO", &format!("Metadata-Version: 2.2\nName: {}\nVersion: 1\n", self.name))])
    }

    fn index_file(&self, files: &[(&str, &str)]) -> IndexFile {
        let Self { name, tag, requires, build_requires, module, build_code, file, members } = self;
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
        let manifest =
            json!({"file": file, "build_requires": build_requires, "build_code": build_code, "members": all})
                .to_string();
        let project = "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";
        let fixed_files = [("pyproject.toml", project), ("backend.py", BACKEND), ("wheel.json", manifest.as_str())];
        sdist(name, "1", &[&fixed_files, files].concat())
    }
}
