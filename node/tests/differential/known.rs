//! The table of accepted differences: each with its reason, none that no longer differs.

use std::{cell::Cell, fs, path::Path};

use crate::normalise::Difference;

/// The table, with a note of which lines were needed.
#[derive(Debug)]
pub(crate) struct KnownDifferences {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    line: usize,
    case: String,
    path: String,
    left: String,
    right: String,
    reason: String,
    used: Cell<usize>,
}

impl KnownDifferences {
    /// Reads the table. A line: `case | path | Kafka's value | Seedlog's value | reason`, where `*` stands for
    /// anything in the first four columns; `#` starts a comment line.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let columns: Vec<_> = line
                .split(" | ")
                .map(|column| column.trim().to_owned())
                .collect();
            let [case, path, left, right, reason] =
                <[String; 5]>::try_from(columns).map_err(|columns| {
                    format!(
                        "{}:{}: {} columns, not 5",
                        file.display(),
                        index + 1,
                        columns.len()
                    )
                })?;
            if reason.is_empty() {
                return Err(format!("{}:{}: no reason", file.display(), index + 1));
            }
            entries.push(Entry {
                line: index + 1,
                case,
                path,
                left,
                right,
                reason,
                used: Cell::new(0),
            });
        }
        Ok(Self { entries })
    }

    /// Whether a difference stands in the table.
    pub(crate) fn excuses(&self, case: &str, difference: &Difference) -> bool {
        let fits = |entry: &&Entry| {
            matches(&entry.case, case)
                && matches(&entry.path, &difference.path)
                && matches(&entry.left, &difference.left)
                && matches(&entry.right, &difference.right)
        };
        let mut excused = false;
        for entry in self.entries.iter().filter(fits) {
            entry.used.set(entry.used.get() + 1);
            excused = true;
        }
        excused
    }

    /// Lines that excused nothing, as text.
    pub(crate) fn stale(&self) -> Vec<String> {
        let unused = self.entries.iter().filter(|entry| entry.used.get() == 0);
        unused
            .map(|e| {
                format!(
                    "line {}: {} | {} | {} | {}",
                    e.line, e.case, e.path, e.left, e.right
                )
            })
            .collect()
    }

    /// Every line with the number of differences it excused.
    pub(crate) fn usage(&self) -> Vec<String> {
        self.entries
            .iter()
            .map(|e| format!("{:>5}  line {:<4} {}", e.used.get(), e.line, e.reason))
            .collect()
    }
}

/// Whether `text` fits a pattern in which each `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    let mut rest = rest;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
