//! The decoder against the WHATWG's rules and what was seen in the wild, each stream cut at every byte.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy)]
enum End {
    Clean,
    Broken,
}

fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, end: End) -> Vec<(String, String)> {
    let mut decoder = Decoder::new();
    let mut seen = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        while let Some(event) = decoder.next_event().unwrap() {
            seen.push((event.name.into_owned(), event.data.into_owned()));
        }
    }
    if let End::Clean = end
        && let Some(event) = decoder.finish()
    {
        seen.push((event.name.into_owned(), event.data.into_owned()));
    }
    seen
}

/// Decodes the stream whole, byte by byte, and cut in two (with an empty chunk between) at every byte.
fn check_end(stream: impl AsRef<[u8]>, end: End, expected: &[(&str, &str)]) {
    let stream = stream.as_ref();
    let expected: Vec<_> =
        expected.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect();
    assert_eq!(decode([stream], end), expected, "whole");
    assert_eq!(decode(stream.chunks(1), end), expected, "byte by byte");
    for at in 0..=stream.len() {
        let (left, right) = stream.split_at(at);
        assert_eq!(decode([left, &[], right], end), expected, "cut at {at}");
    }
}

fn check(stream: impl AsRef<[u8]>, expected: &[(&str, &str)]) {
    check_end(stream.as_ref(), End::Clean, expected);
    check_end(stream.as_ref(), End::Broken, expected);
}

#[test]
fn lines_end_in_lf_cr_or_crlf() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = ["event: e", "data: 1", "", "data: 2", "", ""].join(end);
        check(stream, &[("e", "1"), ("", "2")]);
    }
}

#[test]
fn a_crlf_split_over_chunks_is_one_line_end() {
    check("data: A\r\ndata: B\r\n\r\ndata: C\r\n\r\n", &[("", "A\nB"), ("", "C")]);
}

#[test]
fn line_ends_may_be_mixed() {
    check("data: A\rdata: B\ndata: C\r\n\ndata: D\n\r", &[("", "A\nB\nC"), ("", "D")]);
}

#[test]
fn a_stream_that_ends_lines_in_cr_only_is_never_late() {
    let mut decoder = Decoder::new();
    decoder.push(b"data: 1\r\r");
    assert_eq!(decoder.next_event().unwrap().unwrap().data, "1");
}

