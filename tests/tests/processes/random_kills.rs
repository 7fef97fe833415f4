//! Processes killed by SIGKILL at moments drawn from a seed, while a neighbour works on the same file.

use std::time::{Duration, Instant};

use relight_core::{Event, EventEnvelope};
use tokio::time::timeout;

use crate::{
    agent::{ANSWER, script},
    driver::Driver,
    protocol::{Order, Report},
    random::{Random, seed},
    stage::{Stage, new_run},
};

/// How often each of the two lines of runs is killed.
const KILLS: usize = 30;

#[tokio::test]
async fn killed_at_random_moments_runs_end_as_undisturbed_ones() {
    let seed = seed();
    let pace = Duration::from_millis(1);
    let left = Stage::set(script().pace(pace)).await;
    let right = left.beside(script().pace(pace)).await;
    let (left_kills, right_kills) = tokio::join!(
        kill_again_and_again(&left, Random::new(seed)),
        kill_again_and_again(&right, Random::new(!seed))
    );
    assert!(left_kills + right_kills > 0, "no kill met a run in its midst");
}

/// Drives run after run, and kills until it has killed enough: how many kills met a run that had begun and not ended?
async fn kill_again_and_again(stage: &Stage, mut random: Random) -> usize {
    let mut driver = Driver::start(&stage.setup()).await;
    let begun = Instant::now();
    assert_eq!(driver.drive(new_run()).await, Report::Completed(ANSWER.into()));
    let calm = begun.elapsed();
    driver.end().await;

    let (mut kills, mut in_the_midst) = (0, 0);
    while kills < KILLS {
        let run = new_run();
        loop {
            let answered = answers(&stage.log(run).await);
            let asked = stage.server.requests().len();
            let mut driver = Driver::start(&stage.setup()).await;
            driver.order(Order::Drive { run, pause: None }).await;
            let life = if kills < KILLS { random.below(calm) } else { Duration::MAX };
            let ended = timeout(life, driver.report()).await;
            let paid_twice: Vec<_> =
                stage.server.requests().into_iter().skip(asked).filter(|seen| seen.turn < answered).collect();
            assert!(paid_twice.is_empty(), "{answered} answers were recorded; {paid_twice:?}");
            if let Ok(report) = ended {
                assert_eq!(report, Report::Completed(ANSWER.into()), "after {kills} kills");
                driver.end().await;
                break;
            }
            driver.kill().await;
            kills += 1;
            let log = stage.log(run).await;
            let ended = log.iter().any(|envelope| matches!(envelope.event, Event::RunCompleted { .. }));
            in_the_midst += usize::from(!log.is_empty() && !ended);
        }
        stage.assert_as_undisturbed(run, &format!("after {kills} kills")).await;
    }
    in_the_midst
}

/// How many of the model's answers are recorded.
fn answers(log: &[EventEnvelope]) -> usize {
    log.iter().filter(|envelope| matches!(envelope.event, Event::ModelCallCompleted { .. })).count()
}
