//! Memory images that are made for programs that run repeatedly.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use codebox_testkit::{Codebox, Kit, ProcessResult};

use crate::index::{Index, pure, unique};
use crate::{Case, run};

pub const CASES: &[Case] = &[
    ("third_run_starts_from_image", third_run_starts_from_image),
    ("imports_with_other_effects_have_no_image", imports_with_other_effects_have_no_image),
    ("fast_imports_have_no_image", fast_imports_have_no_image),
    ("jobs_of_other_circumstances_do_not_share_images", jobs_of_other_circumstances_do_not_share_images),
    ("modules_of_the_program_take_precedence", modules_of_the_program_take_precedence),
    ("damaged_images_are_made_again", damaged_images_are_made_again),
    ("can_be_disabled_and_removed", can_be_disabled_and_removed),
];

/// A statement whose execution takes more processor time than an image has to save.
const SLOW: &str = "sum(i * i for i in range(2_000_000))\n";

/// Maximum time to wait for a process that makes an image.
const DEADLINE: Duration = Duration::from_secs(120);

/// A home whose runtimes are those of the shared home, but which prepares them itself, so that no other test finds these images.
struct Home<'a> {
    kit: &'a Kit,
    path: PathBuf,
}

impl<'a> Home<'a> {
    fn new(kit: &'a Kit) -> Result<Self> {
        static CREATED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let created = CREATED.get_or_init(|| create_home(kit).map_err(|error| format!("{error:#}")));
        Ok(Self { kit, path: created.clone().map_err(anyhow::Error::msg)? })
    }

    /// Returns a run of a text that requires a package of an index.
    fn run(&self, index: &Index, name: &str, text: &str) -> Codebox {
        self.run_without_program(index, name).args(["-c", text])
    }

    fn run_without_program(&self, index: &Index, name: &str) -> Codebox {
        run(self.kit, index).home(&self.path).env("CODEBOX_AUTOMATIC_IMAGES", "on").args(["--with", name])
    }

    /// Returns the directory with the files that count runs.
    fn uses(&self) -> Result<PathBuf> {
        let prepared = fs::read_dir(self.path.join("cache/prepared"))?.collect::<Result<Vec<_>, _>>()?;
        let python = prepared.iter().find(|entry| entry.file_name().to_string_lossy().starts_with("python"));
        Ok(python.context("Python is not prepared")?.path().join("uses"))
    }

    /// Returns the names of the images that are counted.
    fn counted(&self) -> Result<BTreeSet<String>> {
        let entries = fs::read_dir(self.uses()?).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        Ok(names.filter(|name| name.starts_with("auto.")).collect())
    }

    /// Returns the lines of the list of images that are made.
    fn images(&self) -> Result<String> {
        let listed = self.kit.codebox().home(&self.path).args(["image", "list"]).run()?;
        Ok(listed.stdout_text().lines().filter(|line| line.starts_with("auto.")).collect::<Vec<_>>().join("\n"))
    }

    /// Waits until an image of this module is made.
    fn wait_for_image(&self, module: &str) -> Result<String> {
        wait_for(|| {
            let images = self.images()?;
            Ok(images.lines().find(|line| line.contains(module)).map(str::to_owned))
        })
    }
}

fn create_home(kit: &Kit) -> Result<PathBuf> {
    let (home, link) = (kit.temporary().join("automatic-images"), kit.temporary().join("automatic-images-link"));
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    fs::create_dir_all(home.join("data"))?;
    if !link.is_symlink() {
        symlink(&home, &link)?;
    }
    // The directories of users are often behind links.
    let home = link;
    symlink(kit.home().join("data/runtimes"), home.join("data/runtimes"))?;
    let prepared = kit.codebox().home(&home).args(["run", "-c", "print(1)"]).run()?;
    ensure!(prepared.stdout_text() == "1\n", "{}", prepared.stderr_text());
    Ok(home)
}

