//! The imports with which programs start, as an addition to an image.

use std::sync::Arc;
use std::time::Duration;

use codebox_core::{Access, AutomaticImage, ByteSize, Limit};
use codebox_streams::Output;
use serde_json::json;

use crate::error::WasmError;
use crate::guest::{Quota, Uses, Witness};
use crate::image::builder::run_script;
use crate::launch::{GuestInstance, Setup};
use crate::mounts::Mount;
use crate::sys::thread_cpu_time;

/// Maximum memory of a guest that imports packages, which are as untrusted as programs.
const MAX_MEMORY: ByteSize = ByteSize::mib(1024);

/// Maximum bytes that imports may write to files. An image keeps no files, so any change prevents it.
const MAX_DISK: ByteSize = ByteSize::mib(64);

/// Maximum number of files that imports may create.
const MAX_FILES: u64 = 1000;

/// Maximum number of files that imports may have open.
const MAX_OPEN_FILES: u64 = 256;

/// Maximum bytes of output that are kept. Any output prevents an image.
const MAX_OUTPUT: ByteSize = ByteSize::kib(64);

/// Imports that run like a program. They are refused if they have an effect that an image does not keep, or that must differ
/// between jobs.
pub(crate) struct ProgramImports<'a> {
    wanted: &'a AutomaticImage,
    witness: Arc<Witness>,
}

impl<'a> ProgramImports<'a> {
    pub(crate) fn new(wanted: &'a AutomaticImage) -> Self {
        Self { wanted, witness: Arc::default() }
    }

    /// Returns the mounts of the packages.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = Mount> {
        self.wanted.layers.iter().map(|layer| Mount {
            guest: layer.guest.clone(),
            host: layer.host.clone(),
            access: Access::ReadOnly,
        })
    }

    /// Adds limits and the observation of the guest to its resources.
    pub(crate) fn limit<'s>(&self, setup: Setup<'s>) -> Setup<'s> {
        Setup {
            memory: Some(MAX_MEMORY.get()),
            quota: Quota::new(Some(MAX_DISK.get()), Some(MAX_FILES), Some(MAX_OPEN_FILES)),
            witness: Some(Arc::clone(&self.witness)),
            seed: None,
            ..setup
        }
    }

    /// Runs the imports in a guest whose preparation has begun. Returns the guest, the processor time of the imports, and the
    /// uses up to their end.
    pub(crate) async fn run(&self, instance: GuestInstance) -> Result<(GuestInstance, Duration, Uses), WasmError> {
        let call = |function: String| format!("import _codebox.image\n_codebox.image.{function}\n");
        let mut instance = run_script(instance, &call(format!("before_imports({})", self.job()))).await?;
        let guest = instance.guest();
        guest.quota.forget_changes();
        for output in [&mut guest.stdout, &mut guest.stderr] {
            *output = new_output();
        }
        let (before, started) = (self.witness.uses(), thread_cpu_time());
        let mut instance = run_script(instance, &call(format!("run_imports({})", json!(self.program())))).await?;
        let saved = thread_cpu_time().saturating_sub(started);
        let uses = self.witness.uses();
        check_effects(&mut instance, uses.first_since(&before))?;
        instance.guest().channel.lookups = uses.files_since(&before).to_vec();
        Ok((run_script(instance, &call("after_imports()".to_owned())).await?, saved, uses))
    }

    /// Checks that the code that ran after the imports, such as callbacks of the collector, had no effect either. The collector
    /// reads the time.
    pub(crate) fn check_end(&self, instance: &mut GuestInstance, before: &Uses) -> Result<(), WasmError> {
        let kinds = ["random numbers", "the date", "input", "the network", "features that are missing"];
        check_effects(instance, self.witness.uses().first_call_since(before, &kinds))
    }

    /// Returns the Python text of the job whose program has these imports.
    fn job(&self) -> String {
        let AutomaticImage { layers, network, program_dir, .. } = self.wanted;
        let packages: Vec<&str> = layers.iter().map(|layer| layer.guest.as_str()).collect();
        let mut job = json!({
            "kind": "inline", "file": "<string>", "argv": ["-c"], "env": {}, "path0": program_dir, "cwd": "/work",
        });
        if !packages.is_empty() {
            job["packages"] = json!(packages);
        }
        if *network {
            job["net"] = json!(1);
        }
        // JSON of numbers, strings, lists and objects is Python as well.
        job.to_string()
    }

    /// Returns the program that imports the modules. A module that is not found ends the imports: it may be the program's own, and
    /// change what the next modules find.
    fn program(&self) -> String {
        format!(
            "import importlib.util\n\
             for module, names in {}:\n    \
                 if importlib.util.find_spec(module.partition('.')[0]) is None:\n        \
                     break\n    \
                 __import__(module, None, None, names)\n\
             completed = True\n",
            json!(self.wanted.imports)
        )
    }
}

fn check_effects(instance: &mut GuestInstance, use_of: Option<String>) -> Result<(), WasmError> {
    let guest = instance.guest();
    let outputs = [&mut guest.stdout, &mut guest.stderr].map(|output| std::mem::replace(output, new_output()).finish());
    let refused = |effect: &str| Err(WasmError::Prelude(format!("the imports {effect}")));
    match use_of {
        Some(effect) => refused(&effect),
        None if outputs.iter().any(|output| output.total() > 0) => refused("print"),
        None if guest.quota.touched_disk() => refused("write files"),
        None => Ok(()),
    }
}

fn new_output() -> Output {
    Output::new(Limit::At(MAX_OUTPUT))
}
