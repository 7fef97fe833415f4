//! Bytes that no version wrote, and bytes of versions to come: told apart, and never a panic.

use proptest::prelude::*;
use relight_core::{Event, EventEnvelope, ExportLine, LogError, Seq, chain::Verifier};

use crate::{
    program::any_log,
    support::{run, seal, seq},
};

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert!(EventEnvelope::from_bytes(run(), Seq::FIRST, &bytes).is_err());
        let _ = String::from_utf8_lossy(&bytes).parse::<ExportLine>();
    }

    #[test]
    fn a_record_with_bytes_changed_is_read_or_refused_by_name(
        log in any_log(),
        which in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        length in 0_usize..8,
        patch in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let envelope = which.get(&log);
        let mut bytes = envelope.to_bytes().unwrap();
        let start = cut.index(bytes.len());
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, patch);
        match EventEnvelope::from_bytes(run(), envelope.seq, &bytes) {
            Ok(read) => {
                let again = read.to_bytes().unwrap();
                prop_assert_eq!(EventEnvelope::from_bytes(run(), envelope.seq, &again).unwrap(), read);
            }
            Err(LogError::Corrupt { run: named, seq, .. } | LogError::Newer { run: named, seq, .. }) => {
                prop_assert_eq!((named, seq), (run(), envelope.seq));
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn an_exported_line_with_bytes_changed_is_read_or_refused(
        log in any_log(),
        cut in any::<prop::sample::Index>(),
        patch in "\\PC{0,4}",
    ) {
        let mut line: Vec<char> = ExportLine(seal(&log)[0].clone()).to_string().chars().collect();
        let at = cut.index(line.len());
        line.splice(at..(at + 2).min(line.len()), patch.chars());
        if let Ok(read) = line.iter().collect::<String>().parse::<ExportLine>() {
            prop_assert_eq!(read.to_string().parse::<ExportLine>().unwrap(), read);
        }
    }
}

const RECORD: &str = r#"{"run_id":"0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b","seq":2,"schema_version":1,
    "recorded_at":"2026-11-30T12:00:00Z","event":{"kind":"cancel_requested","payload":{"by":"ada"}}}"#;

fn read(record: &str) -> Result<EventEnvelope, LogError> {
    EventEnvelope::from_bytes(run(), seq(2), record.as_bytes())
}

#[track_caller]
fn check_newer(record: &str, what: &str) {
    match read(record) {
        Err(LogError::Newer { run: of, seq: at, what: found }) => {
            assert_eq!((of, at), (run(), seq(2)));
            assert!(found.contains(what), "{found}");
        }
        other => panic!("{record}: {other:?}"),
    }
}

#[track_caller]
fn check_corrupt(record: &str, why: &str) {
    match read(record) {
        Err(LogError::Corrupt { run: of, seq: at, why: found }) => {
            assert_eq!((of, at), (run(), seq(2)));
            assert!(found.contains(why), "{found}");
        }
        other => panic!("{record}: {other:?}"),
    }
}

#[test]
fn the_record_that_the_others_are_made_of_is_fine() {
    assert_eq!(read(RECORD).unwrap().event, Event::cancel_requested("ada"));
}

