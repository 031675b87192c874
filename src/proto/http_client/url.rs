//! Where a provider is: the `base_url` of the config (RFC 3986).

use std::fmt;
use std::net::Ipv6Addr;

/// An `http` or `https` URL that paths are appended to. It holds no credentials and no fragment; its
/// query, which may hold a key, is not in its `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// Whether the connection is to be encrypted.
    pub https: bool,
    /// A name or an address in lower case; an IPv6 address without its brackets. Never empty.
    pub host: String,
    /// From 1; the scheme's own if the URL has none.
    pub port: u16,
    /// Begins with a slash or is empty, and never ends with one.
    pub path: String,
    /// What stands behind the question mark, never empty: Azure's version of its interface does.
    pub query: Option<String>,
}

impl BaseUrl {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::NoScheme)?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(UrlError::UnknownScheme),
        };
        if rest.contains('#') {
            return Err(UrlError::Fragment);
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(UrlError::Credentials);
        }
        if !path.bytes().chain(query.bytes()).all(|byte| byte.is_ascii_graphic()) {
            return Err(UrlError::BadPath);
        }
        let (host, port) = split_port(authority)?;
        Ok(Self {
            https,
            host: parse_host(host)?,
            port: port.unwrap_or(default_port(https)),
            path: path.trim_end_matches('/').to_owned(),
            query: (!query.is_empty()).then(|| query.to_owned()),
        })
    }

    /// The value of a `Host` header: an IPv6 address in its brackets, the port unless it is the
    /// scheme's own.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        match (host.contains(':'), *port == default_port(self.https)) {
            (false, true) => host.clone(),
            (false, false) => format!("{host}:{port}"),
            (true, true) => format!("[{host}]"),
            (true, false) => format!("[{host}]:{port}"),
        }
    }

    /// The request target of `path`, which begins with a slash, below this URL: the query goes
    /// behind it.
    pub fn target(&self, path: &str) -> String {
        let Self { path: base, query, .. } = self;
        match query {
            Some(query) => format!("{base}{path}?{query}"),
            None => format!("{base}{path}"),
        }
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        let query = self.query.as_ref().map_or("", |_| "?[REDACTED]");
        write!(f, "{scheme}://{}{}{query}", self.authority(), self.path)
    }
}

fn default_port(https: bool) -> u16 {
    if https { 443 } else { 80 }
}

/// Splits `host[:port]`, where the colons of a host in brackets are not the port's.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), UrlError> {
    let host_len = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    match authority.split_at(host_len) {
        // RFC 3986, section 3.2.3: an empty port is the scheme's own.
        (host, "" | ":") => Ok((host, None)),
        (host, port) => {
            let digits = port.strip_prefix(':').ok_or(UrlError::BadHost)?;
            // Most likely an IPv6 address that lacks its brackets.
            if digits.contains(':') {
                return Err(UrlError::BadHost);
            }
            let valid = digits.bytes().all(|byte| byte.is_ascii_digit());
            let port = digits.parse().ok().filter(|port| valid && *port != 0);
            port.map(|port| (host, Some(port))).ok_or(UrlError::BadPort)
        }
    }
}

fn parse_host(host: &str) -> Result<String, UrlError> {
    if host.is_empty() {
        return Err(UrlError::NoHost);
    }
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').ok_or(UrlError::BadHost)?;
        let address: Ipv6Addr = address.parse().map_err(|_| UrlError::BadHost)?;
        return Ok(address.to_string());
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if host.bytes().all(allowed) { Ok(host.to_ascii_lowercase()) } else { Err(UrlError::BadHost) }
}

/// What is wrong with a URL; displayed, it says what is expected. The URL itself, which may hold a
/// password, is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlError {
    /// No `://` in it.
    NoScheme,
    /// Neither http nor https.
    UnknownScheme,
    /// A user name or password.
    Credentials,
    /// Nothing where the host should be.
    NoHost,
    /// Not a name in ASCII, an IPv4 address or an IPv6 address in brackets.
    BadHost,
    /// Not a number from 1 to 65535.
    BadPort,
    /// A `#`.
    Fragment,
    /// Something in the path or the query that must be percent-encoded.
    BadPath,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoScheme => "expected a URL that begins with http:// or https://",
            Self::UnknownScheme => "expected the scheme http or https",
            Self::Credentials => "expected no user name or password; use api_key_env or headers",
            Self::NoHost => "expected a host behind ://",
            Self::BadHost => {
                "expected a host name in ASCII, an IPv4 address or an IPv6 address in brackets"
            }
            Self::BadPort => "expected a port from 1 to 65535",
            Self::Fragment => "expected no #",
            Self::BadPath => {
                "expected a path and query without spaces and in ASCII; percent-encode the rest"
            }
        })
    }
}

