//! The `chaos` command: hunt for failures, replay, shrink and explain them, and drill with planted bugs.

use std::{
    cell::Cell,
    collections::BTreeMap,
    error::Error,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand};
use seedlog_chaos_tests::{
    capsule::{Capsule, fingerprint},
    drill::{self, DRILLS, Search},
    seeds,
    shrink::shrink,
    swarm::Family,
    sweep::{self, BUSY, Busy, Sweep},
};
use seedlog_core::planted::Planted;
use seedlog_sim::{report::Report, run::Watch};

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
    /// Run seeds until so many did enough to count, and fail if one fails, more than one in a hundred is idle, or a kind of
    /// fault never took effect.
    Sweep(SweepArguments),
    /// Replay a seed or a capsule and print its report.
    Repro {
        /// A seed, decimal or 0x…, or the path of a capsule.
        what: String,
        /// Plant a bug of the catalogue (B33…).
        #[arg(long)]
        planted: Option<String>,
        /// A seed of the swarm of three or five brokers.
        #[arg(long)]
        cluster: bool,
    },
    /// Make a failing capsule smaller; writes FILE.min beside it.
    Shrink {
        /// The capsule.
        file: PathBuf,
    },
    /// Print the timeline of a seed or a capsule: every line, then the faults.
    Explain {
        /// A seed, decimal or 0x…, or the path of a capsule.
        what: String,
        /// How many of the last lines to print.
        #[arg(long, default_value_t = 1_000)]
        lines: usize,
        /// A seed of the swarm of three or five brokers.
        #[arg(long)]
        cluster: bool,
    },
    /// Plant each bug in turn and let the swarm, not told which, look for it.
    Drill(DrillArguments),
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
    /// The swarm of three or five brokers.
    #[arg(long)]
    cluster: bool,
}

#[derive(Debug, clap::Args)]
struct SweepArguments {
    /// The swarm of three or five brokers.
    #[arg(long)]
    cluster: bool,
    /// How many seeds.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value = "0")]
    from: String,
    /// Threads.
    #[arg(long)]
    jobs: Option<usize>,
    /// Where capsules of failures go.
    #[arg(long, default_value = "target/chaos")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
struct DrillArguments {
    /// The bugs that need the swarm of three or five brokers.
    #[arg(long)]
    cluster: bool,
    /// Only this bug of the catalogue (B33…); may be given several times.
    #[arg(long)]
    bug: Vec<String>,
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Stop after so many seeds that find the bug.
    #[arg(long, default_value_t = usize::MAX)]
    enough: usize,
    /// Threads.
    #[arg(long)]
    jobs: Option<usize>,
}

type Outcome = Result<bool, Box<dyn Error>>;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Hunt(hunt) => run_hunt(&hunt),
        Command::Sweep(arguments) => run_sweep(&arguments),
        Command::Repro {
            what,
            planted,
            cluster,
        } => repro(family(cluster), &what, planted.as_deref()),
        Command::Shrink { file } => run_shrink(&file),
        Command::Explain {
            what,
            lines,
            cluster,
        } => explain(family(cluster), &what, lines),
        Command::Drill(arguments) => run_drill(&arguments),
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

const fn family(cluster: bool) -> Family {
    if cluster {
        Family::Cluster
    } else {
        Family::Single
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
    let first = seeds::parse(&hunt.from).ok_or("--from is no seed")?;
    let count = match (hunt.seeds, hunt.minutes) {
        (Some(seeds), _) => seeds,
        (None, Some(_)) => u64::MAX - first,
        (None, None) => return Err("say how long: --minutes or --seeds".into()),
    };
    let end = hunt
        .minutes
        .map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let job = Job {
        family: family(hunt.cluster),
        seeds: first..first.saturating_add(count),
        jobs: cores(hunt.jobs),
        bug: planted(hunt.planted.as_deref())?,
        out: &hunt.out,
    };
    let sweep = job.run(|report| {
        let in_time = end.is_none_or(|end| Instant::now() < end);
        in_time && (report.is_ok() || hunt.keep_going)
    })?;
    println!("{sweep}");
    Ok(sweep.failed.is_empty())
}

fn run_sweep(arguments: &SweepArguments) -> Outcome {
    let first = seeds::parse(&arguments.from).ok_or("--from is no seed")?;
    let family = family(arguments.cluster);
    let job = Job {
        family,
        seeds: first..first.saturating_add(with_spares(arguments.seeds)),
        jobs: cores(arguments.jobs),
        bug: None,
        out: &arguments.out,
    };
    let wanted = Cell::new(arguments.seeds);
    let sweep = job.run(|report| {
        // Others take the place of idle runs.
        if Busy::of(report).reaches(&BUSY) || !report.is_ok() {
            wanted.set(wanted.get().saturating_sub(1));
        }
        wanted.get() > 0
    })?;
    println!("{sweep}");
    let missing = sweep.missing(&family.kinds());
    for kind in &missing {
        println!("never took effect: {kind}");
    }
    let enough = sweep.counted.len() >= usize::try_from(arguments.seeds)?;
    if !enough {
        println!("too few runs count: {}", sweep.counted.len());
    }
    Ok(sweep.failed.is_empty() && enough && missing.is_empty())
}

/// Returns how many runs it may take at most until so many count: one in a hundred may be idle.
const fn with_spares(seeds: u64) -> u64 {
    seeds.saturating_add(seeds / 100)
}

/// Seeds to run, and what to do about failures.
struct Job<'a> {
    family: Family,
    seeds: Range<u64>,
    jobs: usize,
    bug: Option<Planted>,
    out: &'a Path,
}

impl Job<'_> {
    /// Runs the seeds for as long as `go_on` says; writes a capsule for each failure.
    fn run(&self, go_on: impl Fn(&Report) -> bool) -> Result<Sweep, Box<dyn Error>> {
        let began = Instant::now();
        let (mut sweep, mut told, mut trouble) = (Sweep::default(), began, None);
        let make = |seed| drill::run(self.family, seed, self.bug);
        sweep::run(self.seeds.clone(), self.jobs, make, |report, took| {
            sweep.add(report, took);
            if told.elapsed() > Duration::from_secs(10) {
                told = Instant::now();
                let (runs, idle, failed) = (sweep.runs(), sweep.idle.len(), sweep.failed.len());
                let seconds = began.elapsed().as_secs();
                eprintln!("{seconds:>6}s {runs} runs, {idle} idle, {failed} failed");
            }
            if !report.is_ok() {
                println!("{report}");
                match self.write_capsule(report) {
                    Ok(path) => println!("capsule: {}", path.display()),
                    Err(error) => trouble = Some(error),
                }
            }
            go_on(report)
        });
        println!("wall time: {:.1} s", began.elapsed().as_secs_f64());
        match trouble {
            Some(error) => Err(error.into()),
            None => Ok(sweep),
        }
    }