fn wait_for<T>(mut value: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = value()? {
            return Ok(value);
        }
        ensure!(start.elapsed() < DEADLINE, "timed out");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Returns the output of a run and the image from which it started.
fn output_and_image(codebox: Codebox) -> Result<(String, String)> {
    let result: ProcessResult = codebox.run()?;
    let report = result.report()?;
    ensure!(report.kind() == "ok", "{}\n{}", result.stdout_text(), result.stderr_text());
    Ok((report.stdout().to_owned(), report.at("/provenance/image").as_str().unwrap_or_default().to_owned()))
}

/// Returns an index with a package that takes long to import, and the names of the package and its module.
fn index_with(stem: &str, text: &str) -> Result<(Index, String, String)> {
    let name = unique(stem);
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), &format!("{SLOW}{text}"))])])?;
    Ok((index, name, module))
}

/// Runs a program twice and waits for its image.
fn make_image(home: &Home<'_>, index: &Index, name: &str, module: &str, text: &str) -> Result<String> {
    for _ in 0..2 {
        let (_, image) = output_and_image(home.run(index, name, text))?;
        ensure!(image == "python", "{image}");
    }
    home.wait_for_image(module)
}

fn third_run_starts_from_image(kit: &Kit) -> Result<()> {
    let home = Home::new(kit)?;
    let state = "import atexit, logging\nSEEN = []\natexit.register(lambda: print('end', SEEN))\n\
                 logging.getLogger(__name__).addHandler(logging.NullHandler())\nclass Kind:\n    pass\n";
    let (index, name, module) = index_with("slow", state)?;
    let program = format!(
        "'A docstring.'\nfrom {module} import Kind, SEEN\nimport sys, os, random, uuid, time, json\n\
         SEEN.append(sys.argv[1:])\n\
         print(Kind.__module__, __name__, sorted(globals())[:3], sys.path, os.getcwd(), dict(os.environ), __doc__)\n\
         print(sys.modules['{module}'].__file__, list(sys.modules)[-1] == '{module}', '{module}' in sys.modules)\n\
         try:\n    raise ValueError\nexcept ValueError as error:\n    print(error.__traceback__.tb_lineno)\n\
         print(json.dumps([random.random(), os.urandom(4).hex(), str(uuid.uuid4()), time.time()]), file=sys.stderr)\n"
    );
    // The order of the modules differs: those of an image come first.
    let run = |arg: &str| -> Result<(String, String, String)> {
        let result = home.run(&index, &name, &program).arg("--").arg(arg).run()?;
        let report = result.report()?;
        let image = report.at("/provenance/image").as_str().unwrap_or_default().to_owned();
        let order = |text: &str| text.replace(".py True True", ".py ? True").replace(".py False True", ".py ? True");
        Ok((order(report.stdout()), report.stderr().to_owned(), image))
    };
    let first = run("one")?;
    let second = run("two")?;
    ensure!(first.2 == "python" && second.2 == "python", "{first:?} {second:?}");
    let line = home.wait_for_image(&module)?;
    ensure!(line.contains("automatic") && line.contains(&module), "{line}");
    let third = run("one")?;
    let fourth = run("one")?;
    ensure!(third.2.starts_with("auto.") && fourth.2 == third.2, "{third:?}");
    ensure!(first.0.contains("end [['one']]") && first.0.contains(&format!("{module} __main__")), "{first:?}");
    ensure!(third.0 == first.0 && fourth.0 == first.0, "{first:?}\n{third:?}");
    ensure!(third.1 != fourth.1 && third.1.len() > 60, "the same random numbers: {third:?} {fourth:?}");
    let numbers = |text: &str| text.split(", ").map(str::to_owned).collect::<BTreeSet<_>>();
    ensure!(numbers(&third.1).is_disjoint(&numbers(&fourth.1)), "{third:?} {fourth:?}");
    Ok(())
}

