//! The differential suite: Apache Kafka and Seedlog get the same raw requests, and their normalised answers must be
//! equal, but for the differences that `known_differences` lists with their reasons.
//!
//! Run it with `cargo test -p seedlog --test differential`. It needs a Java runtime and Maven (which fetches Kafka once).
//! After `--`: words that case names must contain; `--list`; `--show` prints what the first broker said;
//! `--against-kafka` compares Kafka with itself, which shows that normalising is stable; `--kafka HOST:PORT` and
//! `--seedlog HOST:PORT` use brokers that already run. `SEEDLOG_BIN` names another binary than the one just built.

mod batch;
mod cases;
mod connection;
mod known;
mod normalise;
mod report;
mod run;
mod schema;
mod target;
mod wire;

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use crate::{
    cases::Case,
    known::KnownDifferences,
    normalise::differences,
    report::Report,
    run::Run,
    schema::Schemas,
    target::{Kafka, Running, Seedlog, Target},
};

#[derive(Debug, Default)]
struct Options {
    words: Vec<String>,
    list: bool,
    show: bool,
    against_kafka: bool,
    kafka: Option<String>,
    seedlog: Option<String>,
}

fn main() -> ExitCode {
    match options().and_then(|options| compare_all(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("the differential suite could not run: {reason}");
            ExitCode::from(2)
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => options.list = true,
            "--show" => options.show = true,
            "--against-kafka" => options.against_kafka = true,
            "--kafka" => options.kafka = Some(arguments.next().ok_or("--kafka HOST:PORT")?),
            "--seedlog" => options.seedlog = Some(arguments.next().ok_or("--seedlog HOST:PORT")?),
            flag if flag.starts_with('-') => return Err(format!("no option is called {flag}")),
            word => options.words.push(word.to_owned()),
        }
    }
    Ok(options)
}

fn compare_all(options: &Options) -> Result<bool, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let distribution = kafka_distribution(root)?;
    let schemas = Schemas::read(&distribution.join("messages"));
    let mut cases = cases::all(&schemas);
    let complete = options.words.is_empty();
    cases.retain(|case| complete || options.words.iter().any(|word| case.name.contains(word)));
    if options.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        println!("{} cases", cases.len());
        return Ok(true);
    }
    let known = KnownDifferences::read(&root.join("tests/differential/known_differences"))?;
    let [mut left, mut right] = start(options, &distribution)?;
    let mut report = Report::new(left.name(), right.name());
    for (number, case) in cases.iter().enumerate() {
        let said = transcript(&schemas, left.as_ref(), case, number, 'a');
        if options.show {
            report.show(case, &said);
        }
        let answered = transcript(&schemas, right.as_ref(), case, number, 'b');
        let found = differences(&said, &answered);
        let (excused, kept) = found
            .into_iter()
            .partition(|d| !options.against_kafka && known.excuses(&case.name, d));
        report.case(case, excused, kept);
        for target in [&mut left, &mut right] {
            if !target.alive() {
                return Err(format!("{} ended during {}", target.name(), case.name));
            }
        }
    }
    let stale = if complete && !options.against_kafka {
        known.stale()
    } else {
        Vec::new()
    };
    if complete && !options.against_kafka {
        report.usage(&known.usage());
    }
    let well = report.finish(&stale);
    if well {
        // Kept otherwise: the brokers' logs may explain a difference.
        let _left_over = std::fs::remove_dir_all(work_folder());
    }
    Ok(well)
}

/// Runs one case against one broker. Both get topic names of the same length, and none is used twice.
fn transcript(
    schemas: &Schemas,
    target: &dyn Target,
    case: &Case,
    number: usize,
    side: char,
) -> Vec<serde_json::Value> {
    let prefix = format!("d{side}{:05}x{number:03}-", std::process::id() % 100_000);
    let mut run = Run::new(schemas, target, &prefix);
    (case.script)(&mut run);
    run.into_transcript()
}

/// Where Kafka's jars and schemas are, fetched by Maven on first use.
fn kafka_distribution(root: &Path) -> Result<PathBuf, String> {
    let script = root.join("../.ci/kafka-jars");
    let folder = target_folder().join("../kafka-4.3.1");
    let output = Command::new(&script)
        .arg(&folder)
        .stderr(Stdio::inherit())
        .output();
    let output = output.map_err(|e| format!("{}: {e}", script.display()))?;
    if output.status.success() {
        Ok(folder)
    } else {
        Err("Maven could not fetch Kafka".to_owned())
    }
}

fn target_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Where the brokers of this run keep their settings, data and logs.
fn work_folder() -> PathBuf {
    target_folder().join(format!("differential-{}", std::process::id()))
}

fn start(options: &Options, distribution: &Path) -> Result<[Box<dyn Target>; 2], String> {
    let work = work_folder();
    let running = |name: &str, address: &String| -> Result<Box<dyn Target>, String> {
        let address = address.parse().map_err(|e| format!("{address}: {e}"))?;
        Ok(Box::new(Running {
            name: name.to_owned(),
            address,
        }))
    };
    let left: Box<dyn Target> = match &options.kafka {
        Some(address) => running("Kafka", address)?,
        None => Box::new(Kafka::start(distribution, &work.join("kafka"))?),
    };
    let right: Box<dyn Target> = match &options.seedlog {
        _ if options.against_kafka => running("Kafka again", &left.address().to_string())?,
        Some(address) => running("Seedlog", address)?,
        None => {
            let built = || PathBuf::from(env!("CARGO_BIN_EXE_seedlog"));
            let binary = env::var_os("SEEDLOG_BIN").map_or_else(built, PathBuf::from);
            Box::new(Seedlog::start(&binary, &work.join("seedlog"))?)
        }
    };
    Ok([left, right])
}
