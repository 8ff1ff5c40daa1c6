//! What a program may touch: nothing, and what it was granted.

use crate::case::{Case, code};

pub fn cases() -> Vec<Case> {
    vec![
        code("grants::no_environment", "import os\nprint([n for n in os.environ if n.startswith(('CODEBOX', 'CARGO', 'SSH', 'USER'))])")
            .prints("[]\n"),
        code("grants::environment_value", "import os\nprint(os.environ['TOKEN'], os.getenv('EMPTY') == '')")
            .with(&["--env", "TOKEN=a=b ü", "--env", "EMPTY="])
            .prints("a=b ü True\n"),
        code("grants::no_host_files", "import os\nfor p in ('/etc/passwd', '/root', '/home', '/proc/self/environ', '/dev/null'):\n    try:\n        os.stat(p)\n        print('there', p)\n    except OSError: pass")
            .prints(""),
        code("grants::root_is_read_only", "import os\nfor p in ('/x', '/usr/x', '/usr/local/lib/x'):\n    try:\n        open(p, 'w')\n        print('written', p)\n    except OSError: pass")
            .prints(""),
        code("grants::library_is_read_only", "import json, os\ntry:\n    os.remove('/usr/local/lib/python315.zip')\nexcept OSError as e:\n    print('refused')")
            .prints("refused\n"),
        code("grants::read_only_by_default", "print(open('/d/f').read())\ntry:\n    open('/d/g', 'w')\nexcept OSError as e:\n    print(type(e).__name__)")
            .grant(("d", "/d", "ro"), &[("f", "held")])
            .prints_with("held\n")
            .leaves(("d", "f", "held")),
        code("grants::read_only_holds", READ_ONLY)
            .grant(("d", "/d", "ro"), &[("f", "held"), ("s/g", "too")])
            .prints("[]\n")
            .leaves(("d", "f", "held"))
            .leaves(("d", "s/g", "too")),
        code("grants::read_write", "open('/d/g', 'w').write('new')\nimport os\nos.remove('/d/f')")
            .grant(("d", "/d", "rw"), &[("f", "gone")])
            .leaves(("d", "g", "new"))
            .leaves(("d", "f", "")),
        code("grants::two", "open('/b/x', 'w').write(open('/a/x').read())")
            .grant(("a", "/a", "ro"), &[("x", "copied")])
            .grant(("b", "/b", "rw"), &[])
            .leaves(("b", "x", "copied")),
        code("grants::nested_mounts", "print(open('/a/x').read(), open('/a/b/x').read())\nimport os\nprint(sorted(os.listdir('/a/b')))")
            .grant(("outer", "/a", "ro"), &[("x", "outer"), ("b/hidden", "h")])
            .grant(("inner", "/a/b", "rw"), &[("x", "inner")])
            .prints("outer inner\n['x']\n"),
        code("grants::nested_read_only_in_writable", "open('/a/y', 'w').write('1')\ntry:\n    open('/a/b/y', 'w')\nexcept OSError:\n    print('refused')")
            .grant(("outer", "/a", "rw"), &[("b/z", "z")])
            .grant(("inner", "/a/b", "ro"), &[("x", "inner")])
            .prints("refused\n")
            .leaves(("outer", "y", "1"))
            .leaves(("inner", "y", "")),
        code("grants::same_host_twice_stricter_wins", "try:\n    open('/rw/s/x', 'w')\nexcept OSError:\n    print('refused')")
            .grant(("h", "/rw", "rw"), &[("s/x", "kept")])
            .grant(("h/s", "/ro", "ro"), &[])
            .prints("refused\n")
            .leaves(("h", "s/x", "kept")),
        code("grants::deep_guest_path", "import os\nprint(open('/very/deep/place/f').read())\nos.chdir('/very/deep/place')\nprint(open('f').read(), os.getcwd())")
            .grant(("d", "/very/deep/place", "ro"), &[("f", "x")])
            .prints("x\nx /very/deep/place\n"),
        code("grants::seen_where_they_lie", "import glob, os\nprint(os.listdir('/work'), sorted(set(os.listdir('/')) & {'a', 'work', 'tmp', 'usr'}), os.listdir('/a'), os.listdir('/a/b/c/..'))\nprint(glob.glob('/a/**/f', recursive=True), os.path.isdir('/a/b'), [d for d, _, f in os.walk('/work') if f])")
            .grant(("d", "/a/b/c", "ro"), &[("f", "x")])
            .grant(("e", "/work/in", "ro"), &[("g", "x")])
            .prints("['in'] ['a', 'tmp', 'usr', 'work'] ['b'] ['c']\n['/a/b/c/f'] True ['/work/in']\n"),
        code("grants::names_with_spaces", "print(open('/my data/a b').read())")
            .grant(("my host data", "/my data", "ro"), &[("a b", "x")])
            .prints("x\n"),
        code("grants::no_way_up", "import os\nos.chdir('/d')\ntry:\n    print(os.listdir('..'), open('../secret').read())\nexcept OSError as e:\n    print('refused')")
            .grant(("g/d", "/d", "rw"), &[("../secret", "canary")])
            .prints("refused\n"),
        code("grants::host_path_is_not_told", "import os, sys\nprint(repr((dict(os.environ), sys.argv, sys.path, os.getcwd())).count('codebox-test-'))")
            .grant(("d", "/d", "ro"), &[])
            .prints("0\n"),
        code("grants::rename_across_is_refused", "import os\ntry:\n    os.rename('/a/x', '/b/x')\nexcept OSError as e:\n    print(type(e).__name__, e.errno is not None)\nimport shutil\nshutil.move('/a/x', '/b/x')\nprint(os.listdir('/a'))")
            .grant(("a", "/a", "rw"), &[("x", "moved")])
            .grant(("b", "/b", "rw"), &[])
            .prints("OSError True\n[]\n")
            .leaves(("b", "x", "moved")),
        code("grants::script_folder_is_not_granted", "import os\nprint(os.listdir('/work'))").prints("[]\n"),
    ]
}

const READ_ONLY: &str = "import os
done = []
def attempt(name, what):
    try:
        what()
        done.append(name)
    except OSError:
        pass
attempt('write', lambda: open('/d/f', 'w'))
attempt('append', lambda: open('/d/f', 'a'))
attempt('update', lambda: open('/d/f', 'r+'))
attempt('create', lambda: open('/d/n', 'x'))
attempt('truncate', lambda: os.truncate('/d/f', 0))
attempt('remove', lambda: os.remove('/d/f'))
attempt('rename', lambda: os.rename('/d/f', '/d/n'))
attempt('rename out', lambda: os.rename('/d/f', '/work/n'))
attempt('link', lambda: os.link('/d/f', '/d/n'))
attempt('link out', lambda: os.link('/d/f', '/work/n'))
attempt('symlink', lambda: os.symlink('f', '/d/n'))
attempt('mkdir', lambda: os.mkdir('/d/n'))
attempt('rmdir', lambda: os.rmdir('/d/s'))
attempt('utime', lambda: os.utime('/d/f', (0, 0)))
print(done)";
