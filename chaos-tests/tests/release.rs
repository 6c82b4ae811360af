//! What a release carries.

use std::process::Command;

fn features_of(package: &str) -> String {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args([
            "tree",
            "--offline",
            "--locked",
            "-f",
            "{p} {f}",
            "-p",
            package,
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("seedlog-core"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// The binary of a release has no planted bug: the feature that compiles them in is not in its tree. The same look at this
/// package, which has it, shows that the look can see it.
#[test]
fn release_has_no_planted_bug() {
    assert!(features_of("seedlog-chaos-tests").contains("planted-bugs"));
    assert!(!features_of("seedlog").contains("planted-bugs"));
}
