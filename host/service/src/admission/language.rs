//! Detection of a script's language if the request does not name it.

use std::path::Path;

use codebox_core::{Language, Languages, ResultKind};

use super::HostEnvironment;
use super::denied::Denied;

/// File extensions of other languages, for which the content is never used to guess.
const OTHER_LANGUAGE_EXTENSIONS: [&str; 23] = [
    "bash", "bat", "c", "cpp", "cs", "css", "go", "h", "html", "ipynb", "java", "json", "kt", "lua", "php", "pl",
    "ps1", "r", "rb", "rs", "sh", "sql", "swift",
];

/// First bytes of a program in WebAssembly.
const WASM_MAGIC: &[u8] = b"\0asm";

/// Container images with the interpreters of other languages, by the extensions of their programs.
const INTERPRETERS: [(&str, &str, &str); 8] = [
    ("go", "golang:1", "go run"),
    ("java", "eclipse-temurin:21", "java"),
    ("php", "php:8-cli", "php"),
    ("pl", "perl:5-slim", "perl"),
    ("ps1", "mcr.microsoft.com/powershell", "pwsh"),
    ("r", "r-base", "Rscript"),
    ("rb", "ruby:3-slim", "ruby"),
    ("swift", "swift:6.0-slim", "swift"),
];

/// Returns the language by the file's extension, then by its shebang, then by its content; `None` if the extension or
/// the shebang names another language.
pub(super) fn of(
    path: &Path,
    text: &[u8],
    languages: &Languages,
    host_environment: &dyn HostEnvironment,
) -> Option<Language> {
    if text.starts_with(WASM_MAGIC) {
        return Some(Language::webassembly());
    }
    let ending = path.extension().and_then(|extension| extension.to_str());
    let known = ending.and_then(|ending| languages.of_extension(ending));
    match (known, shebang(text)) {
        (Some(language), _) => Some(language),
        (None, Some(words)) => of_shebang(words, languages),
        (None, None) if ending.is_some_and(|ending| OTHER_LANGUAGE_EXTENSIONS.contains(&ending)) => None,
        (None, None) => Some(of_content(text, host_environment)),
    }
}

/// Returns the language of a text without a file name, by its shebang and then by its content.
pub(super) fn of_text(text: &[u8], languages: &Languages, host_environment: &dyn HostEnvironment) -> Option<Language> {
    match shebang(text) {
        Some(words) => of_shebang(words, languages),
        None => Some(of_content(text, host_environment)),
    }
}

/// Returns the refusal of a program whose language is not known. `shown` is its path as typed.
pub(super) fn unknown(path: &Path, shown: &str) -> Denied {
    let refused = |detail: &str, fix: &str| Denied::new(ResultKind::InvalidRequest, "run", shown, detail, fix);
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if extension == "ipynb" {
        let fix = "run it with codebox run, or export its code, as in jupyter nbconvert --to script";
        return refused("it is a notebook", fix);
    }
    let other = INTERPRETERS.iter().find(|(other, ..)| *other == extension);
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'));
    match (other, path.file_name().and_then(|name| name.to_str())) {
        (Some((_, image, command)), Some(name)) if plain(shown) => {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let fix = format!(
                "use its interpreter in a container: codebox run --image {image} --dir {}:/work -- {command} {name}",
                dir.display()
            );
            refused("codebox has no runtime for its language", &fix)
        }
        _ => {
            let fix = "pass it, as in --lang python, or add a runtime for it with codebox runtime add";
            refused("cannot determine its language", fix)
        }
    }
}

/// Returns the words of a text's shebang line; `None` if the text has none.
fn shebang(text: &[u8]) -> Option<&str> {
    let line = text.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line).ok()
}

fn of_shebang(words: &str, languages: &Languages) -> Option<Language> {
    // The language is that of the first word that names an interpreter, as in `#!/usr/bin/env -S node --flag` and
    // `#!/usr/bin/python3`.
    words.split_ascii_whitespace().find_map(|word| languages.of_interpreter(word.rsplit('/').next()?))
}

