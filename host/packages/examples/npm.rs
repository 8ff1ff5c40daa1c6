//! Installs npm packages below a directory and lists them: `npm DIRECTORY SPEC...`.

use std::error::Error;
use std::path::Path;

use codebox_core::Silent;
use codebox_packages::{ConfigFiles, NpmFiles, NpmSettings, NpmSpec, NpmStore, npm_environment};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let store = NpmStore::at(Path::new(&words.next().ok_or("npm DIRECTORY SPEC...")?));
    let specs: Vec<NpmSpec> = words.map(|word| word.parse()).collect::<Result<_, _>>()?;
    let env = |name: &str| std::env::var(name).ok();
    let files = NpmFiles::User { home: std::env::home_dir() };
    let settings = NpmSettings::from_user(&env, &files, &ConfigFiles::User)?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let installed = executor.block_on(npm_environment(&specs, None, &settings, &store, &Silent))?;
    for package in &installed.tree.packages {
        println!("{} {}@{}", package.place, package.name, package.version);
    }
    for native in &installed.native {
        println!("{} {}", native.package, native.native);
    }
    println!("{}", installed.dir.display());
    Ok(())
}
