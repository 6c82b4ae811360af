//! What a process asked of the kernel, from the output of `strace -f -ttt -yy -xx -o FILE`.

use std::{collections::HashMap, path::PathBuf};

/// One system call. `start` and `end` are places in the trace: strace writes them in the order in which it saw them.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) name: String,
    arguments: String,
    result: String,
}

/// Reads a trace; calls that were cut by others are put together, and those that never ended are left out.
pub(crate) fn read(trace: &str) -> Vec<Call> {
    let mut begun: HashMap<&str, (usize, String)> = HashMap::new();
    let mut calls = Vec::new();
    for (place, line) in trace.lines().enumerate() {
        // Process, time and the call, in columns.
        let Some((process, rest)) = line.split_once(' ') else {
            continue;
        };
        let Some((_time, rest)) = rest.trim_start().split_once(' ') else {
            continue;
        };
        if let Some(head) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(process, (place, head.trim_end().to_owned()));
        } else if let Some((_, tail)) = rest
            .strip_prefix("<... ")
            .and_then(|rest| rest.split_once(" resumed>"))
        {
            if let Some((start, head)) = begun.remove(process) {
                calls.extend(call(start, place, &(head + tail)));
            }
        } else {
            calls.extend(call(place, place, rest));
        }
    }
    calls.sort_by_key(|call| call.start);
    calls
}

/// Takes `name(arguments) = result` apart; signals and exits are none.
fn call(start: usize, end: usize, text: &str) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, result) = rest
        .rsplit_once(") = ")
        .or_else(|| rest.rsplit_once(" = "))?;
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| Call {
        start,
        end,
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        result: result.to_owned(),
    })
}

impl Call {
    /// What the kernel answered; negative for errors.
    pub(crate) fn result(&self) -> i64 {
        let digits = self.result.split(['<', ' ']).next().unwrap_or_default();
        digits.parse().unwrap_or(-1)
    }

    /// The file behind the first argument, if that is an open file.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        path(&annotation(&self.arguments)?)
    }

    /// The file that the call opened.
    pub(crate) fn opened(&self) -> Option<PathBuf> {
        path(&annotation(&self.result)?)
    }

    /// The socket behind the first argument, as `LOCAL->PEER`.
    pub(crate) fn socket(&self) -> Option<String> {
        Some(
            annotation(&self.arguments)?
                .strip_prefix("TCP:[")?
                .strip_suffix(']')?
                .to_owned(),
        )
    }

    /// Whether the arguments name a flag.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.arguments.contains(flag)
    }

    /// The bytes of all quoted arguments, one after the other, as far as the kernel took them.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut quoted = self
            .arguments
            .split('"')
            .skip(1)
            .step_by(2)
            .flat_map(unhex)
            .collect::<Vec<u8>>();
        quoted.truncate(usize::try_from(self.result()).unwrap_or(0));
        quoted
    }

    /// The bytes of the first quoted argument as a path.
    pub(crate) fn first_path(&self) -> Option<PathBuf> {
        let quoted = self.arguments.split('"').nth(1)?;
        Some(PathBuf::from(String::from_utf8(unhex(quoted)).ok()?))
    }
}

/// What strace says in angle brackets about the descriptor in front. A socket's own arrow is part of it.
fn annotation(text: &str) -> Option<String> {
    let (number, rest) = text.split_once('<')?;
    number
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(())?;
    let said = rest.get(..rest.replace("->", "__").find('>')?)?;
    if said.starts_with("\\x") {
        String::from_utf8(unhex(said)).ok()
    } else {
        Some(said.to_owned())
    }
}

fn path(annotation: &str) -> Option<PathBuf> {
    let path = PathBuf::from(annotation);
    path.is_absolute().then_some(path)
}

fn unhex(quoted: &str) -> Vec<u8> {
    quoted
        .split("\\x")
        .skip(1)
        .map_while(|digits| u8::from_str_radix(digits.get(..2)?, 16).ok())
        .collect()
}
