//! The swarms: what a seed stands for in `hunt`, in the swarm tests and in the drill. One has one broker, the other three or five.

use seedlog_core::planted::PlantedSet;
use seedlog_sim::{
    disk::Damage,
    nemesis::{self, CLUSTER_KINDS, KINDS},
    plan::{Fault, Glob, Trigger},
    random::{Stream, Streams},
    scenario::Scenario,
};

/// Which swarm a seed belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// One broker.
    #[default]
    Single,
    /// Three or five brokers.
    Cluster,
}

impl Family {
    /// Returns its name, as a capsule bears it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Cluster => "cluster",
        }
    }

    /// Finds it by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Single, Self::Cluster];
        all.into_iter().find(|family| family.name() == name)
    }

    /// Returns the kinds of faults that its seeds draw.
    #[must_use]
    pub fn kinds(self) -> Vec<&'static str> {
        let own = match self {
            Self::Single => &[][..],
            Self::Cluster => CLUSTER_KINDS,
        };
        KINDS.iter().chain(own).copied().collect()
    }

    /// Draws the scenario of a seed.
    #[must_use]
    pub fn scenario(self, seed: u64, planted: PlantedSet) -> Scenario {
        match self {
            Self::Single => scenario(seed, planted),
            Self::Cluster => cluster(seed, planted),
        }
    }
}

/// File and name of the test that replays a seed of the swarm of one broker.
pub const TEST: (&str, &str) = ("swarm", "swarm_holds_every_promise");
/// File and name of the test that replays a seed of the swarm of several brokers.
pub const CLUSTER_TEST: (&str, &str) = ("cluster_swarm", "cluster_swarm_holds_every_promise");

/// Draws the scenario of a seed with three or five brokers.
#[must_use]
pub fn cluster(seed: u64, planted: PlantedSet) -> Scenario {
    let (file, name) = CLUSTER_TEST;
    let mut stream = Streams::new(seed).stream("chaos");
    let scenario = nemesis::cluster_swarm(file, name, seed).planted(planted);
    let scenario = with_checkpoints(scenario, &mut stream);
    with_snapshots(scenario, seed)
}

/// Makes snapshots of the metadata every few records on some seeds.
fn with_snapshots(scenario: Scenario, seed: u64) -> Scenario {
    let mut stream = Streams::new(seed).stream("snapshots");
    if !stream.one_in(3) {
        return scenario;
    }
    let bytes = stream.magnitude(300..=30_000);
    let property = "metadata.log.max.record.bytes.between.snapshots";
    scenario.property(property, &bytes.to_string())
}

/// Draws the scenario of a seed with one broker.
///
/// On top of what the nemesis draws, checkpoints come often, so that recovery rests on them, and some seeds damage logs at rest:
/// beyond what one copy survives, but never silently.
#[must_use]
pub fn scenario(seed: u64, planted: PlantedSet) -> Scenario {
    let (file, name) = TEST;
    let mut stream = Streams::new(seed).stream("chaos");
    let scenario = nemesis::swarm(file, name, seed).planted(planted);
    let mut scenario = with_checkpoints(scenario, &mut stream);
    if stream.one_in(6) {
        scenario = damaging_logs(scenario, &mut stream);
    }
    scenario
}

fn with_checkpoints(mut scenario: Scenario, stream: &mut Stream) -> Scenario {
    for property in [
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "replica.high.watermark.checkpoint.interval.ms",
    ] {
        if stream.permille(800) {
            let millis = stream.magnitude(50..=60_000);
            scenario = scenario.property(property, &millis.to_string());
        }
    }
    scenario
}

/// Damages log segments of the topics while their broker is down, some of them together with what indexes them: then recovery
/// reads the whole segment.
fn damaging_logs(scenario: Scenario, stream: &mut Stream) -> Scenario {
    let mut scenario = scenario.beyond_budget();
    for _ in 0..stream.within(1..=4) {
        let at = stream.within(15_000..=60_000);
        let damage = *stream.pick(&[Damage::FlipBit, Damage::Cut, Damage::Zero]);
        let down_ms = stream.magnitude(1..=500);
        let clean = stream.one_in(4);
        let folder = *stream.pick(&["t*", "t0-0", "t0-0", "t1-0"]);
        let mut faults = vec![(damage, "log", clean)];
        if !clean && stream.one_in(2) {
            let damage = *stream.pick(&[Damage::Remove, Damage::Zero, Damage::Cut]);
            faults.push((damage, "index", false));
        }
        for (damage, kind, clean) in faults {
            let fault = Fault::Damage {
                node: 0,
                damage,
                file: Glob::new(&format!("{folder}/*.{kind}")),
                down_ms,
                clean,
            };
            scenario = scenario.fault(Trigger::At(at), fault);
        }
    }
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_seeds_damage_logs_and_most_do_not() {
        let damages = |seed: &u64| {
            let scenario = scenario(*seed, PlantedSet::NONE);
            let mut faults = scenario.planned().faults.iter();
            faults.any(|fault| {
                matches!(&fault.what, Fault::Damage { file, .. } if file.matches("t0-0/0.log"))
            })
        };
        let damaging = (0..300).filter(damages).count();
        assert!((20..100).contains(&damaging), "{damaging} of 300");
    }
}
