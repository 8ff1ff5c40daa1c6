//! Description of a checkpoint, and the files of it.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use codebox_core::{PAGES_FILE as PAGES, earlier_pages_file};
use codebox_files::{Dir, create_new_file, open_for_reading};
use serde::{Deserialize, Serialize};

use crate::checkpoint::pages::{MAX_FILES, PAGE_SIZE, PageFile, SavedPages};
use crate::error::WasmError;
use crate::image::{GlobalValue, Globals};

/// Version of the form with one file of pages.
const VERSION: u32 = 1;

/// Version of the form with several of them.
const VERSION_OF_SEVERAL: u32 = 2;

/// File of the description.
const STATE: &str = "state.json";

/// Maximum size of the description. It has two numbers for each range of pages.
const MAX_STATE: u64 = 32 << 20;

/// Maximum time that a guest's clock shows: 100 years.
const MAX_CLOCK: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Bytes of a page of WebAssembly.
const WASM_PAGE_SIZE: u64 = 65_536;

/// State of a guest at rest, in addition to the contents of its memory and its directories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    version: u32,
    /// Name and version of the runtime.
    pub runtime: String,
    /// Memory image that the pages differ from.
    pub image: String,
    /// The sha256 of the image.
    pub image_sha256: String,
    /// Values of the mutable globals, in the order of the image.
    pub globals: Globals,
    /// Number of loaded parts of the code.
    pub parts: usize,
    /// Size of the memory in bytes.
    memory: u64,
    /// Addresses and lengths of the pages in the file that was written last, in ascending order.
    pages: Vec<(u64, u64)>,
    /// The same for the files before, the oldest first. Pages in later files replace those in earlier ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<Vec<(u64, u64)>>,
    /// Bytes written to files so far.
    pub written: u64,
    /// Files created so far.
    pub created: u64,
    /// Time that the guest's monotonic clock shows.
    pub clock: Duration,
}

/// A checkpoint that was read and checked.
pub(crate) struct Restored {
    pub state: State,
    pub size: usize,
    pub pages: SavedPages,
}

/// Values of this machine that a checkpoint has to match.
pub(crate) struct Expected<'a> {
    pub runtime: &'a str,
    pub image: &'a str,
    pub image_sha256: &'a str,
    /// Size of the image in bytes.
    pub image_size: usize,
    pub globals: &'a [GlobalValue],
    /// Number of all parts of the code.
    pub parts: usize,
}

impl State {
    /// Returns the description of the same guest, with the pages that differ from another image.
    pub(crate) fn with_pages(self, image: &str, image_sha256: &str, pages: &[Range<usize>]) -> Self {
        let (image, image_sha256) = (image.to_owned(), image_sha256.to_owned());
        Self { version: VERSION, image, image_sha256, pages: numbers(pages), earlier: Vec::new(), ..self }
    }

    /// Describes the same guest, whose pages are in these files as well, the oldest first.
    pub(crate) fn with_earlier<'p>(self, files: impl Iterator<Item = &'p [Range<usize>]>) -> Self {
        let earlier: Vec<_> = files.map(numbers).collect();
        let version = if earlier.is_empty() { VERSION } else { VERSION_OF_SEVERAL };
        Self { version, earlier, ..self }
    }

    /// Describes a guest with these pages.
    pub(crate) fn new(expected: &Expected<'_>, memory: usize, pages: &[Range<usize>]) -> Self {
        Self {
            version: VERSION,
            runtime: expected.runtime.to_owned(),
            image: expected.image.to_owned(),
            image_sha256: expected.image_sha256.to_owned(),
            globals: Globals::new(),
            parts: 0,
            memory: memory as u64,
            pages: numbers(pages),
            earlier: Vec::new(),
            written: 0,
            created: 0,
            clock: Duration::ZERO,
        }
    }
}

/// Returns the addresses and lengths of pages.
fn numbers(pages: &[Range<usize>]) -> Vec<(u64, u64)> {
    pages.iter().map(|range| (range.start as u64, range.len() as u64)).collect()
}

/// Writes the files of a checkpoint. `write_pages` writes the pages, and returns the description, which is written last, so that a
/// directory without it is incomplete. Files that the checkpoint shares with an earlier one are not written. Returns the file of the pages.
pub(crate) fn write(dir: &Dir, write_pages: impl FnOnce(&File) -> io::Result<State>) -> Result<File, WasmError> {
    let create = |name: &str| create_new_file(dir, name).map_err(failed("create", name));
    let state = write_pages(&create(PAGES)?).map_err(failed("write", PAGES))?;
    let text = serde_json::to_vec(&state).map_err(|error| WasmError::input("the checkpoint", error.to_string()))?;
    io::Write::write_all(&mut create(STATE)?, &text).map_err(failed("write", STATE))?;
    open_for_reading(dir, PAGES).map_err(failed("open", PAGES))
}

