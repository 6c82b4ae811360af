//! What tests need and `cargo` cannot bring: the scripts in `.ci` install it below `target/`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Runs one of the scripts and hands back the folder that it filled.
pub(crate) fn install(script: &str, folder: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("a folder below target/");
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../.ci")
        .join(script);
    let output = Command::new(&script)
        .arg(target.join(folder))
        .stderr(Stdio::inherit())
        .output();
    let output = output.unwrap_or_else(|e| panic!("{} does not start: {e}", script.display()));
    assert!(output.status.success(), "{} failed", script.display());
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}
