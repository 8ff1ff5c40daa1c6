use std::fmt;
use std::str::FromStr;

use crate::name::NameError;

/// Fully qualified image name: the registry, the whole path, and the tag or digest, so that engines guess no part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageName(String);

const RULE: &str = "use NAME:TAG, REGISTRY/NAME:TAG or NAME@sha256:DIGEST";

impl ImageName {
    /// Returns the full name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ImageName {
    type Err = NameError;

    /// Parses a name as docker does: the default registry is Docker Hub, and the default tag is `latest`.
    ///
    /// An engine's own search for short names is never used, because its result depends on the machine.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let fault = || NameError::new("image", text, RULE);
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        let is_hex =
            |digest: &str| digest.len() == 64 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if digest.is_some_and(|digest| !digest.strip_prefix("sha256:").is_some_and(is_hex)) {
            return Err(fault());
        }
        let (registry, rest) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest.to_owned()),
            Some(_) => ("docker.io", name.to_owned()),
            None => ("docker.io", format!("library/{name}")),
        };
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) => (path.to_owned(), Some(tag.to_owned())),
            None => (rest, None),
        };
        let is_word = |part: &str| {
            let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
            ends(part.chars().next()) && ends(part.chars().last()) && part.chars().all(inner)
        };
        let is_tag = |tag: &str| {
            let first = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let inner = |c: char| first(c) || matches!(c, '.' | '-');
            tag.len() <= 128 && tag.chars().next().is_some_and(first) && tag.chars().all(inner)
        };
        let is_host = |host: &str| {
            let (host, port) = host.split_once(':').unwrap_or((host, "0"));
            let is_part = |part: &str| {
                let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
                ends(part.chars().next())
                    && ends(part.chars().last())
                    && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            };
            host.split('.').all(is_part) && port.parse::<u16>().is_ok()
        };
        let good =
            text.len() <= 512 && is_host(registry) && path.split('/').all(is_word) && tag.as_deref().is_none_or(is_tag);
        if !good {
            return Err(fault());
        }
        let tag = match (tag, digest) {
            (_, Some(digest)) => format!("@{digest}"),
            (Some(tag), None) => format!(":{tag}"),
            (None, None) => ":latest".to_owned(),
        };
        Ok(Self(format!("{registry}/{path}{tag}")))
    }
}

/// Pattern of allowed images: a full name, or a prefix followed by `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePattern {
    text: String,
    is_prefix: bool,
}

impl ImagePattern {
    /// Returns true if the pattern allows `image`.
    #[must_use]
    pub fn allows(&self, image: &ImageName) -> bool {
        match self.is_prefix {
            true => image.as_str().starts_with(&self.text),
            false => image.as_str() == self.text,
        }
    }
}

impl FromStr for ImagePattern {
    type Err = NameError;

    /// Parses `NAME`, completed as an [`ImageName`], or `REGISTRY/…*`, which must name its registry.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let Some(prefix) = text.strip_suffix('*') else {
            return Ok(Self { text: text.parse::<ImageName>()?.0, is_prefix: false });
        };
        let registry = prefix.split_once('/').map(|(registry, _)| registry).unwrap_or_default();
        let is_host = registry.starts_with(|c: char| c.is_ascii_alphanumeric()) && !registry.contains("..");
        let is_registry = is_host && (registry.contains(['.', ':']) || registry == "localhost");
        let good = is_registry && !prefix.contains(['*', ' ']);
        let fault = || NameError::new("image pattern", text, "write NAME:TAG, or REGISTRY/PATH*");
        good.then(|| Self { text: prefix.to_owned(), is_prefix: true }).ok_or_else(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completes_names_like_docker() {
        for (text, full) in [
            ("node:22-slim", "docker.io/library/node:22-slim"),
            ("debian", "docker.io/library/debian:latest"),
            ("me/tool:1", "docker.io/me/tool:1"),
            ("localhost/codebox-test:1", "localhost/codebox-test:1"),
            ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
            ("quay.io/x/y:z", "quay.io/x/y:z"),
        ] {
            assert_eq!(text.parse::<ImageName>().map(|name| name.to_string()), Ok(full.to_owned()));
        }
        let digest = "0".repeat(64);
        let pinned: ImageName = format!("node:22@sha256:{digest}").parse().expect("a name with a digest");
        assert_eq!(pinned.as_str(), format!("docker.io/library/node@sha256:{digest}"));
    }

    #[test]
    fn rejects_invalid_names() {
        let long = "a".repeat(600);
        for text in [
            "",
            "A",
            "a b",
            "-x",
            "../x",
            "./x",
            ".x/y",
            "a..b/c",
            "-a.b/c",
            "a//b",
            "a:",
            "a:b:c",
            "a@sha256:0",
            "a@md5:x",
            "/a",
            "a/",
            "x;y",
            "a\n",
            "--privileged",
            "http://x/y",
            long.as_str(),
        ] {
            assert!(text.parse::<ImageName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn patterns_match_names_and_prefixes() {
        let allows = |pattern: &str, image: &str| {
            let pattern: ImagePattern = pattern.parse().expect("a pattern");
            pattern.allows(&image.parse().expect("a name"))
        };
        assert!(allows("node:22-slim", "docker.io/library/node:22-slim"));
        assert!(!allows("node:22-slim", "evil.example/library/node:22-slim"));
        assert!(allows("localhost/*", "localhost/codebox-test:1"));
        assert!(!allows("localhost/*", "localhost.example/x:1"));
        for bad in ["*", "node*", "a*b", "../*"] {
            assert!(bad.parse::<ImagePattern>().is_err(), "{bad}");
        }
    }
}
