//! Compiles the image: code without a library, without data, at one address.

use std::{env, ffi::OsString, path::PathBuf, process::Command};

fn main() {
    for file in ["build.rs", "image.ld", "src/image.rs", "src/layout.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if (target("OS"), target("ARCH")) != ("linux".into(), "x86_64".into()) {
        return;
    }
    let path = |name: &str| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let (here, out) = (path("CARGO_MANIFEST_DIR"), path("OUT_DIR").join("image.bin"));
    let script = format!("link-arg=-Wl,-T,{}", here.join("image.ld").display());
    let mut rustc = Command::new(path("RUSTC"));
    rustc.args(["--edition", "2024", "--crate-name", "image", "--crate-type", "bin"]);
    rustc.args(["--target", &env::var("TARGET").expect("cargo sets it")]);
    for option in [
        "panic=abort",
        "opt-level=3",
        "codegen-units=1",
        "relocation-model=pic",
        "debug-assertions=off",
        "link-arg=-nostartfiles",
        "link-arg=-nostdlib",
        "link-arg=-static",
        "link-arg=-no-pie",
        "link-arg=-Wl,--build-id=none",
        "link-arg=-Wl,--oformat=binary",
        &script,
    ] {
        rustc.args(["-C", option]);
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    rustc.arg("-o").arg(&out).arg(here.join("src/image.rs"));
    // Flags that are meant for the whole build are not meant for this.
    rustc.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let status = rustc.status().expect("the compiler that compiled this can be run");
    assert!(status.success(), "the image does not compile");
}
