//! Embeds the experiments of the papers in a program with the laboratory, so that an installed program has them too.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_LABORATORY").is_none() {
        return Ok(());
    }
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").canonicalize()?;
    println!("cargo::rerun-if-changed={}", experiments.display());
    let mut files = Vec::new();
    collect(&experiments, &mut files)?;
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&experiments).unwrap_or(&file);
        let name = Path::new("experiments").join(name);
        // Writing to a string cannot fail.
        let _ = writeln!(
            code,
            "    ({:?}, include_str!({:?})),",
            name.display().to_string(),
            file.display().to_string()
        );
    }
    code.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(PathBuf::from(out).join("experiments.rs"), code)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}
