//! Standard streams: order, buffering, encoding, input.

use crate::case::{Case, code, file};

pub fn cases() -> Vec<Case> {
    vec![
        code("streams::utf8", "print('grüße 你好 🎉')").prints("grüße 你好 🎉\n"),
        code("streams::encodings", "import sys\nprint(sys.stdin.encoding, sys.stdout.encoding, sys.stderr.encoding, sys.getfilesystemencoding())")
            .prints("utf-8 utf-8 utf-8 utf-8\n"),
        code("streams::default_encoding", "open('f', 'w').write('é')\nprint(open('f', 'rb').read())")
            .prints("b'\\xc3\\xa9'\n"),
        code("streams::raw_bytes", "import sys\nsys.stdout.buffer.write(b'\\xff\\x00ok')\nsys.stdout.flush()").look(|report| {
            let encoded = report.at("/stdout_base64").as_str().unwrap_or_default();
            if encoded == "/wBvaw==" { Ok(()) } else { Err(format!("base64 is {encoded:?}")) }
        }),
        code("streams::unflushed_at_the_end", "import sys\nsys.stdout.write('no newline')").prints("no newline"),
        code("streams::text_and_bytes_in_order", "import sys\nprint('one', flush=True)\nsys.stdout.buffer.write(b'two\\n')\nsys.stdout.buffer.flush()\nprint('three')")
            .prints("one\ntwo\nthree\n"),
        code("streams::stderr", "import sys\nprint('out')\nprint('err', file=sys.stderr)").prints("out\n").complains("err\n"),
        code("streams::input", "print(input('name? '), input())").input("Ann\nBob\n").prints("name? Ann Bob\n"),
        code("streams::input_ends", "try:\n    input()\nexcept EOFError as e:\n    print('EOF', e)")
            .prints("EOF EOF when reading a line\n"),
        code("streams::input_lines", "import sys\nprint([line for line in sys.stdin])").input("a\nb").prints("['a\\n', 'b']\n"),
        code("streams::input_bytes", "import sys\nprint(len(sys.stdin.buffer.read()))").input("é\0\n").prints("4\n"),
        code("streams::input_is_no_terminal", "import sys\nprint(sys.stdin.isatty(), sys.stdout.isatty())")
            .prints("False False\n"),
        file("streams::file_program_keeps_stdin", "import sys\nprint(sys.stdin.read().upper())").input("abc").prints("ABC\n"),
        code("streams::large_input", "import sys\nprint(sum(len(line) for line in sys.stdin))").input(&"x".repeat(3 << 20))
            .prints("3145728\n"),
        code("streams::large_output", "print('y' * (1 << 20))").look(|report| {
            let length = report.stdout().len();
            if length == (1 << 20) + 1 { Ok(()) } else { Err(format!("{length} bytes")) }
        }),
        code("streams::flushed_before_a_trap", "import os\nprint('before')\nos.abort()").ends("guest_error", 134).prints("before\n"),
        code("streams::escaped_bytes_come_out_as_they_were", "print('\\udc80')").look(|report| {
            let encoded = report.at("/stdout_base64").as_str().unwrap_or_default();
            if encoded == "gAo=" { Ok(()) } else { Err(format!("base64 is {encoded:?}")) }
        }),
        code("streams::lone_surrogates_are_an_error", "print('\\ud800')").exits(1).complains("UnicodeEncodeError"),
        code("streams::stderr_escapes_surrogates", "import sys\nprint('\\udc80', file=sys.stderr)").complains("\\udc80"),
    ]
}
