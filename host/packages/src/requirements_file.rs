//! Requirements in files: `requirements.txt`, and the metadata of a script.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::Deserialize;

use crate::requirement::{Requirement, RequirementError};

/// Maximum number of packages that one program may request: each takes at least two queries to an index.
pub const MAX_REQUIREMENTS: usize = 500;

/// Error in one line of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LineError {
    /// The line number, from 1.
    pub line: usize,
    /// The reason.
    pub reason: String,
}

/// Requirements listed in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListedRequirements {
    /// The requirements, in the order of the file.
    pub requirements: Vec<Requirement>,
    /// The allowed sha256 hashes by package, for packages with listed hashes.
    pub hashes: BTreeMap<String, BTreeSet<String>>,
}

/// Parses a `requirements.txt`.
///
/// Lines may hold one requirement each, comments, continuations, and `--hash=sha256:…` after a requirement: a package
/// with listed hashes is installed only from a file that has one of them.
///
/// # Errors
/// The first line with any other content (options, references to other files, URLs, paths), or the first requirement
/// beyond [`MAX_REQUIREMENTS`].
pub fn parse_requirements_file(text: &str) -> Result<ListedRequirements, LineError> {
    let mut listed = ListedRequirements::default();
    let mut lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines().zip(1..);
    while let Some((first, line)) = lines.next() {
        let mut logical_line = strip_comment(first).to_owned();
        // Appended in place: a file may consist of continued lines alone, and a new string for each line would be slow.
        while logical_line.ends_with('\\') {
            logical_line.pop();
            logical_line.push(' ');
            logical_line.push_str(lines.next().map_or("", |(next, _)| strip_comment(next)));
        }
        let (requirement, options) = match logical_line.find(" --") {
            Some(at) => logical_line.split_at(at),
            None => (logical_line.as_str(), ""),
        };
        if let Some(option) = options.split_whitespace().find(|option| !is_hash(option)) {
            let shown: String = option.chars().filter(|c| !c.is_control()).take(40).collect();
            return Err(LineError { line, reason: format!("option {shown:?} is not allowed; remove it") });
        }
        if requirement.trim().is_empty() && options.is_empty() {
            continue;
        }
        if listed.requirements.len() == MAX_REQUIREMENTS {
            return Err(LineError { line, reason: too_many_requirements() });
        }
        let parsed: Requirement =
            requirement.parse().map_err(|e: RequirementError| LineError { line, reason: e.to_string() })?;
        let hashes = options.split_whitespace().filter_map(|option| option.strip_prefix(HASH_OPTION));
        let hashes: BTreeSet<String> = hashes.map(str::to_ascii_lowercase).collect();
        if !hashes.is_empty() {
            listed.hashes.entry(parsed.name().to_owned()).or_default().extend(hashes);
        }
        listed.requirements.push(parsed);
    }
    Ok(listed)
}

/// Returns the error message for too many requirements.
fn too_many_requirements() -> String {
    format!("at most {MAX_REQUIREMENTS} packages are allowed; leave out indirect dependencies")
}

const HASH_OPTION: &str = "--hash=sha256:";

fn is_hash(option: &str) -> bool {
    let digits = option.strip_prefix(HASH_OPTION);
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Removes the comment from a line. A comment starts with `#` at the start of the line or after a space.
fn strip_comment(line: &str) -> &str {
    let cut = match line.trim_start().starts_with('#') {
        true => "",
        false => line.find(" #").map_or(line, |at| &line[..at]),
    };
    cut.trim_end()
}

/// Metadata of a script (PEP 723).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptMetadata {
    /// The requirements of the script.
    pub dependencies: Vec<Requirement>,
    /// The supported versions of Python.
    pub requires_python: Option<String>,
    /// Tables that were ignored, because a script may not set them: `tool.uv`.
    pub ignored: Vec<String>,
}

/// The metadata block as written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct MetadataBlock {
    #[serde(default)]
    dependencies: Vec<toml::Spanned<String>>,
    requires_python: Option<String>,
    #[serde(default)]
    tool: toml::Table,
}

/// Parses the `# /// script` block of a program. Returns `None` if the program has no such block.
///
/// # Errors
/// A block that is not closed, a second block, invalid TOML, a dependency that is refused, or more than
/// [`MAX_REQUIREMENTS`] dependencies.
pub fn parse_script_metadata(program: &[u8]) -> Result<Option<ScriptMetadata>, LineError> {
    let mut found: Option<(usize, String)> = None;
    let mut lines = program.split(|byte| *byte == b'\n').zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        if line.trim_ascii_end() != b"# /// script" {
            continue;
        }
        if found.is_some() {
            return Err(LineError { line: number, reason: "more than one block of script metadata".to_owned() });
        }
        let mut text = String::new();
        // The last closing line counts, as long as all lines before it are comments.
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
                reason: "the closing `# ///` of the script metadata is missing".to_owned(),
            });
        }
        found = Some((number, text));
    }
    let Some((line, text)) = found else { return Ok(None) };
    let line_at = |at: usize| line + 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let block: MetadataBlock = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(line, |span| line_at(span.start));
        let reason = format!("script metadata: {}", error.message().lines().next().unwrap_or_default());
        LineError { line, reason }
    })?;
    if block.dependencies.len() > MAX_REQUIREMENTS {
        return Err(LineError { line, reason: too_many_requirements() });
    }
    let parsed = block.dependencies.iter().map(|text| {
        let bad = |e: RequirementError| LineError { line: line_at(text.span().start), reason: e.to_string() };
        Requirement::from_str(text.get_ref()).map_err(bad)
    });
    let dependencies = parsed.collect::<Result<_, _>>()?;
    if let Some(versions) = &block.requires_python
        && uv_pep440::VersionSpecifiers::from_str(versions).is_err()
    {
        return Err(LineError {
            line,
            reason: "script metadata: requires-python is not a valid version specifier".to_owned(),
        });
    }
    let ignored = block.tool.keys().filter(|tool| *tool == "uv").map(|tool| format!("tool.{tool}")).collect();
    Ok(Some(ScriptMetadata { dependencies, requires_python: block.requires_python, ignored }))
}

