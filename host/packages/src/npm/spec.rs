//! Specs of packages and versions, as a user or a package's manifest writes them.

use std::fmt;
use std::str::FromStr;

use node_semver::{Range, Version};

use super::name::NpmName;
use super::spec_error::ParseNpmSpecError;

/// A package that a user requests: `name`, `@scope/name`, `name@RANGE` or `name@TAG`.
///
/// Only names, version ranges and tags are allowed: no URL, repository, file, alias or option.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NpmSpec {
    name: NpmName,
    /// The range or tag as written, or `latest`.
    wanted: String,
}

impl NpmSpec {
    /// Returns the package's name.
    #[must_use]
    pub fn name(&self) -> &NpmName {
        &self.name
    }

    /// Returns the range or tag, which is `latest` by default.
    #[must_use]
    pub fn wanted(&self) -> &str {
        &self.wanted
    }

    pub(super) fn to_version_spec(&self) -> VersionSpec {
        // Parsing succeeded once, when the spec was created.
        VersionSpec::read(&self.wanted).unwrap_or(VersionSpec::Tag("latest".to_owned()))
    }
}

impl FromStr for NpmSpec {
    type Err = ParseNpmSpecError;

    fn from_str(text: &str) -> Result<Self, ParseNpmSpecError> {
        // Imports of packages by their registry begin with it.
        let text = text.strip_prefix("npm:").unwrap_or(text);
        // The first character may be the `@` of a scope.
        let at = text.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
        let (name, wanted) = match at {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, "latest"),
        };
        let name = name.parse()?;
        VersionSpec::read(wanted).ok_or_else(|| ParseNpmSpecError::wanted(text))?;
        Ok(Self { name, wanted: wanted.to_owned() })
    }
}

impl fmt::Display for NpmSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.wanted)
    }
}

/// Requested version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VersionSpec {
    Range(Range),
    /// A dist-tag, which the package's author assigns to a version.
    Tag(String),
}

/// Maximum length of a range in bytes.
const MAX_RANGE_LENGTH: usize = 256;

impl VersionSpec {
    /// Parses a range or a tag. Returns `None` for anything else.
    pub(super) fn read(text: &str) -> Option<Self> {
        let text = text.replace('\t', " ");
        // Ranges and tags have no other characters, such as separators of URLs and paths, quotes and control
        // characters.
        let plain = |c: char| c.is_ascii_alphanumeric() || "^~<>=|*.+-_ ".contains(c);
        if text.len() > MAX_RANGE_LENGTH || !text.chars().all(plain) || text.starts_with('-') {
            return None;
        }
        let text = text.trim();
        if text.is_empty() {
            return Some(Self::Range(Range::any()));
        }
        match range(text) {
            // The crate ignores words that are not versions.
            Some(_) if !text.split([' ', '|', ',']).all(is_range_word) => None,
            Some(range) => Some(Self::Range(range)),
            None => is_tag(text).then(|| Self::Tag(text.to_owned())),
        }
    }
}

/// Parses a range of any origin, as leniently as the crate does.
pub(super) fn range(text: &str) -> Option<Range> {
    if text.len() > MAX_RANGE_LENGTH {
        return None;
    }
    Range::parse(normalize_range(&text.replace('\t', " "))?).ok()
}

/// Returns true if a range includes a version.
pub(super) fn range_includes(range: &Range, version: &str) -> bool {
    Version::parse(version).is_ok_and(|version| range.satisfies(&version))
}

/// Rewrites a range to a form that the crate interprets as npm does. The crate panics on others, such as `~*`, `=x` and
/// `~1.x.2`; it interprets `<=1` as versions before 1.0.0, and comparators that exclude each other as alternatives.
///
/// Returns `None` if there is no such form.
fn normalize_range(text: &str) -> Option<String> {
    let mut joined = String::new();
    for c in text.chars() {
        let follows_operator = joined.ends_with(OPERATORS)
            || joined.strip_suffix('v').is_some_and(|before| {
                before.chars().next_back().is_none_or(|c| " |".contains(c) || OPERATORS.contains(&c))
            });
        if c != ' ' || !follows_operator {
            joined.push(c);
        }
    }
    let mut alternatives = Vec::new();
    for one in joined.split("||").map(str::trim) {
        let words: Vec<String> = match one.split_once(" - ") {
            Some((least, most)) => vec![format!(">={}", least.trim()), format!("<={}", most.trim())],
            None if one.is_empty() => vec!["*".to_owned()],
            None => one.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        };
        let words: Vec<String> = words.iter().map(|word| normalize_comparator(word)).collect::<Option<_>>()?;
        let ranges: Vec<Range> = words.iter().filter_map(|word| Range::parse(word).ok()).collect();
        let mut all = Some(Range::any());
        for range in &ranges {
            all = all.and_then(|all| all.intersect(range));
        }
        alternatives.push(if all.is_some() { words.join(" ") } else { EMPTY_RANGE.to_owned() });
    }
    Some(alternatives.join("||"))
}

