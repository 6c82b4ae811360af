//! What is banned, what is allowed, and what to do instead.

/// No file is longer, whatever the reason.
pub(crate) const LINES_MAX: usize = 800;

/// Above this length somebody has thought about splitting, and said so in [`LONG_FILES`]. Tests are exempt: a table of cases may be
/// long.
pub(crate) const LINES_LONG: usize = 500;

/// How far a file may stay below its ceiling before the ceiling follows it down.
pub(crate) const SLACK: usize = 100;

/// Files that may be longer than [`LINES_LONG`], each with its ceiling. Ceilings go down and entries disappear; a new entry needs a reason
/// that a reviewer believes.
pub(crate) const LONG_FILES: &[(&str, usize)] = &[
    ("core/src/log/lookup.rs", 550),
    ("core/src/log/read.rs", 650),
    ("core/src/log/recovery/mod.rs", 650),
    ("core/src/storage/contract.rs", 600),
    ("sim/src/cluster/node_side.rs", 650),
    ("sim/src/disk/device.rs", 550),
    ("sim/src/disk/mod.rs", 550),
    ("sim/src/nemesis/mod.rs", 550),
    ("sim/src/network/mod.rs", 550),
    ("sim/src/plan.rs", 550),
    ("sim/src/toy.rs", 650),
];

/// Words that Rust code does not contain, and what to write instead.
pub(crate) const BANNED_IN_CODE: &[(&str, &str)] = &[
    (
        "todo!",
        "finish it, or leave it out and say so in the documentation",
    ),
    (
        "unimplemented!",
        "finish it, or leave it out and say so in the documentation",
    ),
    ("dbg!", "remove it, or make it an event"),
    ("fn test_", "a test's name is a claim, without a prefix"),
];

/// Words that no file contains, and what to write instead.
pub(crate) const BANNED_ANYWHERE: &[(&str, &str)] = &[
    (
        concat!("/wo", "rk/"),
        "a path of one machine: make it relative to the workspace",
    ),
    (
        concat!("/ro", "ot/"),
        "a path of one machine: make it relative to the workspace",
    ),
    (
        concat!("/ho", "me/"),
        "a path of one machine: make it relative to the workspace",
    ),
    (
        concat!("FIX", "ME"),
        "fix it, or open an issue and describe the present behaviour",
    ),
];

/// Parts of identifiers in core and simulator that are not Kafka's words, and the word that is.
pub(crate) const BANNED_PARTS: &[(&str, &str)] = &[("term", "epoch"), ("master", "leader")];

/// Module names that say nothing.
pub(crate) const BANNED_MODULES: &[&str] = &[
    "common", "helper", "helpers", "impls", "misc", "shared", "util", "utils",
];

/// What the core never names, and what it uses instead; `core/clippy.toml` bans the types behind it once more.
pub(crate) const BANNED_IN_CORE: &[(&str, &str)] = &[
    ("std::time::Instant", "crate::time::Instant"),
    ("std::time::SystemTime", "crate::time::Timestamp"),
    ("std::fs", "crate::storage"),
    ("std::thread", "a deadline, and an input when it is due"),
    ("std::process", "an output: Stopped, or an event"),
    ("std::env", "a setting, which is an input"),
    ("std::sync::Mutex", "one owner and &mut self"),
    ("thread_local!", "state of the machine"),
    ("tokio", "inputs and outputs"),
    ("madsim", "inputs and outputs"),
];

/// Words that may stand below one folder of the workspace only.
pub(crate) const FENCES: &[(&str, &[&str])] = &[
    // So that the wire crate can be replaced.
    ("kacrab_protocol", &["core/src/protocol"]),
    // One module with decode limits: it allocates what hostile input says.
    ("bincode::", &["core/src/controller/records"]),
];

/// What stands at the top of the workspace, beside files that begin with a dot.
pub(crate) const TOP_LEVEL: &[&str] = &[
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "book",
    "chaos-tests",
    "core",
    "deny.toml",
    "node",
    "rustfmt.toml",
    "sim",
    // What building and running leave behind.
    "seedlog-data",
    "target",
];