impl std::error::Error for UrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_and_put_together() {
        for (text, https, host, port, path, authority) in [
            ("http://127.0.0.1:11434/v1", false, "127.0.0.1", 11434, "/v1", "127.0.0.1:11434"),
            ("https://api.example.com/v1/", true, "api.example.com", 443, "/v1", "api.example.com"),
            ("HTTP://LocalHost", false, "localhost", 80, "", "localhost"),
            ("http://h:80//", false, "h", 80, "", "h"),
            ("http://h:443", false, "h", 443, "", "h:443"),
            ("https://h:80/a%20b", true, "h", 80, "/a%20b", "h:80"),
            ("http://h:/x", false, "h", 80, "/x", "h"),
            ("http://[::1]:8080/v1", false, "::1", 8080, "/v1", "[::1]:8080"),
            ("http://[FE80:0::1]", false, "fe80::1", 80, "", "[fe80::1]"),
            ("http://my_host-1.local", false, "my_host-1.local", 80, "", "my_host-1.local"),
        ] {
            let url = BaseUrl::parse(text).expect(text);
            let (host, path) = (host.to_owned(), path.to_owned());
            let expected = BaseUrl { https, host, port, path: path.clone(), query: None };
            assert_eq!(url, expected, "{text}");
            assert_eq!(url.authority(), authority);
            assert_eq!(url.target("/chat"), format!("{path}/chat"));
            assert_eq!(BaseUrl::parse(&format!("{url:?}")), Ok(url));
        }
    }

    #[test]
    fn a_query_stays_behind_the_path_and_is_not_shown() {
        for (text, target) in [
            (
                "http://h/openai/deployments/d?api-version=1",
                "/openai/deployments/d/c?api-version=1",
            ),
            ("http://h/v1/?key=canary&b=a%20b/?", "/v1/c?key=canary&b=a%20b/?"),
            ("http://h?key=canary", "/c?key=canary"),
            ("http://h/v1?", "/v1/c"),
        ] {
            let url = BaseUrl::parse(text).expect(text);
            assert_eq!((url.host.as_str(), url.target("/c").as_str()), ("h", target));
            assert!(!format!("{url:?}").contains("canary"), "{url:?}");
        }
    }

    #[test]
    fn what_is_no_base_url_is_told_what_is_wrong() {
        for (text, error) in [
            ("", UrlError::NoScheme),
            ("localhost:8080", UrlError::NoScheme),
            ("/v1", UrlError::NoScheme),
            ("ftp://h", UrlError::UnknownScheme),
            ("://h", UrlError::UnknownScheme),
            ("http://", UrlError::NoHost),
            ("http:///v1", UrlError::NoHost),
            ("http://:80", UrlError::NoHost),
            ("http://u:p@h", UrlError::Credentials),
            ("http://u:p@h?x", UrlError::Credentials),
            ("http://?x", UrlError::NoHost),
            ("http://h#x", UrlError::Fragment),
            ("http://h?a#x", UrlError::Fragment),
            ("http://h:0", UrlError::BadPort),
            ("http://h:65536", UrlError::BadPort),
            ("http://h:+80", UrlError::BadPort),
            ("http://h:80x", UrlError::BadPort),
            ("http://::1", UrlError::BadHost),
            ("http://fe80::1", UrlError::BadHost),
            ("http://[::1", UrlError::BadHost),
            ("http://[::1]x:80", UrlError::BadHost),
            ("http://[fe80::1%25eth0]", UrlError::BadHost),
            ("http://[h]", UrlError::BadHost),
            ("http://h h", UrlError::BadHost),
            ("http://m\u{fc}ller.de", UrlError::BadHost),
            ("http://h/a b", UrlError::BadPath),
            ("http://h/\u{e4}", UrlError::BadPath),
            ("http://h?a b", UrlError::BadPath),
        ] {
            assert_eq!(BaseUrl::parse(text), Err(error), "{text}");
        }
    }
}
