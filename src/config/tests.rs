//! Tables: what a document means, and what is said about a bad one.

use super::*;
use crate::proto::http_client::BaseUrl;

const SCRIPT: &str = r#"[{"text": "from a file"}]"#;

fn parse(text: &str) -> Result<Config, Vec<String>> {
    let read = |path: &Path| match path.to_str() {
        Some("/etc/terret/good.json") => Ok(SCRIPT.to_owned()),
        Some("/etc/terret/bad.json") => Ok("[{},\n {\"texxt\": 1}]".to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let env = |name: &str| match name {
        "KEY" => Some("canary".to_owned()),
        "BROKEN" => Some("canary\n".to_owned()),
        _ => None,
    };
    let around = Surroundings { base_dir: Path::new("/etc/terret"), read: &read, env: &env };
    Config::parse(text, &around)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

#[test]
fn an_empty_object_is_the_default_beside_the_file() {
    let expected = Config { data_dir: "/etc/terret/terret-data".into(), ..Config::default() };
    assert_eq!(parse("{}"), Ok(expected.clone()));
    assert_eq!(parse(" \n{ }\n"), Ok(expected));
}

#[test]
fn every_key_is_read() {
    let config = parse(
        r#"{
        "listen": "[::1]:0", "data_dir": "d", "tokens": {"s1": "t"}, "tokens_file": "/run/tokens",
        "queue_limit": 1, "queue_bytes": 2, "heartbeat_s": 3, "replay_limit": 4,
        "max_concurrent_replays": 5, "max_connections": 6, "max_agents": 7, "workers": 8,
        "history_bytes": 0, "approvals": true, "policy": ["*"],
        "roles": {"main": "local/a/b", "titler": "echo/x"}, "roles_scope": "agent",
        "cancel_stream": "finish", "system_prompt": "p",
        "providers": {"local": {"kind": "openai", "base_url": "http://h:1/v1", "api_key_env": "KEY",
            "headers": {"X-A": "b"}, "extra_body": {"n": 1e400, "a": {"b": [ 1 ]}},
            "id_style": "mistral9", "max_concurrent_requests": 9, "max_attempts": 10,
            "connect_timeout_s": 11, "first_byte_timeout_s": 12, "silence_timeout_s": 13,
            "answer_timeout_s": 14}},
        "tools": [{"name": "t", "description": "d", "params": {"type": "object"},
            "command": ["p", ""], "mutating": true, "approval": "policy", "concurrency": "parallel",
            "timeout_s": 15, "max_output_bytes": 1048576, "cwd": "w", "env": {"K": "V"}}],
        "allowed_origins": ["https://Example.com:8443"], "stop_grace_s": 16,
        "resume_on_start": true, "log_format": "json",
        "log": {"sync": "os", "segment_bytes": 17, "keep_events": 18, "keep_days": 19}
    }"#,
    )
    .expect("every key is valid");

    let spec = |text| ModelSpec::parse(text).expect("a model");
    let base_url = BaseUrl::parse("http://h:1/v1").expect("a URL");
    let local = OpenAiConfig {
        base_url,
        api_key: Some(Secret::new("canary")),
        headers: vec![("X-A".into(), Secret::new("b"))],
        extra_body: vec![("n".into(), "1e400".into()), ("a".into(), r#"{"b": [ 1 ]}"#.into())],
        id_style: Some(IdStyle::Mistral9),
        max_concurrent_requests: Some(9),
        max_attempts: 10,
        connect_timeout_s: 11,
        first_byte_timeout_s: 12,
        silence_timeout_s: 13,
        answer_timeout_s: Some(14),
    };
    let tool = ToolConfig {
        name: "t".into(),
        description: "d".into(),
        params: r#"{"type": "object"}"#.into(),
        command: vec!["p".into(), String::new()],
        mutating: true,
        approval: ApprovalNeed::Policy,
        concurrency: Concurrency::Parallel,
        timeout_s: 15,
        max_output_bytes: 1 << 20,
        cwd: Some("/etc/terret/w".into()),
        env: vec![("K".into(), Secret::new("V"))],
    };
    let expected = Config {
        listen: "[::1]:0".parse().expect("an address"),
        data_dir: "/etc/terret/d".into(),
        tokens: Tokens::parse(r#"{"s1": "t"}"#).expect("tokens"),
        tokens_file: Some("/run/tokens".into()),
        queue_limit: 1,
        queue_bytes: 2,
        heartbeat_s: 3,
        replay_limit: 4,
        max_concurrent_replays: 5,
        max_connections: Some(6),
        max_agents: Some(7),
        workers: Some(8),
        history_bytes: 0,
        approvals: true,
        policy: vec!["*".into()],
        roles: BTreeMap::from([
            ("main".into(), spec("local/a/b")),
            ("titler".into(), spec("echo/x")),
        ]),
        roles_scope: RolesScope::Agent,
        cancel_stream: CancelStream::Finish,
        system_prompt: Some("p".into()),
        providers: BTreeMap::from([
            ("echo".into(), ProviderConfig::Echo),
            ("local".into(), ProviderConfig::OpenAi(local)),
        ]),
        tools: vec![tool],
        allowed_origins: vec!["https://example.com:8443".into()],
        stop_grace_s: 16,
        resume_on_start: true,
        log_format: LogFormat::Json,
        log: LogConfig {
            sync: SyncMode::Os,
            segment_bytes: 17,
            keep_events: Some(18),
            keep_days: Some(19),
        },
    };
    assert_eq!(config, expected);
}

fn steps(script: &str) -> Vec<ScriptStep> {
    let text = format!(r#"{{"providers": {{"p": {{"kind": "scripted", {script}}}}}}}"#);
    match parse(&text).expect("a valid script").providers.remove("p") {
        Some(ProviderConfig::Scripted(script)) => script.steps,
        other => panic!("{other:?}"),
    }
}

#[test]
fn scripted_steps() {
    let answer = |pieces: &[&str]| ScriptStep {
        delay_ms: 0,
        chunk_delay_ms: 0,
        pieces: pieces.iter().map(|&piece| piece.to_owned()).collect(),
        end: ScriptEnd::Answer { calls: Vec::new(), usage: None },
    };
    assert_eq!(steps(r#""script": "good.json""#), [answer(&["from a f", "ile"])]);
    assert_eq!(
        steps(
            r#""repeat": true, "steps": [{}, {"chunks": ["a", "", "bc"], "delay_ms": 7, "chunk_delay_ms": 8}]"#
        ),
        [answer(&[]), ScriptStep { delay_ms: 7, chunk_delay_ms: 8, ..answer(&["a", "", "bc"]) }]
    );
    assert_eq!(
        steps(r#""steps": [{"text": "half", "error": {"status": 503, "message": "busy"}}]"#),
        [ScriptStep {
            end: ScriptEnd::Error { status: 503, message: "busy".into() },
            ..answer(&["half"])
        }]
    );
    let usage = r#"{"prompt_tokens": 1, "completion_tokens": 2, "cost": 0.5}"#;
    assert_eq!(
        steps(&format!(r#""steps": [{{"usage": {usage}}}]"#))[0].end,
        ScriptEnd::Answer {
            calls: Vec::new(),
            usage: Some(crate::proto::payload::Usage {
                prompt_tokens: 1,
                completion_tokens: 2,
                cost: Some(0.5)
            })
        }
    );
}

#[test]
fn scripted_arguments_pass_through_byte_for_byte() {
    for (args, sent) in [
        (
            r#"{ "b":12345678901234567890, "a" :1e400 }"#,
            r#"{ "b":12345678901234567890, "a" :1e400 }"#,
        ),
        (r#"{"x":"\ud800"}"#, r#"{"x":"\ud800"}"#),
        ("[1]", "[1]"),
        ("null", "null"),
        (r#""{\"cut""#, r#"{"cut"#),
        (r#""""#, ""),
    ] {
        let script =
            format!(r#""steps": [{{"tool_calls": [{{"id": "c", "name": "t", "args": {args}}}]}}]"#);
        let ScriptEnd::Answer { calls, .. } = &steps(&script)[0].end else { panic!("an answer") };
        assert_eq!(&*calls[0].args, sent);
    }
}

#[test]
fn every_problem_is_told_with_its_line_and_path() {
    for (text, problems) in PROBLEMS {
        assert_eq!(parse(text).expect_err(text), *problems, "{text}");
    }
}

const PROBLEMS: &[(&str, &[&str])] = &[
    ("", &["1: not JSON at column 1: unexpected end"]),
    ("{\n\"a\": 1,\n}", &["3: not JSON at column 1: expected a key in quotes"]),
    ("[]", &["1: expected an object"]),
    ("{\"\\ud800\": 1}", &["1: [\"\u{fffd}\"]: unknown key"]),
    (
        "{\n\"lisen\": 1,\n\"zzz\": 2}",
        &["2: lisen: unknown key; is `listen` meant?", "3: zzz: unknown key"],
    ),
    ("{\"workers\": 2,\n\"workers\": 3}", &["2: workers: this key is here twice"]),
    (
        "{\"listen\": 7700,\n\"heartbeat_s\": \"20\",\n\"approvals\": \"yes\"}",
        &[
            "1: listen: expected an address and a port such as \"127.0.0.1:7700\"",
            "2: heartbeat_s: expected a whole number from 1 to 31536000",
            "3: approvals: expected true or false",
        ],
    ),
    (
        "{\"listen\": \"example.com:1\"}",
        &["1: listen: expected an address and a port such as \"127.0.0.1:7700\""],
    ),
    ("{\"workers\": 1}", &["1: workers: expected a whole number from 2 to 1024"]),
    ("{\"workers\": 2.0}", &["1: workers: expected a whole number from 2 to 1024"]),
    ("{\"queue_limit\": null}", &["1: queue_limit: expected a whole number from 1 to 4294967295"]),
    (
        "{\"system_prompt\": \"\\udfff\"}",
        &["1: system_prompt: escape that denotes no Unicode string"],
    ),
    ("{\"roles_scope\": \"all\"}", &["1: roles_scope: expected \"service\" or \"agent\""]),
    ("{\"policy\": [\"ok\",\n5]}", &["2: policy[1]: expected a glob of at most 256 characters"]),
    (
        "{\"roles\": {\n\"titler\": \"nobody/x\",\n\"\": \"echo\"}}",
        &[
            "1: roles: `main` is missing",
            "2: roles.titler: names a provider that is not configured",
            "3: roles[\"\"]: the name of a role is not empty",
            "3: roles[\"\"]: expected \"PROVIDER/MODEL\"",
        ],
    ),
    (
        "{\"allowed_origins\": [\"*\", \"https://a/\", \"null\"]}",
        &[
            "1: allowed_origins[0]: expected an origin such as \"https://example.com\": scheme, host and port, no path",
            "1: allowed_origins[1]: expected an origin such as \"https://example.com\": scheme, host and port, no path",
            "1: allowed_origins[2]: expected an origin such as \"https://example.com\": scheme, host and port, no path",
        ],
    ),
    (
        "{\"log\": {\"sync\": true,\n\"segment_bytes\": 0, \"keep\": 1}}",
        &[
            "1: log.sync: expected \"always\" or \"os\"",
            "2: log.segment_bytes: expected a whole number from 1 to 18446744073709551615",
            "2: log.keep: unknown key",
        ],
    ),
    (
        "{\"providers\": {\n\"a/b\": {\"kind\": \"echo\"},\n\"c\": {},\n\"d\": {\"kind\": \"magic\"}}}",
        &[
            "2: providers[\"a/b\"]: the name of a provider is not empty and holds no `/`",
            "3: providers.c: `kind` is missing",
            "4: providers.d.kind: expected \"echo\" or \"scripted\" or \"openai\"",
        ],
    ),
    (
        "{\"providers\": {\"p\": {\"kind\": \"openai\",\n\"base_url\": 5,\n\"max_attempts\": 0,\n\"api_key_env\": \"NONE\"}},\n\"roles\": {\"main\": \"p/m\"}}",
        &[
            "2: providers.p.base_url: expected a string",
            "3: providers.p.max_attempts: expected a whole number from 1 to 100",
            "4: providers.p.api_key_env: the environment variable named here is not set",
        ],
    ),
    #[cfg(not(feature = "tls"))]
    (
        "{\"providers\": {\"p\": {\"kind\": \"openai\", \"base_url\": \"https://h/\"}}}",
        &[
            "1: providers.p.base_url: this build has no TLS: build with `cargo build --release --features tls`, or name a proxy that adds it",
        ],
    ),
    (
        "{\"providers\": {\"p\": {\"kind\": \"openai\", \"base_url\": \"http://h/\",\n\"headers\": {\"Host\": \"x\",\n\"a b\": \"x\",\n\"c\": \"x\\ny\"},\n\"extra_body\": {\"model\": 1,\n\"x\": \"\\ud800\"}}}}",
        &[
            "2: providers.p.headers.Host: header Host is set by the server itself",
            "3: providers.p.headers[\"a b\"]: header name \"a b\" is not one",
            "4: providers.p.headers.c: header c has a line end or control character in it",
            "5: providers.p.extra_body.model: this member is set by the server itself",
            "6: providers.p.extra_body.x: escape that denotes no Unicode string",
        ],
    ),
    (
        "{\"providers\": {\"p\": {\"kind\": \"echo\", \"base_url\": \"x\"}}}",
        &["1: providers.p.base_url: unknown key"],
    ),
    (
        "{\"providers\": {\"p\": {\"kind\": \"scripted\"}, \"q\": {\"kind\": \"scripted\",\n\"script\": \"none.json\"}, \"r\": {\"kind\": \"scripted\", \"steps\": [],\n\"script\": \"good.json\"}}}",
        &[
            "1: providers.p: expected `steps`, or `script` with the name of a file",
            "2: providers.q.script: none.json: entity not found",
            "3: providers.r.script: `steps` are here already; expected one of the two",
        ],
    ),
    (
        "{\"providers\": {\"p\": {\"kind\": \"scripted\",\n\"script\": \"bad.json\"}}}",
        &["2: providers.p.script: bad.json:2: [1].texxt: unknown key; is `text` meant?"],
    ),
    (
        "{\"providers\": {\"p\": {\"kind\": \"scripted\", \"steps\": [\n{\"text\": \"a\", \"chunks\": []},\n{\"tool_calls\": [{\"id\": 1}]},\n{\"usage\": {\"prompt_tokens\": -1}},\n{\"error\": {}, \"tool_calls\": []}]}}}",
        &[
            "2: providers.p.steps[0].chunks: `text` is here already; expected one of the two",
            "3: providers.p.steps[1].tool_calls[0].id: expected a string",
            "3: providers.p.steps[1].tool_calls[0]: `name` is missing",
            "4: providers.p.steps[2].usage.prompt_tokens: expected a whole number from 0 to 18446744073709551615",
            "5: providers.p.steps[3].tool_calls: does not go with `error`",
        ],
    ),
    (
        "{\"tools\": [{\"name\": \"a\", \"command\": [\"x\"]},\n{\"name\": \"a\", \"command\": [\"y\"]},\n{\"name\": \"b c\", \"command\": []},\n{\"approval\": \"maybe\", \"command\": [\"\"], \"timeout_s\": 0},\n{\"name\": \"d\", \"command\": [\"x\\u0000\"], \"params\": [], \"max_output_bytes\": 1048577, \"env\": {\"A=\": \"\"}}]}",
        &[
            "2: tools[1]: a tool of this name is here already",
            "3: tools[2].name: expected a name of 1 to 128 characters without spaces",
            "3: tools[2].command: expected a program and its arguments",
            "4: tools[3]: `name` is missing",
            "4: tools[3].command: expected a program and its arguments",
            "4: tools[3].approval: expected \"never\" or \"policy\" or \"always\"",
            "4: tools[3].timeout_s: expected a whole number from 1 to 31536000",
            "5: tools[4].command[0]: expected a string without NUL",
            "5: tools[4].command: expected a program and its arguments",
            "5: tools[4].params: expected an object: the JSON Schema of the arguments",
            "5: tools[4].max_output_bytes: expected a whole number from 1 to 1048576",
            "5: tools[4].env[\"A=\"]: the key is not the name of an environment variable",
        ],
    ),
];

#[test]
fn policy_bounds_are_those_of_set_policy() {
    let pattern = "é".repeat(POLICY_PATTERN_CHARS_MAX);
    let listed =
        |count: usize, pattern: &str| format!(r#"{{"policy": {:?}}}"#, vec![pattern; count]);
    assert!(parse(&listed(POLICY_PATTERNS_MAX, &pattern)).is_ok());
    assert!(parse(&listed(1, &format!("{pattern}x"))).is_err());
    assert!(parse(&listed(POLICY_PATTERNS_MAX + 1, "x")).is_err());
}

#[test]
fn a_secret_is_in_no_debug_output_and_in_no_problem() {
    let valid = parse(
        r#"{"tokens": {"s1": "canary"}, "providers": {"p": {"kind": "openai",
            "base_url": "http://h?key=canary", "api_key_env": "KEY", "headers": {"Authorization": "canary"}}},
            "tools": [{"name": "t", "command": ["x"], "env": {"K": "canary"}}]}"#,
    );
    assert!(!format!("{valid:?}").contains("canary"));
    assert!(valid.is_ok());

    let problems = parse(
        r#"{"listen": "canary", "tokens": {"s1": "canary ", "canary/": "s1"},
            "roles": {"main": "canary/canary"}, "tools": "canary", "approvals": "canary",
            "allowed_origins": ["canary"], "log": {"sync": "canary"},
            "providers": {"p": {"kind": "openai", "base_url": "http://canary@h", "api_key_env":
            "canary", "headers": {"A": "canary\n"}}, "q": {"kind": "openai", "base_url": "ftp://canary",
            "api_key_env": "BROKEN"}}}"#,
    )
    .expect_err("everything is wrong");
    assert_eq!(problems.len(), 13, "{problems:#?}");
    assert!(!problems.concat().contains("canary"), "{problems:#?}");
}

#[test]
fn what_needs_a_restart_is_named() {
    let running = Config::default();
    assert!(running.warnings_against(&running).is_empty());
    let wanted = parse(r#"{"listen": "127.0.0.1:1", "heartbeat_s": 1, "workers": 9}"#).unwrap();
    assert_eq!(wanted.warnings_against(&running), ["listen", "data_dir", "workers"]);
}

#[test]
fn listen_addresses() {
    for (text, address) in [
        ("127.0.0.1:0", Some("127.0.0.1:0")),
        ("localhost:80", Some("127.0.0.1:80")),
        ("[::]:7700", Some("[::]:7700")),
        ("7700", None),
        (":7700", None),
        ("localhost", None),
        ("localhost:x", None),
    ] {
        assert_eq!(parse_listen(text), address.map(|a| a.parse().expect("an address")), "{text}");
    }
}
