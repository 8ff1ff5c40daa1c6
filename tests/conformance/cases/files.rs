//! The working directory and the report's lists of files.

use codebox_testkit::Report;

use crate::case::{Case, code};

pub fn cases() -> Vec<Case> {
    vec![
        code("files::many_in_one_directory", "import os\nfor n in range(6000):\n    open(f'{n:05}', 'w').close()\nnames = [sorted(os.listdir('.')) for _ in range(3)]\nprint(len(names[0]), names[0] == names[1] == names[2], names[0][5999])\nwith os.scandir('.') as found:\n    first = next(found)\n    os.remove('03000')\n    print(len({first.name, *(e.name for e in found if e.is_file())}) in (5999, 6000))\nprint(len(os.listdir('.')))")
            .prints("6000 True 05999\nTrue\n5999\n"),
        code("files::what_is_not_made_does_not_count", "import os\nfor _ in range(300):\n    os.makedirs('d', exist_ok=True)\n    try: open('/usr/nope', 'x')\n    except OSError: pass\nopen('f', 'w').close()\nprint('made')")
            .with(&["--max-files", "100"])
            .prints("made\n"),
        code("files::standard_streams_close", "import os, sys\nos.close(1)\nfd = os.open('log', os.O_CREAT | os.O_WRONLY)\nos.write(fd, b'to file')\nos.close(fd)\nprint(open('log').read(), fd, file=sys.stderr)\nfor _ in range(600):\n    os.close(os.open('log', os.O_RDONLY))\nos._exit(0)")
            .prints("")
            .complains("to file 1"),
        code("files::listed_with_size_and_digest", "open('a.txt', 'w').write('hello')").creates(&["/work/a.txt"]).look(|report| {
            let file = report.file("/work/a.txt").cloned().unwrap_or_default();
            let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
            if file["size"] == 5 && file["sha256"] == digest && file["kind"] == "regular" { Ok(()) } else { Err(file.to_string()) }
        }),
        code("files::in_folders", "import os\nos.makedirs('d/e')\nopen('d/e/f', 'w')\nopen('b', 'w')").creates(&["/work/b", "/work/d/e/f"]),
        code("files::removed_is_not_listed", "import os\nopen('x', 'w')\nos.remove('x')").creates(&[]),
        code("files::tmp_is_not_listed", "open('/tmp/x', 'w')").creates(&[]),
        code("files::none", "print(1)").creates(&[]),
        code("files::listed_after_an_error", "open('x', 'w').write('y')\n1/0").exits(1).creates(&["/work/x"]),
        code("files::listed_after_a_timeout", "open('x', 'w').close()\nwhile 1: pass")
            .with(&["--timeout", "500ms"])
            .ends("timeout_wall", 124)
            .creates(&["/work/x"]),
        code("files::link_is_listed_as_a_link", "import os\nopen('a', 'w')\nos.symlink('a', 'l')").look(|report| {
            let listed = listed(report, "/work/l");
            if listed["kind"] == "symlink" && listed["sha256"].is_null() { Ok(()) } else { Err(listed.to_string()) }
        }),
        code("files::out", "import os\nos.mkdir('d')\nopen('d/a.txt', 'w').write('hello')\nopen('ü b', 'wb').write(b'x')")
            .out()
            .leaves(("out", "d/a.txt", "hello"))
            .leaves(("out", "ü b", "x"))
            .look(|report| {
                let host = listed(report, "/work/d/a.txt")["host_path"].as_str().unwrap_or_default().to_owned();
                if host.ends_with("/out/d/a.txt") { Ok(()) } else { Err(format!("host path {host:?}")) }
            }),
        code("files::out_leaves_links_inside", "import os\nos.symlink('nothing', 'l')\nopen('a', 'w').write('b')")
            .out()
            .leaves(("out", "a", "b"))
            .look(|report| if report.json().to_string().contains("links") { Ok(()) } else { Err("the link is not named as skipped".into()) }),
        code("files::out_after_an_error", "open('a', 'w').write('kept')\nraise SystemExit(2)").out().exits(2).leaves(("out", "a", "kept")),
        code("files::granted_work", "open('new', 'w').write('n')\nopen('old', 'a').write('+')\nprint(open('same').read())")
            .grant(("w", "/work", "rw"), &[("old", "o"), ("same", "s")])
            .prints("s\n")
            .leaves(("w", "new", "n"))
            .leaves(("w", "old", "o+"))
            .look(|report| {
                let listed: Vec<&str> = [report.files("created"), report.files("modified")].concat();
                let right = listed.contains(&"/work/new") && listed.contains(&"/work/old") && !listed.contains(&"/work/same");
                if right { Ok(()) } else { Err(format!("listed are {listed:?}")) }
            }),
        code("files::one_large_write_and_read", "n = open('f', 'wb').write(bytes(40 << 20))\nprint(n, len(open('f', 'rb').read()), len(open('f', 'rb', buffering=0).read()))")
            .prints("41943040 41943040 41943040\n"),
        code("files::operations", OPERATIONS).prints("ok\n"),
        code("files::odd_names", "for n in ['a b', 'ü', '🎉', '-x', 'a\\nb', '$V', '~', 'CON']:\n    open(n, 'w').write('1')\nimport os\nprint(len(os.listdir()))")
            .prints("8\n"),
        code("files::many", "import os\nfor n in range(300): open(str(n), 'w').close()\nprint(len(os.listdir()))").prints("300\n"),
        code("files::private_between_runs", "import os\nprint(os.listdir('/work'), os.listdir('/tmp'))").prints("[] []\n"),
    ]
}

fn listed(report: &Report, guest: &str) -> serde_json::Value {
    report.file(guest).cloned().unwrap_or_default()
}

const OPERATIONS: &str = "import os, shutil
os.mkdir('d')
with open('d/a', 'w') as f: f.write('hello')
os.rename('d/a', 'd/b')
shutil.copy('d/b', 'c')
with open('c', 'r+') as f:
    f.seek(2); f.write('LL'); f.truncate(4)
assert open('c').read() == 'heLL'
os.utime('c', (1, 2))
assert os.stat('c').st_mtime == 2
with open('c', 'a') as f: f.write('!')
assert os.path.getsize('c') == 5
os.link('c', 'hard')
os.symlink('c', 'soft')
assert os.readlink('soft') == 'c' and open('soft').read() == 'heLL!'
assert sorted(e.name for e in os.scandir('.')) == ['c', 'd', 'hard', 'soft']
os.chdir('d')
assert os.getcwd() == '/work/d' and open('b').read() == 'hello'
os.chdir('/')
shutil.rmtree('/work/d')
for bad, kind in (('/work/none', FileNotFoundError), ('/work/c/x', NotADirectoryError), ('/work', IsADirectoryError)):
    try: open(bad)
    except kind: pass
    else: raise AssertionError(bad)
print('ok')";
