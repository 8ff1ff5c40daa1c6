//! Layout of a wheel's members as files that an interpreter can import.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr as _;

use uv_pep440::Version;

use super::{PROGRAMS, StoreError, tree};
use crate::metadata::MAX_METADATA_SIZE;
use crate::wheel::Wheel;

/// Modules that an interpreter runs by itself when it starts. They are removed from every package.
const STARTUP_MODULES: [&str; 2] = ["sitecustomize", "usercustomize"];

/// Maximum number of bytes of a METADATA that are searched for headers.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Arranges an unpacked wheel: modules and metadata at `modules`, programs in the directory next to it. Headers, data
/// files, `.pth` files and modules that an interpreter would run at startup are left out.
pub(super) fn install(wheel: &Wheel, unpacked_dir: &Path, modules: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(modules).map_err(StoreError::io("create", modules))?;
    let entries = fs::read_dir(unpacked_dir).map_err(StoreError::io("read", unpacked_dir))?;
    for entry in entries {
        let path = entry.map_err(StoreError::io("read", unpacked_dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let module = name.split('.').next().unwrap_or(&name);
        if STARTUP_MODULES.contains(&module) || name.ends_with(".pth") {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(StoreError::io("remove", &path))?;
        } else if name.ends_with(".data") {
            for part in ["purelib", "platlib"] {
                let part = path.join(part);
                if part.is_dir() {
                    // The same rules apply to the directories that are installed to other paths.
                    install_data_dir(&part, modules)?;
                }
            }
            let programs = path.join("scripts");
            if programs.is_dir() {
                tree::move_tree(&programs, &modules.with_file_name(PROGRAMS))
                    .map_err(StoreError::io("move", &programs))?;
            }
            fs::remove_dir_all(&path).map_err(StoreError::io("remove", &path))?;
        }
    }
    tree::move_tree(unpacked_dir, modules).map_err(StoreError::io("move", unpacked_dir))?;
    // This check needs the final tree, with the parts from the data directory.
    check_name_and_version(wheel, modules)
}

/// Refuses a wheel whose metadata below `tree` names another package or version: a hash proves only that the content is
/// the expected one.
pub(super) fn check_name_and_version(wheel: &Wheel, tree: &Path) -> Result<(), StoreError> {
    let refused = |reason: String| StoreError::Wheel { wheel: wheel.file.clone(), reason };
    let text = metadata(wheel, tree)?;
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_HEADER_BYTES)]);
    let named = |field: &str| {
        let headers = text.lines().take_while(|line| !line.is_empty());
        let mut lines = headers.filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(field)).map(|(_, value)| value.trim()).unwrap_or_default()
    };
    let (name, version) = (normalized(named("Name")), named("Version"));
    if name != normalized(&wheel.name) {
        return Err(refused(format!("its metadata is for package {name:?}, expected {:?}", wheel.name)));
    }
    let (found, expected) = (Version::from_str(version), Version::from_str(&wheel.version));
    match (found, expected) {
        (Ok(found), Ok(expected)) if found == expected => Ok(()),
        _ => Err(refused(format!("its metadata is for version {version:?}, expected {:?}", wheel.version))),
    }
}

/// Reads the METADATA of a wheel whose files are below `tree`.
pub(super) fn metadata(wheel: &Wheel, tree: &Path) -> Result<Vec<u8>, StoreError> {
    let refused = |reason: &str| StoreError::Wheel { wheel: wheel.file.clone(), reason: reason.to_owned() };
    let mut dist_info = None;
    for name in crate::disk::names(tree) {
        if name.ends_with(".dist-info") && dist_info.replace(name).is_some() {
            return Err(refused("it has more than one .dist-info directory"));
        }
    }
    let dist_info = dist_info.ok_or_else(|| refused("its .dist-info directory is missing"))?;
    let mut text = Vec::new();
    let file = File::open(tree.join(dist_info).join("METADATA"));
    let read = file.and_then(|file| file.take(MAX_METADATA_SIZE + 1).read_to_end(&mut text));
    read.map_err(|_| refused("its METADATA is missing"))?;
    match text.len() as u64 > MAX_METADATA_SIZE {
        true => Err(refused("its METADATA is larger than 1 MiB")),
        false => Ok(text),
    }
}

fn install_data_dir(part: &Path, modules: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(part).map_err(StoreError::io("read", part))? {
        let path = entry.map_err(StoreError::io("read", part))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if STARTUP_MODULES.contains(&name.split('.').next().unwrap_or(&name)) || name.ends_with(".pth") {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(StoreError::io("remove", &path))?;
        }
    }
    tree::move_tree(part, modules).map_err(StoreError::io("move", part))
}

/// Normalizes a package name as indexes do.
fn normalized(name: &str) -> String {
    let mut normalized = String::new();
    for c in name.trim().chars() {
        match c {
            '-' | '_' | '.' if normalized.ends_with('-') => {}
            '-' | '_' | '.' => normalized.push('-'),
            c => normalized.extend(c.to_lowercase()),
        }
    }
    normalized
}
