//! The opening handshake, its routes and every refusal with its status.

use super::*;
use crate::proto::http::{HeadError, HeadParser};

const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const UPGRADE: &str = "Upgrade: websocket\r\n";
const CONNECTION: &str = "Connection: Upgrade\r\n";
const VERSION: &str = "Sec-WebSocket-Version: 13\r\n";

fn head(request_line: &str, headers: &[&str]) -> Head {
    let text = format!("{request_line}\r\nHost: h\r\n{}\r\n", headers.concat());
    let (head, len) = HeadParser::new().push(text.as_bytes()).expect(&text).expect("complete");
    assert_eq!(len, text.len());
    head
}

fn get(target: &str, headers: &[&str]) -> Head {
    head(&format!("GET {target} HTTP/1.1"), headers)
}

fn handshake(headers: &[&str]) -> Result<AcceptKey, Refusal> {
    accept(&get("/agents/a/ws", headers))
}

#[test]
fn the_sample_handshake_of_rfc_6455_is_answered_as_it_says() {
    let key = handshake(&[UPGRADE, CONNECTION, KEY, VERSION]).expect("a valid handshake");
    let mut out = Vec::new();
    write_switching_protocols(&mut out, &key);
    assert_eq!(
        String::from_utf8(out).expect("text"),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    );
}

