//! The state of a running analyzer as the kernel reports it.

#![cfg(target_os = "linux")]

use std::fs;

use codebox_analysis::{Analyzer, Budget};

fn children(process: &str) -> Vec<String> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten() {
        let listed = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(listed.split_whitespace().map(str::to_owned));
    }
    children
}

fn status(process: &str, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.expect("the kernel reports the field").trim().to_owned()
}

#[test]
fn confines_processes_and_ends_with_owner() {
    let dir = tempfile::tempdir().expect("a directory");
    let analyzer = Analyzer::below(&dir.path().join("programs"));
    analyzer.python_needs("import os", Budget::default()).expect("the program is valid");
    let [zygote] = &children("self")[..] else { panic!("there is one analyzer") };
    // The next worker waits for its text.
    let mut workers = children(zygote);
    while workers.is_empty() || status(&workers[0], "Seccomp_filters") != "2" {
        std::thread::yield_now();
        workers = children(zygote);
    }
    for process in [zygote, &workers[0]] {
        assert_eq!(status(process, "NoNewPrivs"), "1");
        assert_eq!(status(process, "Seccomp"), "2");
        assert_eq!(status(process, "Threads"), "1");
        let limits = fs::read_to_string(format!("/proc/{process}/limits")).expect("it runs");
        for (limit, limit_value) in [("Max core file size", "0"), ("Max file size", "0"), ("Max open files", "16")] {
            let line = limits.lines().find(|line| line.starts_with(limit)).expect("the kernel reports the limit");
            let mut values = line[limit.len()..].split_whitespace();
            assert_eq!((values.next(), values.next()), (Some(limit_value), Some(limit_value)), "{line}");
        }
        // Only a privileged process can read these two files of a process that is not dumpable.
        if let Ok(environment) = fs::read(format!("/proc/{process}/environ")) {
            assert!(environment.is_empty(), "{}", String::from_utf8_lossy(&environment));
        }
        if let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) {
            for descriptor in open.flatten() {
                let target = fs::read_link(descriptor.path()).expect("an open file");
                let target = target.to_string_lossy();
                assert!(target.starts_with("pipe:") || target == "/dev/null", "{target}");
            }
        }
    }
    drop(analyzer);
    assert!(!fs::exists(format!("/proc/{zygote}")).expect("/proc is readable"), "the zygote is still running");
    while fs::exists(format!("/proc/{}", workers[0])).expect("/proc is readable") {
        std::thread::yield_now();
    }
}
