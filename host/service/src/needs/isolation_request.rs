//! Request of a program, in a comment before its code: `# codebox: isolation=container`.
//!
//! The program is untrusted, so the request can only narrow the accepted isolations, or select a preferred one among
//! them.

use codebox_core::{Isolation, Job, ResultKind};
use thiserror::Error;

/// Number of lines that are searched for the comment.
const LINES: usize = 20;

/// Marker before the settings.
const MARK: &str = "codebox:";

/// Isolation that a program requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IsolationRequest {
    /// Requested isolation: WebAssembly or a container.
    pub isolation: Isolation,
    /// Line of the request, starting at 1.
    pub line: u32,
}

/// A comment for codebox that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid codebox comment in line {line}: {detail}")]
pub struct InvalidIsolationRequest {
    /// Line of the comment, starting at 1.
    pub line: u32,
    /// Description of the fault.
    pub detail: String,
}

impl InvalidIsolationRequest {
    /// Returns the result kind.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        ResultKind::InvalidRequest
    }

    /// Returns the remedy.
    #[must_use]
    pub fn fix(&self) -> String {
        "write isolation=wasm or isolation=container, or remove the comment".to_owned()
    }
}

impl IsolationRequest {
    /// Returns the request in a job's program, if there is one.
    ///
    /// # Errors
    /// Returns an error if a comment for codebox contains anything but valid settings, or if two of them disagree.
    pub fn of_job(job: &Job) -> Result<Option<Self>, InvalidIsolationRequest> {
        let Some(comment) = job.language.spec().comment.as_deref() else { return Ok(None) };
        job.source.text().map_or(Ok(None), |text| Self::read(text, comment))
    }

    fn read(text: &[u8], comment: &str) -> Result<Option<Self>, InvalidIsolationRequest> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut requested: Option<Self> = None;
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1..).take(LINES) {
            let line = line.trim_ascii();
            if line.is_empty() || number == 1 && line.starts_with(b"#!") {
                continue;
            }
            let Some(said) = line.strip_prefix(comment.as_bytes()) else { break };
            let Some(settings) = said.trim_ascii().strip_prefix(MARK.as_bytes()) else { continue };
            let bad = |detail: String| InvalidIsolationRequest { line: number, detail };
            for word in settings.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
                let isolation = setting(word).map_err(bad)?;
                match requested {
                    Some(before) if before.isolation != isolation => {
                        let detail = format!("line {} requests {}", before.line, before.isolation);
                        return Err(bad(detail));
                    }
                    Some(_) => {}
                    None => requested = Some(Self { isolation, line: number }),
                }
            }
        }
        Ok(requested)
    }
}

fn setting(word: &[u8]) -> Result<Isolation, String> {
    let word = String::from_utf8_lossy(word);
    let (key, value) = word.split_once('=').unwrap_or((&word, ""));
    let shown = |part: &str| part.chars().take(40).collect::<String>();
    match (key, value) {
        ("isolation", "wasm") => Ok(Isolation::Wasm),
        ("isolation", "container") => Ok(Isolation::Container),
        ("isolation", _) => Err(format!("isolation {:?} cannot be requested", shown(value))),
        _ => Err(format!("unknown key {:?}", shown(key))),
    }
}

#[cfg(test)]
mod tests {
    use codebox_core::{Language, LanguageSpec, NamedLanguage, Source};

    use super::*;

    fn python(text: &str) -> Result<Option<(Isolation, u32)>, String> {
        let requested = IsolationRequest::of_job(&Job::python(text)).map_err(|bad| bad.to_string())?;
        Ok(requested.map(|ask| (ask.isolation, ask.line)))
    }

    #[test]
    fn only_comments_before_code_count() {
        let container = Ok(Some((Isolation::Container, 3)));
        assert_eq!(python("#!/usr/bin/python\n# a\n# codebox: isolation=container\nx = 1"), container);
        assert_eq!(python("\u{feff}#codebox:isolation=wasm"), Ok(Some((Isolation::Wasm, 1))));
        assert_eq!(python("\r\n  # codebox:  isolation=wasm \r\n"), Ok(Some((Isolation::Wasm, 2))));
        for silent in [
            "x = 1\n# codebox: isolation=container",
            "'''\n# codebox: isolation=container\n'''",
            "# about codebox: isolation=container",
            "// codebox: isolation=container",
            "# codebox:",
            "",
        ] {
            assert_eq!(python(silent), Ok(None), "{silent:?}");
        }
        let late = format!("{}# codebox: isolation=container", "#\n".repeat(LINES));
        assert_eq!(python(&late), Ok(None));
    }

    #[test]
    fn javascript_comments_are_recognized() {
        let job = |text: &str, language| Job::new(Source::Inline(text.to_owned()), language);
        let text = "// codebox: isolation=container\nrun()";
        for language in [Language::JavaScript, Language::TypeScript] {
            let ask = IsolationRequest::of_job(&job(text, language)).expect("it is plain").expect("it asks");
            assert_eq!((ask.isolation, ask.line), (Isolation::Container, 1));
        }
        let undescribed = "lua".parse().expect("a language's name");
        assert_eq!(IsolationRequest::of_job(&job("-- codebox: x", undescribed)), Ok(None));
    }

    #[test]
    fn added_languages_have_the_comments_of_their_description() {
        let (name, comment) = ("lua".to_owned(), Some("--".to_owned()));
        let spec = LanguageSpec { name, comment, ..LanguageSpec::default() };
        let lua = Language::Named(NamedLanguage::new(spec).expect("a valid description"));
        let text = "#!/usr/bin/env lua\n-- codebox: isolation=wasm\n";
        let job = Job::new(Source::Inline(text.to_owned()), lua);
        let ask = IsolationRequest::of_job(&job).expect("it is plain").expect("it asks");
        assert_eq!((ask.isolation, ask.line), (Isolation::Wasm, 2));
    }

    #[test]
    fn invalid_comments_name_their_line() {
        for (text, message) in [
            ("#\n# codebox: tier=wasm", "in line 2: unknown key \"tier\""),
            ("# codebox: this is ours", "in line 1: unknown key \"this\""),
            ("# codebox: isolation=vm", "in line 1: isolation \"vm\" cannot be requested"),
            ("# codebox: isolation", "in line 1: isolation \"\" cannot be requested"),
            ("# codebox: isolation=wasm\n# codebox: isolation=container", "in line 2: line 1 requests wasm"),
        ] {
            let said = python(text).expect_err("it is not to be understood");
            assert!(said.ends_with(message), "{said}");
        }
        let long = python(&format!("# codebox: {}", "x".repeat(1 << 20))).expect_err("no such key");
        assert!(long.len() < 200, "{}", long.len());
        assert!(IsolationRequest::of_job(&Job::python("# codebox: \u{1b}[2J=x")).is_err());
    }
}
