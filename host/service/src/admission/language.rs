//! Which language a script is in, where nobody says.

use std::path::Path;

use codebox_core::Language;

use crate::needs::Needs;

/// Programs that a shebang names, by how their names begin.
const INTERPRETERS: [(&str, Language); 6] = [
    ("python", Language::Python),
    ("pypy", Language::Python),
    ("node", Language::JavaScript),
    ("bun", Language::JavaScript),
    ("tsx", Language::TypeScript),
    ("ts-node", Language::TypeScript),
];

/// The language by the file's ending, then by its shebang, then by what its text is.
pub(super) fn of(path: &Path, text: &[u8]) -> Language {
    let ending = path.extension().and_then(|extension| Language::of_extension(extension.to_str()?));
    ending.or_else(|| of_shebang(text)).unwrap_or_else(|| of_content(text))
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

    fn guessed(path: &str, text: &str) -> Language {
        of(Path::new(path), text.as_bytes())
    }

    #[test]
    fn endings_come_first() {
        for (path, language) in [
            ("a.py", Language::Python),
            ("a.mjs", Language::JavaScript),
            ("a.cts", Language::TypeScript),
            ("dir.js/a.py", Language::Python),
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
