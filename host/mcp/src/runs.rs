//! Tools that run programs.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use codebox_blocks::{Block, Observer, parse};
use codebox_core::{ExecIo, InputFile, Language, OutputShape, Stdin};
use codebox_files::{open_last_dir, read_inner_file};
use codebox_service::catalog::BundledPackage;
use codebox_service::{Program, Request, StoredPackage};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::arguments::{BlocksArguments, ExplainArguments, PackagesArguments, RunArguments, with_timeout};
use crate::output::{self, ExplainOutput, PackageOutput, PackagesOutput, StoredPackageOutput, invalid, refused};
use crate::server::{Call, CallError, Server, blocking};

/// Maximum size of a returned file in bytes.
pub(crate) const MAX_FILE: u64 = 1 << 20;

/// Directory of the files that a program leaves, in a private directory.
const OUT: &str = "out";

/// Maximum number of returned files.
pub(crate) const MAX_FILES: usize = 16;

pub(crate) async fn run(server: &Server, arguments: RunArguments, call: Call) -> Result<CallToolResult, CallError> {
    let mut io = call.io();
    let request = call.request;
    if arguments.outputs.len() > MAX_FILES {
        return Err(invalid(format!("at most {MAX_FILES} files can be returned")));
    }
    let files = arguments.files.into_iter().map(InputFile::try_from).collect::<Result<_, _>>().map_err(invalid)?;
    // Removed at the end of the call.
    let out = match arguments.outputs.is_empty() {
        true => None,
        // Files cannot be copied to the directories of codebox.
        false => Some(tempfile::tempdir().map_err(|error| invalid(format!("cannot create a directory: {error}")))?),
    };
    let request = Request {
        program: Program::Inline(arguments.code),
        language: Some(arguments.language.into()),
        args: arguments.args,
        stdin: Stdin::Bytes(arguments.stdin.into_bytes()),
        files,
        packages: [request.packages.clone(), arguments.packages].concat(),
        limits: with_timeout(request.limits, arguments.timeout_seconds).map_err(invalid)?,
        out: out.as_ref().map(|dir| dir.path().join(OUT)),
        results: true,
        ..request
    };
    let mut report = server.runner.run_async_with(request, &mut io).await.map_err(|error| refused(&error))?;
    server.runner.keep_whole_outputs(&mut report, OutputShape::default());
    let returned = match out {
        None => Vec::new(),
        Some(out) => {
            let outputs = arguments.outputs;
            blocking(move || Ok(outputs.iter().map(|name| returned_file(&out.path().join(OUT), name)).collect()))
                .await?
        }
    };
    Ok(output::of_run(&report, returned))
}

pub(crate) async fn blocks(
    server: &Server,
    arguments: BlocksArguments,
    call: Call,
) -> Result<CallToolResult, CallError> {
    let mut observer = CallObserver(call);
    let request = observer.0.request.clone();
    let blocks = parse(&arguments.text).map_err(|error| refused(&error))?;
    let options = codebox_blocks::Options {
        request: Request {
            packages: [request.packages.clone(), arguments.packages].concat(),
            limits: with_timeout(request.limits, arguments.timeout_seconds).map_err(invalid)?,
            ..request
        },
        node_packages: arguments.npm_packages,
        isolated: arguments.isolated,
        keep_going: arguments.keep_going,
    };
    let mut report = codebox_blocks::run(&server.runner, blocks, &options, &mut observer).await;
    report.keep_whole_outputs(&server.runner, OutputShape::default());
    Ok(output::of_blocks(&report))
}

/// Observer whose blocks have the streams of a call.
struct CallObserver(Call);

impl Observer for CallObserver {
    fn started(&mut self, _: &Block) -> ExecIo {
        self.0.io()
    }
}

pub(crate) async fn explain(
    server: &Server,
    arguments: ExplainArguments,
    call: Call,
) -> Result<CallToolResult, CallError> {
    let request = Request {
        program: Program::Inline(arguments.code),
        language: Some(arguments.language.into()),
        packages: [call.request.packages.clone(), arguments.packages].concat(),
        ..call.request
    };
    let runner = std::sync::Arc::clone(&server.runner);
    let explained = blocking(move || runner.explain(request)).await?;
    let choice = explained.choice.map_err(|error| refused(&error))?;
    let needs = explained.needs.iter().map(|need| format!("line {}: {}", need.line, need.power.report_name()));
    let output = ExplainOutput {
        isolation: choice.isolation.as_str(),
        backend: choice.backend.to_string(),
        reason: choice.reason,
        needs: needs.collect(),
        notes: explained.notes,
    };
    let mut text = format!("Would run in {} ({}): {}\n", output.isolation, output.backend, output.reason);
    for line in output.needs.iter().chain(&output.notes) {
        text.push_str(&format!("- {line}\n"));
    }
    Ok(output::of(text, &output))
}

pub(crate) async fn packages(server: &Server, arguments: PackagesArguments) -> Result<CallToolResult, CallError> {
    let language = Language::from(arguments.language);
    let runner = std::sync::Arc::clone(&server.runner);
    let output = blocking(move || {
        let built_in = runner.bundled_packages(&language)?;
        let built_in = built_in.into_iter().map(|BundledPackage { name, version }| PackageOutput { name, version });
        let stored = runner.packages()?.list().into_iter();
        let stored = stored.map(|StoredPackage { name, file, .. }| StoredPackageOutput { name, artifact: file });
        Ok(PackagesOutput { built_in: built_in.collect(), stored: stored.collect() })
    })
    .await?;
    let list = |names: Vec<String>| if names.is_empty() { "no packages".to_owned() } else { names.join(", ") };
    let built_in = output.built_in.iter().map(|package| format!("{} {}", package.name, package.version));
    let stored = output.stored.iter().map(|package| package.artifact.clone());
    let text = format!("Built in: {}\nStored: {}\n", list(built_in.collect()), list(stored.collect()));
    Ok(output::of(text, &output))
}

/// Returns a file that a program has left, or the reason that there is none.
fn returned_file(out: &Path, name: &str) -> ContentBlock {
    match read_file(out, name) {
        Ok(bytes) => content_of(name, bytes),
        Err(error) => not_returned(name, &error.to_string()),
    }
}

/// Returns the reason that a file is not returned.
pub(crate) fn not_returned(name: &str, why: &str) -> ContentBlock {
    ContentBlock::text(format!("The file {} cannot be returned: {}\n", name.escape_debug(), why.escape_debug()))
}

/// Reads a file that was copied out of the guest, without following links.
fn read_file(out: &Path, name: &str) -> io::Result<Vec<u8>> {
    let name = match name.strip_prefix('/') {
        None => name,
        Some(path) => {
            path.strip_prefix("work/").ok_or_else(|| io::Error::other("only files below /work are returned"))?
        }
    };
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(io::Error::other("its path refers to a parent directory"));
    }
    read_inner_file(&open_last_dir(out)?, &parts, MAX_FILE)
}

pub(crate) fn content_of(name: &str, bytes: Vec<u8>) -> ContentBlock {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let image = match extension.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    };
    if let Some(kind) = image {
        return ContentBlock::image(BASE64.encode(bytes), kind);
    }
    let path = percent_encoding::utf8_percent_encode(name.trim_start_matches('/'), percent_encoding::NON_ALPHANUMERIC);
    let uri = format!("codebox:///work/{path}");
    match String::from_utf8(bytes) {
        Ok(text) => ContentBlock::resource(ResourceContents::text(text, uri)),
        Err(error) => ContentBlock::resource(ResourceContents::blob(BASE64.encode(error.as_bytes()), uri)),
    }
}
