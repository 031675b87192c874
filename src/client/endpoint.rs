//! Where an agent's socket is: `ws://HOST[:PORT]/agents/AGENT/ws`.

use std::fmt;
use std::net::SocketAddr;

use crate::proto::http_client::BaseUrl;
use crate::proto::ident::SessionId;

/// The address of one agent's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(BaseUrl);

impl Endpoint {
    /// Takes a URL; `http` stands for `ws`. The error says what is wrong and never quotes it.
    pub fn parse(url: &str) -> Result<Endpoint, &'static str> {
        let (scheme, rest) = url.split_once("://").ok_or(SHAPE)?;
        match scheme.to_ascii_lowercase().as_str() {
            "ws" | "http" => {}
            "wss" | "https" => {
                return Err("this client has no TLS: use ws, or a proxy that adds TLS");
            }
            _ => return Err(SHAPE),
        }
        match BaseUrl::parse(&format!("http://{rest}")) {
            Ok(url) if !url.path.is_empty() && url.query.is_none() => Ok(Endpoint(url)),
            _ => Err(SHAPE),
        }
    }

    /// The socket of `agent` on the server at `address`.
    pub fn of_agent(address: SocketAddr, agent: &SessionId) -> Endpoint {
        Endpoint(BaseUrl {
            https: false,
            host: address.ip().to_string(),
            port: address.port(),
            path: format!("/agents/{agent}/ws"),
            query: None,
        })
    }

    /// A name or an address, and a port.
    pub fn host_and_port(&self) -> (&str, u16) {
        (&self.0.host, self.0.port)
    }

    /// What a `Host` header holds.
    pub fn authority(&self) -> String {
        self.0.authority()
    }

    /// The path of the request.
    pub fn target(&self) -> &str {
        &self.0.path
    }

    /// The path under which the server tells what the agent does.
    pub fn agent_target(&self) -> &str {
        self.0.path.strip_suffix("/ws").unwrap_or(&self.0.path)
    }
}

const SHAPE: &str = "expected ws://HOST[:PORT]/agents/AGENT/ws";

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ws://{}{}", self.authority(), self.target())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_sockets() {
        for (url, host, port, target) in [
            ("ws://127.0.0.1:7700/agents/a/ws", "127.0.0.1", 7700, "/agents/a/ws"),
            ("http://h/agents/a/ws", "h", 80, "/agents/a/ws"),
            ("WS://[::1]:1/behind/a/proxy/", "::1", 1, "/behind/a/proxy"),
        ] {
            let endpoint = Endpoint::parse(url).expect(url);
            assert_eq!((endpoint.host_and_port(), endpoint.target()), ((host, port), target));
            assert_eq!(Endpoint::parse(&endpoint.to_string()), Ok(endpoint));
        }
    }

    #[test]
    fn what_is_no_url_of_a_socket() {
        for (url, why) in [
            ("demo", "ws://HOST"),
            ("ws://h", "ws://HOST"),
            ("ws:///x", "ws://HOST"),
            ("ws://h:x/", "ws://HOST"),
            ("ws://h:0/", "ws://HOST"),
            ("ws://u:canary@h/", "ws://HOST"),
            ("ws://h/a b", "ws://HOST"),
            ("ws://h/agents/a/ws?token=canary", "ws://HOST"),
            ("ftp://h/", "ws://HOST"),
            ("wss://h/agents/a/ws", "TLS"),
        ] {
            let wrong = Endpoint::parse(url).expect_err(url);
            assert!(wrong.contains(why) && !wrong.contains("canary"), "{url}: {wrong}");
        }
    }

    #[test]
    fn an_agent_on_a_server() {
        let agent = SessionId::parse("a.b").unwrap();
        let endpoint = Endpoint::of_agent("[::1]:7".parse().unwrap(), &agent);
        assert_eq!(endpoint.to_string(), "ws://[::1]:7/agents/a.b/ws");
        assert_eq!(endpoint.agent_target(), "/agents/a.b");
    }
}
