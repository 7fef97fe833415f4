//! What a Relight log is and means: event types, hash chain, replay and state, all pure.
