//! What became of each promise.

use std::fmt;

use relight_store::StoreError;

/// Why a promise was not shown to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmet {
    /// It was seen to be broken: what was found, what was expected.
    Broken(String),
    /// It says nothing about this part, for this reason.
    NotApplicable(String),
}

/// An answer that none of the promises allows here.
impl From<StoreError> for Unmet {
    fn from(error: StoreError) -> Self {
        Self::Broken(format!("an operation failed: {error}"))
    }
}

/// The outcome of one promise's test.
pub type Verdict = Result<(), Unmet>;

/// What became of one promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name of the test, which says what is promised.
    pub promise: &'static str,
    /// Whether it is kept.
    pub verdict: Verdict,
}

/// What became of every promise, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// One for each promise.
    pub entries: Vec<Entry>,
}

impl Report {
    /// Whether no promise is broken. Those that do not apply are no breach, but worth a look.
    pub fn is_kept(&self) -> bool {
        !self.entries.iter().any(|entry| matches!(entry.verdict, Err(Unmet::Broken(_))))
    }

    /// The promises that do not apply, with the reasons.
    pub fn not_applicable(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.entries.iter().filter_map(|entry| match &entry.verdict {
            Err(Unmet::NotApplicable(why)) => Some((entry.promise, why.as_str())),
            _ => None,
        })
    }
}

/// One line for each promise.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { promise, verdict } in &self.entries {
            let promise = promise.replace('_', " ");
            match verdict {
                Ok(()) => writeln!(f, "held            {promise}")?,
                Err(Unmet::Broken(why)) => writeln!(f, "BROKEN          {promise}: {why}")?,
                Err(Unmet::NotApplicable(why)) => writeln!(f, "not applicable  {promise}: {why}")?,
            }
        }
        Ok(())
    }
}

/// Fails the promise unless what was found is what was expected.
pub(crate) fn expect_equal<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Verdict {
    if found == expected {
        return Ok(());
    }
    Err(Unmet::Broken(format!("{what}: found {found:?}, expected {expected:?}")))
}

/// Fails the promise unless an answer is as expected; `expected` says in words what that is.
pub(crate) fn expect_answer<T: fmt::Debug>(
    what: &str,
    found: &Result<T, StoreError>,
    expected: &str,
    is_expected: impl FnOnce(&Result<T, StoreError>) -> bool,
) -> Verdict {
    if is_expected(found) {
        return Ok(());
    }
    Err(Unmet::Broken(format!("{what}: answered {found:?}, expected {expected}")))
}