/// Texts of modules with an effect that an image does not keep, or that differs between programs.
const EFFECTS: &[(&str, &str)] = &[
    ("output", "print('text')"),
    ("errors", "import sys\nprint('text', file=sys.stderr)"),
    ("file", "open('/tmp/left', 'w').close()"),
    ("removed", "import os\nos.mkdir('/tmp/left')\nos.rmdir('/tmp/left')"),
    ("descriptor", "FILE = open(__file__)"),
    ("listing", "import os\nFOUND = os.listdir('/')"),
    ("device", "VALUE = open('/dev/urandom', 'rb').read(4)"),
    ("urandom", "import os\nVALUE = os.urandom(4)"),
    ("uuid", "import uuid\nVALUE = uuid.uuid4()"),
    ("random", "import random\nVALUE = random.random()"),
    ("generator", "import random\nVALUE = random.Random()"),
    ("date", "import time\nVALUE = time.time()"),
    ("now", "import datetime\nVALUE = datetime.datetime.now()"),
    ("clock", "import time\nVALUE = time.monotonic()"),
    ("counter", "import time\nVALUE = time.perf_counter()"),
    ("arguments", "import sys\nVALUE = sys.argv[0]"),
    ("argv", "from sys import argv"),
    ("list", "import sys\nsys.argv = ['other']"),
    ("environment", "import os\nos.environ['SET'] = '1'"),
    ("path", "import sys\nsys.path.append('/work/more')"),
    ("directory", "import os\nos.chdir('/tmp')"),
    ("main", "import sys\nMAIN = sys.modules['__main__']"),
    (
        "globals",
        "import sys\nSPACE = sys._getframe(0)\nwhile SPACE.f_back and SPACE.f_globals['__name__'] != '__main__':\n    \
                SPACE = SPACE.f_back\nSPACE = SPACE.f_globals",
    ),
    ("interactive", "import sys\nVALUE = hasattr(sys.modules['__main__'], '__file__')"),
    ("original", "import sys\nVALUE = sys.orig_argv[0]"),
    ("added", "import sys\nVALUE = ['python'] + sys.argv"),
    ("input", "import sys\nVALUE = sys.stdin.read()"),
    ("collector", "import gc\ngc.disable()"),
    ("enabled", "import gc\nVALUE = gc.isenabled()"),
    ("bound", "from gc import isenabled"),
    (
        "finalized",
        "import time, weakref\nSTATE = []\nclass Cycle:\n    pass\ncycle = Cycle()\ncycle.own = cycle\n\
                   weakref.finalize(cycle, lambda: STATE.append(time.time()))\ndel cycle",
    ),
    ("state", "import random\nVALUE = random.getstate()"),
    ("callback", "import gc\ngc.callbacks.append(lambda *_: print('collected'))"),
    ("finaliser", "class Last:\n    def __del__(self):\n        print('last')\nLAST = Last()"),
    ("exit", "import sys\nsys.exit(0)"),
    ("error", "raise ValueError"),
];

fn imports_with_other_effects_have_no_image(kit: &Kit) -> Result<()> {
    let home = Home::new(kit)?;
    let made = EFFECTS.iter().map(|(stem, text)| index_with(stem, text)).collect::<Result<Vec<_>>>()?;
    let run = |(index, name, module): &(Index, String, String)| -> Result<(String, String)> {
        let program = format!("import {module}\nprint(1)");
        let result = home.run(index, name, &program).run()?;
        let report = result.report()?;
        ensure!(report.at("/provenance/image") == "python", "{module}: {}", result.stdout_text());
        Ok((report.stdout().to_owned(), report.outcome()))
    };
    let before = home.counted()?;
    let uses = home.uses()?;
    let refused_of = |names: &BTreeSet<String>| {
        names.iter().filter(|name| fs::read(uses.join(name)).is_ok_and(|content| content == b"-")).count()
    };
    let mut outcomes = Vec::new();
    for package in &made {
        outcomes.push(run(package)?);
        ensure!(run(package)? == outcomes[outcomes.len() - 1], "{}", package.2);
        // A limited number of processes waits to make images.
        wait_for(|| {
            let counted = home.counted()?;
            let made = home.images()?.lines().count();
            Ok((counted.len() < refused_of(&counted) + made + 6).then_some(()))
        })?;
    }
    let new: BTreeSet<String> = home.counted()?.difference(&before).cloned().collect();
    ensure!(new.len() >= EFFECTS.len(), "{new:?}");
    // Each of them is refused in the end, or has an image.
    wait_for(|| Ok((refused_of(&new) >= EFFECTS.len()).then_some(())))
        .with_context(|| home.images().unwrap_or_default())?;
    for (package, outcome) in made.iter().zip(&outcomes) {
        ensure!(run(package)? == *outcome, "{}", package.2);
    }
    let images = home.images()?;
    ensure!(made.iter().all(|(_, _, module)| !images.contains(module)), "{images}");
    Ok(())
}