#[test]
fn what_browsers_and_proxies_add_does_not_disturb_a_handshake() {
    for headers in [
        [UPGRADE, "Connection: keep-alive, Upgrade\r\n", KEY, VERSION, "Origin: http://x\r\n"],
        ["upgrade: WebSocket\r\n", "connection: uPGRADE\r\n", KEY, VERSION, ""],
        ["Upgrade: h2c , websocket\r\n", CONNECTION, "Connection: x\r\n", KEY, VERSION],
        [UPGRADE, CONNECTION, KEY, VERSION, "Sec-WebSocket-Extensions: permessage-deflate\r\n"],
        [UPGRADE, CONNECTION, KEY, VERSION, "Sec-WebSocket-Protocol: chat\r\n"],
        [UPGRADE, CONNECTION, KEY, VERSION, "Content-Length: 0\r\n"],
        // Bits of the last digit that belong to no byte.
        [UPGRADE, CONNECTION, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZZ==\r\n", VERSION, ""],
    ] {
        assert!(handshake(&headers).is_ok(), "{headers:?}");
    }
}

#[test]
fn each_defect_of_a_handshake_has_its_status_and_its_line() {
    let bad = Refusal::BadHandshake;
    for (headers, refusal, status) in [
        (&[][..], Refusal::NotAnUpgrade, 426),
        (&[CONNECTION, KEY, VERSION], Refusal::NotAnUpgrade, 426),
        (&["Upgrade: h2c\r\n", CONNECTION, KEY, VERSION], Refusal::NotAnUpgrade, 426),
        (&["Upgrade: websockets\r\n", CONNECTION, KEY, VERSION], Refusal::NotAnUpgrade, 426),
        (&[UPGRADE, KEY, VERSION], bad("Connection header does not name upgrade"), 400),
        (
            &[UPGRADE, "Connection: close\r\n", KEY, VERSION],
            bad("Connection header does not name upgrade"),
            400,
        ),
        (&[UPGRADE, CONNECTION, KEY], bad("Sec-WebSocket-Version header is missing"), 400),
        (&[UPGRADE, CONNECTION, KEY, "Sec-WebSocket-Version: 8\r\n"], Refusal::WrongVersion, 426),
        (
            &[UPGRADE, CONNECTION, KEY, "Sec-WebSocket-Version: 13, 8\r\n"],
            Refusal::WrongVersion,
            426,
        ),
        (&[UPGRADE, CONNECTION, KEY, "Sec-WebSocket-Version:\r\n"], Refusal::WrongVersion, 426),
        (&[UPGRADE, CONNECTION, "Sec-WebSocket-Version: 8\r\n"], Refusal::WrongVersion, 426),
        (
            &[UPGRADE, CONNECTION, KEY, VERSION, VERSION],
            bad("more than one Sec-WebSocket-Version header"),
            400,
        ),
        (&[UPGRADE, CONNECTION, VERSION], bad("Sec-WebSocket-Key header is missing"), 400),
        (
            &[UPGRADE, CONNECTION, KEY, KEY, VERSION],
            bad("more than one Sec-WebSocket-Key header"),
            400,
        ),
        (
            &[UPGRADE, CONNECTION, KEY, VERSION, "Content-Length: 5\r\n"],
            Refusal::BodyNotAllowed,
            400,
        ),
        (
            &[UPGRADE, CONNECTION, KEY, VERSION, "Transfer-Encoding: chunked\r\n"],
            Refusal::BodyNotAllowed,
            400,
        ),
    ] {
        let refused = handshake(headers).expect_err("a defect");
        assert_eq!(refused, refusal, "{headers:?}");
        assert_eq!(refused.status().code(), status, "{headers:?}");
    }
    for key in [
        "",
        "dGhlIHNhbXBsZSBub25jZQ",
        "dGhlIHNhbXBsZSBub25jZQ=",
        "dGhlIHNhbXBsZSBub25jZQ===",
        "dGhlIHNhbXBsZSBub25jZQAA",
        "dGhlIHNhbXBsZSBub25j",
        "dGhlIHNhbXBsZSBub25jZSBtb3Jl",
        "dGhl!HNhbXBsZSBub25jZQ==",
        "dGhl_HNhbXBsZSBub25jZQ==",
        "dGhlIHNh XBsZSBub25jZQ==",
        "dGhlIHNhbXBsZSBub25j=Q==",
        "\u{e4}hlIHNhbXBsZSBub25jZQ==",
    ] {
        let key = format!("Sec-WebSocket-Key: {key}\r\n");
        assert_eq!(
            handshake(&[UPGRADE, CONNECTION, VERSION, &key]),
            Err(bad("Sec-WebSocket-Key is not 16 bytes in base64")),
            "{key}"
        );
    }
}

#[test]
fn http_1_0_cannot_upgrade_and_only_get_can() {
    let all = [UPGRADE, CONNECTION, KEY, VERSION];
    let old = accept(&head("GET /agents/a/ws HTTP/1.0", &all));
    assert_eq!(old, Err(Refusal::BadHandshake("an upgrade needs HTTP/1.1")));
    assert_eq!(accept(&head("GET /agents/a/ws HTTP/1.0", &[])), Err(Refusal::NotAnUpgrade));
    for method in ["POST", "HEAD", "get", "OPTIONS"] {
        let request = head(&format!("{method} /agents/a/ws HTTP/1.1"), &all);
        assert_eq!(accept(&request), Err(Refusal::MethodNotAllowed));
        assert_eq!(route(&request), Err(Refusal::MethodNotAllowed));
    }
}

#[test]
fn paths_lead_where_the_contract_says() {
    let events = |from_seq, limit| Ok(Route::Events { agent_id: "a", from_seq, limit });
    let not_a_number = |name| Err(Refusal::BadQuery(name, QueryFault::NotANumber));
    for (target, expected) in [
        ("/healthz", Ok(Route::Healthz)),
        ("/metrics?x", Ok(Route::Metrics)),
        ("/agents/a", Ok(Route::Agent { agent_id: "a" })),
        ("/agents/a/ws", Ok(Route::Socket { agent_id: "a" })),
        ("/agents/a/ws?from_seq=x", Ok(Route::Socket { agent_id: "a" })),
        ("http://h/agents/a/ws", Ok(Route::Socket { agent_id: "a" })),
        // No valid ids, but the path is right: nobody has a token for them.
        ("/agents/..%2f/ws", Ok(Route::Socket { agent_id: "..%2f" })),
        ("/agents/%zz/ws", Ok(Route::Socket { agent_id: "%zz" })),
        ("/agents//ws", Ok(Route::Socket { agent_id: "" })),
        ("/agents/a/events", events(0, None)),
        ("/agents/a/events?", events(0, None)),
        ("/agents/a/events?from_seq=7&limit=100", events(7, Some(100))),
        ("/agents/a/events?limit=0&&from_seq=18446744073709551615", events(u64::MAX, Some(0))),
        ("/agents/a/events?from=1", Err(Refusal::UnknownParameter)),
        ("/agents/a/events?from_seq=1&Limit", Err(Refusal::UnknownParameter)),
        ("/agents/a/events?from_seq=", not_a_number("from_seq")),
        ("/agents/a/events?from_seq", not_a_number("from_seq")),
        ("/agents/a/events?from_seq=-1", not_a_number("from_seq")),
        ("/agents/a/events?from_seq=+1", not_a_number("from_seq")),
        ("/agents/a/events?from_seq=1.0", not_a_number("from_seq")),
        ("/agents/a/events?from_seq=1&limit=ten", not_a_number("limit")),
        (
            "/agents/a/events?limit=18446744073709551616",
            Err(Refusal::BadQuery("limit", QueryFault::TooLarge)),
        ),
        (
            "/agents/a/events?from_seq=1&from_seq=1",
            Err(Refusal::BadQuery("from_seq", QueryFault::Twice)),
        ),
        ("/", Err(Refusal::NotFound)),
        ("/agents", Err(Refusal::NotFound)),
        ("/agents/a/", Err(Refusal::NotFound)),
        ("/agents/a/ws/", Err(Refusal::NotFound)),
        ("/agents/a/b/ws", Err(Refusal::NotFound)),
        ("/Agents/a/ws", Err(Refusal::NotFound)),
        ("//agents/a/ws", Err(Refusal::NotFound)),
        ("/healthz/", Err(Refusal::NotFound)),
        ("*", Err(Refusal::NotFound)),
        ("h:80", Err(Refusal::NotFound)),
    ] {
        assert_eq!(route(&get(target, &[])), expected, "{target}");
    }
}

#[test]
fn an_unknown_path_comes_before_a_wrong_method_and_that_before_a_body() {
    let body = ["Content-Length: 1\r\n"];
    assert_eq!(route(&head("POST /x HTTP/1.1", &body)), Err(Refusal::NotFound));
    assert_eq!(route(&head("POST /healthz HTTP/1.1", &body)), Err(Refusal::MethodNotAllowed));
    for body in [
        "Content-Length: 1\r\n",
        "Content-Length: 0\r\nContent-Length: 1\r\n",
        "Content-Length: 0, 0\r\n",
        "Content-Length: x\r\n",
        "Transfer-Encoding:\r\n",
    ] {
        assert_eq!(route(&get("/healthz", &[body])), Err(Refusal::BodyNotAllowed), "{body}");
    }
    assert_eq!(route(&get("/healthz", &["Content-Length: 0\r\n"])), Ok(Route::Healthz));
}

#[test]
fn a_refusal_is_one_line_with_the_headers_its_status_obliges_us_to() {
    let text = |refusal: Refusal, request: Option<&Head>| {
        let mut out = Vec::new();
        refusal.write(&mut out, request);
        String::from_utf8(out).expect("text")
    };
    for (refusal, start, header, line) in [
        (Refusal::NotFound, "404 Not Found", "", "no such path"),
        (Refusal::MethodNotAllowed, "405 Method Not Allowed", "Allow: GET", "only GET is allowed"),
        (
            Refusal::Unauthorized,
            "401 Unauthorized",
            "WWW-Authenticate: Bearer",
            "missing or wrong bearer token",
        ),
        (Refusal::ForeignOrigin, "403 Forbidden", "", "origin is not in allowed_origins"),
        (Refusal::Unavailable("stopping"), "503 Service Unavailable", "", "stopping"),
        (
            Refusal::NotAnUpgrade,
            "426 Upgrade Required",
            "Upgrade: websocket",
            "this path is a WebSocket: upgrade",
        ),
        (
            Refusal::WrongVersion,
            "426 Upgrade Required",
            "Sec-WebSocket-Version: 13",
            "only version 13 of the WebSocket protocol is spoken",
        ),
        (
            Refusal::Head(HeadError::TooLarge),
            "431 Request Header Fields Too Large",
            "",
            "head larger than 8192 bytes",
        ),
        (
            Refusal::BadQuery("limit", QueryFault::NotANumber),
            "400 Bad Request",
            "",
            "limit: expected an integer in digits alone",
        ),
        (
            Refusal::BadQuery("from_seq", QueryFault::TooLarge),
            "400 Bad Request",
            "",
            "from_seq: expected an integer of at most 18446744073709551615",
        ),
        (
            Refusal::UnknownParameter,
            "400 Bad Request",
            "",
            "a parameter is not known: there are from_seq and limit",
        ),
    ] {
        let text = text(refusal, None);
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with(&format!("HTTP/1.1 {start}\r\n")), "{head}");
        assert!(head.lines().any(|line| line == "Connection: close"), "{head}");
        assert!(header.is_empty() || head.lines().any(|line| line == header), "{head}");
        assert_eq!(body, format!("{line}\n"));
    }
    let asked = head("HEAD /healthz HTTP/1.1", &[]);
    assert!(text(Refusal::MethodNotAllowed, Some(&asked)).ends_with("\r\n\r\n"));
}

