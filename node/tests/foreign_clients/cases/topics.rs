//! Topics as clients make, set and outlive them.

use super::{Verdict, each, expect};
use crate::{
    client::{Failure, Produce, Record},
    suite::Suite,
};

pub(super) fn names(suite: &mut Suite) -> Verdict {
    let long = "n".repeat(250);
    each(suite, |_, client| {
        if !client.is_library() {
            return Ok(());
        }
        let dotted = format!("{}.a", client.name());
        client.create_topic(&dotted).map_err(|e| e.said)?;
        let scored = dotted.replace('.', "_");
        for name in [scored.as_str(), ".", "..", "a b", "ä", &long] {
            match client.create_topic(name) {
                Err(Failure { code: Some(17), .. }) => {}
                other => return Err(format!("creating {name:?}: {other:?}")),
            }
        }
        client
            .create_topic(&long[..249 - client.name().len()])
            .map_err(|e| e.said)?;
        match client.create_topic(&dotted) {
            Err(Failure { code: Some(36), .. }) => Ok(()),
            other => Err(format!("creating {dotted} twice: {other:?}")),
        }
    })
}

pub(super) fn first_use(suite: &mut Suite) -> Verdict {
    each(suite, |_, client| {
        for number in 0..10 {
            let topic = format!("first.{}.{number}", client.name());
            let record = [Record::of(0, "first")];
            let offsets = client.produce(Produce {
                topic: &topic,
                codec: "none",
                acks: "all",
                records: &record,
            });
            expect(&topic, &offsets.map_err(|e| e.said)?, &vec![0])?;
        }
        Ok(())
    })
}

pub(super) fn configs_round_trip(suite: &mut Suite) -> Verdict {
    suite.topic(
        "round.trip",
        1,
        &[
            ("retention.ms", "12345"),
            ("cleanup.policy", "compact,delete"),
        ],
    );
    let mut most = 0;
    each(suite, |_, client| {
        let Some((written, changed)) = client
            .configs_round_trip("round.trip")
            .map_err(|e| e.said)?
        else {
            return Ok(());
        };
        most = most.max(written);
        expect("changed configs", &changed, &Vec::new())
    })?;
    if most < 20 {
        return Err(format!("only {most} configs are writable"));
    }
    Ok(format!("{most} configs"))
}
