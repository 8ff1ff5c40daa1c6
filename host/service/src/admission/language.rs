//! Which language a script is in, where nobody says.

use std::collections::BTreeMap;
use std::path::Path;

use codebox_core::{Language, ResultKind};

use super::denied::Denied;
use crate::needs::Needs;

/// Programs that a shebang names, by how their names begin.
const INTERPRETERS: [(&str, Language); 7] = [
    ("python", Language::Python),
    ("pypy", Language::Python),
    ("node", Language::JavaScript),
    ("bun", Language::JavaScript),
    ("deno", Language::TypeScript),
    ("tsx", Language::TypeScript),
    ("ts-node", Language::TypeScript),
];

/// The language by the file's ending, then by its shebang, then by what its text is.
///
/// `added` are the endings of runtimes that the user added, which never are codebox's own.
pub(super) fn of(path: &Path, text: &[u8], added: &BTreeMap<String, Language>) -> Language {
    let ending = path.extension().and_then(|extension| extension.to_str());
    let known = ending.and_then(|ending| Language::of_extension(ending).or_else(|| added.get(ending).cloned()));
    known.unwrap_or_else(|| of_text(text))
}

/// The language of a text without a name, by its shebang and then by what it is.
pub(super) fn of_text(text: &[u8]) -> Language {
    of_shebang(text).unwrap_or_else(|| of_content(text))
}

/// The refusal of a program that comes without anything that names its language.
///
/// Standard input may be anything that a pipe brought, so nothing is guessed from it.
pub(super) fn unknown(subject: &str) -> Denied {
    let detail = "its language is not known";
    Denied::new(ResultKind::InvalidRequest, ("run", subject), detail, "name it, as in --lang python")
}

fn of_shebang(text: &[u8]) -> Option<Language> {
    let line = text.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let words = std::str::from_utf8(line).ok()?;
    // `#!/usr/bin/env -S node --flag` and `#!/usr/bin/python3`: the first word that is an interpreter's name.
    words.split_ascii_whitespace().find_map(|word| {
        let name = word.rsplit('/').next()?;
        let known = INTERPRETERS.iter().find(|(begin, _)| name.starts_with(begin));
        known.map(|(_, language)| language.clone())
    })
}

/// What does not parse as Python, and has a line that looks like JavaScript, is JavaScript; all else is Python.
fn of_content(text: &[u8]) -> Language {
    let Ok(text) = std::str::from_utf8(text) else { return Language::Python };
    // The look comes first, because it is quick.
    let javascript = text.lines().any(looks_like_javascript) && !Needs::can_be_python(text);
    if javascript { Language::JavaScript } else { Language::Python }
}

fn looks_like_javascript(line: &str) -> bool {
    let line = line.trim();
    let begins = ["const ", "let ", "var ", "function ", "async function ", "export ", "//", "/*", "console."];
    begins.iter().any(|begin| line.starts_with(begin))
        || line.contains("=>")
        || line.contains("require(")
        || (line.starts_with("import ") && line.ends_with([';', '"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Language {
        name.parse().expect("a language's name")
    }

    fn guessed(path: &str, text: &str) -> Language {
        of(Path::new(path), text.as_bytes(), &[("lua".to_owned(), named("lua"))].into())
    }

    #[test]
    fn endings_come_first() {
        for (path, language) in [
            ("a.py", Language::Python),
            ("a.mjs", Language::JavaScript),
            ("a.cts", Language::TypeScript),
            ("dir.js/a.py", Language::Python),
            ("a.lua", named("lua")),
        ] {
            assert_eq!(guessed(path, "#!/usr/bin/env node\nconst a = 1;"), language, "{path}");
        }
    }

    #[test]
    fn then_shebangs() {
        for (line, language) in [
            ("#!/usr/bin/env node", Language::JavaScript),
            ("#!/usr/bin/env -S node --no-warnings", Language::JavaScript),
            ("#!/usr/bin/python3.11 -u", Language::Python),
            ("#!/usr/local/bin/tsx", Language::TypeScript),
        ] {
            assert_eq!(guessed("tool", &format!("{line}\nprint(1)\n")), language, "{line}");
        }
    }

    #[test]
    fn then_content() {
        for (text, language) in [
            ("print(1)", Language::Python),
            ("import os\nfor n in range(3): print(n)", Language::Python),
            ("const a = 1;\nconsole.log(a);", Language::JavaScript),
            ("import fs from 'fs';\nfs.readFileSync('x');", Language::JavaScript),
            ("[1, 2].map(x => x + 1)", Language::JavaScript),
            ("print(1", Language::Python),
            ("", Language::Python),
        ] {
            assert_eq!(guessed("tool", text), language, "{text}");
        }
    }
}
