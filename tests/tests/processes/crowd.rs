//! Many processes on one file: none fails, none is left half done.

use futures::future::join_all;
use relight_store::{RunQuery, StatusKind};

use crate::{
    agent::{ANSWER, script},
    driver::Driver,
    protocol::{Order, Report},
    stage::{Stage, new_run},
};

const PROCESSES: usize = 8;

const ROUNDS: usize = 12;

#[tokio::test]
async fn eight_processes_at_once_on_one_file_all_end_their_runs() {
    let mut stage = Stage::set(script()).await;
    for round in 0..ROUNDS {
        // Every other time they meet on a file that is not there yet.
        if round % 2 == 0 {
            stage = Stage::set(script()).await;
        }
        let setup = stage.setup();
        let mut drivers = join_all((0..PROCESSES).map(|_| Driver::start(&setup))).await;
        let runs = [(); PROCESSES].map(|()| new_run());
        for (driver, run) in drivers.iter_mut().zip(runs) {
            driver.order(Order::Drive { run, pause: None }).await;
        }
        let reports = join_all(drivers.iter_mut().map(Driver::report)).await;
        assert_eq!(reports, vec![Report::Completed(ANSWER.into()); PROCESSES], "round {round}");
        join_all(drivers.into_iter().map(Driver::end)).await;
        for run in runs {
            stage.assert_as_undisturbed(run, &format!("round {round}")).await;
        }
        let listed = stage.store().await.list_runs(&RunQuery::default()).await.unwrap();
        assert_eq!(listed.items.len(), PROCESSES * (round % 2 + 1), "round {round}");
        assert!(listed.items.iter().all(|run| run.status.kind() == StatusKind::Completed), "{listed:?}");
    }
}
