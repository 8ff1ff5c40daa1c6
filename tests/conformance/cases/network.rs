//! Network access: granted hosts, within the limits, with every attempt in the report.

use codebox_testkit::Report;

use crate::case::{Case, code};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _};
use crate::program::program;
use crate::tier::Tier;

/// Reason why the connections of Lua are tested only in WebAssembly.
const NO_SOCKETS: &str = "the image has no module for sockets in Lua";

pub fn cases() -> Vec<Case> {
    vec![
        code("network::granted_host_is_reached")
            .needs_server()
            .with(&["--net", "127.0.0.1:PORT"])
            .prints("hello\n")
            .verify(|report| check_attempts(report, &[("127.0.0.1", "allowed")]))
            .python("import urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1:PORT/').read().decode())")
            .scripts("fetch('http://127.0.0.1:PORT/').then(answer => answer.text()).then(text => console.log(text))")
            .lua(program("local c = assert(require('socket').connect('127.0.0.1', PORT))\nc:send('GET / HTTP/1.0\\r\\n\\r\\n')\nrepeat until c:receive() == ''\nprint(c:receive('*a'))").only_in(Tier::Wasm, NO_SOCKETS)),
        code("network::other_hosts_are_refused")
            .with(&["--net", "*.granted.example"])
            .prints("refused\n")
            .verify(|report| check_attempts(report, &[("other.example", "refused")]))
            .python("import urllib.request\ntry:\n    urllib.request.urlopen('http://other.example/')\nexcept OSError:\n    print('refused')")
            .scripts("fetch('http://other.example/').then(answer => answer.ok ? 'reached' : 'refused', () => 'refused').then(result => console.log(result))")
            .lua(program("print(require('socket').connect('other.example', 80) and 'reached' or 'refused')").only_in(Tier::Wasm, NO_SOCKETS)),
        code("network::internet_range_excludes_local_network")
            .with(&["--net", "0.0.0.0/0"])
            .prints("refused\n")
            .verify(|report| check_attempts(report, &[("169.254.7.7", "refused")]))
            .python("import urllib.request\ntry:\n    urllib.request.urlopen('http://169.254.7.7/')\nexcept OSError:\n    print('refused')")
            .scripts("fetch('http://169.254.7.7/').then(answer => answer.ok ? 'reached' : 'refused', () => 'refused').then(result => console.log(result))")
            .lua(program("print(require('socket').connect('169.254.7.7', 80) and 'reached' or 'refused')").only_in(Tier::Wasm, NO_SOCKETS)),
        code("network::redirect_target_is_checked")
            .needs_server()
            .with(&["--net", "127.0.0.1:PORT", "--net", "*.granted.example"])
            .prints("refused\n")
            .verify(|report| check_attempts(report, &[("127.0.0.1", "allowed"), ("other.example", "refused")]))
            .python("import urllib.request\ntry:\n    urllib.request.urlopen('http://127.0.0.1:PORT/away')\nexcept OSError:\n    print('refused')")
            .scripts("fetch('http://127.0.0.1:PORT/away').then(answer => answer.ok ? 'reached' : 'refused', () => 'refused').then(result => console.log(result))"),
        code("network::bytes_are_limited")
            .needs_server()
            .with(&["--net", "127.0.0.1:PORT", "--max-net-bytes", "100k"])
            .ends("net_limit", 122)
            .verify(|report| {
                let transferred = ["sent", "received"].map(|direction| report.at(&format!("/network/{direction}")).as_u64().unwrap_or(0));
                let transferred = transferred[0] + transferred[1];
                if transferred <= 102_400 { Ok(()) } else { Err(format!("{transferred} bytes were transferred")) }
            })
            .python("import urllib.request\nprint(len(urllib.request.urlopen('http://127.0.0.1:PORT/large').read()))")
            .scripts("fetch('http://127.0.0.1:PORT/large').then(answer => answer.text()).then(text => console.log(text.length))")
            .lua(program("local c = assert(require('socket').connect('127.0.0.1', PORT))\nc:send('GET /large HTTP/1.0\\r\\n\\r\\n')\nrepeat until c:receive() == ''\nprint(#c:receive('*a'))").only_in(Tier::Wasm, NO_SOCKETS)),
        code("network::connections_are_limited")
            .needs_server()
            .with(&["--net", "127.0.0.1:PORT", "--max-net-connections", "2"])
            .ends("net_limit", 122)
            .stdout_contains("hello\nhello\n")
            .python("import urllib.request\nfor _ in range(3):\n    print(urllib.request.urlopen('http://127.0.0.1:PORT/').read().decode(), flush=True)")
            .scripts("const ask = () => fetch('http://127.0.0.1:PORT/').then(answer => answer.text()).then(text => console.log(text))\nask().then(ask).then(ask)")
            .lua(program("for _ = 1, 3 do\n  local c = assert(require('socket').connect('127.0.0.1', PORT))\n  c:send('GET / HTTP/1.0\\r\\n\\r\\n')\n  repeat until c:receive() == ''\n  print(c:receive('*a'))\nend").only_in(Tier::Wasm, NO_SOCKETS)),
    ]
}

/// Checks that the report lists exactly these attempts: the host as the program wrote it, and the verdict.
fn check_attempts(report: &Report, expected: &[(&str, &str)]) -> Result<(), String> {
    let attempts = report.at("/network/attempts").as_array().cloned().unwrap_or_default();
    let found: Vec<(&str, &str)> = attempts
        .iter()
        .map(|one| (one["host"].as_str().unwrap_or_default(), one["verdict"].as_str().unwrap_or_default()))
        .collect();
    if found == expected { Ok(()) } else { Err(format!("attempts are {attempts:?} and not {expected:?}")) }
}
