//! Tool calls in the stream: cases 1 to 11.

use super::*;

/// The calls of an answer of these elements, each in an event of its own.
fn streamed(elements: &[&str]) -> Outcome {
    let mut events: Vec<String> = elements.iter().map(|element| calls(element)).collect();
    events.extend([STOP.to_owned(), DONE.to_owned()]);
    ask(&[stream(&events.iter().map(String::as_str).collect::<Vec<_>>())])
}

#[test]
fn an_index_may_be_absent() {
    // 1
    let outcome = streamed(&[
        r#"{"id":"a","function":{"name":"f","arguments":"{\"x\":"}}"#,
        r#"{"function":{"arguments":"1}"}}"#,
        r#"{"id":"b","function":{"name":"f","arguments":"{}"}}"#,
    ]);
    assert_eq!(outcome.shown_calls(), [r#"f {"x":1}"#, "f {}"]);
}

#[test]
fn every_call_may_claim_index_0() {
    // 2
    let outcome = streamed(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}"#,
        r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}"#,
    ]);
    assert_eq!(outcome.shown_calls(), [r#"f {"x":1}"#, r#"f {"x":2}"#]);
    let ids: Vec<&str> = outcome.calls().iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
}

#[test]
fn an_empty_id_or_name_later_overwrites_nothing() {
    // 3
    let outcome = streamed(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#,
        r#"{"index":0,"id":"","function":{"name":"","arguments":"{"}}"#,
        r#"{"index":0,"id":null,"function":{"name":null,"arguments":"}"}}"#,
    ]);
    assert_eq!(outcome.calls()[0].id, "a");
    assert_eq!(outcome.shown_calls(), ["f {}"]);
}

#[test]
fn a_call_without_an_id_gets_a_stable_one() {
    // 4; `ask` compares the ids of the three ways to feed it.
    let outcome = streamed(&[
        r#"{"index":0,"function":{"name":"f","arguments":"{"}}"#,
        r#"{"index":0,"function":{"arguments":"}"}}"#,
        r#"{"index":1,"function":{"name":"f","arguments":"{}"}}"#,
    ]);
    let [one, two] = outcome.calls() else { panic!("two calls") };
    assert!(one.id.starts_with("call_") && two.id.starts_with("call_"));
    assert_ne!(one.id, two.id);
}

#[test]
fn a_name_may_be_repeated_or_split() {
    // 5
    let outcome = streamed(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}"#,
        r#"{"index":0,"function":{"name":"f","arguments":"}"}}"#,
        r#"{"index":1,"id":"b","function":{"name":"get_","arguments":""}}"#,
        r#"{"index":1,"function":{"name":"weather","arguments":"{}"}}"#,
        r#"{"index":2,"id":"c","function":{"name":"un","arguments":""}}"#,
        r#"{"index":2,"function":{"name":"known","arguments":"{}"}}"#,
    ]);
    assert_eq!(outcome.shown_calls(), ["f {}", "get_weather {}", "un {}"]);
}

