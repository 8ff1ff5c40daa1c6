//! Processes of codebox that its command line starts: the pool daemon of warm containers, the network broker, and the
//! compilation of packages.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use codebox_core::{ResultKind, RunnerError, Silent};
#[cfg(feature = "packages")]
use codebox_packages::CompileWork;
use codebox_wasm::{CodeLevel, Installation, UnknownLevel};

use crate::app_dirs::AppDirs;
use crate::machine::{Machine, Use};
use crate::network;

/// Command of a process that keeps containers ready. The next argument is the container engine.
const POOL_DAEMON_COMMAND: &str = "keep-warm";

/// Command of a process that compiles modules.
#[cfg(feature = "packages")]
const COMPILE_COMMAND: &str = "compile-modules";

/// Command of a process that packs the runtimes for an installation. The next arguments are the directory of the installation
/// and the processor levels.
const PACK_COMMAND: &str = "pack-runtimes";

/// Command of a process that opens network connections for a confined process.
pub(crate) const BROKER_COMMAND: &str = "net-broker";

/// Command of a process that compiles the code that no run has needed yet.
const COMPILE_REST_COMMAND: &str = "compile-rest";

/// Priority of background processes below that of runs.
#[cfg(unix)]
pub(crate) const BACKGROUND_NICE: i32 = 10;

/// Maximum number of bytes of a description on standard input.
const MAX_INPUT: u64 = 1 << 20;

/// Runs the command of such a process, if the arguments of this process name one, and returns its exit status.
pub(crate) fn dispatch(args: &[OsString]) -> Option<Result<u8, RunnerError>> {
    let done = |result: Result<(), RunnerError>| result.map(|()| 0);
    match args.get(1)?.to_str()? {
        BROKER_COMMAND => Some(done(network::serve())),
        #[cfg(target_os = "linux")]
        crate::start_host::HOST_COMMAND => Some(done(crate::host_process::serve())),
        #[cfg(target_os = "linux")]
        crate::session_process::SESSIONS_COMMAND => Some(done(crate::session_process::serve())),
        #[cfg(target_os = "linux")]
        crate::box_process::BOX_COMMAND => Some(Ok(crate::box_process::serve())),
        #[cfg(target_os = "linux")]
        crate::virtual_machine::VM_COMMAND => Some(done(crate::virtual_machine::serve())),
        #[cfg(target_os = "linux")]
        crate::workers::WORKER_COMMAND => Some(Ok(crate::work::start(args))),
        #[cfg(unix)]
        crate::automatic_images::MAKE_COMMAND => Some(done(crate::automatic_images::make())),
        #[cfg(unix)]
        crate::automatic_images::DRAFT_COMMAND => Some(crate::automatic_images::draft(args.get(2)?.as_ref())),
        COMPILE_REST_COMMAND => Some(done(compile_rest())),
        PACK_COMMAND => Some(done(pack(&args[2..]))),
        #[cfg(feature = "packages")]
        COMPILE_COMMAND => Some(done(input().and_then(|input| compile(&input)))),
        POOL_DAEMON_COMMAND => {
            let engine = args.get(2).and_then(|engine| engine.to_str()).unwrap_or_default();
            Some(done(input().and_then(|input| serve_pool(engine, &input))))
        }
        _ => None,
    }
}

/// Packs all built-in runtimes, and installs and prepares them first if they are missing, and the programs that codebox starts.
fn pack(args: &[OsString]) -> Result<(), RunnerError> {
    let usage = || RunnerError::new(ResultKind::InvalidRequest, "expected a directory and processor levels");
    let (dir, levels) = args.split_first().ok_or_else(usage)?;
    let invalid = |error: UnknownLevel| RunnerError::of(ResultKind::InvalidRequest, &error);
    let levels = levels.iter().map(|level| level.to_string_lossy().parse::<CodeLevel>().map_err(invalid));
    let levels = levels.collect::<Result<Vec<_>, _>>()?;
    let machine = Machine::new(Use::CommandLine, AppDirs::from_env);
    let catalog = machine.catalog()?;
    let installation = Installation::at(dir.into());
    catalog.pack(&installation, &levels, &Silent)?;
    let programs = installation.programs_dir();
    let packed = std::fs::create_dir_all(&programs).and_then(|()| codebox_analysis::Analyzer::pack(&programs));
    packed.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
    codebox_container::pack_agent(&programs).map_err(|error| RunnerError::of(ResultKind::InternalError, &error))
}

