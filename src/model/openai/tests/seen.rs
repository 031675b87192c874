//! What servers sent that `tests/peers` speaks to, word for word but for ids and times, where it is
//! not as cases-providers.md has it.

use super::*;

fn chunked(pieces: &[&str]) -> Server {
    let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in pieces {
        bytes.extend_from_slice(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes());
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    Server::Answers(bytes)
}

#[test]
fn llama_cpp_python_says_every_call_twice_and_repeats_its_id_and_name() {
    // In the way of old, `function_call`, and beside it as we know it; with nulls for all else.
    let piece = |arguments: &str| {
        let function = format!(r#"{{"name": "get_weather", "arguments": {arguments}}}"#);
        format!(
            r#"{{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "x",
            "choices": [{{"index": 0, "finish_reason": null, "logprobs": null, "delta":
            {{"role": null, "content": null, "function_call": {function}, "tool_calls":
            [{{"index": 0, "id": "call__0_get_weather_cmpl-1", "type": "function",
            "function": {function}}}]}}}}]}}"#
        )
        .replace('\n', "")
    };
    let first = r#"{"choices": [{"index": 0, "finish_reason": null, "logprobs": null, "delta":
        {"role": "assistant", "content": null, "function_call": null, "tool_calls": null}}]}"#;
    let last = r#"{"choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": null,
        "delta": {"role": null, "content": null, "function_call": null, "tool_calls": null}}]}"#;
    let (first, last) = (first.replace('\n', ""), last.replace('\n', ""));
    let arguments = [r#""{""#, r#""\"city\"""#, r#"" :""#, r#""\"Rome\"""#, r#""}""#, r#"" ""#];
    let mut events = vec![first];
    events.extend(arguments.map(piece));
    events.extend([last, DONE.to_owned()]);
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let outcome = ask(&[stream(&events)]);
    assert_eq!(outcome.shown_calls(), [r#"get_weather {"city" :"Rome"} "#]);
    assert_eq!(outcome.calls()[0].id, "call__0_get_weather_cmpl-1");
    assert_eq!(outcome.text, "");
}

#[test]
fn llama_cpp_python_says_nothing_when_the_history_is_too_long() {
    // A success, pings while it waits for another request's end, and the end of the body.
    let ping = ": ping - 2026-12-02 04:05:45.544011+00:00\n\n";
    let wordless = || chunked(&[ping, ping]);
    let outcome = ask(&[wordless(), chunked(&[]), wordless(), wordless()]);
    assert_eq!(outcome.reason(), "the provider's answer was empty (attempt 4)");
    assert_eq!(outcome.notes.len(), 3);
}

#[test]
fn litellm_counts_in_an_event_that_has_a_choice_and_echoes_the_request() {
    let chunk = |choice: &str, more: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"created\":1,\"model\":\"x\",\"object\":\
             \"chat.completion.chunk\",\"choices\":[{choice}],\"stream_options\":\
             {{\"include_usage\":true}}{more}}}\n\n"
        )
    };
    let call = |id: &str, name: &str, arguments: &str, index: u8| {
        format!(
            "{{\"index\":0,\"delta\":{{\"content\":\"\",\"role\":\"assistant\",\"tool_calls\":[{{{id}\
             \"function\":{{\"arguments\":{arguments}{name}}},\"type\":\"function\",\
             \"index\":{index}}}]}}}}"
        )
    };
    let begun = ",\"name\":\"get_weather\"";
    let usage = ",\"usage\":{\"completion_tokens\":7,\"prompt_tokens\":5,\"total_tokens\":12}";
    let outcome = ask(&[chunked(&[
        &chunk(&call("\"id\":\"call_0\",", begun, r#""{\"city\": ""#, 0), ""),
        &chunk(&call("", "", r#""\"Rome\"}""#, 0), ""),
        &chunk(&call("\"id\":\"call_1\",", begun, r#""{\"city\": ""#, 1), ""),
        &chunk(&call("", "", r#""\"Köln\"}""#, 1), ""),
        &chunk(r#"{"finish_reason":"tool_calls","index":0,"delta":{}}"#, ""),
        &chunk(r#"{"index":0,"delta":{}}"#, usage),
        "data: [DONE]\n\n",
    ])]);
    let expected = [r#"get_weather {"city": "Rome"}"#, r#"get_weather {"city": "Köln"}"#];
    assert_eq!(outcome.shown_calls(), expected);
    assert_eq!(outcome.usage().map(|usage| usage.prompt_tokens), Some(5));
}

#[test]
fn litellm_puts_the_status_of_the_server_behind_it_into_a_success() {
    // As a string, and it is no status of ours: nothing is asked again.
    let error = "data: {\"error\": {\"message\": \"litellm.APIError: overloaded\", \"type\": null, \
                 \"param\": null, \"code\": \"529\"}}\n\n";
    let outcome = ask(&[chunked(&[error])]);
    assert_eq!(outcome.reason(), "the provider said: litellm.APIError: overloaded");
    // For an unknown model it quotes a dictionary of Python's.
    let detail = r#"{"error":{"message":"{'error': 'Invalid model name'}","code":"400"}}"#;
    let reason = "the provider answered 400 Bad Request: {'error': 'Invalid model name'}";
    assert_eq!(ask(&[refusal(400, "", detail)]).reason(), reason);
}

#[test]
fn a_grammar_may_let_control_characters_into_arguments() {
    // llama-cpp-python's does: no JSON, so the model gets to read what it sent.
    let raw =
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"city\":\"z\u001e\"}"}}"#;
    let outcome = ask(&[stream(&[&calls(raw), STOP, DONE])]);
    assert_eq!(outcome.shown_calls(), ["f !{\"city\":\"z\u{1e}\"}"]);
}
