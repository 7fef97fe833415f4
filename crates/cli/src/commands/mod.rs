//! The subcommands, one file each, and what several of them share: `drive`, `given`, `log`.

pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod drive;
pub(crate) mod export;
pub(crate) mod given;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod resolve;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod tail;
pub(crate) mod verify;
