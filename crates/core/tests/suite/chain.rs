//! The hash chain: what it finds, and which position it names.

use proptest::prelude::*;
use relight_core::{
    Digest, EventEnvelope, LogError, Record, RunId, Seq,
    chain::{self, Verifier},
};

use crate::{
    program::any_log,
    support::{asks_model, log, run, seal, seq, started},
};

/// Verifies records up to a head that is kept elsewhere; the position that was named, and why.
fn verify(records: &[Record], head: &Record) -> Result<Vec<EventEnvelope>, (Seq, String)> {
    let named = |error: LogError| match error {
        LogError::Corrupt { run: named, seq, why } => {
            assert_eq!(named, run());
            (seq, why)
        }
        other => panic!("{other}"),
    };
    let mut verifier = Verifier::new(run());
    let log =
        records.iter().map(|record| verifier.accept(record)).collect::<Result<_, _>>().map_err(named)?;
    verifier.finish(head.seq, head.link).map_err(named)?;
    Ok(log)
}

fn any_sealed() -> impl Strategy<Value = (Vec<EventEnvelope>, Vec<Record>)> {
    any_log().prop_map(|log| {
        let records = seal(&log);
        (log, records)
    })
}

fn at(index: usize) -> Seq {
    seq(index as u64 + 1)
}

proptest! {
    #[test]
    fn a_log_verifies_as_it_was_written((log, records) in any_sealed()) {
        prop_assert_eq!(verify(&records, records.last().unwrap()).unwrap(), log);
    }

    #[test]
    fn a_changed_byte_is_found_at_its_record(
        (_, mut records) in any_sealed(),
        which in any::<prop::sample::Index>(),
        byte in any::<prop::sample::Index>(),
        flip in 1_u8..,
    ) {
        let head = records.last().unwrap().clone();
        let index = which.index(records.len());
        let bytes = &mut records[index].bytes;
        let byte = byte.index(bytes.len());
        bytes[byte] ^= flip;
        let (named, why) = verify(&records, &head).unwrap_err();
        prop_assert_eq!(named, at(index));
        prop_assert!(why.contains("its link is"), "{}", why);
    }

    #[test]
    fn a_change_with_its_link_made_anew_is_found_at_the_next_record(
        (log, mut records) in any_sealed(),
        which in any::<prop::sample::Index>(),
    ) {
        let head = records.last().unwrap().clone();
        let index = which.index(records.len());
        let mut forged = log[index].clone();
        forged.schema_version = 1;
        forged.event = asks_model("forged");
        let previous = if index == 0 { chain::GENESIS } else { records[index - 1].link };
        records[index] = Record::seal(previous, &forged).unwrap();
        let (named, _) = verify(&records, &head).unwrap_err();
        // The last record's link is told by the head.
        prop_assert_eq!(named, at((index + 1).min(records.len() - 1)));
    }

    #[test]
    fn a_removed_record_is_found_at_its_place(
        (_, mut records) in any_sealed(),
        which in any::<prop::sample::Index>(),
    ) {
        let head = records.last().unwrap().clone();
        let index = which.index(records.len());
        records.remove(index);
        let (named, why) = verify(&records, &head).unwrap_err();
        prop_assert_eq!(named, at(index));
        prop_assert!(why.contains("stands in its place") || why.contains("is missing"), "{}", why);
    }

    #[test]
    fn an_inserted_record_is_found_at_its_place(
        (log, mut records) in any_sealed(),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        renumbered in any::<bool>(),
    ) {
        let head = records.last().unwrap().clone();
        let (from, to) = (from.index(records.len()), to.index(records.len() + 1));
        let mut copy = log[from].clone();
        let previous = if to == 0 { chain::GENESIS } else { records[to - 1].link };
        if renumbered {
            copy.seq = at(to);
        }
        let inserted = Record::seal(previous, &copy).unwrap();
        prop_assume!(records.get(to) != Some(&inserted));
        records.insert(to, inserted);
        let (named, _) = verify(&records, &head).unwrap_err();
        // A record that was made to fit is found where the ones behind it no longer do.
        prop_assert!(named == at(to) || (renumbered && named == at(to + 1)), "{} for {}", named, to);
    }

    #[test]
    fn two_exchanged_records_are_found_at_the_first(
        (_, mut records) in any_sealed(),
        a in any::<prop::sample::Index>(),
        b in any::<prop::sample::Index>(),
    ) {
        let head = records.last().unwrap().clone();
        let (a, b) = (a.index(records.len()), b.index(records.len()));
        prop_assume!(a != b);
        records.swap(a, b);
        let (named, why) = verify(&records, &head).unwrap_err();
        prop_assert_eq!(named, at(a.min(b)));
        prop_assert!(why.contains("stands in its place"), "{}", why);
    }

    #[test]
    fn a_cut_tail_is_found_where_the_log_should_go_on(
        (_, mut records) in any_sealed(),
        cut in any::<prop::sample::Index>(),
    ) {
        let head = records.last().unwrap().clone();
        let cut = cut.index(records.len());
        records.truncate(cut);
        let (named, why) = verify(&records, &head).unwrap_err();
        prop_assert_eq!(named, at(cut));
        prop_assert!(why.contains(&format!("should reach event {}", head.seq)), "{}", why);
    }
}

#[track_caller]
fn check_refused(records: &[Record], head: &Record, expected: &str) {
    let (named, why) = verify(records, head).unwrap_err();
    assert_eq!(format!("{named}: {why}"), expected);
}

fn two() -> Vec<Record> {
    seal(&log([started(), asks_model("a")]))
}

#[test]
fn a_head_that_is_behind_its_log_names_the_first_record_too_many() {
    let records = two();
    check_refused(&records, &records[0], "2: it stands after the head, which is event 1");
}

#[test]
fn a_head_with_another_link_is_named() {
    let records = two();
    let head = Record { link: Digest::from_bytes([7; 32]), ..records[1].clone() };
    check_refused(
        &records,
        &head,
        &format!("2: the head's link is {}, but the log gives {}", head.link, records[1].link),
    );
}

#[test]
fn a_head_at_the_end_of_all_numbers_is_only_far_away() {
    let records = two();
    let head = Record { seq: seq(u64::MAX), ..records[1].clone() };
    check_refused(&records, &head, "3: it is missing; the log should reach event 18446744073709551615");
}

#[test]
fn a_time_beside_the_record_must_be_the_time_inside() {
    let mut records = two();
    records[1].recorded_at = "2026-11-30T13:00:00Z".parse().unwrap();
    check_refused(
        &records,
        &records[1],
        "2: it is stored as recorded at 2026-11-30T13:00:00Z, but says 2026-11-30T12:00:02Z",
    );
}

#[test]
fn a_record_of_another_run_is_refused_though_its_link_fits() {
    let other: RunId = "11111111-1111-4111-8111-111111111111".parse().unwrap();
    let mut foreign = log([started()]);
    foreign[0].run_id = other;
    let records = seal(&foreign);
    check_refused(&records, &records[0], &format!("1: it belongs to run {other}"));
}

#[test]
fn the_verifier_knows_where_it_is() {
    let records = two();
    let mut verifier = Verifier::new(run());
    assert_eq!((verifier.next(), verifier.link()), (Seq::FIRST, chain::GENESIS));
    verifier.accept(&records[0]).unwrap();
    assert_eq!((verifier.next(), verifier.link()), (seq(2), records[0].link));
    // A record that is refused moves nothing.
    verifier.accept(&records[0]).unwrap_err();
    assert_eq!((verifier.next(), verifier.link()), (seq(2), records[0].link));
}
