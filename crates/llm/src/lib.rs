//! Talks to language models: one vocabulary, a client, and a stream decoder.
