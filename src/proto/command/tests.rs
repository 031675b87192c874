//! The client frames, accepted and refused, as the contract words them.

use super::*;

fn message(frame: &str) -> String {
    Command::parse(frame.as_bytes()).expect_err(frame).to_string()
}

fn patterns(patterns: &[String]) -> String {
    let mut frame = Vec::new();
    Command::SetPolicy { patterns: patterns.to_vec() }.write(&mut frame);
    String::from_utf8(frame).expect("text")
}

#[test]
fn every_type_is_read_with_and_without_what_is_optional() {
    let some = |text: &str| Some(text.to_owned());
    for (frame, command) in [
        (r#"{"type":"subscribe","from_seq":0}"#, Command::Subscribe { from_seq: 0 }),
        (
            r#" { "from_seq" : 18446744073709551615 , "type" : "subscribe" } "#,
            Command::Subscribe { from_seq: u64::MAX },
        ),
        (
            r#"{"type":"subscribe","from_seq":9223372036854775808}"#,
            Command::Subscribe { from_seq: 1 << 63 },
        ),
        (
            r#"{"type":"inject","text":"hi","wake":true}"#,
            Command::Inject { text: "hi".into(), wake: true },
        ),
        (r#"{"type":"inject","text":""}"#, Command::Inject { text: String::new(), wake: false }),
        (
            r#"{"\u0074ype":"in\u006aect","text":"\ud83d\ude00\n"}"#,
            Command::Inject { text: "😀\n".into(), wake: false },
        ),
        (r#"{"type":"cancel"}"#, Command::Cancel { reason: None }),
        (r#"{"type":"cancel","reason":"no"}"#, Command::Cancel { reason: some("no") }),
        (r#"{"type":"approve","call_id":"0"}"#, Command::Approve { call_id: "0".into() }),
        (r#"{"type":"deny","call_id":""}"#, Command::Deny { call_id: String::new(), reason: None }),
        (
            r#"{"type":"deny","call_id":"c","reason":""}"#,
            Command::Deny { call_id: "c".into(), reason: some("") },
        ),
        (
            r#"{"type":"set_model","role":"main","model":"openrouter/openai/gpt-5"}"#,
            Command::SetModel {
                role: "main".into(),
                model: ModelSpec { provider: "openrouter".into(), model: "openai/gpt-5".into() },
            },
        ),
        (r#"{"type":"set_policy","patterns":[]}"#, Command::SetPolicy { patterns: vec![] }),
        (
            r#"{"type":"set_policy","patterns":["a*",""]}"#,
            Command::SetPolicy { patterns: vec!["a*".into(), String::new()] },
        ),
    ] {
        assert_eq!(Command::parse(frame.as_bytes()).as_ref(), Ok(&command), "{frame}");
        let mut written = Vec::new();
        command.write(&mut written);
        assert_eq!(Command::parse(&written), Ok(command));
    }
}

#[test]
fn a_bad_frame_is_told_which_key_and_what_was_expected() {
    let from_seq = "from_seq: expected an integer from 0 to 18446744073709551615 without fraction \
                    or exponent";
    let types = "expected one of \"subscribe\", \"inject\", \"cancel\", \"approve\", \"deny\", \
                 \"set_model\", \"set_policy\"";
    for (frame, expected) in [
        (r#"{"type":"subscribe","from_seq":1.0}"#, from_seq.to_owned()),
        (r#"{"type":"subscribe","from_seq":1e3}"#, from_seq.to_owned()),
        (r#"{"type":"subscribe","from_seq":-1}"#, from_seq.to_owned()),
        (r#"{"type":"subscribe","from_seq":-0}"#, from_seq.to_owned()),
        (r#"{"type":"subscribe","from_seq":18446744073709551616}"#, from_seq.to_owned()),
        (r#"{"type":"subscribe","from_seq":"0"}"#, format!("{from_seq}, found a string")),
        (r#"{"type":"subscribe","from_seq":null}"#, format!("{from_seq}, found null")),
        (r#"{"type":"subscribe"}"#, from_seq.replace("expected", "missing, expected")),
        (
            r#"{"type":"subscribe","from_seq":0,"from_seq":0}"#,
            "from_seq: expected once, found twice".into(),
        ),
        (r"{}", format!("type: missing, {types}")),
        (r#"{"type":7}"#, format!("type: {types}, found a number")),
        (r#"{"type":"Subscribe"}"#, format!("type: {types}")),
        (r#"{"type":"hello"}"#, format!("type: {types}")),
        (r#"{"type":"cancel","type":"cancel"}"#, "type: expected once, found twice".into()),
        (r#"{"type":"inject"}"#, "text: missing, expected a string".into()),
        (r#"{"type":"inject","text":["a"]}"#, "text: expected a string, found an array".into()),
        (
            r#"{"type":"inject","text":"a","wake":"true"}"#,
            "wake: expected a boolean, found a string".into(),
        ),
        (
            r#"{"type":"inject","text":"a","wake":null}"#,
            "wake: expected a boolean, found null".into(),
        ),
        (
            r#"{"type":"inject","text":"a","wake":1}"#,
            "wake: expected a boolean, found a number".into(),
        ),
        (r#"{"type":"cancel","reason":null}"#, "reason: expected a string, found null".into()),
        (r#"{"type":"cancel","reason":{}}"#, "reason: expected a string, found an object".into()),
        (r#"{"type":"approve"}"#, "call_id: missing, expected a string".into()),
        (r#"{"type":"deny","call_id":1}"#, "call_id: expected a string, found a number".into()),
        (
            r#"{"type":"deny","call_id":"a","reason":false}"#,
            "reason: expected a string, found a boolean".into(),
        ),
        (
            r#"{"type":"set_model","role":"","model":"a/b"}"#,
            "role: expected a string that is not empty".into(),
        ),
        (
            r#"{"type":"set_model","role":"main","model":"gpt"}"#,
            "model: expected a string \"provider/model\" with neither half empty".into(),
        ),
        (
            r#"{"type":"set_model","role":"main","model":"/gpt"}"#,
            "model: expected a string \"provider/model\" with neither half empty".into(),
        ),
        (
            r#"{"type":"set_policy","patterns":"*"}"#,
            "patterns: expected an array of strings, found a string".into(),
        ),
        (r#"{"type":"set_policy"}"#, "patterns: missing, expected an array of strings".into()),
        (
            r#"{"type":"set_policy","patterns":["a",null]}"#,
            "patterns[1]: expected a string, found null".into(),
        ),
        ("[]", "expected a JSON object, found an array".into()),
        ("null", "expected a JSON object, found null".into()),
        ("3", "expected a JSON object, found a number".into()),
        ("", "not a JSON object: unexpected end at byte 0".into()),
        (
            "{\"type\":\"cancel\"}x",
            "not a JSON object: unexpected text behind the value at byte 17".into(),
        ),
    ] {
        assert_eq!(message(frame), expected, "{frame}");
    }
}

#[test]
fn keys_of_other_types_and_unknown_keys_are_ignored_whatever_they_hold() {
    for frame in [
        r#"{"type":"cancel","text":5,"from_seq":"x","wake":null,"call_id":[],"patterns":0}"#,
        r#"{"type":"cancel","from_seq":1,"from_seq":1.5}"#,
        r#"{"type":"cancel","x":{"type":"inject"},"x":1e400,"":[null]}"#,
    ] {
        assert_eq!(
            Command::parse(frame.as_bytes()),
            Ok(Command::Cancel { reason: None }),
            "{frame}"
        );
    }
}

#[test]
fn the_strict_check_reaches_ignored_keys() {
    let nested = |depth: usize| {
        format!("{{\"type\":\"cancel\",\"x\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1))
    };
    assert_eq!(Command::parse(nested(128).as_bytes()), Ok(Command::Cancel { reason: None }));
    assert_eq!(message(&nested(129)), "not a JSON object: nested deeper than 128 at byte 148");
    assert_eq!(
        message(r#"{"type":"cancel","x":["\ud800"]}"#),
        "not a JSON object: escape that denotes no Unicode string at byte 23"
    );
    assert_eq!(
        message(r#"{"type":"cancel","\udfff":0}"#),
        "not a JSON object: escape that denotes no Unicode string at byte 18"
    );
}

#[test]
fn patterns_are_bounded_in_number_and_in_characters() {
    let longest = "ä".repeat(256);
    let frame = patterns(&vec![longest.clone(); 128]);
    let Ok(Command::SetPolicy { patterns: read }) = Command::parse(frame.as_bytes()) else {
        panic!("128 patterns of 256 characters are accepted");
    };
    assert_eq!(read, vec![longest; 128]);
    assert_eq!(
        message(&patterns(&["ok".to_owned(), "ä".repeat(257)])),
        "patterns[1]: expected at most 256 characters, found 257"
    );
    assert_eq!(
        message(&patterns(&vec![String::new(); 129])),
        "patterns: expected at most 128 strings, found 129"
    );
    // A pair of escapes is one character.
    let pairs =
        format!(r#"{{"type":"set_policy","patterns":["{}"]}}"#, r"\ud83d\ude00".repeat(256));
    assert!(Command::parse(pairs.as_bytes()).is_ok());
}

#[test]
fn no_message_repeats_what_was_sent() {
    for frame in [
        r#"{"type":"CANARY"}"#,
        r#"{"type":"set_model","role":"main","model":"CANARY"}"#,
        r#"{"type":"subscribe","from_seq":"CANARY"}"#,
        r#"{"type":"inject","text":{"CANARY":1}}"#,
        r"CANARY",
    ] {
        assert!(!message(frame).contains("CANARY"), "{frame}");
    }
}

#[test]
fn keys_are_numbered_as_they_are_listed() {
    for (place, key) in Key::ALL.into_iter().enumerate() {
        assert_eq!(key as usize, place);
    }
}