/// Rewrites one comparator of a range. Returns `None` for an invalid one that the crate would mishandle.
fn normalize_comparator(word: &str) -> Option<String> {
    let version = word.trim_start_matches(OPERATORS);
    let operator = &word[..word.len() - version.len()];
    if version.contains(OPERATORS) {
        return None;
    }
    let mut parts = version.trim_start_matches('v').splitn(3, '.');
    let [major, minor, patch] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let is_wildcard = |part: &str| part.is_empty() || part.starts_with(['x', 'X', '*']);
    let next = |part: &str| part.parse::<u32>().ok().map(|number| u64::from(number) + 1);
    Some(match operator {
        "" => word.to_owned(),
        _ if is_wildcard(major) && major.len() > 1 => return None,
        // No version is above all others, or below.
        "<" | ">" if is_wildcard(major) => EMPTY_RANGE.to_owned(),
        _ if is_wildcard(major) => "*".to_owned(),
        "<=" if is_wildcard(minor) => format!("<{}.0.0-0", next(major)?),
        "<=" if is_wildcard(patch) => format!("<{major}.{}.0-0", next(minor)?),
        _ if is_wildcard(minor) && !minor.is_empty() => format!("{operator}{major}.x"),
        _ => word.to_owned(),
    })
}

/// Range that includes no version.
const EMPTY_RANGE: &str = "<0.0.0-0";

/// Characters of the operators before a version.
const OPERATORS: [char; 5] = ['<', '>', '=', '^', '~'];

/// Returns true if a word can be part of a range: an operator, a version, both, or the dash between two versions.
fn is_range_word(word: &str) -> bool {
    let version = word.trim_start_matches(OPERATORS).trim_start_matches(['v', 'V']);
    matches!(word, "-") || version.is_empty() || version.starts_with(|c: char| c.is_ascii_digit() || "xX*".contains(c))
}

fn is_tag(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && !text.ends_with('.')
}

/// A package's dependency on another, as declared in its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dependency {
    /// The package's name, which differs from its place if the dependency is an alias.
    pub(super) name: NpmName,
    pub(super) wanted: VersionSpec,
}

