//! The `chaos` command: hunt for failures, replay, shrink and explain them, and drill with planted bugs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand};
use seedlog_chaos_tests::{
    capsule::{Capsule, fingerprint},
    drill::{self, DRILLS},
    seeds,
    shrink::shrink,
    sweep::{self, Sweep},
};
use seedlog_core::planted::Planted;
use seedlog_sim::run::Watch;

#[derive(Debug, Parser)]
#[command(name = "chaos", about = "Hunts for failures in simulated clusters")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run seeds of the swarm until time or seeds run out; stop at the first failure.
    Hunt(Hunt),
    /// Replay a seed or a capsule and print its report.
    Repro {
        /// A seed, decimal or 0x…, or the path of a capsule.
        what: String,
        /// Plant a bug of the catalogue (B33…).
        #[arg(long)]
        planted: Option<String>,
    },
    /// Make a failing capsule smaller; writes FILE.min beside it.
    Shrink {
        /// The capsule.
        file: PathBuf,
    },
    /// Print the timeline of a capsule: faults, then every line.
    Explain {
        /// The capsule.
        file: PathBuf,
        /// How many of the last lines to print.
        #[arg(long, default_value_t = 1_000)]
        lines: usize,
    },
    /// Plant each bug in turn and let the swarm, not told which, look for it.
    Drill {
        /// Give up on a bug after so many seeds.
        #[arg(long, default_value_t = 500)]
        seeds: u64,
        /// Threads.
        #[arg(long)]
        jobs: Option<usize>,
    },
}

#[derive(Debug, clap::Args)]
struct Hunt {
    /// For how long.
    #[arg(long)]
    minutes: Option<u64>,
    /// How many seeds.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value = "0")]
    from: String,
    /// Threads.
    #[arg(long)]
    jobs: Option<usize>,
    /// Go on after a failure.
    #[arg(long)]
    keep_going: bool,
    /// Plant a bug of the catalogue (B33…).
    #[arg(long)]
    planted: Option<String>,
    /// Where capsules of failures go.
    #[arg(long, default_value = "target/chaos")]
    out: PathBuf,
}

type Outcome = Result<bool, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Hunt(hunt) => run_hunt(&hunt),
        Command::Repro { what, planted } => repro(&what, planted.as_deref()),
        Command::Shrink { file } => run_shrink(&file),
        Command::Explain { file, lines } => explain(&file, lines),
        Command::Drill { seeds, jobs } => run_drill(seeds, jobs),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn cores(jobs: Option<usize>) -> usize {
    jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

fn planted(id: Option<&str>) -> Result<Option<Planted>, String> {
    id.map(|id| drill::bug(id).ok_or_else(|| format!("no planted bug is named {id}")))
        .transpose()
}

fn run_hunt(hunt: &Hunt) -> Outcome {
    let bug = planted(hunt.planted.as_deref())?;
    let first = seeds::parse(&hunt.from).ok_or("--from is no seed")?;
    let count = match (hunt.seeds, hunt.minutes) {
        (Some(seeds), _) => seeds,
        (None, Some(_)) => u64::MAX - first,
        (None, None) => return Err("say how long: --minutes or --seeds".into()),
    };
    let began = Instant::now();
    let end = hunt
        .minutes
        .map(|minutes| began + Duration::from_secs(60 * minutes));
    let mut sweep = Sweep::default();
    let mut told = began;
    let mut trouble = None;
    let make = |seed| drill::run(seed, bug);
    sweep::run(
        first..first + count,
        cores(hunt.jobs),
        make,
        |report, took| {
            sweep.add(report, took);
            if told.elapsed() > Duration::from_secs(10) {
                told = Instant::now();
                let (done, failed) = (sweep.seeds, sweep.failed.len());
                eprintln!(
                    "{:>6}s {done} seeds, {failed} failed",
                    began.elapsed().as_secs()
                );
            }
            if !report.is_ok() {
                println!("{report}");
                let mut capsule = Capsule::of(report.seed, bug);
                capsule.fails = fingerprint(report);
                let path = hunt.out.join(format!("{:#x}.plan", report.seed));
                let written = fs::create_dir_all(&hunt.out)
                    .and_then(|()| fs::write(&path, capsule.to_string()));
                match written {
                    Ok(()) => println!("capsule: {}", path.display()),
                    Err(error) => trouble = Some(error),
                }
            }
            let in_time = end.is_none_or(|end| Instant::now() < end);
            in_time && (report.is_ok() || hunt.keep_going)
        },
    );
    println!("{sweep}");
    println!("wall time: {:.1} s", began.elapsed().as_secs_f64());
    for (seed, checker) in &sweep.failed {
        println!("failed: {seed:#x} {checker}");
    }
    match trouble {
        Some(error) => Err(error.into()),
        None => Ok(sweep.failed.is_empty()),
    }
}

fn load(file: &Path) -> Result<Capsule, Box<dyn std::error::Error>> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Capsule::from_text(&text)?)
}

fn repro(what: &str, bug: Option<&str>) -> Outcome {
    let bug = planted(bug)?;
    let mut capsule = match seeds::parse(what) {
        Some(seed) => Capsule::of(seed, bug),
        None => load(Path::new(what))?,
    };
    capsule.bug = bug.or(capsule.bug);
    let report = capsule.run(&Watch::default());
    println!("{report}");
    Ok(report.is_ok())
}

fn run_shrink(file: &Path) -> Outcome {
    let capsule = load(file)?;
    let Some(shrunk) = shrink(&capsule) else {
        println!("it does not fail");
        return Ok(false);
    };
    let mut path = file.as_os_str().to_owned();
    path.push(".min");
    fs::write(&path, shrunk.capsule.to_string())?;
    println!("{}", shrunk.report);
    println!(
        "{} faults of {} left after {} runs: {}",
        shrunk.capsule.plan.faults.len(),
        capsule.plan.faults.len(),
        shrunk.runs,
        Path::new(&path).display()
    );
    Ok(true)
}

fn explain(file: &Path, lines: usize) -> Outcome {
    let watch = Watch {
        trace_lines: lines,
        shown_lines: lines,
        ..Watch::default()
    };
    let capsule = load(file)?;
    println!("{}", capsule.run(&watch));
    Ok(true)
}

fn run_drill(seeds: u64, jobs: Option<usize>) -> Outcome {
    println!("bug  seeds needed  found first by   the same seeds without it");
    let mut all = true;
    for drill in DRILLS {
        let id = drill.bug.id();
        let Some(found) = drill::hunt(drill.bug, 0..seeds, cores(jobs)) else {
            println!("{id}  not found in {seeds}");
            all = false;
            continue;
        };
        let checker = found.failed_checker().unwrap_or_default();
        let mut sweep = Sweep::default();
        let sound = |seed| drill::run(seed, None);
        sweep::run(0..found.seed + 1, cores(jobs), sound, |report, took| {
            sweep.add(report, took);
            true
        });
        let failed = sweep.failed.len();
        all &= drill.checkers.contains(&checker) && failed == 0;
        let named = if drill.checkers.contains(&checker) {
            ""
        } else {
            " (not named in the catalogue)"
        };
        println!(
            "{id}  {:>12}  {checker:<16} {failed} failed{named}",
            found.seed + 1
        );
    }
    Ok(all)
}
