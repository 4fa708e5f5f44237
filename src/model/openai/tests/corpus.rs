//! Responses as servers send them, complete and broken, in chunks of any size.

use proptest::prelude::*;

use super::{
    super::{answer::Expected, calls::CALLS_MAX},
    *,
};
use crate::corpus;

/// Fragments of event streams for the fuzzer.
const WORDS: &[&str] = &[
    "data: ",
    "data:",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    ": x\n",
    "event: e\n",
    "[DONE]",
    "{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}",
    "\"finish_reason\":\"stop\"",
    "\"content\":null",
    "\"tool_calls\":[{\"index\":9}]",
    "{\"error\":{}}",
    "\u{feff}",
    "\\ud83d",
    "\"",
    "{",
    "}",
    "[",
    ",",
];

type Outcome = Vec<Result<Delta, ModelError>>;

/// Replaces generated IDs with a constant.
fn known_by_place(mut delta: Delta) -> Delta {
    if let Delta::ToolCall(piece) = &mut delta
        && let Some(head) = &mut piece.begins
        && head.id.len() == "call_".len() + 32
    {
        "made".clone_into(&mut head.id);
    }
    delta
}

/// Parses the chunks and returns the deltas in order.
fn read(pieces: Vec<Vec<u8>>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let bytes = futures::stream::iter(pieces.into_iter().map(|piece| Ok(Bytes::from(piece))));
    let answer = Answer::new(bytes.boxed(), quotes(), Expected::default()).into_stream();
    let all = runtime.block_on(answer.collect::<Vec<_>>());
    all.into_iter()
        .map(|delta| delta.map(known_by_place))
        .collect()
}

fn text_of(outcome: &Outcome) -> String {
    let mut said = String::new();
    for delta in outcome {
        match delta {
            Ok(Delta::Text(text)) => said.push_str(text),
            Ok(Delta::Discard) => said.clear(),
            _ => {}
        }
    }
    said
}

fn is_whole(outcome: &Outcome) -> bool {
    outcome
        .iter()
        .any(|delta| matches!(delta, Ok(Delta::Stop(_))))
}

/// Checks the invariants that readers of a response rely on.
fn holds(outcome: &Outcome) -> Result<(), TestCaseError> {
    let (mut bytes, mut calls, mut stopped) = (0, 0, false);
    for (n, delta) in outcome.iter().enumerate() {
        match delta {
            Ok(Delta::Usage(_)) => {}
            Ok(Delta::Discard) => prop_assert_eq!(calls, 0),
            Ok(Delta::Vendor(members)) => prop_assert!(calls > 0 && !members.is_empty()),
            _ if stopped => return Err(TestCaseError::fail(format!("after the end: {delta:?}"))),
            Ok(Delta::Text(text)) => {
                prop_assert!(!text.is_empty());
                bytes += text.len();
            }
            Ok(Delta::ToolCall(piece)) => {
                if let Some(head) = &piece.begins {
                    prop_assert_eq!(piece.index, calls);
                    prop_assert!(!head.id.is_empty() && !head.name.is_empty());
                    calls += 1;
                }
                prop_assert!(piece.index < calls);
                bytes += piece.arguments.len();
            }
            Ok(Delta::Alive) => {}
            Ok(Delta::Stop(_)) => stopped = true,
            Err(_) => prop_assert_eq!(n, outcome.len() - 1, "a delta follows an error"),
        }
    }
    prop_assert!(bytes <= ANSWER_BYTES_MAX && calls <= CALLS_MAX);
    let failed = matches!(outcome.last(), Some(Err(_)));
    prop_assert!(stopped || failed, "the stream neither stopped nor failed");
    Ok(())
}

#[test]
fn every_corpus_response_is_parsed_and_its_ending_classified() {
    for case in corpus::cases("model_streams", "sse") {
        let outcome = read(vec![case.bytes.clone()]);
        holds(&outcome).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let name = case.name.rsplit('/').next().unwrap();
        assert!(is_whole(&outcome) || !name.starts_with("whole-"), "{name}");
        let line = |delta: &Result<Delta, ModelError>| match delta {
            Ok(delta) => format!("{delta:?}\n"),
            Err(error) => format!("{error:?}: {error}\n"),
        };
        case.expect(&outcome.iter().map(line).collect::<String>());
    }
}