impl Dependency {
    /// Parses a value of `dependencies` or a similar table. Returns `None` for URLs, repositories and files.
    pub(super) fn read(place: &NpmName, value: &str) -> Option<Self> {
        let Some(alias) = value.trim().strip_prefix("npm:") else {
            return Some(Self { name: place.clone(), wanted: VersionSpec::read(value)? });
        };
        let spec: NpmSpec = alias.parse().ok()?;
        Some(Self { name: spec.name.clone(), wanted: spec.to_version_spec() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_names_ranges_and_tags() {
        for (text, name, wanted) in [
            ("lodash", "lodash", "latest"),
            ("@types/node", "@types/node", "latest"),
            ("left-pad@1.3.0", "left-pad", "1.3.0"),
            ("@a/b@^1.2", "@a/b", "^1.2"),
            ("a@>=1 <3 || 4.x", "a", ">=1 <3 || 4.x"),
            ("a@1.2 - 2.3||>= 4", "a", "1.2 - 2.3||>= 4"),
            ("a@v1.x", "a", "v1.x"),
            ("a@1.2.3-beta.1+build", "a", "1.2.3-beta.1+build"),
            ("a@next", "a", "next"),
            ("a@*", "a", "*"),
            ("a@", "a", ""),
            ("JSONStream", "JSONStream", "latest"),
            ("npm:left-pad@1.3.0", "left-pad", "1.3.0"),
            ("lodash.merge@~4", "lodash.merge", "~4"),
        ] {
            let spec: NpmSpec = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!((spec.name().as_str(), spec.wanted()), (name, wanted), "{text}");
        }
    }

    #[test]
    fn rejects_urls_paths_and_options() {
        let long = "x".repeat(215);
        for text in [
            "",
            "@",
            "@/",
            "@a",
            "@a/",
            "@/b",
            "a/b",
            "@a/b/c",
            "../a",
            "./a",
            "/a",
            "a@>=1 --registry=x",
            "a@1 -r",
            "a@1 latest",
            "a/..",
            "@../a",
            "@a/..",
            ".a",
            "_a",
            "-a",
            "--registry=x",
            "a b",
            "a\nb",
            "a\0",
            "a;b",
            "a@b@c",
            "node_modules",
            "@a/node_modules",
            "é",
            "a\\b",
            "git+ssh://x/y",
            "http://x/y.tgz",
            "a@http://x/y.tgz",
            "a@git+https://x/y",
            "a@file:../x",
            "a@npm:b@1",
            "npm:npm:b@1",
            "a@github:x/y",
            "x/y#main",
            "a@../x",
            "a@/x",
            "a@~/x",
            "a@1;2",
            "a@1\n",
            "a@\u{1}",
            "a@-x",
            "a@'1'",
            "file:x",
            "a@workspace:*",
            "a@$b",
            "a.",
            &long,
        ] {
            assert!(text.parse::<NpmSpec>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn accepts_aliases_and_rejects_urls() {
        let place: NpmName = "string-width-cjs".parse().expect("a name");
        let read = Dependency::read(&place, "npm:string-width@^4.2.0").expect("an alias");
        assert_eq!(read.name.as_str(), "string-width");
        for value in ["git://x/y", "x/y", "file:x", "http://x/y.tgz", "npm:../x@1", "link:x", "npm:a@npm:b@1"] {
            assert_eq!(Dependency::read(&place, value), None, "{value}");
        }
    }

    #[test]
    fn interprets_wildcards_like_npm() {
        let range_includes = |range: &str, version: &str| match VersionSpec::read(range) {
            Some(VersionSpec::Range(range)) => super::range_includes(&range, version),
            other => panic!("{range}: {other:?}"),
        };
        for range in [
            "*", "x", "~*", "=*", "^*", ">=*", "<=x", "~>X", "~ *", "= v *", "~x.1.2", "^x.x", "2 || ~*", "||", "\t",
            "=\t*", "* - *",
        ] {
            assert!(range_includes(range, "2.3.4") && range_includes(range, "0.0.1"), "{range}");
        }
        for range in ["<*", ">x", ">2.x <1.x", "1.2.0 >x", "<1 >=2 || >3 <2"] {
            for version in ["0.0.0", "0.0.1", "1.2.0", "2.3.4", "9.0.0"] {
                assert!(!range_includes(range, version), "{range} {version}");
            }
        }
        for (range, least, most, above) in [
            ("<=1", "0.0.1", "1.9.9", "2.0.0"),
            ("<=1.x", "0.0.1", "1.9.9", "2.0.0"),
            ("<= 1.x.5", "0.0.1", "1.9.9", "2.0.0"),
            ("<=v1.2", "0.0.1", "1.2.9", "1.3.0"),
            ("<=1.2.3", "0.0.1", "1.2.3", "1.2.4"),
            ("1 - *", "1.0.0", "9.0.0", "0.9.9"),
            ("* - 2", "0.0.1", "2.9.9", "3.0.0"),
            ("1.2 - 2.3", "1.2.0", "2.3.9", "2.4.0"),
            (">=1.2 <=2", "1.2.0", "2.9.9", "3.0.0"),
            ("1 - 2 || 5", "1.0.0", "5.9.9", "3.0.0"),
        ] {
            assert!(
                range_includes(range, least) && range_includes(range, most) && !range_includes(range, above),
                "{range}"
            );
        }
        for range in ["~1.x.2", "=1.x.2", "^1.*.9", "1.x.2", "~>1.x", "~ 1.x.2-beta", "~v1.X.2"] {
            assert!(
                range_includes(range, "1.0.0") && range_includes(range, "1.9.9") && !range_includes(range, "2.0.0"),
                "{range}"
            );
        }
        for range in ["~*beta", "=xy", "^*-1"] {
            assert_eq!(VersionSpec::read(range), None, "{range}");
        }
    }

    proptest! {
        #[test]
        fn parsed_names_are_single_directories(text in ".{0,40}") {
            if let Ok(spec) = text.parse::<NpmSpec>() {
                let parts: Vec<&str> = spec.name().as_str().split('/').collect();
                prop_assert!(parts.len() == 1 + usize::from(text.starts_with('@')));
                for part in parts {
                    prop_assert!(crate::unpack::is_safe_path(part));
                    prop_assert!(!part.starts_with('-'));
                }
                prop_assert!(!spec.wanted().contains([':', '/', '\\', '\n', '\0']));
                prop_assert_eq!(spec.to_string().parse::<NpmSpec>().ok(), Some(spec));
            }
        }

        #[test]
        fn never_panics(text in "[@a-z0-9^~<>=|* .+-]{0,60}", wanted in "[vxX*0-9^~<>=|\t .-]{0,20}") {
            let _ = text.parse::<NpmSpec>();
            let _ = range(&wanted);
        }
    }
}