/// Guesses the language from a text. A text that has a line typical of JavaScript and does not parse as Python is
/// JavaScript, or TypeScript if it has type annotations; any other text is Python.
fn of_content(text: &[u8], host_environment: &dyn HostEnvironment) -> Language {
    let Ok(text) = std::str::from_utf8(text) else { return Language::Python };
    // These checks come first because they are faster than parsing.
    let typed = text.lines().any(looks_like_typescript);
    let console = text.lines().any(|line| line.trim_start().starts_with("console.")) && !text.contains("console =");
    if !typed && !console && !text.lines().any(looks_like_javascript) {
        return Language::Python;
    }
    match host_environment.is_python(text) {
        // Python has no built-in `console`, so a program that uses it without an import is JavaScript.
        true if console && !text.contains("import ") => Language::JavaScript,
        true => Language::Python,
        false if typed => Language::TypeScript,
        false => Language::JavaScript,
    }
}

fn looks_like_javascript(line: &str) -> bool {
    let line = line.trim();
    let begins = [
        "const ",
        "let ",
        "var ",
        "function ",
        "async function ",
        "export ",
        "//",
        "/*",
        "console.",
        "for (",
        "for(",
        "if (",
        "if(",
        "while (",
        "while(",
        "switch",
        "try {",
        "throw ",
        "new ",
        "!function",
        "(()",
        "(function",
        "(async",
    ];
    // Imports and classes in Python syntax are excluded: most Python programs have them, and would have to be parsed.
    let code = line.split('#').next().unwrap_or_default().trim_end();
    let import = line.starts_with("import ") && (code.contains(['\'', '"', '{', '*']) || code.ends_with(','));
    let class = line.starts_with("class ") && !code.ends_with(':');
    begins.iter().any(|begin| line.starts_with(begin))
        || import
        || class
        || line.contains("=>")
        || line.contains("require(")
}

fn looks_like_typescript(line: &str) -> bool {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let begins = ["interface ", "enum ", "const enum ", "namespace ", "declare ", "abstract class ", "import type "];
    let types =
        [": string", ": number", ": boolean", ": unknown", ": any", ": void", ": never", "[] =", "<string", "<number"];
    let variable = ["const ", "let ", "function ", "async function "].iter().any(|begin| line.starts_with(begin));
    begins.iter().any(|begin| line.starts_with(begin))
        || (line.starts_with("type ") && line.contains('='))
        || (variable && types.iter().any(|of| line.contains(of)))
}

#[cfg(test)]
mod tests {
    use codebox_core::{LanguageSpec, NamedLanguage};

    use super::*;

    fn lua() -> Language {
        let spec = LanguageSpec {
            name: "lua".to_owned(),
            extensions: vec!["lua".to_owned()],
            interpreters: vec!["lua".to_owned()],
            ..LanguageSpec::default()
        };
        Language::Named(NamedLanguage::new(spec).expect("a valid description"))
    }

    fn guessed(path: &str, text: &str) -> Language {
        look(path, text).expect("it has a language")
    }

