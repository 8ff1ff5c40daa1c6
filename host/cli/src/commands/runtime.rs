//! `codebox runtime`.

use codebox_service::catalog::{Catalog, PackageSource};

use super::doctor::show;
use super::state::{place, size, state, tell_removal};
use crate::answer;
use crate::args::RuntimeCommand;
use crate::failure::Failure;
use crate::host::Host;
use crate::progress::progress;
use crate::render::Table;
use crate::voice::Voice;

pub(super) fn runtime(command: RuntimeCommand, voice: Voice, host: &dyn Host) -> Result<u8, Failure> {
    let catalog = host.catalog()?;
    match command {
        RuntimeCommand::List => answer::print(&list(catalog)?),
        RuntimeCommand::Install { name, from } => {
            let source = from.map_or(PackageSource::Index, PackageSource::File);
            let entry = catalog.install(&name, &source, progress(voice).as_ref())?;
            voice.note(format!("installed {} {}", entry.name, entry.version));
            Ok(0)
        }
        RuntimeCommand::Add { file, lang, ext } => {
            let entry = catalog.add(&file, &lang, &ext, progress(voice).as_ref())?;
            voice.note(format!("added {} {}", entry.name, entry.version));
            Ok(0)
        }
        RuntimeCommand::Verify { name } => show(&catalog.verify(&name)?),
        RuntimeCommand::Remove { name } => {
            tell_removal("runtime", &name, &catalog.remove(&name)?, voice);
            Ok(0)
        }
    }
}

fn list(catalog: &dyn Catalog) -> Result<String, Failure> {
    let mut table = Table::new(["NAME", "VERSION", "LANGUAGE", "STATE", "SIZE", "PLACE"]);
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
