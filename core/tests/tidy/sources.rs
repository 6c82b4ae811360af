//! The text of the workspace.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// A text file of the workspace.
pub(crate) struct Source {
    /// Its path from the top of the workspace, with `/` between the parts.
    pub(crate) name: String,
    /// Everything in it.
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn is_rust(&self) -> bool {
        self.name.ends_with(".rs")
    }

    pub(crate) fn is_test(&self) -> bool {
        self.name.contains("/tests/") || self.name.ends_with("/tests.rs")
    }

    /// These checks hold all the words that they ban.
    pub(crate) fn is_tidy(&self) -> bool {
        self.name.starts_with("core/tests/tidy/")
    }

    /// Returns the lines with their numbers, without comments.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().zip(1..);
        lines.map(|(line, number)| (number, line.split("//").next().unwrap_or(line)))
    }
}

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn rust_sources() -> impl Iterator<Item = &'static Source> {
    sources().iter().filter(|source| source.is_rust())
}

/// Returns every text file of the workspace that people write, read once.
pub(crate) fn sources() -> &'static [Source] {
    static SOURCES: OnceLock<Vec<Source>> = OnceLock::new();
    SOURCES.get_or_init(|| {
        let mut found = Vec::new();
        gather(&workspace(), "", &mut found);
        assert!(found.len() > 100, "the workspace was not found");
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    })
}

fn gather(folder: &Path, prefix: &str, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace can be listed") {
        let entry = entry.expect("a folder of the workspace can be listed");
        let name = entry.file_name().into_string().expect("names are text");
        let path = entry.path();
        let full = format!("{prefix}{name}");
        let kind = entry.file_type().expect("an entry has a type");
        if kind.is_dir() {
            let is_ours = !name.starts_with('.') || [".ci", ".cargo"].contains(&name.as_str());
            // Data that a broker or a build left behind.
            let is_left_behind = ["target", "seedlog-data"].contains(&name.as_str());
            if is_ours && !is_left_behind {
                gather(&path, &format!("{full}/"), found);
            }
        } else if kind.is_file() {
            let extension = path.extension().and_then(|extension| extension.to_str());
            let is_text = matches!(extension, Some("rs" | "md" | "toml" | "sh" | "py"));
            if is_text || prefix.starts_with(".ci/") {
                // What is not text is none of our business.
                if let Ok(text) = fs::read_to_string(&path) {
                    found.push(Source { name: full, text });
                }
            }
        }
    }
}
