//! `codebox image`.

use codebox_service::catalog::{Catalog, ImageOrigin};

use super::state::{size, state, tell_removal};
use crate::answer;
use crate::args::ImageCommand;
use crate::failure::Failure;
use crate::host::Host;
use crate::progress::progress;
use crate::render::{Table, bytes};
use crate::voice::Voice;

pub(super) fn image(command: ImageCommand, voice: Voice, host: &dyn Host) -> Result<u8, Failure> {
    let catalog = host.catalog()?;
    match command {
        ImageCommand::List => answer::print(&list(catalog)?),
        ImageCommand::Build { name, import } => {
            let entry = catalog.build_image(&name, &import, progress(voice).as_ref())?;
            let size = entry.size.map(|size| format!(" ({})", bytes(size)));
            let size = size.unwrap_or_default();
            voice.note(format!("built the image {}{size}", entry.name));
            voice.note(format!("use it with: codebox run --image {}", entry.name));
            Ok(0)
        }
        ImageCommand::Remove { name } => {
            tell_removal("image", &name, &catalog.remove_image(&name)?, voice);
            Ok(0)
        }
    }
}

fn list(catalog: &dyn Catalog) -> Result<String, Failure> {
    let mut table = Table::new(["NAME", "RUNTIME", "ORIGIN", "STATE", "SIZE", "IMPORTS"]);
    for entry in catalog.images(None)? {
        let origin = match entry.origin {
            ImageOrigin::BuiltIn => "built in",
            ImageOrigin::User => "yours",
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
