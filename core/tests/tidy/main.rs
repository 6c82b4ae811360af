//! Style is a test: what a reader of this workspace may rely on, and what no compiler lint says.
//!
//! Lints with types in them (clocks, threads, hash order, `unwrap`) are clippy's, in `core/clippy.toml`. Here is what can be
//! read off the text: lengths, words, layers. Each failure says what to do instead.

mod rules;
mod sources;
mod words;

use std::{fmt::Write as _, fs, path::Path};

use rules::{
    BANNED_ANYWHERE, BANNED_IN_CODE, BANNED_IN_CORE, BANNED_MODULES, BANNED_PARTS, FENCES,
    LINES_LONG, LINES_MAX, LONG_FILES, SLACK, TOP_LEVEL,
};
use sources::{rust_sources, sources, workspace};
use words::{cited_tests, grouped_std_names, has_part, identifiers, links, names};

#[test]
fn no_file_grows_without_bound() {
    let mut faults = Faults::default();
    for source in rust_sources() {
        let length = source.text.lines().count();
        let listed = LONG_FILES.iter().find(|(name, _)| *name == source.name);
        let unlisted = if source.is_test() {
            LINES_MAX
        } else {
            LINES_LONG
        };
        let ceiling = listed.map_or(unlisted, |(_, ceiling)| *ceiling);
        if length > ceiling.min(LINES_MAX) {
            faults.add(
                &source.name,
                0,
                &format!("{length} lines, {ceiling} are allowed: split it by topic"),
            );
        }
    }
    faults.none();
}

#[test]
fn ceilings_follow_their_files_down() {
    let mut faults = Faults::default();
    for (name, ceiling) in LONG_FILES {
        let source = rust_sources().find(|source| source.name == *name);
        let length = source.map_or(0, |source| source.text.lines().count());
        if length + SLACK < *ceiling {
            let what = format!("{length} lines: lower its ceiling, or take it off the list");
            faults.add(name, 0, &what);
        }
        if *ceiling > LINES_MAX {
            faults.add(name, 0, "no ceiling is higher than the limit of all files");
        }
    }
    faults.none();
}

#[test]
fn banned_words_stay_out() {
    let mut faults = Faults::default();
    for source in sources().iter().filter(|source| !source.is_tidy()) {
        for (line, number) in source.text.lines().zip(1..) {
            for (word, instead) in BANNED_ANYWHERE {
                if line.contains(word) {
                    faults.add(&source.name, number, &format!("`{word}`: {instead}"));
                }
            }
        }
        if !source.is_rust() {
            continue;
        }
        for (number, line) in source.code() {
            for (word, instead) in BANNED_IN_CODE {
                if line.contains(word) {
                    faults.add(&source.name, number, &format!("`{word}`: {instead}"));
                }
            }
            let is_machine = ["core/", "sim/"]
                .iter()
                .any(|folder| source.name.starts_with(folder));
            for (word, instead) in BANNED_PARTS.iter().filter(|_| is_machine) {
                if identifiers(line).any(|identifier| has_part(identifier, word)) {
                    faults.add(&source.name, number, &format!("`{word}`: say {instead}"));
                }
            }
        }
    }
    faults.none();
}

#[test]
fn modules_are_named_after_what_they_hold() {
    let mut faults = Faults::default();
    for source in rust_sources() {
        let parts = source.name.trim_end_matches(".rs").split('/');
        for part in parts.filter(|part| BANNED_MODULES.contains(part)) {
            faults.add(
                &source.name,
                0,
                &format!("`{part}` says nothing: name the topic"),
            );
        }
        for (number, line) in source.code() {
            let mut words = identifiers(line).skip_while(|word| *word != "mod").skip(1);
            if words
                .next()
                .is_some_and(|name| BANNED_MODULES.contains(&name))
            {
                faults.add(&source.name, number, "name the module after its topic");
            }
        }
    }
    faults.none();
}

#[test]
fn every_silenced_lint_has_a_reason() {
    let mut faults = Faults::default();
    for source in rust_sources() {
        if source.is_tidy() {
            continue;
        }
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let line = line.trim_start();
            let is_attribute = line.starts_with("#[") || line.starts_with("#![");
            if !is_attribute {
                continue;
            }
            if line.contains("[allow(") {
                faults.add(
                    &source.name,
                    at + 1,
                    "`allow`: write `expect`, which fails once it is not needed",
                );
            }
            if line.contains("[expect(") {
                let rest = lines.get(at..).unwrap_or_default();
                let end = rest.iter().position(|line| line.contains(")]"));
                let attribute = rest.get(..=end.unwrap_or(0)).unwrap_or_default();
                if !attribute.iter().any(|line| line.contains("reason = ")) {
                    faults.add(&source.name, at + 1, "give a `reason`");
                }
            }
        }
    }
    faults.none();
}

