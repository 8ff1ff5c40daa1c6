//! Makes memory images: starts a guest, runs its prelude, and saves its memory.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{Access, CodeScope, GuestPath, Job, Limit, Source};

use crate::code::{CodeImage, NotCompiled};
use crate::error::WasmError;
use crate::guest::{Channel, JobKind, JobStreams, Parts, Quota, SeedHint, message};
use crate::image::{ImageFacts, MemoryImage, ProgramImports};
use crate::launch::{GuestInstance, Setup};
use crate::mounts::Mount;
use crate::region::{Capacity, RegionPool};
use crate::store::Store;
use codebox_streams::{Output, Sinks, Stdin};

/// The text of the entry. The prelude has replaced the reactor's `turn` and ignores the text.
pub(crate) const ENTRY_TEXT: &[u8] = b"0";

/// Minimum number of bytes that identify a position in memory reliably.
const MIN_SEED_MARKER: usize = 16;

/// Maker of the images of one compiled runtime.
pub(crate) struct ImageBuilder<'a> {
    pub store: &'a Store,
    /// The file with the memory that the module's data segments describe.
    pub initial: &'a Path,
}

/// The properties of an image on disk, and the interpreter's facts.
pub(crate) struct BuiltImage {
    pub facts: ImageFacts,
    /// The facts that the interpreter reported about itself.
    pub interpreter: serde_json::Value,
    /// Processor time of the imports of programs, which a program that starts from the image saves.
    pub saved: Duration,
}

impl ImageBuilder<'_> {
    /// Makes an image with these modules imported, with the first of several codes that has all parts that the imports
    /// need. If none has them, guests of the image load the other parts when they start.
    pub(crate) fn build_with_least_code(
        &self,
        codes: &[(Option<&str>, CodeImage)],
        imports: &[String],
        program: Option<&ProgramImports<'_>>,
        path: &Path,
    ) -> Result<BuiltImage, WasmError> {
        for (tried, (last, code)) in (1..).zip(codes) {
            let image = match self.build_image((*last, code), imports, program, path) {
                Err(WasmError::NotCompiled) if tried < codes.len() => continue,
                image => image?,
            };
            let is_enough = code.later.as_ref().is_none_or(|later| image.facts.parts <= later.first());
            if is_enough || codes.len() == tried {
                return Ok(image);
            }
            std::fs::remove_file(path).map_err(WasmError::io("remove", path))?;
        }
        Err(WasmError::Prelude("the runtime has no code".into()))
    }

    /// Makes an image with these modules imported and writes its bytes to `path`. The code is given with the name of its
    /// last part.
    pub(crate) fn build_image(
        &self,
        code: (Option<&str>, &CodeImage),
        imports: &[String],
        program: Option<&ProgramImports<'_>>,
        path: &Path,
    ) -> Result<BuiltImage, WasmError> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let executor = executor.map_err(WasmError::io("start an executor for", path))?;
        let made = executor.block_on(self.run(code, imports, program, path));
        // Its threads for files end here.
        drop(executor);
        made
    }

    async fn run(
        &self,
        (last, code): (Option<&str>, &CodeImage),
        imports: &[String],
        program: Option<&ProgramImports<'_>>,
        path: &Path,
    ) -> Result<BuiltImage, WasmError> {
        let file = File::open(self.initial).map_err(WasmError::io("open", self.initial))?;
        let initial = MemoryImage::open(self.initial, file, ImageFacts::default())?;
        let pool = RegionPool::new(Arc::new(initial), Capacity::Regions(0), Arc::default());
        // Imports may access /work and /tmp, and matplotlib writes to /tmp. Both directories are temporary.
        let scratch = match (program, path.parent()) {
            // A confined process can write only there.
            (Some(_), Some(dir)) => tempfile::tempdir_in(dir),
            _ => tempfile::tempdir(),
        };
        let scratch = scratch.map_err(WasmError::io("create a directory for", path))?;
        let mut mounts = self.store.library_mounts()?;
        mounts.extend(program.into_iter().flat_map(|program| program.mounts()));
        for (name, guest) in [("work", GuestPath::work()), ("tmp", GuestPath::tmp())] {
            let host = scratch.path().join(name);
            std::fs::create_dir(&host).map_err(WasmError::io("create", &host))?;
            mounts.push(Mount { guest, host, access: Access::ReadWrite });
        }
        let root = self.store.root_dir();
        let mut instance = GuestInstance::start(
            code,
            &pool,
            match program {
                Some(program) => program.limit(setup(&root, &mounts, Channel::imaging())),
                None => setup(&root, &mounts, Channel::imaging()),
            },
        )?;
        let failed = |e: wasmtime::Error| WasmError::Prelude(format!("{e:#}"));
        if instance.has_export("_initialize") {
            instance.call_unit("_initialize").await.map_err(failed)?;
        }
        let mut saved = Duration::ZERO;
        if let Some([boot, begin, finish]) = self.prelude_scripts(imports) {
            instance = run_script(instance, &boot).await?;
            instance = run_script(instance, &begin).await?;
            if let Some(program) = program {
                let uses;
                (instance, saved, uses) = program.run(instance).await?;
                instance = run_script(instance, &finish).await?;
                program.check_end(&mut instance, &uses)?;
            } else {
                instance = run_script(instance, &finish).await?;
            }
        }
        let entry = instance.copy_into_guest(ENTRY_TEXT).await.map_err(failed)?;
        let globals = instance.globals(code)?;
        let hints = std::mem::take(&mut instance.guest().channel.seeds);
        let bytes = instance.bytes().map_err(failed)?;
        let seeds = hints.iter().map(|hint| locate_seed(bytes, hint)).collect::<Result<_, _>>()?;
        crate::store::write_sparse(path, bytes)?;
        let open = instance.guest().quota.open_count();
        if open > 0 {
            // In a restored guest, these descriptors would refer to other files or would not be open.
            return Err(WasmError::Prelude(format!("{open} files are still open after the imports")));
        }
        let parts = instance.guest().parts.as_ref().map_or(0, Parts::loaded);
        let channel = instance.end().channel;
        let interpreter = channel.facts.unwrap_or_default();
        let facts = ImageFacts {
            globals,
            entry: Some(entry),
            seeds,
            imports: imports.to_vec(),
            modules: channel.modules,
            lookups: channel.lookups,
            code: last.map(str::to_owned),
            parts,
            hot: Vec::new(),
        };
        // A program that starts from imports of programs would run their code at its end.
        let hot =
            if program.is_some() { Vec::new() } else { self.hot_pages(code, &mounts, path, facts.clone()).await? };
        Ok(BuiltImage { facts: ImageFacts { hot, ..facts }, interpreter, saved })
    }

    /// Returns the pages that the runtime's sample writes. Empty on systems that cannot find them, and if the sample fails
    /// in this image, because an import changed what it uses.
    async fn hot_pages(
        &self,
        code: &CodeImage,
        mounts: &[Mount],
        path: &Path,
        facts: ImageFacts,
    ) -> Result<Vec<(u32, u32)>, WasmError> {
        let Some(language) = self.store.spec().languages.first() else { return Ok(Vec::new()) };
        let language = language.name.parse().map_err(|e| WasmError::Prelude(format!("{}: {e}", language.name)))?;
        let job = Job::new(Source::Inline(self.store.spec().sample.clone()), language);
        let Some(text) = message(&job, JobKind::Program, &[]) else { return Ok(Vec::new()) };
        let Some(entry) = facts.entry else { return Ok(Vec::new()) };
        let file = File::open(path).map_err(WasmError::io("open", path))?;
        let pool =
            RegionPool::new(Arc::new(MemoryImage::open(path, file, facts)?), Capacity::Regions(1), Arc::default());
        let root = self.store.root_dir();
        let mut instance = GuestInstance::start(code, &pool, setup(&root, mounts, Channel::new(text)))?;
        if !matches!(instance.turn(entry.0, entry.1).await, Ok(0)) {
            return Ok(Vec::new());
        }
        instance.mark_clean();
        drop(instance.end());
        Ok(pool.hot_pages())
    }

    /// Returns the texts that load a prelude, and that begin and finish its preparation. `None` for a module that contains its
    /// prelude.
    fn prelude_scripts(&self, imports: &[String]) -> Option<[String; 3]> {
        let (boot, modules) = self.store.prelude_parts()?;
        // A JSON string of ASCII text is also a valid Python string.
        let sources = serde_json::to_string(modules).unwrap_or_default();
        let names = serde_json::to_string(imports).unwrap_or_default();
        Some([
            boot.replacen("_load(SOURCES)", &format!("_load({sources})"), 1),
            format!("import _codebox.image\n_codebox.image.begin({names})\n"),
            "import _codebox.image\n_codebox.image.finish()\n".to_owned(),
        ])
    }
}

