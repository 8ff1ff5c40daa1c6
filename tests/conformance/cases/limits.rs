//! Each limit ends the program that passes it, with a status of its own and with what it printed until then.

use codebox_testkit::Report;

use crate::case::{Case, code};

pub fn cases() -> Vec<Case> {
    vec![
        code("limits::wall", "print('on', flush=True)\nwhile True: pass")
            .with(&["--timeout", "400ms"])
            .ends("timeout_wall", 124)
            .prints("on\n")
            .look(|report| took(report, 0.4, 3.0)),
        code("limits::wall_while_sleeping", "import time\ntime.sleep(1e9)")
            .with(&["--timeout", "300ms"])
            .ends("timeout_wall", 124)
            .look(|report| took(report, 0.3, 2.0)),
        code("limits::wall_while_reading", "input()").silent().with(&["--timeout", "300ms"]).ends("timeout_wall", 124),
        code("limits::wall_cannot_be_caught", "while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass")
            .with(&["--timeout", "300ms"])
            .ends("timeout_wall", 124),
        code("limits::cpu", "while True: pass").with(&["--cpu-time", "300ms"]).ends("timeout_cpu", 124),
        code("limits::cpu_does_not_count_sleep", "import time\ntime.sleep(0.6)\nprint('on')")
            .with(&["--cpu-time", "400ms"])
            .prints("on\n"),
        code("limits::memory", "x = []\nwhile True: x.append(bytearray(1 << 20))")
            .with(&["--memory", "128M"])
            .ends("memory_limit", 137),
        code("limits::memory_at_once", "bytearray(1 << 30)").with(&["--memory", "128M"]).ends("memory_limit", 137),
        code("limits::memory_error_can_be_handled", "try:\n    bytearray(512 << 20)\nexcept MemoryError:\n    print('handled')")
            .with(&["--memory", "256M"])
            .prints("handled\n"),
        code("limits::memory_suffices", "x = bytearray(100 << 20)\nprint(len(x))").with(&["--memory", "256M"]).prints("104857600\n"),
        code("limits::output", "while True: print('x' * 1000)").with(&["--max-output", "64K"]).ends("output_limit", 122).look(|report| {
            let kept = report.stdout().len();
            let dropped = report.at("/stdout_truncated/dropped_bytes").as_u64().unwrap_or(0);
            if kept <= 66 << 10 && dropped > 0 { Ok(()) } else { Err(format!("kept {kept}, dropped {dropped}")) }
        }),
        code("limits::output_of_stderr", "import sys\nwhile True: print('x' * 1000, file=sys.stderr)")
            .with(&["--max-output", "64K"])
            .ends("output_limit", 122),
        code("limits::disk", "f = open('x', 'wb', buffering=0)\nwhile True:\n    f.write(bytes(1 << 20))")
            .with(&["--max-disk", "8M"])
            .ends("disk_limit", 122)
            .look(|report| {
                let size = report.file("/work/x").and_then(|file| file["size"].as_u64()).unwrap_or(0);
                if size <= 8 << 20 { Ok(()) } else { Err(format!("{size} bytes were written")) }
            }),
        code("limits::disk_can_be_handled", "try:\n    open('x', 'wb').write(bytes(9 << 20))\nexcept OSError as e:\n    print(e.errno is not None)")
            .with(&["--max-disk", "8M"])
            .prints("True\n"),
        code("limits::files", "n = 0\nwhile True:\n    open(str(n), 'w').close()\n    n += 1")
            .with(&["--max-files", "50"])
            .ends("disk_limit", 122)
            .look(|report| {
                let made = report.files("created").len();
                if made <= 50 { Ok(()) } else { Err(format!("{made} files")) }
            }),
        code("limits::open_files", "held = []\nwhile True: held.append(open('/work/x', 'w'))")
            .with(&["--max-open-files", "20"])
            .ends("fd_limit", 122),
        code("limits::open_files_can_be_handled", "held = []\ntry:\n    while True: held.append(open('/work/x', 'w'))\nexcept OSError:\n    n = len(held)\n    del held\n    print(n <= 20, open('/work/x').read() == '')")
            .with(&["--max-open-files", "20"])
            .prints("True True\n"),
        code("limits::are_reported", "print(1)").with(&["--timeout", "5s", "--memory", "256M", "--max-output", "1M"]).look(|report| {
            let limits = report.at("/limits");
            let right = limits["wall_ms"] == 5000 && limits["memory_bytes"] == 256 << 20 && limits["output_bytes"] == 1 << 20;
            if right { Ok(()) } else { Err(limits.to_string()) }
        }),
        code("limits::unlimited", "print(1)").with(&["--timeout", "unlimited", "--max-output", "unlimited"]).look(|report| {
            if report.at("/limits/wall_ms") == "unlimited" { Ok(()) } else { Err(report.at("/limits").to_string()) }
        }),
        code("limits::enforcement_is_told", "print(1)").look(|report| {
            let held = ["wall", "memory", "output", "disk"].iter().all(|name| report.at(&format!("/enforcement/limits/{name}")) == "enforced");
            if held { Ok(()) } else { Err(report.at("/enforcement").to_string()) }
        }),
        code("limits::usage_is_told", "x = bytearray(50 << 20)\nf = open('f', 'wb')\nfor _ in range(50): f.write(bytes(1 << 20))\nf.close()").look(|report| {
            let (memory, disk) = (report.at("/usage/peak_memory_bytes").as_u64(), report.at("/usage/disk_written_bytes").as_u64());
            if memory > Some(50 << 20) && disk == Some(50 << 20) { Ok(()) } else { Err(report.at("/usage").to_string()) }
        }),
    ]
}

fn took(report: &Report, least: f64, most: f64) -> Result<(), String> {
    let seconds = report.at("/duration_ms").as_f64().unwrap_or(f64::MAX) / 1000.0;
    if (least..most).contains(&seconds) { Ok(()) } else { Err(format!("it took {seconds} s")) }
}