/// Reads the description that another codebox process wrote to standard input.
pub(crate) fn input() -> Result<String, RunnerError> {
    let mut text = String::new();
    match io::stdin().take(MAX_INPUT).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(RunnerError::new(
            ResultKind::InvalidRequest,
            format!("cannot read the request from standard input: {error}"),
        )),
    }
}

/// Returns the path of the program with all parts.
pub(crate) fn complete_program() -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    return crate::start_host::own_complete_program();
    #[cfg(not(target_os = "linux"))]
    std::env::current_exe()
}

/// Returns the command of another process of codebox.
pub(crate) fn own_program(command: &str) -> io::Result<Command> {
    let mut program = Command::new(complete_program()?);
    program.arg(command).env_remove(codebox_cli::STANDBY_VARIABLE);
    // Some of these processes have another working directory.
    if let Some(home) = std::env::var_os("CODEBOX_HOME").filter(|home| !home.is_empty()) {
        program.env("CODEBOX_HOME", std::path::absolute(home)?);
    }
    Ok(program)
}

/// Starts a process with text as its standard input.
pub(crate) fn start(command: &mut Command, input: &str) -> io::Result<Child> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    Ok(child)
}

/// Starts the pool daemon and detaches from it.
pub(crate) fn start_pool_daemon(flavour: codebox_container::Flavour, request: &str) -> io::Result<()> {
    let mut command = own_program(POOL_DAEMON_COMMAND)?;
    command.arg(flavour.as_str());
    start(&mut command, request).map(drop)
}

/// Runs the pool daemon in this process.
fn serve_pool(engine: &str, request: &str) -> Result<(), RunnerError> {
    let machine = Machine::new(Use::CommandLine, crate::AppDirs::from_env);
    let backends = machine.engines()?;
    let missing = || RunnerError::new(ResultKind::EngineUnavailable, format!("unknown container engine {engine}"));
    let backend = backends.iter().find(|backend| backend.id().as_str() == engine).ok_or_else(missing)?;
    let pool = backend.warm_pool().ok_or_else(missing)?;
    Ok(executor()?.block_on(pool.serve(request))?)
}

/// Runs a compilation in another process. Returns true if it succeeded.
#[cfg(feature = "packages")]
pub(crate) fn compile_elsewhere(work: &CompileWork) -> io::Result<bool> {
    let text = work.to_text().map_err(io::Error::other)?;
    start(&mut own_program(COMPILE_COMMAND)?, &text)?.wait().map(|status| status.success())
}

/// Starts a process that compiles the code that is missing, if there is any. Uses one thread of low priority, and does not wait
/// for the end.
#[cfg(target_os = "linux")]
pub(crate) fn start_compiling_rest(machine: &Machine) {
    let Ok(catalog) = machine.catalog() else { return };
    if catalog.stores().iter().any(|(_, store)| store.lacks_code().unwrap_or(false)) {
        // Without this process, runs compile what they need.
        let _ = own_program(COMPILE_REST_COMMAND).and_then(|mut command| {
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            start(command.current_dir("/").env("RAYON_NUM_THREADS", "1"), "")
        });
    }
}

/// Compiles the code that is missing in this process.
fn compile_rest() -> Result<(), RunnerError> {
    // The caller of the run may hold a lock until it ends.
    #[cfg(target_os = "linux")]
    crate::host_process::close_inherited_descriptors();
    #[cfg(unix)]
    let _ = rustix::process::nice(BACKGROUND_NICE);
    let machine = Machine::new(Use::CommandLine, AppDirs::from_env);
    let failed = |error: codebox_wasm::WasmError| RunnerError::of(ResultKind::InternalError, &error);
    machine.catalog()?.stores().iter().try_for_each(|(_, store)| store.compile_rest()).map_err(failed)
}

/// Runs a compilation in this process, which confines itself: the guest reads untrusted modules.
#[cfg(feature = "packages")]
fn compile(description: &str) -> Result<(), RunnerError> {
    use codebox_core::Backend as _;

    use crate::confinement;

    let machine = Machine::new(Use::CommandLine, crate::AppDirs::from_env);
    let work = CompileWork::parse(description)?;
    let spec = work.spec()?;
    let executor = executor()?;
    let instance = executor.block_on(machine.wasm()?.open(&spec))?;
    confinement::confine(&confinement::rules_of(&machine, &spec)?)?;
    let compiled = executor.block_on(work.run_in(instance));
    machine.remove_scratch();
    compiled
}

pub(crate) fn executor() -> Result<tokio::runtime::Runtime, RunnerError> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    executor.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))
}
