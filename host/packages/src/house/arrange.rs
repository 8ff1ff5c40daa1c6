//! Layout of a wheel's members as files that an interpreter can import.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr as _;

use uv_pep440::Version;

use super::{HouseError, PROGRAMS, tree};
use crate::metadata::LARGEST;
use crate::resolve::Wheel;

/// Modules that an interpreter runs by itself when it starts. They are removed from every package.
const STARTS: [&str; 2] = ["sitecustomize", "usercustomize"];

/// Maximum number of bytes of a METADATA that are searched for headers.
const HEAD: usize = 64 << 10;

/// Arranges an unpacked wheel: modules and metadata at `modules`, programs in the directory next to it. Headers, data
/// files, `.pth` files and modules that an interpreter would run at startup are left out.
pub(super) fn arrange(wheel: &Wheel, whole: &Path, modules: &Path) -> Result<(), HouseError> {
    fs::create_dir_all(modules).map_err(HouseError::io("create", modules))?;
    let entries = fs::read_dir(whole).map_err(HouseError::io("read", whole))?;
    for entry in entries {
        let path = entry.map_err(HouseError::io("read", whole))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let module = name.split('.').next().unwrap_or(&name);
        if STARTS.contains(&module) || name.ends_with(".pth") {
            let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            gone.map_err(HouseError::io("remove", &path))?;
        } else if name.ends_with(".data") {
            for part in ["purelib", "platlib"] {
                let part = path.join(part);
                if part.is_dir() {
                    // The same rules apply to the directories that are installed to other paths.
                    arrange_part(&part, modules)?;
                }
            }
            let programs = path.join("scripts");
            if programs.is_dir() {
                tree::moved(&programs, &modules.with_file_name(PROGRAMS)).map_err(HouseError::io("move", &programs))?;
            }
            fs::remove_dir_all(&path).map_err(HouseError::io("remove", &path))?;
        }
    }
    tree::moved(whole, modules).map_err(HouseError::io("move", whole))?;
    // This check needs the final tree, with the parts from the data directory.
    is_what_it_is_called(wheel, modules)
}

/// Refuses a wheel whose metadata below `tree` names another package or version: a hash proves only that the content is
/// the expected one.
pub(super) fn is_what_it_is_called(wheel: &Wheel, tree: &Path) -> Result<(), HouseError> {
    let refused = |reason: String| HouseError::Wheel { wheel: wheel.file.clone(), reason };
    let text = metadata(wheel, tree)?;
    let text = String::from_utf8_lossy(&text[..text.len().min(HEAD)]);
    let named = |field: &str| {
        let head = text.lines().take_while(|line| !line.is_empty());
        let mut lines = head.filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(field)).map(|(_, value)| value.trim()).unwrap_or_default()
    };
    let (name, version) = (plain(named("Name")), named("Version"));
    if name != plain(&wheel.name) {
        return Err(refused(format!("its metadata is for package {name:?}, expected {:?}", wheel.name)));
    }
    let (said, wanted) = (Version::from_str(version), Version::from_str(&wheel.version));
    match (said, wanted) {
        (Ok(said), Ok(wanted)) if said == wanted => Ok(()),
        _ => Err(refused(format!("its metadata is for version {version:?}, expected {:?}", wheel.version))),
    }
}

/// Reads the METADATA of a wheel whose files are below `tree`.
pub(super) fn metadata(wheel: &Wheel, tree: &Path) -> Result<Vec<u8>, HouseError> {
    let refused = |reason: &str| HouseError::Wheel { wheel: wheel.file.clone(), reason: reason.to_owned() };
    let mut described = None;
    for name in crate::disk::names(tree) {
        if name.ends_with(".dist-info") && described.replace(name).is_some() {
            return Err(refused("it has more than one .dist-info directory"));
        }
    }
    let described = described.ok_or_else(|| refused("its .dist-info directory is missing"))?;
    let mut text = Vec::new();
    let file = File::open(tree.join(described).join("METADATA"));
    let read = file.and_then(|file| file.take(LARGEST + 1).read_to_end(&mut text));
    read.map_err(|_| refused("its METADATA is missing"))?;
    match text.len() as u64 > LARGEST {
        true => Err(refused("its METADATA is larger than 1 MiB")),
        false => Ok(text),
    }
}

fn arrange_part(part: &Path, modules: &Path) -> Result<(), HouseError> {
    for entry in fs::read_dir(part).map_err(HouseError::io("read", part))? {
        let path = entry.map_err(HouseError::io("read", part))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if STARTS.contains(&name.split('.').next().unwrap_or(&name)) || name.ends_with(".pth") {
            let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            gone.map_err(HouseError::io("remove", &path))?;
        }
    }
    tree::moved(part, modules).map_err(HouseError::io("move", part))
}

/// Normalizes a package name as indexes do.
fn plain(name: &str) -> String {
    let mut plain = String::new();
    for c in name.trim().chars() {
        match c {
            '-' | '_' | '.' if plain.ends_with('-') => {}
            '-' | '_' | '.' => plain.push('-'),
            c => plain.extend(c.to_lowercase()),
        }
    }
    plain
}
