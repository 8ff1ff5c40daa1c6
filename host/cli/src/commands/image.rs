//! `codebox image`.

use codebox_core::{LocalImage, ResultKind, RunnerError};
use codebox_runner::Runner;
use codebox_service::catalog::{Catalog, ImageEntry, ImageOrigin, Removal};
use serde_json::{Value, json};

use super::state::{print_removal, size, state, state_words};
use crate::answer;
use crate::args::ImageCommand;
use crate::messages::Messages;
use crate::render::{Table, bytes};

pub(super) fn image(command: ImageCommand, messages: Messages, runner: &Runner) -> Result<u8, RunnerError> {
    let catalog = runner.catalog()?;
    match command {
        ImageCommand::List { engine: None, json: false } => answer::print(&list(catalog)?),
        ImageCommand::List { engine: None, json: true } => answer::print_json(&json!({ "images": listed(catalog)? })),
        ImageCommand::List { engine: Some(engine), json: false } => answer::print(&of_engine(&engine, runner)?),
        ImageCommand::List { engine: Some(engine), json: true } => {
            let image = |LocalImage { names, id, size }| json!({ "names": names, "id": id, "size": size });
            let images: Vec<Value> = runner.engine_images(&engine)?.into_iter().map(image).collect();
            answer::print_json(&json!({ "images": images }))
        }
        ImageCommand::Pull { name, engine } => {
            let engine = runner.pull_image(engine.as_deref(), &name)?;
            messages.note(format!("image {name} is available in {engine}"));
            Ok(0)
        }
        ImageCommand::Build { name, import } => {
            let entry = catalog.build_image(&name, &import, runner.progress())?;
            let size = entry.size.map(|size| format!(" ({})", bytes(size)));
            let size = size.unwrap_or_default();
            messages.note(format!("built image {}{size}", entry.name));
            messages.note(format!("use it with: codebox run --image {}", entry.name));
            Ok(0)
        }
        ImageCommand::Remove { name } => match catalog.remove_image(&name)? {
            Removal::NothingThere => {
                let line = format!("unknown image {name:?}");
                Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("see codebox image list"))
            }
            Removal::Removed => {
                print_removal("image", &name, Removal::Removed, messages);
                Ok(0)
            }
        },
    }
}

fn origin(origin: ImageOrigin) -> &'static str {
    match origin {
        ImageOrigin::BuiltIn => "built in",
        ImageOrigin::User => "user",
        ImageOrigin::Automatic => "automatic",
    }
}

fn listed(catalog: &dyn Catalog) -> Result<Vec<Value>, RunnerError> {
    let entry = |entry: ImageEntry| {
        let (state, reason) = state_words(&entry.state);
        json!({
            "name": entry.name,
            "runtime": entry.runtime,
            "origin": origin(entry.origin),
            "state": state,
            "reason": reason,
            "size": entry.size,
            "imports": entry.imports,
        })
    };
    Ok(catalog.images(None)?.into_iter().map(entry).collect())
}

fn list(catalog: &dyn Catalog) -> Result<String, RunnerError> {
    let mut table = Table::new(["NAME", "RUNTIME", "ORIGIN", "STATE", "SIZE", "IMPORTS"]);
    for entry in catalog.images(None)? {
        table.row([
            entry.name,
            entry.runtime,
            origin(entry.origin).to_owned(),
            state(&entry.state),
            size(entry.size),
            entry.imports.join(", "),
        ]);
    }
    Ok(table.to_string())
}

fn of_engine(engine: &str, runner: &Runner) -> Result<String, RunnerError> {
    let mut table = Table::new(["NAME", "ID", "SIZE"]);
    for LocalImage { names, id, size } in runner.engine_images(engine)? {
        let short: String = id.trim_start_matches("sha256:").chars().take(12).collect();
        for name in names {
            table.row([name, short.clone(), bytes(size)]);
        }
    }
    Ok(table.to_string())
}