#[test]
fn exactly_one_byte_order_mark_is_stripped() {
    check("\u{feff}data: {\"n\":1}\n\n", &[("", r#"{"n":1}"#)]);
    check("\u{feff}\u{feff}data: 1\n\ndata: 2\n\n", &[("", "2")]);
    check("data: 1\n\n\u{feff}data: 2\n\ndata: 3\n\n", &[("", "1"), ("", "3")]);
}

#[test]
fn the_first_bytes_of_a_byte_order_mark_alone_are_no_event() {
    check(b"\xef\xbb", &[]);
    check(b"\xef", &[]);
}

#[test]
fn one_space_after_the_colon_is_dropped() {
    check("data:a\ndata: b\ndata:  c\n\n", &[("", "a\nb\n c")]);
}

#[test]
fn a_line_without_a_colon_is_a_field_without_a_value() {
    check("data: a\ndata\ndata: b\n\n", &[("", "a\n\nb")]);
    check("event: e\nevent\ndata: a\n\n", &[("", "a")]);
}

#[test]
fn comments_and_unknown_fields_are_ignored() {
    check(": OPENROUTER PROCESSING\n\n:\nfoo: bar\ndatax: no\ndata: a\n\n", &[("", "a")]);
}

#[test]
fn id_retry_or_event_alone_are_no_event() {
    check("retry: 3000\n\n", &[]);
    check("id: 1\n\n: ping\n\n", &[]);
    check("event: keepalive\n\n", &[]);
    check("id: a\0b\nretry: +5\nretry: x\ndata: 1\n\n", &[("", "1")]);
}

#[test]
fn the_name_of_an_event_without_data_is_forgotten() {
    check("event: keepalive\n\ndata: 1\n\n", &[("", "1")]);
}

#[test]
fn the_name_of_an_event_is_not_inherited() {
    check("event: e\ndata: 1\n\ndata: 2\n\n", &[("e", "1"), ("", "2")]);
}

#[test]
fn empty_data_is_skipped() {
    check("data:\n\ndata: \n\ndata\n\ndata:\ndata:\n\ndata: 1\n\n", &[("", "1")]);
}

#[test]
fn a_character_split_over_chunks_stays_whole() {
    check("data: {\"t\":\"中文😀\"}\n\n", &[("", "{\"t\":\"中文😀\"}")]);
}

#[test]
fn invalid_utf8_harms_only_itself() {
    check(b"data: a\xffb\n\ndata: 2\n\n", &[("", "a\u{fffd}b"), ("", "2")]);
}

#[test]
fn an_unterminated_event_counts_at_a_clean_end_if_it_is_json() {
    for tail in ["", "\n", "\r", "\r\n"] {
        let stream = format!("data: 1\n\nevent: end\ndata: {{\"n\":2}}{tail}");
        check_end(&stream, End::Clean, &[("", "1"), ("end", r#"{"n":2}"#)]);
        check_end(&stream, End::Broken, &[("", "1")]);
    }
}

#[test]
fn an_unterminated_event_that_is_cut_does_not_count() {
    check("data: 1\n\ndata: {\"n\":", &[("", "1")]);
    check("data: 1\n\ndata: [DONE]", &[("", "1")]);
    check("data: 1\n\nda", &[("", "1")]);
}

#[test]
fn an_event_up_to_the_limit_is_accepted_and_a_larger_one_refused() {
    fn check_limit(stream: &[u8], chunk: usize) -> Result<usize, EventTooLarge> {
        let mut decoder = Decoder::with_limit(100);
        let mut events = 0;
        for chunk in stream.chunks(chunk) {
            decoder.push(chunk);
            while decoder.next_event()?.is_some() {
                events += 1;
            }
        }
        Ok(events)
    }
    let fits = format!("data: {}\n\n", "x".repeat(94)).repeat(3);
    let large = format!("data: {}\n\n", "x".repeat(95));
    let endless_line = "x".repeat(1000);
    let endless_data = "data: x\n".repeat(1000);
    let endless_empty_data = "data:\n".repeat(1000);
    for chunk in [1, 7, 1000, 10_000] {
        assert_eq!(check_limit(fits.as_bytes(), chunk), Ok(3));
        for stream in [&large, &endless_line, &endless_data, &endless_empty_data] {
            assert_eq!(check_limit(stream.as_bytes(), chunk), Err(EventTooLarge { limit: 100 }), "{chunk}");
        }
        // Comments and other fields hold nothing, so there may be any number of them.
        assert_eq!(check_limit(": ping\nevent: e\nid: 1\n\n".repeat(1000).as_bytes(), chunk), Ok(0));
    }
}

#[test]
fn a_chunk_of_many_small_events_may_be_larger_than_the_limit() {
    let mut decoder = Decoder::with_limit(10);
    decoder.push("data: 1\n\n".repeat(100).as_bytes());
    let mut events = 0;
    while decoder.next_event().unwrap().is_some() {
        events += 1;
    }
    assert_eq!(events, 100);
}

#[test]
fn an_event_of_two_mebibytes_is_accepted_by_default() {
    let mut decoder = Decoder::new();
    let data = "x".repeat(2 << 20);
    for chunk in format!("data: {data}\n\n").as_bytes().chunks(1460) {
        decoder.push(chunk);
        if let Some(event) = decoder.next_event().unwrap() {
            assert_eq!(event.data, data);
            return;
        }
    }
    panic!("the event never came");
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_events(
        pieces in prop::collection::vec(
            prop::sample::select(&["data", "event", "id", ":", " ", "\n", "\r", "\r\n", "\n\n", "é", "{}", "\u{feff}", "x", "\0"][..]),
            0..60,
        ),
        noise in prop::collection::vec(any::<u8>(), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut stream = pieces.concat().into_bytes();
        stream.extend(noise);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|ends| &stream[ends[0]..ends[1]]);
        prop_assert_eq!(decode(chunks, End::Clean), decode([&stream[..]], End::Clean));
    }
}