/// Returns true if a version of Python satisfies the version specifiers of a script.
#[must_use]
pub fn version_satisfies(version: &str, versions: &str) -> bool {
    let parsed = (uv_pep440::Version::from_str(version), uv_pep440::VersionSpecifiers::from_str(versions));
    matches!(parsed, (Ok(version), Ok(versions)) if versions.contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(requirements: &[Requirement]) -> Vec<String> {
        requirements.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn parses_requirements_comments_and_hashes() {
        let hash = "ab".repeat(32);
        let text = format!(
            "\u{feff}# all\n\nrequests>=2 # why\nrich==13.7.1 \\\n    --hash=sha256:{hash} \\\n    --hash=sha256:{hash}\r\n  tomli; python_version<'4'\n"
        );
        let parsed = parse_requirements_file(&text).expect("the text is valid");
        assert_eq!(parsed.hashes, BTreeMap::from([("rich".to_owned(), BTreeSet::from([hash]))]));
        assert_eq!(shown(&parsed.requirements), ["requests>=2", "rich==13.7.1", "tomli ; python_full_version < '4'"]);
    }

    #[test]
    fn reports_line_of_unsupported_content() {
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
            assert_eq!(parse_requirements_file(text).map_err(|e| e.line), Err(line), "{text:?}");
        }
    }

    #[test]
    fn parses_script_metadata_block() {
        let program = b"#!/usr/bin/env python\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"rich>=13\",\n# ]\n# [tool.uv]\n# index-url = \"http://127.0.0.1/\"\n# ///\nprint(1)\n";
        let parsed = parse_script_metadata(program).expect("the text is valid").expect("a block");
        assert_eq!(shown(&parsed.dependencies), ["rich>=13"]);
        assert_eq!((parsed.requires_python.as_deref(), parsed.ignored), (Some(">=3.11"), vec!["tool.uv".to_owned()]));
        assert_eq!(parse_script_metadata(b"x = '# /// script'\n"), Ok(None));
        assert!(version_satisfies("3.15.0", ">=3.11") && !version_satisfies("3.9.2", ">=3.11"));
    }

    #[test]
    fn rejects_too_many_requirements() {
        let most: Vec<String> = (0..MAX_REQUIREMENTS).map(|number| format!("p{number}")).collect();
        let file = |names: &[String]| parse_requirements_file(&names.join("\n"));
        let block = |names: &[String]| format!("# /// script\n# dependencies = {names:?}\n# ///\n");
        let script = |names: &[String]| parse_script_metadata(block(names).as_bytes());
        assert_eq!(file(&most).map(|parsed| parsed.requirements.len()), Ok(MAX_REQUIREMENTS));
        assert_eq!(
            script(&most).map(|parsed| parsed.map(|parsed| parsed.dependencies.len())),
            Ok(Some(MAX_REQUIREMENTS))
        );
        // The limit applies before the excess requirement is parsed.
        let more = [most, vec!["no name at all".to_owned()]].concat();
        assert_eq!(file(&more), Err(LineError { line: MAX_REQUIREMENTS + 1, reason: too_many_requirements() }));
        assert_eq!(script(&more), Err(LineError { line: 1, reason: too_many_requirements() }));
        let continued = "\\\n".repeat(1 << 20);
        assert_eq!(parse_requirements_file(&continued), Ok(ListedRequirements::default()));
    }

    #[test]
    fn rejects_invalid_script_metadata() {
        for text in [
            "# /// script\n# dependencies = []\nprint()\n",
            "# /// script\n# dependencies = [\n# ///\n",
            "# /// script\n# dependencies = ['x @ http://127.0.0.1/']\n# ///\n",
            "# /// script\n# dependencies = ['-r x']\n# ///\n",
            "# /// script\n# requires-python = 'new'\n# ///\n",
            "# /// script\n# ///\n\n# /// script\n# ///\n",
        ] {
            assert!(parse_script_metadata(text.as_bytes()).is_err(), "{text:?}");
        }
        let text = "import x\n# /// script\n# dependencies = [\n#   'a',\n#   'b c',\n# ]\n# ///\n";
        assert_eq!(parse_script_metadata(text.as_bytes()).map_err(|e| e.line), Err(5));
    }
}
