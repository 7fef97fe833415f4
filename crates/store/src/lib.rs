//! The EventStore trait with its memory and SQLite backends.
