//! Client machines against scripted brokers in virtual time.

mod administering;
mod broker;
mod connecting;
mod consuming;
mod producing;
mod world;