fn fast_imports_have_no_image(kit: &Kit) -> Result<()> {
    let home = Home::new(kit)?;
    let name = unique("fast");
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 1\n")])])?;
    let before = home.counted()?;
    for _ in 0..2 {
        ensure!(
            output_and_image(home.run(&index, &name, &format!("import {module}\nprint({module}.VALUE)")))?.0 == "1\n"
        );
    }
    let uses = home.uses()?;
    wait_for(|| {
        let is_refused = |name: &String| fs::read(uses.join(name)).is_ok_and(|content| content == b"-");
        Ok(home.counted()?.difference(&before).any(is_refused).then_some(()))
    })?;
    ensure!(!home.images()?.contains(&module), "{}", home.images()?);
    // Imports that the runtime's image has are not counted. Other tests add counts meanwhile, but not in each of these times.
    let mut added = Vec::new();
    for module in
        ["json", "os", "re", "abc", "ast", "csv", "copy", "enum", "glob", "html", "io", "math", "pickle", "time"]
    {
        let counted = home.counted()?;
        output_and_image(home.run(&index, &name, &format!("import {module}\nfrom collections import abc\nprint(1)")))?;
        added = home.counted()?.difference(&counted).cloned().collect();
        if added.is_empty() {
            return Ok(());
        }
    }
    anyhow::bail!("counted: {added:?}")
}

fn jobs_of_other_circumstances_do_not_share_images(kit: &Kit) -> Result<()> {
    let home = Home::new(kit)?;
    let (index, name, module) = index_with("circumstances", "import os\nVALUE = os.environ.get('SETTING')")?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    make_image(&home, &index, &name, &module, &program)?;
    let run = || home.run(&index, &name, &program);
    ensure!(output_and_image(run())?.1.starts_with("auto."));
    // Modules read variables when they are imported.
    let (output, image) = output_and_image(run().args(["--env", "SETTING=1"]))?;
    ensure!(output == "1\n" && image == "python", "{output} {image}");
    let (_, image) = output_and_image(run().args(["--image", "python"]))?;
    ensure!(image == "python", "{image}");
    let (_, image) = output_and_image(run().args(["--net", "example.org:443"]))?;
    ensure!(image == "python", "{image}");
    // An image takes no more than half of the memory.
    let (_, image) = output_and_image(run().args(["--memory", "64M"]))?;
    ensure!(image == "python", "{image}");
    let folder = kit.folder()?;
    for guest in ["/work", "/work/data", "/tmp/data", "/usr/local/share"] {
        let (_, image) = output_and_image(run().grant(folder.path(), guest, "ro"))?;
        ensure!(image == "python", "{guest}: {image}");
    }
    ensure!(output_and_image(run().grant(folder.path(), "/data", "rw"))?.1.starts_with("auto."));
    let (_, image) = output_and_image(home.run(&index, &name, &format!("import sys\n{program}")))?;
    ensure!(image == "python", "{image}");
    Ok(())
}

