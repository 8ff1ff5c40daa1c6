//! Exit statuses that result from unusual arguments.

use crate::case::{Case, code};
use crate::expect::ExpectationBuilder as _;
use crate::program::program;

pub fn cases() -> Vec<Case> {
    vec![
        code("status::2**70")
            .prints("")
            .python(program("raise SystemExit(2**70)").exits(255))
            .scripts(program("process.exit(2n ** 70n)").exits(1).stderr_contains("ERR_INVALID_ARG_TYPE"))
            .lua(program("os.exit(2^70)").exits(1).stderr_contains("number has no integer representation")),
        code("status::-2**70")
            .prints("")
            .python(program("raise SystemExit(-2**70)").exits(255))
            .scripts(program("process.exit(-(2 ** 70))").exits(1).stderr_contains("ERR_OUT_OF_RANGE"))
            .lua(program("os.exit(-2^70)").exits(1).stderr_contains("number has no integer representation")),
        code("status::2**63")
            .python(program("raise SystemExit(2**63)").exits(255).prints(""))
            .scripts(program("process.exit(2 ** 63)").exits(1).stderr_contains("ERR_OUT_OF_RANGE"))
            .lua(program("os.exit(2^63)").exits(1).stderr_contains("number has no integer representation")),
        code("status::2**63-1")
            .exits(255)
            .prints("")
            .python("raise SystemExit(2**63-1)")
            .scripts("process.exit(Number.MAX_SAFE_INTEGER)")
            .lua("os.exit(math.maxinteger)"),
        code("status::-2**63").prints("").python("raise SystemExit(-2**63)").lua("os.exit(math.mininteger)"),
        code("status::2**32 + 3")
            .exits(3)
            .prints("")
            .python("raise SystemExit(2**32 + 3)")
            .scripts("process.exit(2 ** 32 + 3)")
            .lua("os.exit((1 << 32) + 3)"),
        code("status::2**31")
            .prints("")
            .python("raise SystemExit(2**31)")
            .scripts("process.exit(2 ** 31)")
            .lua("os.exit(1 << 31)"),
        code("status::-1")
            .exits(255)
            .prints("")
            .python("raise SystemExit(-1)")
            .scripts("process.exit(-1)")
            .lua("os.exit(-1)"),
        code("status::True")
            .prints("")
            .python(program("raise SystemExit(True)").exits(1))
            .scripts(program("process.exitCode = true").exits(1).stderr_contains("ERR_INVALID_ARG_TYPE"))
            .lua(program("os.exit(true, true)").exits(0)),
        code("status::False")
            .prints("")
            .python("raise SystemExit(False)")
            .scripts(program("process.exitCode = false").exits(1).stderr_contains("ERR_INVALID_ARG_TYPE"))
            .lua(program("os.exit(false, true)").exits(1)),
        code("status::None")
            .prints("")
            .python("raise SystemExit(None)")
            .scripts("process.exit(null)")
            .lua("os.exit(nil, true)"),
        code("status::1.5")
            .exits(1)
            .prints("")
            .python(program("raise SystemExit(1.5)").stderr_contains("1.5\n"))
            .scripts(program("process.exitCode = 1.5").stderr_contains("ERR_OUT_OF_RANGE"))
            .lua(program("os.exit(1.5)").stderr_contains("number has no integer representation")),
        code("status::''")
            .exits(1)
            .prints("")
            .python("raise SystemExit('')")
            .scripts(program("process.exit('')").stderr_contains("ERR_INVALID_ARG_TYPE"))
            .lua(program("os.exit('')").stderr_contains("number expected, got string")),
        code("status::text_of_a_hexadecimal_number")
            .exits(16)
            .prints("")
            .scripts("process.exit('0x10')")
            .lua("os.exit('0x10')"),
        code("status::not_a_number")
            .exits(1)
            .prints("")
            .python(program("raise SystemExit(float('nan'))").stderr_contains("nan\n"))
            .scripts(program("process.exit(NaN)").stderr_contains("ERR_OUT_OF_RANGE"))
            .lua(program("os.exit(0/0)").stderr_contains("number has no integer representation")),
        code("status::property_wraps").exits(3).scripts("process.exitCode = 259"),
        code("status::property_reset").scripts("process.exitCode = 3\nprocess.exitCode = undefined"),
        code("status::'x'")
            .exits(1)
            .prints("")
            .python(program("raise SystemExit('x')").stderr_contains("x\n"))
            .scripts(program("process.exitCode = 'x'").stderr_contains("Received type string ('x')"))
            .lua(program("os.exit('x')").stderr_contains("number expected, got string")),
        code("status::[]")
            .exits(1)
            .prints("")
            .python(program("raise SystemExit([])").stderr_contains("[]\n"))
            .scripts(program("process.exitCode = []").stderr_contains("Received an instance of Array"))
            .lua(program("os.exit({})").stderr_contains("number expected, got table")),
        code("status::b'x'").exits(1).prints("").stderr_contains("b'x'\n").python("raise SystemExit(b'x')"),
        code("status::int_subclass")
            .exits(5)
            .prints("")
            .python("class I(int):\n    def __int__(self): return 3\nraise SystemExit(I(5))"),
        code("status::str_raises")
            .exits(1)
            .prints("")
            .python("class A:\n    def __str__(self): 1/0\nraise SystemExit(A())")
            .scripts("throw { toString() { throw new Error('v') } }")
            .lua("error(setmetatable({}, { __tostring = function() error('v') end }))"),
        code("status::no_stderr")
            .exits(1)
            .prints("")
            .stderr_contains("m\n")
            .python("import sys\nsys.stderr = None\nsys.exit('m')")
            .scripts("process.stderr.end()\nthrow 'm'")
            .lua("io.stderr = nil\nerror('m', 0)"),
    ]
}
