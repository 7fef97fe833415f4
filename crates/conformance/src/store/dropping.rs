//! Promise 10: a future may be dropped at any moment.

use futures::poll;
use relight_store::Limits;

use crate::{SampleRun, StoreHarness, Verdict, report::expect_equal};

/// Whatever became of a dropped append, the same batch sent again is `Ok`, and the log holds it once.
pub async fn promise_10_a_dropped_append_is_settled_by_sending_it_again(
    harness: &dyn StoreHarness,
) -> Verdict {
    let subject = harness.fresh(Limits::default()).await?;
    let store = subject.store();
    let mut run = SampleRun::new();
    for polls in [0, 1, 1, 2, 3, 1] {
        let batch = run.batch(2, 20);
        {
            let mut append = store.append(batch.clone());
            for _ in 0..polls {
                if poll!(&mut append).is_ready() {
                    break;
                }
            }
        }
        // Dropped reads leave nothing behind either.
        let _ = poll!(store.read_log(run.id()));
        let _ = poll!(store.head(run.id()));
        expect_equal("the head of the batch sent again", store.append(batch.clone()).await?, batch.head())?;
        let events = store.read_log(run.id()).await?.len() as u64;
        expect_equal("the events", events, batch.head().seq.number())?;
    }
    Ok(())
}
