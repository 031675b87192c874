//! Time-outs: case 20. Four of their own, and comments are no progress.

use super::*;

fn config_s(connect: u64, first_byte: u64, silence: u64, answer: Option<u64>) -> OpenAiConfig {
    OpenAiConfig {
        connect_timeout_s: connect,
        first_byte_timeout_s: first_byte,
        silence_timeout_s: silence,
        answer_timeout_s: answer,
        max_attempts: 1,
        ..config()
    }
}

#[test]
fn each_silence_has_its_own_time_out() {
    let held = |body: &str| Server::Holds(ok(body));
    let event = format!("data: {}\n\n", text("hi"));
    let connect = "no connection to 127.0.0.1:11434: nobody answered within 3 s";
    let first = "no answer within 50 s";
    let silence = "the answer fell silent for 7 s";
    let whole = "the answer took more than 5 s";
    for (answer, server, reason, took) in [
        (None, Server::Ignores, connect, 3_000),
        (None, Server::Holds(Vec::new()), first, 50_000),
        (None, Server::Holds(b"HTTP/1.1 200 OK\r\n".to_vec()), first, 50_000),
        (None, held(""), first, 50_000),
        (None, held(": processing\n\n"), first, 50_000),
        (None, held("event: ping\ndata: {}\n\n"), first, 50_000),
        (None, held("data: {\"type\":\"ping\"}\n\n"), first, 50_000),
        (None, held(&event), silence, 7_000),
        (None, held(&format!("{event}: still here\n\n")), silence, 7_000),
        (Some(5), Server::Holds(Vec::new()), whole, 5_000),
        (Some(5), held(&event), whole, 5_000),
        (Some(5), Server::Ignores, connect, 3_000),
    ] {
        let outcome = ask_as(&config_s(3, 50, 7, answer), std::slice::from_ref(&server));
        assert_eq!((outcome.reason(), outcome.took), (reason, Mono(took)), "{server:?}");
    }
}

#[test]
fn the_whole_answer_counts_its_attempts_and_waits() {
    let config = OpenAiConfig { max_attempts: 9, ..config_s(3, 50, 7, Some(8)) };
    let outcome = ask_as(&config, &[Server::Ignores, Server::Ignores, Server::Ignores]);
    assert_eq!(outcome.took, Mono(8_000));
    assert_eq!(outcome.reason(), "the answer took more than 8 s (attempt 3)");
}

#[test]
fn events_are_progress_and_comments_are_not() {
    let (messages, tools) = hello();
    let request = Request { system: None, messages: &messages, tools: &tools, fresh: &[] };
    let provider = Provider::OpenAi(Arc::new(OpenAi::new(config_s(3, 50, 7, None)).unwrap()));
    let mut call = Call::start(&provider, &request, "m", 0, Mono(0), 0);
    assert!(matches!(call.poll(Mono(0)), Action::Connect { .. }));
    let mut deadline = |now: u64, net: Net<'_>| {
        call.feed(Mono(now), net);
        loop {
            match call.poll(Mono(now)) {
                Action::Text(_) => {}
                Action::Wait(deadline) => return deadline,
                action => panic!("{action:?}"),
            }
        }
    };
    assert_eq!(deadline(1_000, Net::Connected), Some(Mono(51_000)));
    assert_eq!(deadline(2_000, Net::Bytes(&ok(""))), Some(Mono(51_000)));
    assert_eq!(deadline(3_000, Net::Bytes(b": x\n\n")), Some(Mono(51_000)));
    let event = format!("data: {}\n\n", text("hi"));
    assert_eq!(deadline(4_000, Net::Bytes(event.as_bytes())), Some(Mono(11_000)));
    assert_eq!(deadline(5_000, Net::Bytes(b": x\n\n")), Some(Mono(11_000)));
    assert_eq!(deadline(6_000, Net::Bytes(event.as_bytes())), Some(Mono(13_000)));
    // Half an event is none.
    assert_eq!(deadline(7_000, Net::Bytes(b"data: {")), Some(Mono(13_000)));
}

#[test]
fn an_error_that_does_not_end_is_judged_by_what_was_heard() {
    let head = "HTTP/1.1 400 X\r\nContent-Length: 1000\r\n\r\n{\"error\":\"bo";
    let outcome = ask_as(&config_s(3, 50, 7, None), &[Server::Holds(head.into())]);
    assert_eq!(outcome.reason(), "the provider answered 400 Bad Request: {\"error\":\"bo");
    assert_eq!(outcome.took, Mono(7_000));
    let endless = format!("HTTP/1.1 400 X\r\n\r\n{}", "x".repeat(100_000));
    let outcome = ask_as(&config_s(3, 50, 7, None), &[Server::Holds(endless.into())]);
    assert!(outcome.reason().len() < 1100);
    assert_eq!(outcome.took, Mono(0));
}
