//! Seedlog's deterministic simulator.

pub mod batch;
pub mod clock;
pub mod digest;
pub mod disk;
pub mod engine;
pub mod plan;
pub mod random;
pub mod time;
