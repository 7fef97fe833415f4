//! Limits on what a run may spend: a fold over its events, compared with what its agent allows.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ParseIdError, TokenUsage};

/// What an agent allows a run to spend; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// How many model calls may complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// How many tokens all model calls together may take, cached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Budget {
    /// The first limit that is used up, before another model call is made.
    ///
    /// A limit is raised by [`Raised`]: whichever of the two is higher holds.
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_core::budget::{Budget, Limit, Raised, Spent};
    /// let budget = Budget { steps: Some(3), tokens: None };
    /// let spent = Spent { steps: 3, tokens: 900 };
    /// assert_eq!(budget.exceeded(&Raised::default(), &spent), Some((Limit::Steps, 3)));
    /// assert_eq!(budget.exceeded(&Raised::default().to(Limit::Steps, 5), &spent), None);
    /// ```
    pub fn exceeded(&self, raised: &Raised, spent: &Spent) -> Option<(Limit, u64)> {
        [Limit::Steps, Limit::Tokens].into_iter().find_map(|limit| {
            let allowed = self.allowed(limit)?.max(raised.of(limit).unwrap_or(0));
            (spent.of(limit) >= allowed).then_some((limit, allowed))
        })
    }

    fn allowed(&self, limit: Limit) -> Option<u64> {
        match limit {
            Limit::Steps => self.steps,
            Limit::Tokens => self.tokens,
        }
    }
}

/// What may be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Completed model calls.
    Steps,
    /// Tokens, of every kind.
    Tokens,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Steps => "steps",
            Self::Tokens => "tokens",
        })
    }
}

impl FromStr for Limit {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        match text {
            "steps" => Ok(Self::Steps),
            "tokens" => Ok(Self::Tokens),
            _ => Err(ParseIdError::new("limit (steps or tokens)", text)),
        }
    }
}

/// What a run has spent, folded from its log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Completed model calls.
    pub steps: u64,
    /// Their tokens.
    pub tokens: u64,
}

impl Spent {
    /// What was spent of one limit.
    pub const fn of(&self, limit: Limit) -> u64 {
        match limit {
            Limit::Steps => self.steps,
            Limit::Tokens => self.tokens,
        }
    }

    pub(crate) fn add_model_call(&mut self, usage: &TokenUsage) {
        self.steps = self.steps.saturating_add(1);
        self.tokens = self.tokens.saturating_add(usage.total());
    }
}

/// Limits that were raised for one run, folded from its log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Raised {
    steps: Option<u64>,
    tokens: Option<u64>,
}

impl Raised {
    /// The raised limit, where there is one.
    pub const fn of(&self, limit: Limit) -> Option<u64> {
        match limit {
            Limit::Steps => self.steps,
            Limit::Tokens => self.tokens,
        }
    }

    /// These limits with one of them raised to `to`; a limit that is higher already stays.
    #[must_use]
    pub fn to(mut self, limit: Limit, to: u64) -> Self {
        let raised = match limit {
            Limit::Steps => &mut self.steps,
            Limit::Tokens => &mut self.tokens,
        };
        *raised = (*raised).max(Some(to));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(budget: Budget, raised: Raised, spent: Spent, expected: Option<(Limit, u64)>) {
        assert_eq!(budget.exceeded(&raised, &spent), expected);
    }

    #[test]
    fn a_limit_is_used_up_when_all_of_it_is_spent() {
        let budget = Budget { steps: Some(2), tokens: Some(100) };
        let none = Raised::default();
        check(budget, none, Spent { steps: 1, tokens: 99 }, None);
        check(budget, none, Spent { steps: 2, tokens: 99 }, Some((Limit::Steps, 2)));
        check(budget, none, Spent { steps: 1, tokens: 100 }, Some((Limit::Tokens, 100)));
        check(budget, none, Spent { steps: 2, tokens: 100 }, Some((Limit::Steps, 2)));
    }

    #[test]
    fn nothing_is_allowed_by_zero_and_everything_without_a_limit() {
        let nothing = Spent::default();
        check(Budget { steps: Some(0), tokens: None }, Raised::default(), nothing, Some((Limit::Steps, 0)));
        let everything = Spent { steps: u64::MAX, tokens: u64::MAX };
        check(Budget::default(), Raised::default(), everything, None);
        // A raise does not set a limit where there is none.
        check(Budget::default(), Raised::default().to(Limit::Steps, 1), everything, None);
        let all = Budget { steps: None, tokens: Some(u64::MAX) };
        check(all, Raised::default(), everything, Some((Limit::Tokens, u64::MAX)));
    }

    #[test]
    fn the_higher_of_limit_and_raise_holds() {
        let budget = Budget { steps: Some(5), tokens: None };
        let spent = Spent { steps: 5, tokens: 0 };
        check(budget, Raised::default().to(Limit::Steps, 6), spent, None);
        check(budget, Raised::default().to(Limit::Steps, 4), spent, Some((Limit::Steps, 5)));
        check(budget, Raised::default().to(Limit::Steps, 6).to(Limit::Steps, 4), spent, None);
        check(budget, Raised::default().to(Limit::Tokens, 6), spent, Some((Limit::Steps, 5)));
    }

    #[test]
    fn a_limit_is_named_on_the_command_line_as_in_the_log() {
        for limit in [Limit::Steps, Limit::Tokens] {
            assert_eq!(limit.to_string().parse(), Ok(limit));
            assert_eq!(serde_json::to_value(limit).unwrap(), limit.to_string());
        }
        let error = "money".parse::<Limit>().unwrap_err();
        assert_eq!(error.to_string(), r#""money" is not a limit (steps or tokens)"#);
    }
}
