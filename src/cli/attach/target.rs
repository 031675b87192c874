//! Which socket `attach` goes to, and with which token.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use crate::cli::Env;
use crate::cli::args::{Attach, default_data_dir};
use crate::cli::serve::{DEFAULT_SESSION, token_file};
use crate::client::Endpoint;
use crate::config::Token;
use crate::proto::ident::SessionId;

/// Where to connect and what to show at the door.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) endpoint: Endpoint,
    pub(super) token: Token,
}

/// Finds both, or says in one sentence what is missing.
pub(super) fn find(
    attach: &Attach,
    env: &Env,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Target, String> {
    let wanted = attach.target.as_str();
    let (endpoint, agent) = if wanted.contains("://") {
        let endpoint = Endpoint::parse(wanted).map_err(|wrong| format!("{wanted}: {wrong}"))?;
        (endpoint, None)
    } else {
        let agent = SessionId::parse(wanted)
            .ok_or_else(|| format!("`{wanted}` is neither an agent id nor a ws:// URL"))?;
        (Endpoint::of_agent(DEFAULT_SERVER, &agent), Some(agent))
    };
    let given =
        attach.token.clone().or_else(|| env("TERRET_TOKEN")).filter(|text| !text.is_empty());
    let token = match (given, agent) {
        (Some(token), _) => token,
        (None, Some(agent)) if agent.as_str() == DEFAULT_SESSION => {
            let path = token_file(&default_data_dir());
            let text = read(&path).map_err(|error| {
                let path = path.display();
                format!("{path}: {error}: start terret-ws in this directory, or give --token TOKEN")
            })?;
            text.trim().to_owned()
        }
        (None, _) => return Err("no token: give --token TOKEN or set TERRET_TOKEN".to_owned()),
    };
    let token = Token::parse(&token)
        .ok_or("the token is not one: expected visible ASCII characters without spaces")?;
    Ok(Target { endpoint, token })
}

const DEFAULT_SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7700);

#[cfg(test)]
mod tests {
    use super::*;

    fn found(target: &str, token: Option<&str>, env: Option<&str>) -> Result<String, String> {
        let attach = Attach {
            target: target.to_owned(),
            token: token.map(str::to_owned),
            json: false,
            from_seq: 0,
        };
        let env = env.map(str::to_owned);
        let env = move |name: &str| env.clone().filter(|_| name == "TERRET_TOKEN");
        let read = |path: &Path| match path.to_str() {
            Some("terret-data/demo.token") => Ok("from-file\n".to_owned()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let target = find(&attach, &env, &read)?;
        Ok(format!("{} {}", target.endpoint, target.token.expose()))
    }

    #[test]
    fn the_nearest_token_wins() {
        for (target, token, env, expected) in [
            ("demo", None, None, "ws://127.0.0.1:7700/agents/demo/ws from-file"),
            ("demo", None, Some("env"), "ws://127.0.0.1:7700/agents/demo/ws env"),
            ("demo", Some("arg"), Some("env"), "ws://127.0.0.1:7700/agents/demo/ws arg"),
            ("s1", Some("arg"), None, "ws://127.0.0.1:7700/agents/s1/ws arg"),
            ("ws://h:1/agents/demo/ws", None, Some("env"), "ws://h:1/agents/demo/ws env"),
        ] {
            assert_eq!(found(target, token, env).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        for (target, token, wrong) in [
            ("s1", None, "no token: give --token TOKEN or set TERRET_TOKEN"),
            // Another host is not told the token of this one.
            ("ws://h/agents/demo/ws", None, "no token: give --token TOKEN or set TERRET_TOKEN"),
            ("../x", Some("t"), "`../x` is neither an agent id nor a ws:// URL"),
            (
                "wss://h/agents/a/ws",
                Some("t"),
                "wss://h/agents/a/ws: this client has no TLS: use ws, or a proxy that adds TLS",
            ),
            (
                "s1",
                Some("can ary"),
                "the token is not one: expected visible ASCII characters without spaces",
            ),
        ] {
            assert_eq!(found(target, token, None), Err(wrong.to_owned()));
        }
    }
}