#[test]
fn a_response_is_the_same_however_it_is_split() {
    for case in corpus::cases("model_streams", "sse") {
        let whole = read(vec![case.bytes.clone()]);
        for at in 0..case.bytes.len() {
            let (first, second) = case.bytes.split_at(at);
            let pieces = vec![first.to_vec(), second.to_vec()];
            assert_eq!(read(pieces), whole, "{} at {at}", case.name);
        }
        let bytes = case.bytes.iter().map(|byte| vec![*byte]);
        assert_eq!(read(bytes.collect()), whole, "{}", case.name);
    }
}

#[test]
fn a_response_cut_anywhere_keeps_its_text_and_reports_the_break() {
    for case in corpus::cases("model_streams", "sse") {
        let whole = read(vec![case.bytes.clone()]);
        if !is_whole(&whole) {
            continue;
        }
        let mut before = 0;
        for at in 0..case.bytes.len() {
            let cut = read(vec![case.bytes[..at].to_vec()]);
            let (said, all) = (text_of(&cut), text_of(&whole));
            assert!(all.starts_with(&said), "{} at {at}: {said}", case.name);
            assert!(said.len() >= before, "{} at {at}: less text", case.name);
            before = said.len();
            let error = cut.last().and_then(|last| last.as_ref().err());
            let is_right = match error {
                None => is_whole(&cut),
                Some(ModelError::Broken(_)) => !is_whole(&cut),
                Some(ModelError::Empty | ModelError::ThoughtOnly { .. }) => said.is_empty(),
                Some(_) => false,
            };
            assert!(is_right, "{} at {at}: {cut:?}", case.name);
        }
    }
}

#[test]
fn endless_input_is_buffered_only_up_to_a_limit() {
    for (begin, piece) in [
        ("", "x"),
        ("data: ", "x"),
        ("", "data: x\n"),
        ("", "data:\n"),
        (": ", "x"),
        ("event: ", "x"),
    ] {
        let mut reader = EventReader::default();
        reader.feed(begin.as_bytes());
        let piece = piece.repeat(64 * 1024 / piece.len());
        let mut fed = 0;
        let refused = loop {
            reader.feed(piece.as_bytes());
            fed += piece.len();
            match reader.next() {
                Ok(None) => {}
                Ok(Some(item)) => panic!("{item:?}"),
                Err(_) => break true,
            }
            // An empty `data:` line adds only one byte to the event.
            if fed > 8 * LINE_BYTES_MAX {
                break false;
            }
        };
        assert!(refused, "{begin:?} {:?}", &piece[..8]);
    }
}

#[tokio::test]
async fn a_finished_response_is_not_delayed_by_a_server_that_keeps_sending() {
    for pause in [Duration::ZERO, Duration::from_millis(1)] {
        let said = [said("Hi"), finished("stop")].concat();
        let begin = futures::stream::iter([Ok(Bytes::from(said))]);
        let pings = futures::stream::repeat(()).then(move |()| async move {
            tokio::time::sleep(pause).await;
            Ok(Bytes::from_static(b": ping\n\n"))
        });
        let mut answer = Answer::new(
            begin.chain(pings).boxed(),
            Quotes::default(),
            Expected::default(),
        );
        answer.usage_within = Duration::from_millis(20);
        let deltas = answer.into_stream().collect::<Vec<_>>().await;
        assert_eq!(deltas, [Ok(text("Hi")), Ok(Delta::Alive), Ok(COMPLETE)]);
    }
}

proptest! {
    #![proptest_config(corpus::config(256))]

    #[test]
    fn any_bytes_end_in_the_same_way_however_they_are_split(
        bytes in corpus::mutated("model_streams", "sse", WORDS),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = read(vec![bytes.clone()]);
        holds(&whole)?;
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut done = 0;
        for place in places.into_iter().chain([bytes.len()]) {
            pieces.push(bytes[done..place].to_vec());
            done = place;
        }
        prop_assert_eq!(read(pieces), whole);
    }
}
