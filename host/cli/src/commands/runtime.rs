//! `codebox runtime`.

use codebox_core::{ResultKind, RunnerError};
use codebox_runner::Runner;
use codebox_service::catalog::{Catalog, Description, PackageSource, RuntimeEntry};
use serde_json::{Value, json};

use super::doctor::show;
use super::state::{place, print_removal, size, state, state_words};
use crate::answer;
use crate::args::RuntimeCommand;
use crate::messages::Messages;
use crate::render::Table;

pub(super) fn runtime(command: RuntimeCommand, messages: Messages, runner: &Runner) -> Result<u8, RunnerError> {
    let catalog = runner.catalog()?;
    match command {
        RuntimeCommand::List { json: false } => answer::print(&list(catalog)?),
        RuntimeCommand::List { json: true } => answer::print_json(&json!({ "runtimes": listed(catalog)? })),
        RuntimeCommand::Install { name, from } => {
            let source = from.map_or(PackageSource::Index, PackageSource::File);
            let entry = catalog.install(&name, &source, runner.progress())?;
            messages.note(format!("installed {} {}", entry.name, entry.version));
            Ok(0)
        }
        RuntimeCommand::Prepare { name } => {
            let entry = catalog.ensure(&name, runner.progress())?;
            messages.note(format!("prepared {} {}", entry.name, entry.version));
            Ok(0)
        }
        RuntimeCommand::Add { file, lang, ext, description } => {
            let description = match (description, lang) {
                (Some(file), _) => Description::File(file),
                (None, Some(language)) => Description::Name { language, extensions: ext },
                (None, None) => return Err(RunnerError::new(ResultKind::InvalidRequest, "the language has no name")),
            };
            let entry = catalog.add(&file, &description, runner.progress())?;
            messages.note(format!("added {} {}", entry.name, entry.version));
            Ok(0)
        }
        RuntimeCommand::Verify { name } => show(&catalog.verify(&name)?),
        RuntimeCommand::Remove { name } => {
            print_removal("runtime", &name, catalog.remove(&name)?, messages);
            Ok(0)
        }
    }
}

fn listed(catalog: &dyn Catalog) -> Result<Vec<Value>, RunnerError> {
    let entry = |entry: RuntimeEntry| {
        let (state, reason) = state_words(&entry.state);
        json!({
            "name": entry.name,
            "version": entry.version,
            "language": entry.language.as_str(),
            "language_version": entry.language_version,
            "state": state,
            "reason": reason,
            "size": entry.size,
            "path": entry.path.map(|path| path.display().to_string()),
        })
    };
    Ok(catalog.runtimes()?.into_iter().map(entry).collect())
}

fn list(catalog: &dyn Catalog) -> Result<String, RunnerError> {
    let mut table = Table::new(["NAME", "VERSION", "LANGUAGE", "STATE", "SIZE", "PATH"]);
    for entry in catalog.runtimes()? {
        let language = match &entry.language_version {
            Some(version) => format!("{} {version}", entry.language),
            None => entry.language.to_string(),
        };
        table.row([
            entry.name,
            entry.version,
            language,
            state(&entry.state),
            size(entry.size),
            place(entry.path.as_deref()),
        ]);
    }
    Ok(table.to_string())
}