    /// Host environment that parses texts with the analyzer.
    struct Parsing<'a>(&'a codebox_analysis::Analyzer);

    impl HostEnvironment for Parsing<'_> {
        fn env_var(&self, _name: &str) -> Option<std::ffi::OsString> {
            None
        }

        fn current_dir(&self) -> std::io::Result<std::path::PathBuf> {
            Ok("/".into())
        }

        fn is_python(&self, text: &str) -> bool {
            self.0.is_python(text, codebox_analysis::Budget::default()).expect("the text is harmless")
        }
    }

    fn look(path: &str, text: &str) -> Option<Language> {
        let parser = crate::testing::Parser::new();
        let parsing = Parsing(&parser.analyzer);
        of(Path::new(path), text.as_bytes(), &Languages::with([lua()]), &parsing)
    }

    #[test]
    fn files_of_other_languages_are_not_guessed() {
        for (path, text) in [("a.rb", "print(1)"), ("a.json", "{}"), ("tool", "#!/usr/bin/env ruby\nprint 1")] {
            assert_eq!(look(path, text), None, "{path}");
        }
        assert_eq!(look("a.v2", "print(1)"), Some(Language::Python));
    }

    #[test]
    fn refusals_name_the_command() {
        for (path, detail, fix) in [
            ("a.rb", "codebox has no runtime", "codebox run --image ruby:3-slim --dir .:/work -- ruby a.rb"),
            ("x/b.go", "codebox has no runtime", "codebox run --image golang:1 --dir x:/work -- go run b.go"),
            ("a;b.rb", "cannot determine its language", "--lang python"),
            ("a.ipynb", "it is a notebook", "nbconvert"),
            ("a.sql", "cannot determine its language", "--lang python"),
        ] {
            let denied = unknown(Path::new(path), path);
            assert!(denied.detail.starts_with(detail) && denied.fix.contains(fix), "{denied:?}");
        }
    }

    #[test]
    fn shell_scripts_are_programs() {
        for (path, text) in
            [("a.sh", "echo"), ("a.bash", ""), ("tool", "#!/bin/sh\n"), ("tool", "#!/usr/bin/env bash\n")]
        {
            assert_eq!(look(path, text).map(|language| language.to_string()).as_deref(), Some("shell"), "{path}");
        }
    }

    #[test]
    fn extensions_come_first() {
        for (path, language) in [
            ("a.py", Language::Python),
            ("a.mjs", Language::JavaScript),
            ("a.cts", Language::TypeScript),
            ("dir.js/a.py", Language::Python),
            ("a.lua", lua()),
        ] {
            assert_eq!(guessed(path, "#!/usr/bin/env node\nconst a = 1;"), language, "{path}");
        }
    }

    #[test]
    fn shebangs_come_second() {
        for (line, language) in [
            ("#!/usr/bin/env node", Language::JavaScript),
            ("#!/usr/bin/env -S node --no-warnings", Language::JavaScript),
            ("#!/usr/bin/python3.11 -u", Language::Python),
            ("#!/usr/local/bin/tsx", Language::TypeScript),
            ("#!/usr/bin/env lua5.4", lua()),
        ] {
            assert_eq!(guessed("tool", &format!("{line}\nprint(1)\n")), language, "{line}");
        }
    }

    #[test]
    fn plain_imports_and_classes_of_python_are_not_parsed() {
        for line in
            ["import os", "import json, os as o", "    import numpy", "class A:", "class A(B):  ", "from a import b"]
        {
            assert!(!looks_like_javascript(line), "{line}");
        }
        for line in
            ["import 'a'", "import fs from \"fs\";", "import {", "import * as a", "class A {", "class A extends B"]
        {
            assert!(looks_like_javascript(line), "{line}");
        }
    }

    #[test]
    fn content_comes_last() {
        for (text, language) in [
            ("print(1)", Language::Python),
            ("import os\nfor n in range(3): print(n)", Language::Python),
            ("const a = 1;\nconsole.log(a);", Language::JavaScript),
            ("import fs from 'fs';\nfs.readFileSync('x');", Language::JavaScript),
            ("[1, 2].map(x => x + 1)", Language::JavaScript),
            ("import fs from 'fs'; console.log(1)", Language::JavaScript),
            ("for (const x of [1]) console.log(x)", Language::JavaScript),
            ("if (true) { f() }", Language::JavaScript),
            ("console.log('hi')", Language::JavaScript),
            ("console = 1\nconsole.log('hi')", Language::Python),
            ("if (True): print(1)", Language::Python),
            ("class A:\n    x: str = ''", Language::Python),
            ("const a: number = 1;", Language::TypeScript),
            ("interface A { a: string }\nconsole.log(1)", Language::TypeScript),
            ("type A = string | null;\nlet a: A = null;", Language::TypeScript),
            ("print(1", Language::Python),
            ("", Language::Python),
        ] {
            assert_eq!(guessed("tool", text), language, "{text}");
        }
    }
}
