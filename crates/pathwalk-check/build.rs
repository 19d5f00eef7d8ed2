//! Puts the tables into the program: whoever runs it needs no checkout.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let tables = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("scenarios");
    println!("cargo::rerun-if-changed={}", tables.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(&tables)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "scn") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut code = String::from("&[\n");
    for path in paths {
        let name = path.file_name().unwrap_or_default();
        code.push_str(&format!("    ({name:?}, include_str!({path:?})),\n"));
    }
    code.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("tables.rs"), code)?;
    Ok(())
}
