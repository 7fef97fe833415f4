//! RFC 8785 canonical JSON and SHA-256 digests of it.
