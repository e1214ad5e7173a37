//! The service over a store that answers when a test wants it to: one test for each race.

mod holds;
mod operator;
mod races;
mod rests;
mod rules;
mod stage;
mod turns;