#[test]
fn a_kind_a_word_or_a_format_that_is_not_known_is_newer_and_not_damaged() {
    check_newer(&RECORD.replace("cancel_requested", "timer_set"), r#"kind "timer_set""#);
    // A kind to come may carry anything.
    check_newer(
        &RECORD.replace(r#""cancel_requested","payload":{"by":"ada"}"#, r#""timer_set""#),
        "timer_set",
    );
    let version =
        |version: &str| RECORD.replace(r#""schema_version":1"#, &format!(r#""schema_version":{version}"#));
    check_newer(&version("2"), "format 2; this version reads up to 1");
    check_newer(&version("4294967296"), "format 4294967296");
    // A later format may write everything but its number in another way.
    check_newer(r#"{"schema_version":2,"event":["another","shape"]}"#, "format 2");

    let event = |event: &str| RECORD.replace(r#"{"kind":"cancel_requested","payload":{"by":"ada"}}"#, event);
    for (newer, word) in [
        (r#"{"kind":"suspended","payload":{"reason":{"for":"signal","name":"x"}}}"#, "signal"),
        (r#"{"kind":"budget_raised","payload":{"limit":"money","to":1,"by":"ada"}}"#, "money"),
        (r#"{"kind":"tool_call_requested","payload":{"tool":"t","input":1,"effect":"undo"}}"#, "undo"),
        (r#"{"kind":"tool_call_completed","payload":{"intent":1,"outcome":{"parked":1}}}"#, "parked"),
        (r#"{"kind":"resolved","payload":{"intent":1,"outcome":{"parked":1},"by":"ada"}}"#, "parked"),
    ] {
        check_newer(&event(newer), &format!("unknown variant `{word}`"));
    }
    let error = read(&version("2")).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "event 2 of run {} was written by a newer version (format 2; this version reads up to 1); \
             update Relight to read it",
            run()
        )
    );
}

#[test]
fn everything_else_is_damage_with_its_reason() {
    let with = |from: &str, to: &str| {
        assert!(RECORD.contains(from), "{from}");
        RECORD.replace(from, to)
    };
    check_corrupt("", "not a record: EOF");
    check_corrupt("null", "not a record: invalid type: null");
    check_corrupt(&RECORD[..40], "not a record: EOF");
    check_corrupt(&format!("{RECORD} {RECORD}"), "trailing characters");
    check_corrupt(&with(r#""seq":2"#, r#""seq":3"#), "it says that it is event 3");
    check_corrupt(&with(r#""seq":2"#, r#""seq":0"#), "event number");
    check_corrupt(&with(r#""seq":2"#, r#""seq":-1"#), "not a record");
    check_corrupt(&with(r#""seq":2"#, r#""seq":2,"seq":2"#), "duplicate field `seq`");
    check_corrupt(&with("0190f5d2", "0190f5d3"), "it belongs to run 0190f5d3");
    check_corrupt(&with("0190f5d2", "?"), "not a record");
    check_corrupt(&with(r#""schema_version":1"#, r#""schema_version":0"#), "there is no format 0");
    check_corrupt(&with(r#""schema_version":1,"#, ""), "missing field `schema_version`");
    check_corrupt(&with("2026-11-30T12", "2026-13-30T12"), "not a record");
    check_corrupt(&with(r#""by":"ada""#, r#""to":"ada""#), "missing field `by`");
    check_corrupt(&with(r#"{"by":"ada"}"#, "null"), "not a record");
    check_corrupt(&with(r#""event""#, r#""lane":"2","event""#), r#""2" is not a lane"#);

    let resolved = |word: &str| {
        with(r#""cancel_requested","payload":{"#, r#""resolved","payload":{"intent":1,"#)
            .replace(r#""by""#, &format!(r#"{word}"by""#))
    };
    check_corrupt(&resolved(""), "neither `outcome` nor `not_done`");
    check_corrupt(
        &resolved(r#""outcome":{"returned":1},"not_done":{},"#),
        "cannot have an outcome and not be done",
    );
    check_corrupt(&resolved(r#""outcome":{"returned":1,"failed":1},"#), "not a record");
}

#[test]
fn nesting_without_end_is_damage_and_no_overflow() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let in_a_value =
        RECORD.replace("cancel_requested", "run_completed").replace(r#""by":"ada""#, r#""output":X"#);
    assert!(
        read(&in_a_value.replace('X', &deep)).unwrap_err().to_string().contains("recursion limit exceeded")
    );
    assert!(read(&RECORD.replace(r#""ada""#, &deep)).is_err());
    assert!(read(&deep).is_err());
    // A field that is not known is passed over, whatever is in it.
    let passed_over = RECORD.replace(r#""by":"ada""#, &format!(r#""later":{deep},"by":"ada""#));
    assert!(read(&passed_over).is_ok());
}

#[test]
fn a_newer_record_with_a_broken_link_is_damaged_first_of_all() {
    let log = [crate::support::envelope(1, crate::support::started())];
    let mut record = seal(&log).remove(0);
    record.bytes =
        String::from_utf8(record.bytes).unwrap().replace("run_started", "run_planned").into_bytes();
    assert!(matches!(Verifier::new(run()).accept(&record), Err(LogError::Corrupt { .. })));
    record.link = relight_core::chain::link(relight_core::chain::GENESIS, &record.bytes);
    assert!(matches!(Verifier::new(run()).accept(&record), Err(LogError::Newer { .. })));
}

#[test]
fn damage_says_how_to_go_on() {
    let error = read("").unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("the log of run {} is damaged at event 2: not a record", run())),
        "{error}"
    );
    assert!(
        error.ends_with("restore it from a copy, or look at what is left with `relight export`"),
        "{error}"
    );
}
