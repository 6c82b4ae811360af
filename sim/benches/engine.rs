//! How many events the engine runs in a second of the wall clock, with a thousand of them pending.

use std::hint::black_box;

use seedlog_sim::{engine::Engine, random::Streams, time::SimTime};

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures the wall clock"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

fn main() {
    for pending in [1_000_u64, 10_000] {
        let mut best = 0.0_f64;
        for round in 0..5 {
            let mut engine = Engine::default();
            let mut stream = Streams::new(round).stream("bench");
            for event in 0..pending {
                engine.schedule(SimTime::from_nanos(stream.below(1_000_000)), [event; 8]);
            }
            let delays: Vec<u64> = (0..4096).map(|_| stream.below(1_000_000)).collect();
            let begin = now();
            for turn in 0..EVENTS {
                let Some(event) = engine.next(SimTime::NEVER) else {
                    break;
                };
                engine.fold(event[0]);
                engine.schedule_in(delays[turn % delays.len()], event);
            }
            let rate = EVENTS as f64 / begin.elapsed().as_secs_f64();
            black_box(engine.digest());
            best = best.max(rate);
        }
        println!(
            "{pending:>6} pending: {:.2} million events per second",
            best / 1e6
        );
    }
}

const EVENTS: usize = 2_000_000;
