//! Tool for commands in boxes, which processes of the user keep.

use std::io::{Cursor, Read};
use std::sync::Arc;

use codebox_core::{BoxCommand, Limit, LimitOverrides};
use codebox_runner::{BoxIo, Shaping};
use rmcp::model::CallToolResult;

use crate::arguments::{BoxArguments, with_timeout};
use crate::output::{self, invalid};
use crate::server::{Call, CallError, Server, blocking};

/// Runs a command in a box.
pub(crate) async fn exec(server: &Server, arguments: BoxArguments, call: Call) -> Result<CallToolResult, CallError> {
    let BoxArguments { name, command, stdin, workdir, timeout_seconds } = arguments;
    let names = server.box_names();
    let name = match (name, names) {
        (None, [one]) => one.clone(),
        (Some(name), names) if names.contains(&name) => name,
        // The answer is the same for boxes of others.
        _ => return Err(invalid(format!("name one of the boxes of this server: {}", names.join(", ")))),
    };
    if command.is_empty() {
        return Err(invalid("the command is empty"));
    }
    let limits =
        with_timeout(LimitOverrides { wall: call.request.limits.wall, ..LimitOverrides::default() }, timeout_seconds);
    let wall = limits.map_err(invalid)?.wall.and_then(Limit::at);
    let command = BoxCommand { cwd: workdir.map(|path| path.into_bytes().into()), wall, ..BoxCommand::new(command) };
    let boxes = Arc::clone(&server.boxes);
    let mut io = call.io();
    let report = blocking(move || {
        let mut output = |stream: u8, bytes: &[u8]| {
            let sink = if stream == 0 { &mut io.stdout } else { &mut io.stderr };
            // The output is in the report.
            let _ = sink.as_mut().map(|sink| sink.write(bytes));
        };
        let stdin = (!stdin.is_empty()).then(|| Box::new(Cursor::new(stdin.into_bytes())) as Box<dyn Read + Send>);
        let shaping = Shaping::Settings;
        let io = BoxIo { stdin, control: None, cancel: &io.cancel, shaping, tool: None, output: &mut output };
        boxes.exec(&name, command, io)
    });
    Ok(output::of_run(&report.await?, Vec::new()))
}
