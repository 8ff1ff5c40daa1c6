//! Languages as editors know them.

use codebox_core::{Adapter, Language};
use jupyter_protocol::{CodeMirrorMode, LanguageInfo};

/// Returns the description of a language for editors.
pub(crate) fn info(language: &Language, version: &str) -> LanguageInfo {
    let is_python = language.adapter() == Some(Adapter::Python);
    let is_typescript = *language == Language::TypeScript;
    let (mimetype, extension, lexer, mode) = if is_python {
        ("text/x-python", ".py", "ipython3", CodeMirrorMode::ipython_code_mirror_mode())
    } else if is_typescript {
        ("text/x-typescript", ".ts", "typescript", CodeMirrorMode::typescript())
    } else {
        ("text/javascript", ".js", "javascript", CodeMirrorMode::Simple("javascript".to_owned()))
    };
    LanguageInfo {
        name: language.as_str().to_owned(),
        version: version.to_owned(),
        mimetype: Some(mimetype.to_owned()),
        file_extension: Some(extension.to_owned()),
        pygments_lexer: Some(lexer.to_owned()),
        codemirror_mode: Some(mode),
        nbconvert_exporter: Some(if is_python { "python" } else { "script" }.to_owned()),
    }
}
