//! The body of the fuzz target: any text as a configuration, checked against `serde_json`.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::{Config, MAIN_ROLE, Surroundings};

/// Whatever the text, `parse` tells what is wrong with it, at lines it has, or gives a configuration
/// that is consistent and that another reader of JSON understands too.
pub fn document(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A script file that holds what the configuration itself does.
    let read = |path: &Path| match path.file_name().and_then(|name| name.to_str()) {
        Some("self") => Ok(text.to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let env = |name: &str| (name == "KEY").then(|| "k".to_owned());
    let around = Surroundings { base_dir: Path::new("/base"), read: &read, env: &env };
    match Config::parse(text, &around) {
        Ok(config) => consistent(&config, text),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            let lines = text.matches('\n').count() + 1;
            for problem in problems {
                assert!((1..=lines).contains(&(problem.line as usize)), "{problem}");
                assert!(!problem.message.is_empty());
            }
        }
    }
}

fn consistent(config: &Config, text: &str) {
    assert!(config.roles.contains_key(MAIN_ROLE));
    assert!(config.roles.values().all(|spec| config.providers.contains_key(&*spec.provider)));
    assert!(config.workers.is_none_or(|workers| workers >= 2));
    assert!(config.heartbeat_s >= 1 && config.queue_limit >= 1 && config.replay_limit >= 1);
    assert!(config.tools.iter().all(|tool| !tool.command.is_empty()));
    for (index, tool) in config.tools.iter().enumerate() {
        assert!(config.tools[..index].iter().all(|earlier| earlier.name != tool.name));
    }
    // Numbers out of its range and lone surrogates pass where we hand a text on unread.
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        assert!(value.is_object());
        let workers = value.get("workers").and_then(Value::as_u64);
        assert_eq!(config.workers.map(|workers| workers as u64), workers);
    }
}
