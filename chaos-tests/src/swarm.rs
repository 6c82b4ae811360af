//! The swarm: what a seed stands for in `hunt`, in the swarm test and in the drill.

use seedlog_core::planted::PlantedSet;
use seedlog_sim::{
    disk::Damage,
    nemesis,
    plan::{Fault, Glob, Trigger},
    random::{Stream, Streams},
    scenario::Scenario,
};

/// File and name of the test that replays a seed of the swarm.
pub const TEST: (&str, &str) = ("swarm", "swarm_holds_every_promise");

/// Draws the scenario of a seed.
///
/// On top of what the nemesis draws, checkpoints come often, so that recovery rests on them, and some seeds damage logs at rest:
/// beyond what one copy survives, but never silently.
#[must_use]
pub fn scenario(seed: u64, planted: PlantedSet) -> Scenario {
    let (file, name) = TEST;
    let mut stream = Streams::new(seed).stream("chaos");
    let mut scenario = nemesis::swarm(file, name, seed).planted(planted);
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
    if stream.one_in(6) {
        scenario = damaging_logs(scenario, &mut stream);
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