/// Runs a text of the prelude in a guest. A guest in which it fails is ended.
pub(crate) async fn run_script(mut instance: GuestInstance, text: &str) -> Result<GuestInstance, WasmError> {
    let copied = instance.copy_into_guest(text.as_bytes()).await;
    let (at, len) = copied.map_err(|e| WasmError::Prelude(format!("{e:#}")))?;
    match instance.turn(at, len).await {
        Ok(0) => Ok(instance),
        Ok(_) => Err(WasmError::Prelude(last_line(instance.end()))),
        Err(e) if e.is::<NotCompiled>() => Err(WasmError::NotCompiled),
        Err(e) => Err(WasmError::Prelude(format!("{e:#}; {}", last_line(instance.end())))),
    }
}

/// Returns the resources of a guest without limits and streams.
fn setup<'a>(root: &'a Path, mounts: &'a [Mount], channel: Channel) -> Setup<'a> {
    Setup {
        root,
        mounts,
        memory: None,
        quota: Quota::new(None, None, None),
        streams: JobStreams {
            stdin: Stdin::bytes(Vec::new()),
            stdout: Output::new(Limit::Unlimited),
            stderr: Output::new(Limit::Unlimited),
            sinks: Sinks::default(),
            is_terminal: false,
            channel,
        },
        net: None,
        code: CodeScope::Image,
        witness: None,
        seed: None,
    }
}

/// Returns the only position in memory of a generator's state, with the state's length.
fn locate_seed(memory: &[u8], hint: &SeedHint) -> Result<(u32, u32), WasmError> {
    let refused = |why: &str| WasmError::Prelude(format!("a generator's state {why}"));
    let words: Vec<u8> = hint.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    if words.len() < MIN_SEED_MARKER || words.len() > hint.len as usize {
        return Err(refused("is described by too few or too many words"));
    }
    let mut places = memchr::memmem::find_iter(memory, &words);
    let place = places.next().ok_or_else(|| refused("is not found in memory"))?;
    if places.next().is_some() {
        return Err(refused("is found in memory more than once"));
    }
    if memory.len() - place < hint.len as usize {
        return Err(refused("extends beyond the memory"));
    }
    u32::try_from(place).map(|place| (place, hint.len)).map_err(|_| refused("has an address out of range"))
}

/// Returns the last line of a guest's standard error, for an error message.
fn last_line(guest: crate::guest::Guest) -> String {
    let text = guest.stderr.finish().to_text_lossy();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output").to_owned()
}