fn modules_of_the_program_take_precedence(kit: &Kit) -> Result<()> {
    let home = Home::new(kit)?;
    let inner = format!("{}_inner", unique("part").replace('-', "_"));
    let name = unique("shadowed");
    let module = name.replace('-', "_");
    let text = format!("{SLOW}import {inner}, os\nVALUE = {inner}.VALUE, os.path.exists('/work/settings.ini')\n");
    let members = [(format!("{module}.py"), text.as_str()), (format!("{inner}.py"), "VALUE = 'package'\n")];
    let members: Vec<(&str, &str)> = members.iter().map(|(file, text)| (file.as_str(), *text)).collect();
    let index = Index::of([pure(&name, "1", &[], &members)])?;
    let program = format!("import {module}\nprint({module}.VALUE)\n");
    let folder = kit.folder()?;
    let run = |path: &Path, grant: Option<&str>| {
        let codebox = home.run_without_program(&index, &name);
        let codebox = grant.into_iter().fold(codebox, |codebox, access| codebox.grant(folder.path(), "/work", access));
        output_and_image(codebox.arg(path))
    };
    let script = folder.path().join("script.py");
    fs::write(&script, &program)?;
    let plain = "('package', False)\n";
    for _ in 0..2 {
        ensure!(run(&script, None)? == (plain.to_owned(), "python".to_owned()));
    }
    home.wait_for_image(&module)?;
    let (output, image) = run(&script, None)?;
    ensure!(output == plain && image.starts_with("auto."), "{output} {image}");
    // The imports look for files in the directory that is granted now.
    let (output, image) = run(&script, Some("ro"))?;
    ensure!(output == plain && image == "python", "{output} {image}");
    fs::write(folder.path().join("settings.ini"), "")?;
    ensure!(run(&script, Some("ro"))?.0 == "('package', True)\n");
    fs::remove_file(folder.path().join("settings.ini"))?;
    fs::write(folder.path().join(format!("{inner}.py")), "VALUE = 'own'\n")?;
    ensure!(run(&script, Some("ro"))? == ("('own', False)\n".to_owned(), "python".to_owned()));
    ensure!(run(&script, None)?.0 == plain);
    // The script itself is a module that its imports find.
    let own = folder.path().join("own");
    fs::create_dir(&own)?;
    let script = own.join(format!("{inner}.py"));
    fs::write(&script, format!("import {module}\nVALUE = 'script'\nprint({module}.VALUE)\n"))?;
    let result = home.run_without_program(&index, &name).arg(&script).run()?;
    ensure!(result.report()?.at("/provenance/image") == "python", "{}", result.stdout_text());
    Ok(())
}

fn damaged_images_are_made_again(kit: &Kit) -> Result<()> {
    let home = Home::new(kit)?;
    let (index, name, module) = index_with("damaged", "VALUE = 5")?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let line = make_image(&home, &index, &name, &module, &program)?;
    let image = line.split_whitespace().next().context("no name")?.to_owned();
    let file = home.uses()?.with_file_name(format!("{image}.img"));
    let mut content = fs::read(&file)?;
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(&file, content)?;
    let (output, used) = output_and_image(home.run(&index, &name, &program))?;
    ensure!(output == "5\n" && used == "python", "{output} {used}");
    // The next run that makes an image is the fourth of those that did not start from one.
    output_and_image(home.run(&index, &name, &program))?;
    home.wait_for_image(&module)?;
    ensure!(output_and_image(home.run(&index, &name, &program))? == ("5\n".to_owned(), image));
    Ok(())
}

fn can_be_disabled_and_removed(kit: &Kit) -> Result<()> {
    let home = Home::new(kit)?;
    let (index, name, module) = index_with("removed", "VALUE = 5")?;
    let program = format!("import {module}\nprint({module}.VALUE)");
    let line = make_image(&home, &index, &name, &module, &program)?;
    let image = line.split_whitespace().next().context("no name")?.to_owned();
    let run = || home.run(&index, &name, &program);
    ensure!(output_and_image(run())?.1 == image);
    ensure!(output_and_image(run().env("CODEBOX_AUTOMATIC_IMAGES", "off"))?.1 == "python");
    let folder = kit.folder()?;
    fs::write(folder.path().join("codebox.toml"), "automatic-images = false\n")?;
    ensure!(output_and_image(run().folder(folder.path()))?.1 == "python");
    let named = run().args(["--image", &image]).run()?;
    ensure!(named.report()?.kind() == "invalid_request", "{}", named.stdout_text());
    let removed = kit.codebox().home(&home.path).args(["image", "remove", &image]).run()?;
    ensure!(removed.code == Some(0), "{}", removed.stderr_text());
    ensure!(output_and_image(run())?.1 == "python" && !home.images()?.contains(&image));
    Ok(())
}