#[test]
fn arguments_may_be_an_object() {
    // 6
    let outcome = streamed(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":{"x": 1e400}}}"#,
        r#"{"index":0,"function":{"arguments":{"x": 1e400,"y":""}}}"#,
    ]);
    assert_eq!(outcome.shown_calls(), [r#"f {"x": 1e400,"y":""}"#]);
}

#[test]
fn arguments_sent_twice_are_one_if_equal_and_an_error_if_not() {
    // 7
    let outcome = streamed(&[
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}"#,
        r#"{"index":0,"function":{"arguments":"{\"x\": 1}"}}"#,
        r#"{"index":1,"id":"b","function":{"name":"f","arguments":"{}{\"x\":1}"}}"#,
        r#"{"index":2,"id":"c","function":{"name":"f","arguments":"{{\"x\":1}}"}}"#,
    ]);
    assert_eq!(outcome.shown_calls(), [r#"f {"x":1}"#, r#"f !{}{"x":1}"#, r#"f !{{"x":1}}"#]);
}

#[test]
fn indices_may_begin_at_1_and_have_gaps() {
    // 8
    let outcome = streamed(&[
        r#"{"index":1,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}"#,
        r#"{"index":5,"id":"b","function":{"name":"f","arguments":"{}"}}"#,
        r#"{"index":1,"function":{"arguments":"1}"}}"#,
    ]);
    assert_eq!(outcome.shown_calls(), [r#"f {"x":1}"#, "f {}"]);
}

#[test]
fn broken_arguments_come_back_as_what_they_are() {
    // 9, and cases.md 21: never as arguments, always as a quotation.
    let deep = format!(r#"{{\"a\":{}{}}}"#, "[".repeat(2000), "]".repeat(2000));
    for sent in [
        r#"{\"x\":"#,
        "null",
        "[1]",
        r#"{\"x\":NaN}"#,
        r#"{\"x\":\"\\ud800\"}"#,
        r#"{\"x\":\"a\nb\"}"#,
        &deep,
    ] {
        let element =
            format!(r#"{{"index":0,"id":"a","function":{{"name":"f","arguments":"{sent}"}}}}"#);
        let outcome = streamed(&[&element]);
        assert!(outcome.calls()[0].args.is_err(), "{sent}");
    }
    let duplicate =
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1,\"x\":2}"}}"#;
    assert_eq!(streamed(&[duplicate]).shown_calls(), [r#"f {"x":1,"x":2}"#]);
    for (sent, logged) in [(r#""""#, "f {}"), ("null", "f {}"), (r#""{\n\t}""#, "f {  }")] {
        let element =
            format!(r#"{{"index":0,"id":"a","function":{{"name":"f","arguments":{sent}}}}}"#);
        assert_eq!(streamed(&[&element]).shown_calls(), [logged], "{sent}");
    }
}

#[test]
fn members_we_do_not_know_go_back_to_the_server_that_sent_them_and_no_other() {
    // 10
    const SIGNED: &str = r#"{"index":0,"id":"a","type":"function","function":{"name":"f",
        "arguments":"{ }"},"extra_content":{"google":{"thought_signature":"s-1"}}}"#;
    let signed = calls(&SIGNED.replace('\n', ""));
    let (mut messages, tools) = hello();
    let server = Arc::new(OpenAi::new(config()).unwrap());
    let ask = |server: &Arc<OpenAi>, messages: &[Message], answer: &str| {
        let request = Request { system: None, messages, tools: &tools, fresh: &[] };
        drive(server, &request, &[stream(&[answer, STOP, DONE])], Feed::AtOnce)
    };
    let outcome = ask(&server, &messages, &signed);
    let [call] = outcome.calls() else { panic!("one call") };
    let (id, name) = (call.id.clone(), call.name.clone());
    let call = crate::proto::payload::Call { id, name, args: call.args.clone().unwrap() };
    messages.push(Message::Assistant { text: String::new(), calls: vec![call] });
    messages.push(Message::Tool { call_id: "a".into(), content: "done".into() });
    let again = ask(&server, &messages, &text("ok"));
    let sent = &again.body(0)["messages"][1]["tool_calls"][0];
    assert_eq!(sent["extra_content"]["google"]["thought_signature"], "s-1");
    let other = Arc::new(OpenAi::new(config()).unwrap());
    let elsewhere = ask(&other, &messages, &text("ok"));
    let sent = &elsewhere.body(0)["messages"][1]["tool_calls"][0];
    assert_eq!(sent["function"]["arguments"], "{ }");
    assert!(sent.get("extra_content").is_none());
}

#[test]
fn the_assembled_calls_decide_whatever_the_finish_reason_says() {
    // 11
    let call = calls(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#);
    for reason in ["stop", "tool_calls", "length", "function_call", "no_such_reason"] {
        let finish = STOP.replace("stop", reason);
        let outcome = ask(&[stream(&[&text("so"), &call, &finish, DONE])]);
        assert_eq!(outcome.shown_calls(), ["f {}"], "{reason}");
        assert_eq!(outcome.text, "so");
    }
}

#[test]
fn an_answer_has_begun_with_its_first_delta_though_nothing_comes_up_yet() {
    let (messages, tools) = hello();
    let request = Request { system: None, messages: &messages, tools: &tools, fresh: &[] };
    let provider = Provider::OpenAi(Arc::new(OpenAi::new(config()).unwrap()));
    let mut call = Call::start(&provider, &request, "m1", 0, Mono(0), 7);
    assert!(matches!(call.poll(Mono(0)), Action::Connect { .. }));
    let element = calls(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}"#);
    let role = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
    let event = |event: &str| format!("data: {event}\n\n").into_bytes();
    let came = [(ok(""), false), (event(role), false), (event(&element), true)];
    call.feed(Mono(0), Net::Connected);
    for (bytes, begun) in came {
        call.feed(Mono(0), Net::Bytes(&bytes));
        assert!(matches!(call.poll(Mono(0)), Action::Wait(_)));
        assert_eq!(call.has_begun(), begun);
    }
}
