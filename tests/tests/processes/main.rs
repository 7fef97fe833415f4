//! The promises that only real processes show: killed, stopped, many on one file, out of room, over a damaged file.
//!
//! The test program is its own child: [`child`] says how, [`protocol`] what is said between the two.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod agent;
mod binary;
mod blocking;
mod child;
mod crowd;
mod damage;
mod driver;
mod full_disk;
mod kills;
mod protocol;
mod random;
mod random_kills;
mod rivals;
mod stage;