    fn write_capsule(&self, report: &Report) -> std::io::Result<PathBuf> {
        let mut capsule = Capsule::of(self.family, report.seed, self.bug);
        capsule.fails = fingerprint(report);
        let path = self.out.join(format!("{:#x}.plan", report.seed));
        fs::create_dir_all(self.out)?;
        fs::write(&path, capsule.to_string())?;
        Ok(path)
    }
}

fn load(file: &Path) -> Result<Capsule, Box<dyn Error>> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Capsule::from_text(&text)?)
}

fn find(family: Family, what: &str) -> Result<Capsule, Box<dyn Error>> {
    match seeds::parse(what) {
        Some(seed) => Ok(Capsule::of(family, seed, None)),
        None => load(Path::new(what)),
    }
}

fn repro(family: Family, what: &str, bug: Option<&str>) -> Outcome {
    let bug = planted(bug)?;
    let mut capsule = find(family, what)?;
    capsule.bug = bug.or(capsule.bug);
    let report = capsule.run(&seeds::watch());
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

fn explain(family: Family, what: &str, lines: usize) -> Outcome {
    let watch = Watch {
        trace_lines: lines,
        shown_lines: lines,
        always_shown: true,
        ..Watch::default()
    };
    println!("{}", find(family, what)?.run(&watch));
    Ok(true)
}

fn run_drill(arguments: &DrillArguments) -> Outcome {
    let family = family(arguments.cluster);
    let search = Search {
        seeds: arguments.seeds,
        enough: arguments.enough,
        jobs: cores(arguments.jobs),
    };
    let wanted: Vec<Planted> = arguments
        .bug
        .iter()
        .map(|id| drill::bug(id).ok_or_else(|| format!("no planted bug is named {id}")))
        .collect::<Result<_, _>>()?;
    let drills = DRILLS.iter().filter(|drill| {
        drill.family == family && (wanted.is_empty() || wanted.contains(&drill.bug))
    });
    println!("bug | first seed that finds it | seeds that find it | first checker, how often");
    // A seed is run without the bug when it first fails with one.
    let mut without = BTreeMap::new();
    let mut all = true;
    for drill in drills {
        let survey = drill::survey(drill, &search, |seed| {
            *without
                .entry(seed)
                .or_insert_with(|| !drill::run(family, seed, None).is_ok())
        });
        println!("{survey}");
        all &= survey.is_found_as_named();
    }
    let failing = without.values().filter(|fails| **fails).count();
    println!(
        "without a bug, of {} seeds: {failing} failed",
        without.len()
    );
    Ok(all && failing == 0)
}
