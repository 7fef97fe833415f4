//! The promises of an event store that its four methods keep, each one a test by itself.
//!
//! The numbers are those of the design's list of promises. Promise 4 is kept by drivers, not by stores; 8 comes with
//! leases.

use std::pin::Pin;

use crate::{Report, StoreHarness, Verdict, suite};

mod appending;
mod dropping;
mod limits;
mod listing;
mod model;
mod reading;
mod resending;

pub use appending::*;
pub use dropping::*;
pub use limits::*;
pub use listing::*;
pub use model::*;
pub use reading::*;
pub use resending::*;

/// Tests every promise, each on stores of its own. A panic counts as a breach.
pub async fn run_all(harness: &dyn StoreHarness) -> Report {
    let mut entries = Vec::new();
    for (promise, test) in PROMISES {
        entries.push(suite::entry(promise, test(harness)).await);
    }
    Report { entries }
}

type Test = for<'a> fn(&'a dyn StoreHarness) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// Names each test after its function.
macro_rules! promises {
    ($($test:ident),* $(,)?) => {
        &[$((stringify!($test), |harness| Box::pin($test(harness)))),*]
    };
}

/// Every promise, by its name.
const PROMISES: &[(&str, Test)] = promises![
    promise_1_a_batch_is_appended_whole_or_not_at_all,
    promise_1_what_was_answered_ok_outlives_the_store,
    promise_2_positions_are_unique_and_gapless,
    promise_2_a_stale_expectation_conflicts_and_names_the_head,
    promise_2_one_of_many_rivals_wins,
    promise_2_limits_are_checked_first,
    promise_3_a_batch_sent_again_is_answered_with_its_own_head,
    promise_3_a_rival_with_equal_records_conflicts,
    promise_3_a_batch_with_other_records_is_not_the_same,
    promise_3_a_batch_sent_again_is_known_after_reopening,
    promise_5_an_epoch_without_leases_is_unsupported,
    promise_6_bytes_times_and_links_are_read_as_they_were_appended,
    promise_6_a_log_holds_its_own_run_only,
    promise_6_a_range_is_read_page_by_page,
    promise_6_a_whole_log_is_read_and_verified,
    promise_6_damage_is_named_and_other_runs_stay_readable,
    promise_6_a_damaged_summary_hides_no_other_run,
    promise_7_limits_are_kept_exactly,
    promise_7_pages_are_bounded,
    promise_9_random_operations_are_answered_as_by_the_model,
    promise_10_a_dropped_append_is_settled_by_sending_it_again,
    list_shows_the_summary_of_the_last_batch,
    list_is_newest_first_and_pages_are_stable,
    list_filters_by_status_agent_and_labels,
    list_refuses_a_cursor_of_another_store,
];
