//! Programs with copies of a project's files.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};

use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![row("projects::are_copied", copied), row("projects::elements_and_aliases", elements_and_aliases)]
}

fn copied(test_env: &TestEnvironment) -> Result<()> {
    let dir = test_env.kit.folder()?;
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("main.py"), "import helper\nopen('data.bin', 'ab').write(b'!')\nprint(helper.x)\n")?;
    std::fs::write(path("helper.py"), "x = 7\n")?;
    for name in ["data.bin", "other.bin"] {
        std::fs::write(path(name), vec![0; 3 << 20])?;
    }
    std::fs::write(path("server.key"), "key")?;
    std::fs::write(path("run.sh"), "#!/bin/sh\necho $PWD; ls; python3 -m helper && cat server.key\n")?;
    std::fs::set_permissions(path("run.sh"), std::fs::Permissions::from_mode(0o755))?;
    // The copies do not count as written by the program.
    let args = ["--project", ".", "--max-disk", "4M", "--out", "out", "main.py"];
    let report = test_env.check_run(&test_env.run().args(args).folder(dir.path()).run()?)?;
    ensure!(report.exit_code() == Some(0) && report.stdout() == "7\n", "{report:?}");
    let written: Vec<_> = std::fs::read_dir(path("out"))?.flatten().map(|entry| entry.file_name()).collect();
    ensure!(written == ["data.bin"] && std::fs::metadata(path("data.bin"))?.len() == 3 << 20, "{written:?}");
    std::fs::remove_dir_all(path("out"))?;
    let args = ["--project", ".", "--workdir", "/work/sub", "--", "../run.sh"];
    let report = test_env.check_run(&test_env.run().args(args).folder(dir.path()).run()?)?;
    ensure!(report.exit_code() == Some(1) && report.stdout() == "/work/sub\n", "{report:?}");
    let args = ["--project", ".", "--", "./run.sh"];
    let report = test_env.check_run(&test_env.run().args(args).folder(dir.path()).run()?)?;
    let listed = "/work\ndata.bin\nhelper.py\nmain.py\nother.bin\nrun.sh\n";
    ensure!(report.exit_code() == Some(1) && report.stdout() == listed, "{report:?}");
    Ok(())
}

fn elements_and_aliases(test_env: &TestEnvironment) -> Result<()> {
    let dir = test_env.kit.folder()?;
    for (path, text) in [
        ("main.tsx", "import { Card } from '@ui/card';\nconsole.log(JSON.stringify(<Card n={1 as number}/>));\n"),
        ("ui/card.jsx", "export const Card = (props) => <div {...props}/>;\n"),
        (
            "jsx.ts",
            "export const jsx = (type: any, props: any) => typeof type === 'function' ? type(props) : [type, props];\n",
        ),
        (
            "tsconfig.json",
            r#"{"compilerOptions": {"jsx": "react-jsx", "jsxImportSource": "@my", "paths": {"@ui/*": ["ui/*"], "@my/jsx-runtime": ["jsx"]}}}"#,
        ),
    ] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(dir.path()))?;
        std::fs::write(path, text)?;
    }
    let report = test_env.check_run(&test_env.run().args(["--project", ".", "main.tsx"]).folder(dir.path()).run()?)?;
    ensure!(report.stdout() == "[\"div\",{\"n\":1}]\n", "{report:?}");
    Ok(())
}
