//! One line for each case, the differences beneath, and the counts at the end.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{cases::Case, normalise::Difference};

/// Long values are cut in the report; the comparison sees all of them.
const SHOWN: usize = 300;

/// What has been compared so far.
#[derive(Debug)]
pub(crate) struct Report {
    left: String,
    right: String,
    equal: usize,
    known: usize,
    different: Vec<String>,
    excused: usize,
    counts: BTreeMap<&'static str, BTreeMap<i16, usize>>,
}

impl Report {
    pub(crate) fn new(left: &str, right: &str) -> Self {
        Self {
            left: left.to_owned(),
            right: right.to_owned(),
            equal: 0,
            known: 0,
            different: Vec::new(),
            excused: 0,
            counts: BTreeMap::new(),
        }
    }

    /// Prints a transcript.
    pub(crate) fn show(&self, case: &Case, transcript: &[Value]) {
        println!("{} to {}:", self.left, case.name);
        for step in transcript {
            println!("    {step}");
        }
    }

    /// Prints and counts a case.
    pub(crate) fn case(&mut self, case: &Case, excused: Vec<Difference>, kept: Vec<Difference>) {
        *self
            .counts
            .entry(case.api)
            .or_default()
            .entry(case.version)
            .or_default() += 1;
        self.excused += excused.len();
        let verdict = match (excused.len(), kept.len()) {
            (0, 0) => {
                self.equal += 1;
                "equal".to_owned()
            }
            (known, 0) => {
                self.known += 1;
                format!("known ({known})")
            }
            (_, kept) => {
                self.different.push(case.name.clone());
                format!("DIFFERS ({kept})")
            }
        };
        println!("{verdict:<12} {}", case.name);
        for difference in kept {
            println!("             {}", difference.path);
            println!("                 {}: {}", self.left, cut(&difference.left));
            println!(
                "                 {}: {}",
                self.right,
                cut(&difference.right)
            );
        }
    }

    /// Prints how often each line of the table was needed.
    pub(crate) fn usage(&self, lines: &[String]) {
        println!("\naccepted differences:");
        lines.iter().for_each(|line| println!("{line}"));
    }

    /// Prints the summary; true if all is well.
    pub(crate) fn finish(self, stale: &[String]) -> bool {
        println!("\ncases by API and version:");
        for (api, versions) in &self.counts {
            let each: Vec<_> = versions
                .iter()
                .map(|(version, count)| format!("v{version}:{count}"))
                .collect();
            println!(
                "    {api:<24} {:>4}   {}",
                versions.values().sum::<usize>(),
                each.join(" ")
            );
        }
        let total = self.equal + self.known + self.different.len();
        println!(
            "\n{} and {}: {total} cases, {} equal, {} with {} accepted differences, {} differ",
            self.left,
            self.right,
            self.equal,
            self.known,
            self.excused,
            self.different.len()
        );
        self.different
            .iter()
            .for_each(|name| println!("    {name}"));
        if !stale.is_empty() {
            println!(
                "{} lines of known_differences excuse nothing any more:",
                stale.len()
            );
            stale.iter().for_each(|line| println!("    {line}"));
        }
        self.different.is_empty() && stale.is_empty()
    }
}

fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