/// Returns the conversion of an error about a file of a checkpoint.
fn failed(doing: &'static str, name: &str) -> impl Fn(io::Error) -> WasmError + use<> {
    let path = Path::new("<checkpoint>").join(name);
    move |source| WasmError::Io { doing, path: path.clone(), source }
}

/// Reads a checkpoint.
///
/// # Errors
/// [`WasmError::Io`] if a file cannot be read, [`WasmError::Input`] if the checkpoint is malformed or was made with another
/// runtime or image, with both values.
pub(crate) fn read(dir: &Dir, expected: &Expected<'_>) -> Result<Restored, WasmError> {
    let state = read_state(dir)?;
    let differs = |what: &str, found: &str, own: &str| {
        Err(WasmError::input("the checkpoint", format!("it was made with {what} {found}, and this is {own}")))
    };
    if state.runtime != expected.runtime {
        return differs("the runtime", &printable(&state.runtime), expected.runtime);
    }
    if state.image != expected.image || state.image_sha256 != expected.image_sha256 {
        let name = |image: &str, sha256: &str| format!("{} (sha256 {})", printable(image), printable(sha256));
        let own = name(expected.image, expected.image_sha256);
        return differs("the memory image", &name(&state.image, &state.image_sha256), &own);
    }
    let inconsistent = |name: &str| WasmError::input("the checkpoint", format!("{STATE} and {name} are inconsistent"));
    let size = checked_size(&state, expected).ok_or_else(|| inconsistent(PAGES))?;
    let mut files = Vec::with_capacity(state.earlier.len() + 1);
    for (number, pages) in state.earlier.iter().chain([&state.pages]).enumerate() {
        let name = if number == state.earlier.len() { PAGES.to_owned() } else { earlier_pages_file(number) };
        let file = open_for_reading(dir, &name).map_err(failed("open", &name))?;
        let length = file.metadata().map_err(failed("read", &name))?.len();
        let ranges = checked_ranges(pages, state.memory, length).ok_or_else(|| inconsistent(&name))?;
        files.push(PageFile { file, ranges });
    }
    Ok(Restored { state, size, pages: SavedPages::new(files) })
}

fn read_state(dir: &Dir) -> Result<State, WasmError> {
    let mut text = Vec::new();
    let file = open_for_reading(dir, STATE).map_err(failed("open", STATE))?;
    file.take(MAX_STATE).read_to_end(&mut text).map_err(failed("read", STATE))?;
    let state: State = serde_json::from_slice(&text).map_err(|error| {
        WasmError::input("the checkpoint", format!("{STATE}: {}", error.to_string().escape_debug()))
    })?;
    if !matches!(state.version, VERSION | VERSION_OF_SEVERAL) {
        let detail = format!("its form has version {}, and this codebox reads versions 1 and 2", state.version);
        return Err(WasmError::input("the checkpoint", detail));
    }
    Ok(state)
}

/// Returns the size of the memory; `None` if a number of the description is invalid.
fn checked_size(state: &State, expected: &Expected<'_>) -> Option<usize> {
    let is_same_type = |(one, other): (&GlobalValue, &GlobalValue)| {
        matches!(one, GlobalValue::I32(_)) == matches!(other, GlobalValue::I32(_))
    };
    let are_globals =
        state.globals.len() == expected.globals.len() && state.globals.iter().zip(expected.globals).all(is_same_type);
    let is_size = state.memory.is_multiple_of(WASM_PAGE_SIZE)
        && state.memory >= expected.image_size as u64
        && state.memory <= u64::from(u32::MAX) + 1;
    let is_valid = are_globals
        && is_size
        && state.parts <= expected.parts
        && state.clock <= MAX_CLOCK
        && state.earlier.len() < MAX_FILES;
    usize::try_from(state.memory).ok().filter(|_| is_valid)
}

