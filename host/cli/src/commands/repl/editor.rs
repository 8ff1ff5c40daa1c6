//! The line editor: history, completion, colours and texts of several lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{Adapter, CancelToken, Language};
use codebox_jupyter::{Completions, complete_cell, completions_of, is_complete};
use codebox_runner::{Cell, CellIo, SessionControl};
use reedline::{
    ColumnarMenu, Completer, CompletionResult, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder, Reedline,
    ReedlineEvent, ReedlineMenu, Span, Suggestion, ValidationResult, Validator, default_emacs_keybindings,
};

use super::highlight::Colours;

/// Name of the menu of completions.
const MENU: &str = "completions";

/// Time after which a completion is cancelled, which ends an interpreter in WebAssembly; the state is that after the last cell then.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Number of cells that are kept.
const HISTORY_SIZE: usize = 2000;

/// Returns the editor of a session's cells. The cells are kept in a file of the directory, without those that begin with a space.
pub(super) fn editor(language: &Language, session: Session, history_dir: Option<PathBuf>) -> Reedline {
    let is_python = language.adapter() == Some(Adapter::Python);
    let mut keys = default_emacs_keybindings();
    let complete = ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    let menu = ColumnarMenu::default().with_name(MENU);
    let completer = SessionCompleter { session, language: language.clone(), is_python };
    let editor = Reedline::create()
        .with_validator(Box::new(Complete { is_python }))
        .with_highlighter(Box::new(Colours { is_python }))
        .with_completer(Box::new(completer))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_history_exclusion_prefix(Some(" ".to_owned()))
        .with_quick_completions(true)
        .use_bracketed_paste(true);
    match history_dir.and_then(|dir| history(&dir, language)) {
        Some(history) => editor.with_history(Box::new(history)),
        None => editor,
    }
}

/// Opens the file of a language's cells, which only the user can read; `None` if it cannot be used.
fn history(dir: &Path, language: &Language) -> Option<FileBackedHistory> {
    std::fs::create_dir_all(dir).ok()?;
    let file = dir.join(language.as_str());
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&file).ok()?;
    FileBackedHistory::with_file(HISTORY_SIZE, file).ok()
}

/// Decision if Enter ends a cell or a line.
struct Complete {
    is_python: bool,
}

impl Validator for Complete {
    fn validate(&self, text: &str) -> ValidationResult {
        match is_complete(text, self.is_python) {
            true => ValidationResult::Complete,
            false => ValidationResult::Incomplete,
        }
    }
}

/// Session whose names are completed.
pub(super) struct Session {
    pub control: Arc<dyn SessionControl + Send + Sync>,
    pub id: String,
}

struct SessionCompleter {
    session: Session,
    language: Language,
    is_python: bool,
}

impl SessionCompleter {
    fn completions(&self, text: &str, cursor: usize) -> Option<Completions> {
        let program = complete_cell(&self.language, text, cursor);
        let cell = Cell { number: Some(Cell::NOT_COUNTED), ..Cell::from(program) };
        let cancel = CancelToken::new();
        let io = CellIo { cancel: &cancel, tools: None, suspends: None, output: &mut |_, _| {} };
        // A limit would end an interpreter in a container, which keeps its state after a cancellation.
        let late = cancel.clone();
        std::thread::spawn(move || {
            std::thread::sleep(MAX_TIME);
            late.cancel();
        });
        let report = self.session.control.connect().ok()?.exec(&self.session.id, cell, io).ok()?;
        completions_of(&report.stdout.bytes(), text, cursor)
    }
}

impl Completer for SessionCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let before = &line[..line.floor_char_boundary(pos)];
        // A tab at the start of a line is an indentation.
        if before.lines().next_back().is_none_or(|last| last.trim().is_empty()) || before.ends_with('\n') {
            let value = if self.is_python { "    " } else { "  " };
            return CompletionResult::fresh(vec![suggestion(value.to_owned(), Span::new(before.len(), before.len()))]);
        }
        let Some(found) = self.completions(before, before.chars().count()) else {
            return CompletionResult::fresh(Vec::new());
        };
        let start = before.char_indices().nth(found.start).map_or(before.len(), |(at, _)| at);
        let span = Span::new(start, before.len());
        let matches = found.matches.into_iter().map(|name| suggestion(name, span));
        CompletionResult::fresh(matches.collect::<Vec<_>>())
    }
}

fn suggestion(value: String, span: Span) -> Suggestion {
    Suggestion { value, span, ..Suggestion::default() }
}
