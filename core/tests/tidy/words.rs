//! Reading names off lines, without a parser.

pub(crate) fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| word.starts_with(|letter: char| letter.is_ascii_alphabetic()))
}

/// Returns whether one of the words that an identifier is made of is `part`, in any case.
pub(crate) fn has_part(identifier: &str, part: &str) -> bool {
    let mut word = String::new();
    let mut is_part = false;
    let mut before = '_';
    for letter in identifier.chars().chain(['_']) {
        let begins = letter == '_' || (letter.is_uppercase() && !before.is_uppercase());
        if begins {
            is_part |= word == part;
            word.clear();
        }
        if letter != '_' {
            word.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    is_part
}

/// Returns whether a line names a path or a word, and not merely something that contains it.
pub(crate) fn names(line: &str, word: &str) -> bool {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line
            .get(at + word.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(is_inside) && !after.is_some_and(is_inside)
    })
}

/// Returns the full paths that `use std::{…}` groups name.
pub(crate) fn grouped_std_names(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for group in code.split("use std::{").skip(1) {
        let mut path = vec!["std".to_owned()];
        let mut word = String::new();
        for letter in group.chars() {
            if !matches!(letter, '{' | ',' | '}') {
                word.push(letter);
                continue;
            }
            // Without what it may be renamed to.
            let name = word.split_whitespace().next().unwrap_or_default();
            match letter {
                '{' => path.push(name.trim_end_matches(':').to_owned()),
                _ if !name.is_empty() => found.push(format!("{}::{name}", path.join("::"))),
                _ => {}
            }
            word.clear();
            if letter == '}' {
                path.pop();
            }
            if path.is_empty() {
                break;
            }
        }
    }
    found
}

/// Returns the targets of a page's links.
pub(crate) fn links(page: &str) -> impl Iterator<Item = &str> {
    let rest = page.split("](").skip(1);
    rest.filter_map(|rest| rest.split(')').next())
}

/// Returns the tests that a line cites as `file.rs::name`.
pub(crate) fn cited_tests(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter_map(|quoted| {
        let (file, test) = quoted.split_once(".rs::")?;
        Some((quoted.get(..file.len() + 3)?, test))
    })
}

#[test]
fn checks_find_what_they_look_for() {
    assert!(has_part("current_term", "term") && has_part("TermStart", "term"));
    assert!(!has_part("terminal", "term") && !has_part("determine", "term"));
    assert!(names("use std::fs;", "std::fs") && !names("std::fsx", "std::fs"));
    assert_eq!(
        grouped_std_names("use std::{ fs, time::{Duration, Instant as Moment}, io, }; let x = {};"),
        [
            "std::fs",
            "std::time::Duration",
            "std::time::Instant",
            "std::io"
        ]
    );
    assert_eq!(
        links("[a](b.md), [c](d.md#e)").collect::<Vec<_>>(),
        ["b.md", "d.md#e"]
    );
    assert_eq!(
        cited_tests("see `a/b.rs::it_holds`, not `c.rs` or x.rs::y").collect::<Vec<_>>(),
        [("a/b.rs", "it_holds")]
    );
}