/// Returns the pages of a file of this length; `None` if they are inconsistent.
fn checked_ranges(pages: &[(u64, u64)], memory: u64, length: u64) -> Option<Vec<Range<usize>>> {
    let (mut next, mut total) = (0, 0_u64);
    let mut ranges = Vec::with_capacity(pages.len());
    for &(start, len) in pages {
        let end = start.checked_add(len)?;
        let is_page = start.is_multiple_of(PAGE_SIZE as u64) && len.is_multiple_of(PAGE_SIZE as u64);
        if !is_page || len == 0 || start < next || end > memory {
            return None;
        }
        (next, total) = (end, total + len);
        ranges.push(usize::try_from(start).ok()?..usize::try_from(end).ok()?);
    }
    (total == length).then_some(ranges)
}

/// Returns a text of a checkpoint for a message.
fn printable(text: &str) -> String {
    text.chars().take(100).map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use anyhow::Result;
    use cap_std::ambient_authority;
    use serde_json::{Value, json};

    use super::*;

    const GLOBALS: [GlobalValue; 2] = [GlobalValue::I32(1), GlobalValue::I64(2)];

    fn expected() -> Expected<'static> {
        Expected {
            runtime: "python-1",
            image: "python",
            image_sha256: "ab",
            image_size: 2 * 65_536,
            globals: &GLOBALS,
            parts: 3,
        }
    }

    /// Returns a checkpoint of three pages in two ranges.
    fn checkpoint() -> Result<(tempfile::TempDir, Dir)> {
        let home = tempfile::tempdir()?;
        let dir = Dir::open_ambient_dir(home.path(), ambient_authority())?;
        let mut state = State::new(&expected(), 3 * 65_536, &[0..4096, 8192..16_384]);
        (state.globals, state.parts) = (GLOBALS.to_vec(), 3);
        write(&dir, |mut file| io::Write::write_all(&mut file, &[7; 3 * 4096]).map(|()| state))?;
        Ok((home, dir))
    }

    fn error_of(dir: &Dir) -> String {
        read(dir, &expected()).err().expect("it is refused").to_string()
    }

    #[test]
    fn checkpoints_round_trip() -> Result<()> {
        let (_home, dir) = checkpoint()?;
        let Restored { state, size, pages } = read(&dir, &expected())?;
        assert_eq!(size, 3 * 65_536);
        assert!(pages.files().eq([&[0..4096, 8192..16_384][..]]));
        assert_eq!((state.version, state.globals, state.parts), (VERSION, GLOBALS.to_vec(), 3));
        Ok(())
    }

    /// Pages of the file that was written last, of a checkpoint of two.
    const NEWEST: Range<usize> = 4096..8192;

    /// Returns a checkpoint of two files.
    fn checkpoint_of_two() -> Result<(tempfile::TempDir, Dir)> {
        let home = tempfile::tempdir()?;
        let dir = Dir::open_ambient_dir(home.path(), ambient_authority())?;
        let mut state = State::new(&expected(), 3 * 65_536, std::slice::from_ref(&NEWEST));
        (state.globals, state.parts) = (GLOBALS.to_vec(), 3);
        let earlier = [0..4096, 8192..16_384];
        let state = state.with_earlier([&earlier[..]].into_iter());
        write(&dir, |mut file| io::Write::write_all(&mut file, &[8; 4096]).map(|()| state))?;
        dir.write(earlier_pages_file(0), [7; 3 * 4096])?;
        Ok((home, dir))
    }

    #[test]
    fn checkpoints_of_several_files_round_trip() -> Result<()> {
        let (_home, dir) = checkpoint_of_two()?;
        let Restored { state, pages, .. } = read(&dir, &expected())?;
        assert_eq!(state.version, VERSION_OF_SEVERAL);
        assert!(pages.files().eq([&[0..4096, 8192..16_384][..], std::slice::from_ref(&NEWEST)]));
        let mut reader = pages.reader();
        let mut page = [0; PAGE_SIZE];
        let found = [0, 4096, 8192, 12_288, 16_384].map(|at| reader.read(at, &mut page).map(|found| (found, page[9])));
        let found: Vec<_> = found.into_iter().collect::<io::Result<_>>()?;
        assert_eq!(found, [(true, 7), (true, 8), (true, 7), (true, 7), (false, 7)]);
        Ok(())
    }

    #[test]
    fn hostile_lists_of_files_are_refused() -> Result<()> {
        let (home, dir) = checkpoint_of_two()?;
        let path = home.path().join(STATE);
        let original: Value = serde_json::from_slice(&fs::read(&path)?)?;
        let one = json!([[0, 4096], [8192, 8192]]);
        let cases = [
            json!([[[0, 4096]]]),
            json!([[[0, 4096], [0, 8192]]]),
            json!([[[0, 4096], [3 * 65_536, 8192]]]),
            json!([one, one]),
            json!(vec![one; MAX_FILES]),
            json!([[]]),
            json!([[[u64::MAX - 4095, 12_288]]]),
        ];
        for value in cases {
            let mut changed = original.clone();
            changed["earlier"] = value.clone();
            fs::write(&path, serde_json::to_vec(&changed)?)?;
            let error = error_of(&dir);
            assert!(error.contains("inconsistent") || error.contains("pages.1.bin"), "{value}: {error}");
        }
        fs::write(&path, serde_json::to_vec(&original)?)?;
        let file = home.path().join(earlier_pages_file(0));
        fs::rename(&file, home.path().join("elsewhere"))?;
        assert!(error_of(&dir).contains("pages.0.bin"));
        symlink(home.path().join("elsewhere"), &file)?;
        assert!(error_of(&dir).contains("pages.0.bin"));
        Ok(())
    }

    #[test]
    fn other_runtimes_and_images_are_named() -> Result<()> {
        let (_home, dir) = checkpoint()?;
        let other = |change: fn(&mut Expected<'static>)| {
            let mut expected = expected();
            change(&mut expected);
            read(&dir, &expected).err().expect("it is refused").to_string()
        };
        let runtime = other(|expected| expected.runtime = "python-2");
        assert!(runtime.contains("python-1, and this is python-2"), "{runtime}");
        let image = other(|expected| expected.image_sha256 = "cd");
        assert!(image.contains("python (sha256 ab), and this is python (sha256 cd)"), "{image}");
        Ok(())
    }

    #[test]
    fn hostile_values_are_refused() -> Result<()> {
        let (home, dir) = checkpoint()?;
        let path = home.path().join(STATE);
        let original: Value = serde_json::from_slice(&fs::read(&path)?)?;
        let huge = u64::MAX;
        let cases = [
            ("version", json!(3)),
            ("runtime", json!("x\u{1b}[2J")),
            ("globals", json!([])),
            ("globals", json!([{"i32": 1}, {"i32": 2}])),
            ("parts", json!(4)),
            ("memory", json!(3 * 65_536 + 1)),
            ("memory", json!(65_536)),
            ("memory", json!(1_u64 << 33)),
            ("pages", json!([])),
            ("pages", json!([[0, 4096], [8192, 4096]])),
            ("pages", json!([[0, 4096], [0, 8192]])),
            ("pages", json!([[8192, 8192], [0, 4096]])),
            ("pages", json!([[1, 4096], [8192, 8192]])),
            ("pages", json!([[0, 4095], [8192, 8193]])),
            ("pages", json!([[0, 0], [8192, 12_288]])),
            ("pages", json!([[3 * 65_536, 12_288]])),
            ("pages", json!([[3 * 65_536 - 4096, 12_288]])),
            ("pages", json!([[huge - 4095, 4096], [8192, 8192]])),
            ("pages", json!([[4096, huge - 4095]])),
            ("clock", json!({ "secs": huge, "nanos": 0 })),
            ("unknown", json!(1)),
        ];
        for (name, value) in cases {
            let mut changed = original.clone();
            changed[name] = value.clone();
            fs::write(&path, serde_json::to_vec(&changed)?)?;
            let error = error_of(&dir);
            assert!(!error.contains('\u{1b}') && error.lines().count() == 1, "{error:?}");
            assert!(error.starts_with("cannot use the checkpoint"), "{name} {value}: {error}");
        }
        fs::write(&path, "{")?;
        assert!(error_of(&dir).contains("state.json"));
        Ok(())
    }

    #[test]
    fn links_and_pipes_are_refused() -> Result<()> {
        for name in [STATE, PAGES] {
            let (home, dir) = checkpoint()?;
            let path = home.path().join(name);
            let elsewhere = home.path().join("elsewhere");
            fs::rename(&path, &elsewhere)?;
            assert!(error_of(&dir).contains("cannot open <checkpoint>"), "{name} is missing");
            symlink(&elsewhere, &path)?;
            assert!(error_of(&dir).contains("cannot open <checkpoint>"), "{name} is a link");
            fs::remove_file(&path)?;
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o600),
                0,
            )?;
            assert!(error_of(&dir).contains("cannot open <checkpoint>"), "{name} is a pipe");
        }
        Ok(())
    }
}
