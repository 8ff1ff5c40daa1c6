//! Requirements in files: `requirements.txt`, and the metadata of a script.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::Deserialize;

use crate::requirement::{Requirement, RequirementError};

/// The most packages that one program may ask for: an index is asked at least twice for each.
pub const MOST_REQUIREMENTS: usize = 500;

/// A line of a file that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LineError {
    /// The line, from 1.
    pub line: usize,
    /// Why.
    pub reason: String,
}

/// What a file of requirements asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListedRequirements {
    /// The requirements, in their order.
    pub requirements: Vec<Requirement>,
    /// By package, the sha256 of the files that may be installed, where any are listed.
    pub hashes: BTreeMap<String, BTreeSet<String>>,
}

/// The requirements of a `requirements.txt`.
///
/// Lines with a requirement each, comments, continued lines, and `--hash=sha256:…` behind a requirement: of a package with
/// hashes only files are installed that have one of them.
///
/// # Errors
/// The first line with anything else: options, other files, addresses, paths; and the first beyond
/// [`MOST_REQUIREMENTS`].
pub fn requirements_of_file(text: &str) -> Result<ListedRequirements, LineError> {
    let mut listed = ListedRequirements::default();
    let mut lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines().zip(1..);
    while let Some((first, line)) = lines.next() {
        let mut whole = without_comment(first).to_owned();
        // Not by a new text for each line: a file may be of lines that are continued, and nothing else.
        while whole.ends_with('\\') {
            whole.pop();
            whole.push(' ');
            whole.push_str(lines.next().map_or("", |(next, _)| without_comment(next)));
        }
        let (requirement, options) = match whole.find(" --") {
            Some(at) => whole.split_at(at),
            None => (whole.as_str(), ""),
        };
        if let Some(option) = options.split_whitespace().find(|option| !is_hash(option)) {
            let shown: String = option.chars().filter(|c| !c.is_control()).take(40).collect();
            return Err(LineError { line, reason: format!("the option {shown:?} is refused; leave it out") });
        }
        if requirement.trim().is_empty() && options.is_empty() {
            continue;
        }
        if listed.requirements.len() == MOST_REQUIREMENTS {
            return Err(LineError { line, reason: too_many() });
        }
        let read: Requirement =
            requirement.parse().map_err(|e: RequirementError| LineError { line, reason: e.to_string() })?;
        let hashes = options.split_whitespace().filter_map(|option| option.strip_prefix(HASH));
        let hashes: BTreeSet<String> = hashes.map(str::to_ascii_lowercase).collect();
        if !hashes.is_empty() {
            listed.hashes.entry(read.name().to_owned()).or_default().extend(hashes);
        }
        listed.requirements.push(read);
    }
    Ok(listed)
}

/// What is said where more is asked for.
fn too_many() -> String {
    format!("no more than {MOST_REQUIREMENTS} packages can be asked for; leave out those that others bring along")
}

const HASH: &str = "--hash=sha256:";

fn is_hash(option: &str) -> bool {
    let digits = option.strip_prefix(HASH);
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A line without its comment: `#` at its start, or after a space.
fn without_comment(line: &str) -> &str {
    let cut = match line.trim_start().starts_with('#') {
        true => "",
        false => line.find(" #").map_or(line, |at| &line[..at]),
    };
    cut.trim_end()
}

/// What a script says of itself (PEP 723).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptMetadata {
    /// What it needs.
    pub dependencies: Vec<Requirement>,
    /// The versions of Python that it runs in.
    pub requires_python: Option<String>,
    /// Tables that were passed over, because a script has no say in them: `tool.uv`.
    pub ignored: Vec<String>,
}

/// The block as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Block {
    #[serde(default)]
    dependencies: Vec<toml::Spanned<String>>,
    requires_python: Option<String>,
    #[serde(default)]
    tool: toml::Table,
}

/// Reads the block `# /// script` of a program; nothing where there is none.
///
/// # Errors
/// A block that is not closed, or there twice; what is no TOML; a dependency that is refused; more than
/// [`MOST_REQUIREMENTS`] of them.
pub fn script_metadata(program: &[u8]) -> Result<Option<ScriptMetadata>, LineError> {
    let mut found: Option<(usize, String)> = None;
    let mut lines = program.split(|byte| *byte == b'\n').zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        if line.trim_ascii_end() != b"# /// script" {
            continue;
        }
        if found.is_some() {
            return Err(LineError { line: number, reason: "a second block of script metadata is refused".to_owned() });
        }
        let mut text = String::new();
        // The last line that closes it counts, as long as only comments come before.
        let (mut closed, mut pending) = (false, String::new());
        while let Some((line, _)) = lines.next_if(|(line, _)| line.first() == Some(&b'#')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line == b"# ///" {
                text.push_str(&pending);
                (closed, pending) = (true, "# ///\n".to_owned());
                continue;
            }
            let content = line.strip_prefix(b"# ").or_else(|| line.strip_prefix(b"#")).unwrap_or_default();
            pending.push_str(&String::from_utf8_lossy(content));
            pending.push('\n');
        }
        if !closed {
            return Err(LineError {
                line: number,
                reason: "the block of script metadata has no end `# ///`".to_owned(),
            });
        }
        found = Some((number, text));
    }
    let Some((line, text)) = found else { return Ok(None) };
    let line_at = |at: usize| line + 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let block: Block = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(line, |span| line_at(span.start));
        let reason = format!("script metadata: {}", error.message().lines().next().unwrap_or_default());
        LineError { line, reason }
    })?;
    if block.dependencies.len() > MOST_REQUIREMENTS {
        return Err(LineError { line, reason: too_many() });
    }
    let read = block.dependencies.iter().map(|text| {
        let bad = |e: RequirementError| LineError { line: line_at(text.span().start), reason: e.to_string() };
        Requirement::from_str(text.get_ref()).map_err(bad)
    });
    let dependencies = read.collect::<Result<_, _>>()?;
    if let Some(versions) = &block.requires_python
        && uv_pep440::VersionSpecifiers::from_str(versions).is_err()
    {
        return Err(LineError { line, reason: "script metadata: requires-python is no list of versions".to_owned() });
    }
    let ignored = block.tool.keys().filter(|tool| *tool == "uv").map(|tool| format!("tool.{tool}")).collect();
    Ok(Some(ScriptMetadata { dependencies, requires_python: block.requires_python, ignored }))
}

