//! Durable runtime for LLM agents: a run is an event log that survives any crash.
