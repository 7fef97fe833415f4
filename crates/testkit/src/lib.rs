//! What tests of Relight agents run against: a scripted model server and faults.