/// Whether a version of Python is among those that a script names.
#[must_use]
pub fn is_among(version: &str, versions: &str) -> bool {
    let read = (uv_pep440::Version::from_str(version), uv_pep440::VersionSpecifiers::from_str(versions));
    matches!(read, (Ok(version), Ok(versions)) if versions.contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(requirements: &[Requirement]) -> Vec<String> {
        requirements.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_has_requirements_comments_and_hashes() {
        let hash = "ab".repeat(32);
        let text = format!(
            "\u{feff}# all\n\nrequests>=2 # why\nrich==13.7.1 \\\n    --hash=sha256:{hash} \\\n    --hash=sha256:{hash}\r\n  tomli; python_version<'4'\n"
        );
        let read = requirements_of_file(&text).expect("it is plain");
        assert_eq!(read.hashes, BTreeMap::from([("rich".to_owned(), BTreeSet::from([hash]))]));
        assert_eq!(shown(&read.requirements), ["requests>=2", "rich==13.7.1", "tomli ; python_full_version < '4'"]);
    }

    #[test]
    fn anything_else_is_refused_by_its_line() {
        for (text, line) in [
            ("a\n-r other.txt", 2),
            ("--index-url http://127.0.0.1/", 1),
            ("a\n\n--extra-index-url=http://127.0.0.1/", 3),
            ("a --global-option=x", 1),
            ("a --hash=md5:00", 1),
            ("a\nb @ http://127.0.0.1/b.whl", 2),
            ("./a", 1),
            ("-e .", 1),
            ("a \\\n--pre", 1),
            ("# x\n\\\n-c constraints.txt", 2),
        ] {
            assert_eq!(requirements_of_file(text).map_err(|e| e.line), Err(line), "{text:?}");
        }
    }

    #[test]
    fn a_script_says_what_it_needs() {
        let program = b"#!/usr/bin/env python\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"rich>=13\",\n# ]\n# [tool.uv]\n# index-url = \"http://127.0.0.1/\"\n# ///\nprint(1)\n";
        let read = script_metadata(program).expect("it is plain").expect("a block");
        assert_eq!(shown(&read.dependencies), ["rich>=13"]);
        assert_eq!((read.requires_python.as_deref(), read.ignored), (Some(">=3.11"), vec!["tool.uv".to_owned()]));
        assert_eq!(script_metadata(b"x = '# /// script'\n"), Ok(None));
        assert!(is_among("3.15.0", ">=3.11") && !is_among("3.9.2", ">=3.11"));
    }

    #[test]
    fn more_than_can_be_asked_for_is_refused() {
        let most: Vec<String> = (0..MOST_REQUIREMENTS).map(|number| format!("p{number}")).collect();
        let file = |names: &[String]| requirements_of_file(&names.join("\n"));
        let block = |names: &[String]| format!("# /// script\n# dependencies = {names:?}\n# ///\n");
        let script = |names: &[String]| script_metadata(block(names).as_bytes());
        assert_eq!(file(&most).map(|read| read.requirements.len()), Ok(MOST_REQUIREMENTS));
        assert_eq!(script(&most).map(|read| read.map(|read| read.dependencies.len())), Ok(Some(MOST_REQUIREMENTS)));
        // It is counted before any of it is read.
        let more = [most, vec!["no name at all".to_owned()]].concat();
        assert_eq!(file(&more), Err(LineError { line: MOST_REQUIREMENTS + 1, reason: too_many() }));
        assert_eq!(script(&more), Err(LineError { line: 1, reason: too_many() }));
        let continued = "\\\n".repeat(1 << 20);
        assert_eq!(requirements_of_file(&continued), Ok(ListedRequirements::default()));
    }

    #[test]
    fn bad_metadata_is_refused() {
        for text in [
            "# /// script\n# dependencies = []\nprint()\n",
            "# /// script\n# dependencies = [\n# ///\n",
            "# /// script\n# dependencies = ['x @ http://127.0.0.1/']\n# ///\n",
            "# /// script\n# dependencies = ['-r x']\n# ///\n",
            "# /// script\n# requires-python = 'new'\n# ///\n",
            "# /// script\n# ///\n\n# /// script\n# ///\n",
        ] {
            assert!(script_metadata(text.as_bytes()).is_err(), "{text:?}");
        }
        let text = "import x\n# /// script\n# dependencies = [\n#   'a',\n#   'b c',\n# ]\n# ///\n";
        assert_eq!(script_metadata(text.as_bytes()).map_err(|e| e.line), Err(5));
    }
}
