//! `codebox image`.

use codebox_core::{LocalImage, ResultKind, RunnerError};
use codebox_runner::Runner;
use codebox_service::catalog::{Catalog, ImageOrigin, Removal};

use super::state::{print_removal, size, state};
use crate::answer;
use crate::args::ImageCommand;
use crate::messages::Messages;
use crate::render::{Table, bytes};

pub(super) fn image(command: ImageCommand, messages: Messages, runner: &Runner) -> Result<u8, RunnerError> {
    let catalog = runner.catalog()?;
    match command {
        ImageCommand::List { engine: None } => answer::print(&list(catalog)?),
        ImageCommand::List { engine: Some(engine) } => answer::print(&of_engine(&engine, runner)?),
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

fn list(catalog: &dyn Catalog) -> Result<String, RunnerError> {
    let mut table = Table::new(["NAME", "RUNTIME", "ORIGIN", "STATE", "SIZE", "IMPORTS"]);
    for entry in catalog.images(None)? {
        let origin = match entry.origin {
            ImageOrigin::BuiltIn => "built in",
            ImageOrigin::User => "user",
            ImageOrigin::Automatic => "automatic",
        };
        table.row([
            entry.name,
            entry.runtime,
            origin.to_owned(),
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
