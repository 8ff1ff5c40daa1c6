//! Limits in the report: their values, their enforcement in the tier, and the usage.

use codebox_testkit::Report;

use crate::case::{Case, code};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};

pub fn cases() -> Vec<Case> {
    vec![
        code("limits::are_reported")
            .with(&["--timeout", "5s", "--memory", "256M", "--max-output", "1M"])
            .verify(|report| {
                let limits = report.at("/limits");
                let right = limits["wall_ms"] == 5000 && limits["memory_bytes"] == 256 << 20 && limits["output_bytes"] == 1 << 20;
                if right { Ok(()) } else { Err(limits.to_string()) }
            })
            .python("print(1)")
            .scripts("console.log(1)")
            .lua("print(1)"),
        code("limits::unlimited")
            .with(&["--timeout", "unlimited", "--max-output", "unlimited"])
            .verify(|report| {
                if report.at("/limits/wall_ms") == "unlimited" { Ok(()) } else { Err(report.at("/limits").to_string()) }
            })
            .python("print(1)")
            .scripts("console.log(1)")
            .lua("print(1)"),
        code("limits::enforcement_is_reported")
            .verify(|report| check_enforcement(report, &["wall", "memory", "output"], "enforced"))
            .wasm(expected().verify(|report| check_enforcement(report, &["disk"], "enforced")))
            .containers(expected().verify(|report| check_enforcement(report, &["open_files", "processes"], "enforced")))
            .containers(expected().verify(|report| check_enforcement(report, &["disk", "files"], "best-effort")))
            .python("print(1)")
            .scripts("console.log(1)")
            .lua("print(1)"),
        code("limits::usage_is_reported")
            .verify(|report| {
                let (memory, disk) = (report.at("/usage/peak_memory_bytes").as_u64(), report.at("/usage/disk_written_bytes").as_u64());
                // Files of a container are counted in blocks, and a fragmented file has additional blocks that list its
                // extents.
                let written = disk.is_some_and(|disk| (50 << 20..(50 << 20) + (64 << 10)).contains(&disk));
                if memory > Some(50 << 20) && written { Ok(()) } else { Err(report.at("/usage").to_string()) }
            })
            .wasm(expected().verify(|report| {
                let disk = report.at("/usage/disk_written_bytes");
                if disk == 50 << 20 { Ok(()) } else { Err(disk.to_string()) }
            }))
            .python("x = bytearray(50 << 20)\nf = open('f', 'wb')\nfor _ in range(50): f.write(bytes(1 << 20))\nf.close()")
            .javascript("const x = new Uint8Array(50 << 20).fill(1)\nconst fs = require('fs'), f = fs.openSync('f', 'w')\nfor (let n = 0; n < 50; n++) fs.writeSync(f, new Uint8Array(1 << 20))\nfs.closeSync(f)\nconsole.log(x[0])")
            .typescript("import * as fs from 'fs'\nconst x: Uint8Array = new Uint8Array(50 << 20).fill(1)\nconst f: number = fs.openSync('f', 'w')\nfor (let n = 0; n < 50; n++) fs.writeSync(f, new Uint8Array(1 << 20))\nfs.closeSync(f)\nconsole.log(x[0] satisfies number)")
            .lua("local x = ('x'):rep(50 << 20)\nlocal f = io.open('f', 'w')\nfor n = 1, 50 do f:write(('\\0'):rep(1 << 20)) end\nf:close()\nprint(#x)"),
    ]
}

fn check_enforcement(report: &Report, limits: &[&str], level: &str) -> Result<(), String> {
    let differs = |name: &&&str| report.at(&format!("/enforcement/limits/{name}")) != level;
    let wrong = limits.iter().find(differs);
    wrong.map_or(Ok(()), |name| Err(format!("{name} is not {level}: {}", report.at("/enforcement"))))
}