#[test]
fn core_names_no_clock_file_or_thread() {
    let mut faults = Faults::default();
    let core = rust_sources();
    for source in core.filter(|source| source.name.starts_with("core/src/")) {
        let code: Vec<(usize, &str)> = source.code().collect();
        for (number, line) in &code {
            for (word, instead) in BANNED_IN_CORE {
                if names(line, word) {
                    faults.add(&source.name, *number, &format!("`{word}`: use {instead}"));
                }
            }
        }
        let flat: String = code.iter().flat_map(|(_, line)| [*line, " "]).collect();
        for group in grouped_std_names(&flat) {
            if let Some((word, instead)) = BANNED_IN_CORE
                .iter()
                .find(|(word, _)| *word == group || group.starts_with(&format!("{word}::")))
            {
                faults.add(&source.name, 0, &format!("`{word}`: use {instead}"));
            }
        }
    }
    faults.none();
}

#[test]
fn replaceable_crates_stay_behind_their_module() {
    let mut faults = Faults::default();
    for source in rust_sources() {
        if source.is_tidy() || !source.name.starts_with("core/src/") {
            continue;
        }
        for (number, line) in source.code() {
            for (word, folders) in FENCES {
                let inside = folders.iter().any(|folder| source.name.starts_with(folder));
                if !inside && line.contains(word) {
                    faults.add(
                        &source.name,
                        number,
                        &format!("`{word}` belongs to {}", folders.join(", ")),
                    );
                }
            }
        }
    }
    faults.none();
}

#[test]
fn node_never_names_the_simulator() {
    let mut faults = Faults::default();
    for source in sources() {
        if !source.name.starts_with("node/src/") && source.name != "node/Cargo.toml" {
            continue;
        }
        for (line, number) in source.text.lines().zip(1..) {
            for word in ["madsim", "seedlog_sim", "seedlog-sim"] {
                if names(line, word) {
                    faults.add(&source.name, number, "the node must run without it");
                }
            }
        }
    }
    faults.none();
}

#[test]
fn top_level_holds_five_folders_and_nothing_else() {
    let mut faults = Faults::default();
    for entry in fs::read_dir(workspace()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.starts_with('.') && !TOP_LEVEL.contains(&name.as_str()) {
            faults.add(&name, 0, "does not belong at the top of the workspace");
        }
    }
    faults.none();
}

#[test]
fn book_lists_every_page_and_every_page_exists() {
    let mut faults = Faults::default();
    let root = workspace().join("book/src");
    let summary = fs::read_to_string(root.join("SUMMARY.md")).unwrap();
    let listed: Vec<&str> = links(&summary).collect();
    for page in sources() {
        if let Some(name) = page.name.strip_prefix("book/src/") {
            if name != "SUMMARY.md" && name.ends_with(".md") && !listed.contains(&name) {
                faults.add(&page.name, 0, "not in SUMMARY.md: nobody finds it");
            }
            let folder = Path::new(&page.name).parent().unwrap();
            for link in links(&page.text).filter(|link| !link.contains("://")) {
                let file = link.split('#').next().unwrap_or(link);
                if !file.is_empty() && !workspace().join(folder).join(file).exists() {
                    faults.add(
                        &page.name,
                        0,
                        &format!("links to {file}, which is not there"),
                    );
                }
            }
        }
    }
    faults.none();
}

#[test]
fn tests_that_the_book_cites_exist() {
    let mut faults = Faults::default();
    let mut count = 0;
    for page in sources() {
        if !page.name.starts_with("book/src/") {
            continue;
        }
        for (line, number) in page.text.lines().zip(1..) {
            for (file, test) in cited_tests(line) {
                count += 1;
                let source = sources().iter().find(|source| source.name == file);
                if !source.is_some_and(|source| source.text.contains(&format!("fn {test}("))) {
                    let what = format!("{file} has no test `{test}`: cite what proves it now");
                    faults.add(&page.name, number, &what);
                }
            }
        }
    }
    assert!(count > 0, "the book cites tests");
    faults.none();
}

/// Everything that is wrong, so that one run shows all of it.
#[derive(Default)]
struct Faults(String);

impl Faults {
    fn add(&mut self, name: &str, line: usize, what: &str) {
        let _ = match line {
            0 => writeln!(self.0, "{name}: {what}"),
            line => writeln!(self.0, "{name}:{line}: {what}"),
        };
    }

    fn none(self) {
        assert!(self.0.is_empty(), "\n{}", self.0);
    }
}
