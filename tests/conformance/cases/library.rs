//! Parts of the library that need more than arithmetic.

use crate::case::{Case, code, file};

pub fn cases() -> Vec<Case> {
    vec![
        file("library::matplotlib", PLOT).creates(&["/work/plot.png", "/work/plot.svg"]).look(|report| {
            let size = report.file("/work/plot.png").and_then(|file| file["size"].as_u64()).unwrap_or(0);
            if size > 1000 { Ok(()) } else { Err(format!("plot.png has {size} bytes")) }
        }),
        code("library::numpy_and_pandas", "import numpy as np, pandas as pd\nprint(np.arange(5).sum(), pd.Series([1, 2]).mean())")
            .prints("10 1.5\n"),
        code("library::sqlite", SQLITE).prints("[('a', 1)] True\n").creates(&["/work/t.db"]),
        code("library::zoneinfo", ZONE).prints("2024-07-01T14:00:00+02:00 True\n"),
        code("library::tempfile", TEMP).prints("b'x' True True\n"),
        code("library::zipfile", ZIP).prints("['a.txt'] b'hello'\n"),
        code("library::csv", "import csv, io\nprint(list(csv.DictReader(io.StringIO('a,b\\n1,\"x,y\"\\n'))))")
            .prints("[{'a': '1', 'b': 'x,y'}]\n"),
        code("library::decimal", "from decimal import Decimal, getcontext\ngetcontext().prec = 30\nprint(Decimal(1) / 7, Decimal('0.1') + Decimal('0.2'))")
            .prints("0.142857142857142857142857142857 0.3\n"),
        code("library::json", "import json\nprint(json.dumps({'ü': [1, None, True]}, ensure_ascii=False))").prints("{\"ü\": [1, null, true]}\n"),
        code("library::hashes", "import hashlib\nprint(hashlib.sha256(b'').hexdigest()[:8], hashlib.pbkdf2_hmac('sha256', b'p', b's', 2).hex()[:8])")
            .prints("e3b0c442 1998f3d3\n"),
        code("library::clock", "import time\nprint(time.time() > 1.7e9, time.localtime().tm_zone, time.perf_counter() >= 0)")
            .prints("True UTC True\n"),
        code("library::randomness", "import random, secrets, uuid\nprint(len({random.random(), random.random()}), len(secrets.token_hex(4)), uuid.uuid4().version)")
            .prints("2 8 4\n"),
        code("library::seeded_randomness", "import random\nrandom.seed(1)\nprint(random.randrange(1000))").prints("137\n"),
        code("library::compression", "import bz2, gzip, lzma, zlib\nprint([m.decompress(m.compress(b'abc')) for m in (bz2, gzip, lzma, zlib)])")
            .prints("[b'abc', b'abc', b'abc', b'abc']\n"),
        code("library::platform", "import platform\nplatform.platform(), platform.libc_ver()\nprint('on')").prints("on\n"),
        code("library::selectors", "import time\ntime.sleep(0.01)\nprint('on')").prints("on\n"),
        code("library::yaml_and_lxml", "import yaml, lxml.etree\nprint(yaml.safe_load('a: [1]'), lxml.etree.fromstring('<a/>').tag)")
            .prints("{'a': [1]} a\n"),
        code("library::pathlib", "from pathlib import Path\np = Path('a/b')\np.mkdir(parents=True)\n(p / 'c.txt').write_text('é')\nprint(list(Path('.').rglob('*.txt')))")
            .prints("[PosixPath('a/b/c.txt')]\n"),
    ]
}

const PLOT: &str = "import matplotlib.pyplot as plt
import matplotlib
assert matplotlib.get_backend().lower() == 'agg', matplotlib.get_backend()
plt.plot([1, 3, 2])
plt.title('ü')
plt.savefig('/work/plot.png')
plt.savefig('plot.svg')";

const SQLITE: &str = "import os, sqlite3
db = sqlite3.connect('t.db')
db.execute('create table t(a text, b int)')
db.execute('insert into t values (?, ?)', ('a', 1))
db.commit()
print(sqlite3.connect('t.db').execute('select * from t').fetchall(), os.path.getsize('t.db') > 0)";

const ZONE: &str = "from datetime import datetime, timezone
import zoneinfo
noon = datetime(2024, 7, 1, 12, tzinfo=timezone.utc)
print(noon.astimezone(zoneinfo.ZoneInfo('Europe/Berlin')).isoformat(), 'Asia/Tokyo' in zoneinfo.available_timezones())";

const TEMP: &str = "import os, tempfile
with tempfile.TemporaryDirectory() as d:
    with tempfile.NamedTemporaryFile(dir=d) as f:
        f.write(b'x'); f.seek(0)
        print(f.read(), d.startswith('/tmp/'), tempfile.gettempdir() == '/tmp')";

const ZIP: &str = "import zipfile
with zipfile.ZipFile('z.zip', 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('a.txt', 'hello')
with zipfile.ZipFile('z.zip') as z:
    print(z.namelist(), z.read('a.txt'))";
