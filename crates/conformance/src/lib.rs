//! What any plug-in of Relight must pass.
