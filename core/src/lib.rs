//! Seedlog's sans-IO core: every decision of a Kafka-compatible replicated log.
pub mod broker;
pub mod event;
pub mod ids;
pub mod planted;
pub mod storage;
pub mod time;
