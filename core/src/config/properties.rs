//! The text form of `server.properties`: Java's properties format.

use std::{iter::Peekable, str::Chars};

/// One setting of a property file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The name, escapes resolved.
    pub name: String,
    /// The value, escapes resolved.
    pub value: String,
    /// The line it begins on, from 1.
    pub line: usize,
}

/// Reads property file text in Java's format: `name=value`, `name: value` or `name value`; `#` and `!` begin a
/// comment, a backslash at the end of a line continues it, `\t`, `\n`, `\f`, `\r` and `\uXXXX` are escapes.
///
/// Nothing is refused: a line without a separator is a name with an empty value, as in Java, and the checks of the
/// settings find what is wrong with it.
#[must_use]
pub fn parse_properties(text: &str) -> Vec<Property> {
    let mut properties = Vec::new();
    let mut lines = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .enumerate();
    while let Some((at, first)) = lines.next() {
        let first = first.trim_start_matches(is_blank);
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = first.to_owned();
        while ends_in_odd_backslashes(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim_start_matches(is_blank)),
                None => break,
            }
        }
        let (name, value) = split(&logical);
        properties.push(Property {
            name,
            value,
            line: at + 1,
        });
    }
    properties
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\u{c}')
}

fn ends_in_odd_backslashes(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

fn split(logical: &str) -> (String, String) {
    let mut rest = logical.chars().peekable();
    let mut name = String::new();
    while let Some(character) = rest.peek().copied() {
        if is_blank(character) || matches!(character, '=' | ':') {
            break;
        }
        rest.next();
        push_unescaped(&mut name, character, &mut rest);
    }
    skip_blanks(&mut rest);
    if rest
        .next_if(|character| matches!(character, '=' | ':'))
        .is_some()
    {
        skip_blanks(&mut rest);
    }
    let mut value = String::new();
    while let Some(character) = rest.next() {
        push_unescaped(&mut value, character, &mut rest);
    }
    (name, value)
}

fn skip_blanks(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|character| is_blank(*character)).is_some() {}
}

fn push_unescaped(out: &mut String, character: char, rest: &mut Peekable<Chars<'_>>) {
    if character != '\\' {
        out.push(character);
        return;
    }
    match rest.next() {
        Some('t') => out.push('\t'),
        Some('n') => out.push('\n'),
        Some('r') => out.push('\r'),
        Some('f') => out.push('\u{c}'),
        Some('u') => {
            let digits: String = rest.clone().take(4).collect();
            match u32::from_str_radix(&digits, 16)
                .ok()
                .and_then(char::from_u32)
            {
                Some(unescaped) if digits.chars().count() == 4 => {
                    out.push(unescaped);
                    rest.nth(3);
                }
                // Java throws; here the text stays as it is, and the check of the setting shows it.
                _ => out.push_str("\\u"),
            }
        }
        Some(other) => out.push(other),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse_properties(text)
            .into_iter()
            .map(|found| (found.name, found.value))
            .collect()
    }

    #[test]
    fn separators_comments_and_continuations_are_javas() {
        let text = "# comment\n! another\n\n a = b \r\nc:d\ne f g\nlog.dirs=/x,\\\n    /y\nempty\n";
        assert_eq!(
            pairs(text),
            [
                ("a".into(), "b ".into()),
                ("c".into(), "d".into()),
                ("e".into(), "f g".into()),
                ("log.dirs".into(), "/x,/y".into()),
                ("empty".into(), String::new()),
            ]
        );
        assert_eq!(parse_properties(text)[3].line, 7);
    }

    #[test]
    fn escapes_are_resolved_and_broken_ones_do_no_harm() {
        assert_eq!(pairs(r"a\=b=c\u0041\td"), [("a=b".into(), "cA\td".into())]);
        assert_eq!(pairs(r"a=\u00"), [("a".into(), r"\u00".into())]);
        assert_eq!(pairs("a=b\\"), [("a".into(), "b".into())]);
        assert_eq!(pairs(r"a=C:\\x"), [("a".into(), r"C:\x".into())]);
    }
}