#[test]
fn only_one_bearer_credential_is_a_token() {
    for (headers, token) in [
        (&[][..], None),
        (&["Authorization: Bearer abc\r\n"][..], Some("abc")),
        (&["authorization: bEARER   a b=\t\r\n"], Some("a b=")),
        (&["Authorization: Bearer\r\n"], None),
        (&["Authorization: Bearer \r\n"], None),
        (&["Authorization: Bearerabc\r\n"], None),
        (&["Authorization: Basic abc\r\n"], None),
        (&["Authorization: abc\r\n"], None),
        (&["Authorization: Bearer a\r\n", "Authorization: Bearer a\r\n"], None),
    ] {
        assert_eq!(bearer(&get("/", headers)), token, "{headers:?}");
    }
}

#[test]
fn tokens_are_equal_only_byte_for_byte() {
    for (expected, presented, equal) in [
        ("abc", "abc", true),
        ("", "", true),
        ("abc", "abd", false),
        ("abc", "bbc", false),
        ("abc", "ab", false),
        ("ab", "abc", false),
        ("ab", "ab\0", false),
        ("ab\0", "ab", false),
        ("abc", "", false),
        ("", "abc", false),
    ] {
        assert_eq!(token_eq(expected.as_bytes(), presented.as_bytes()), equal);
    }
}

#[test]
fn a_page_of_a_foreign_origin_is_refused_and_no_origin_is_not() {
    let allowed = ["https://app.example".to_owned(), "http://localhost:3000".to_owned()];
    for (headers, fine) in [
        (&[][..], true),
        (&["Origin: https://app.example\r\n"][..], true),
        (&["Origin: HTTPS://APP.example\r\n"], true),
        (&["Origin: https://app.example.evil\r\n"], false),
        (&["Origin: http://app.example\r\n"], false),
        (&["Origin: null\r\n"], false),
        (&["Origin:\r\n"], false),
        (&["Origin: https://app.example\r\n", "Origin: https://evil\r\n"], false),
    ] {
        let expected = if fine { Ok(()) } else { Err(Refusal::ForeignOrigin) };
        assert_eq!(check_origin(&get("/", headers), &allowed), expected, "{headers:?}");
    }
    assert_eq!(
        check_origin(&get("/", &["Origin: http://x\r\n"]), &[]),
        Err(Refusal::ForeignOrigin)
    );
}
