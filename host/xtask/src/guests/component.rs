//! Two build steps of a component guest: C bindings for the contract, and the component around a core module.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as WASI, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;
use wit_component::ComponentEncoder;

/// World that a runtime exports.
const WORLD: &str = "runtime";

/// Writes the C bindings of the world in `wit_dir` to `out_dir`: a source, its header, and an object with the world's
/// type.
///
/// The linker copies the world from the object into the core module, where [`component`] finds it. Existing files are
/// overwritten, and a missing directory is created.
///
/// # Errors
/// Fails if the package cannot be read or has no such world, or if the files cannot be written.
pub fn bindings(wit_dir: &Path, out_dir: &Path) -> Result<()> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit_dir).with_context(|| format!("read the package {}", wit_dir.display()))?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    let mut files = Files::default();
    wit_bindgen_c::Opts::default().build().generate(&mut resolve, world, &mut files)?;
    fs::create_dir_all(out_dir).with_context(|| format!("make {}", out_dir.display()))?;
    for (name, text) in files.iter() {
        let path = out_dir.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Wraps a core module that was linked with [`bindings`] and imports WASI preview 1 in a component.
///
/// The adapter in the component maps those imports to WASI 0.2. The result is validated, contains no trace of the tools
/// that made it, and depends only on the module and the versions of the dependencies.
///
/// # Errors
/// Fails if the input is not such a module.
pub fn component(core: &[u8]) -> Result<Vec<u8>> {
    let component_bytes = ComponentEncoder::default()
        .module(core)
        .context("read the core module")?
        .adapter(WASI, ADAPTER)
        .context("read the WASI adapter")?
        .validate(true)
        .encode()
        .context("create a component from the core module")?;
    strip_metadata(&component_bytes)
}

/// Ids of the component sections that contain a core module or a component.
const NESTED: [u8; 2] = [1, 4];

/// Bytes after the magic number of a component.
const COMPONENT: [u8; 4] = [0x0d, 0, 1, 0];

/// Removes names and the list of producers from a binary and its nested modules.
///
/// The list of producers contains tool versions, which may change without a change of the output.
fn strip_metadata(binary: &[u8]) -> Result<Vec<u8>> {
    let (header, mut rest) = binary.split_at_checked(8).context("a binary ends inside its header")?;
    let nests = header[4..] == COMPONENT;
    let mut out = header.to_vec();
    while let [id, after @ ..] = rest {
        let (size, after) = read_leb128(after)?;
        let (body, next) = after.split_at_checked(size).context("a section is longer than its binary")?;
        rest = next;
        let inner = if nests && NESTED.contains(id) { strip_metadata(body)? } else { body.to_vec() };
        if *id == 0 && is_build_metadata(body)? {
            continue;
        }
        out.push(*id);
        push_leb128(&mut out, inner.len());
        out.extend(inner);
    }
    Ok(out)
}

/// Returns true if the custom section with this body holds names or the list of producers.
fn is_build_metadata(body: &[u8]) -> Result<bool> {
    let (size, rest) = read_leb128(body)?;
    let name = rest.get(..size).context("the name of a section is longer than the section")?;
    Ok(matches!(name, b"name" | b"component-name" | b"producers"))
}

/// Reads the LEB128 number at the start of `bytes` and returns it with the remaining bytes.
fn read_leb128(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[at + 1..]));
        }
    }
    bail!("a length in a binary has no end")
}

/// Appends a number in LEB128.
fn push_leb128(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a section with an id and a body.
    fn section(id: u8, body: &[u8]) -> Vec<u8> {
        let mut section = vec![id];
        push_leb128(&mut section, body.len());
        section.extend(body);
        section
    }

    /// Encodes a custom section with a name.
    fn custom(name: &str, body: &[u8]) -> Vec<u8> {
        let mut named = Vec::new();
        push_leb128(&mut named, name.len());
        named.extend(name.as_bytes());
        named.extend(body);
        section(0, &named)
    }

    fn binary(version: [u8; 4], sections: &[Vec<u8>]) -> Vec<u8> {
        [b"\0asm".to_vec(), version.to_vec(), sections.concat()].concat()
    }

    #[test]
    fn leb128_round_trips() -> Result<()> {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0xffff_ffff] {
            let mut bytes = Vec::new();
            push_leb128(&mut bytes, value);
            bytes.push(0xaa);
            assert_eq!(read_leb128(&bytes)?, (value, [0xaa].as_slice()));
        }
        assert!(read_leb128(&[0x80]).is_err());
        Ok(())
    }

    #[test]
    fn strips_build_metadata_at_every_depth() -> Result<()> {
        let producers = custom("producers", &[7; 200]);
        let module =
            |more: &[Vec<u8>]| binary([1, 0, 0, 0], &[&[section(1, &[0]), custom("kept", b"")], more].concat());
        let nesting = |more: &[Vec<u8>], module: &[u8]| {
            let inner = binary(COMPONENT, &[&[section(1, module)], more].concat());
            binary(COMPONENT, &[&[section(4, &inner)], more].concat())
        };
        let whole =
            nesting(&[producers.clone(), custom("component-name", b"")], &module(&[custom("name", b""), producers]));
        assert_eq!(strip_metadata(&whole)?, nesting(&[], &module(&[])));
        assert!(strip_metadata(&whole[..whole.len() - 1]).is_err(), "a binary that was cut off");
        Ok(())
    }

    #[test]
    fn bindings_contain_files_for_the_build() -> Result<()> {
        let folder = tempfile::tempdir()?;
        bindings(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit"), folder.path())?;
        for name in ["runtime.c", "runtime.h", "runtime_component_type.o"] {
            assert!(folder.path().join(name).is_file(), "{name}");
        }
        Ok(())
    }
}
