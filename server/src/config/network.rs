//! `[ingress]` and `[egress]`.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::cluster::Quantities;
use super::{Env, Remarks};
use crate::fields::Fields;

/// How a gateway tells sandboxes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// By host name, `{id}-{port}.domain`.
    Wildcard,
    /// By the `OpenSandbox-Ingress-To` header.
    Header,
    /// By path, `/{id}/{port}`.
    Uri,
}

/// One key that signs endpoints.
#[derive(Clone)]
pub struct SigningKey {
    /// One character, `0-9a-z`.
    pub id: char,
    /// The secret bytes.
    pub secret: Vec<u8>,
}

/// `[ingress.secure_access]`: keys that sign endpoints.
#[derive(Clone)]
pub struct SecureAccess {
    /// The key that signs.
    pub active: SigningKey,
}

impl fmt::Debug for SecureAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureAccess").field("active_key", &self.active.id).finish_non_exhaustive()
    }
}

/// `[ingress.gateway]`.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Address without scheme.
    pub address: String,
    /// How sandboxes are told apart.
    pub route: Route,
    /// Keys that sign endpoints.
    pub secure_access: Option<SecureAccess>,
}

/// `[ingress]`: how clients reach sandboxes.
#[derive(Clone, Debug)]
pub enum Ingress {
    /// At the Pod's own address.
    Direct,
    /// Through a gateway.
    Gateway(Gateway),
}

impl Ingress {
    pub(super) fn read(f: &Fields<'_>, env: &Env, remarks: &mut Remarks) -> Self {
        let gateway_mode = f.one_of("mode", &[("direct", false), ("gateway", true)]).unwrap_or(false);
        let secure_access = read_secure_access(f, env, remarks);
        let gateway = f.object("gateway");
        if !gateway_mode {
            if gateway.is_some() {
                f.refuse("gateway", "is only allowed with mode = \"gateway\"");
            }
            if secure_access.is_some() {
                f.refuse("secure_access", "needs mode = \"gateway\"");
            }
            return Self::Direct;
        }
        let Some(gateway) = f.required("gateway", gateway) else { return Self::Direct };
        let address = gateway.required("address", gateway.words("address")).unwrap_or_default();
        let route = gateway.required("route", gateway.object("route")).and_then(|route| {
            let words = [("wildcard", Route::Wildcard), ("header", Route::Header), ("uri", Route::Uri)];
            let mode = route.required("mode", route.one_of("mode", &words));
            remarks.unknown(&route);
            mode
        });
        remarks.unknown(&gateway);
        let route = route.unwrap_or(Route::Uri);
        check_address(&gateway, &address, route);
        Self::Gateway(Gateway { address: address.trim_end_matches('/').to_owned(), route, secure_access })
    }
}

fn check_address(gateway: &Fields<'_>, address: &str, route: Route) {
    if address.contains("://") {
        gateway.refuse("address", "must not carry a scheme");
    }
    match route {
        Route::Wildcard if !address.starts_with("*.") || address.contains(':') || address.len() < 4 => {
            gateway.refuse("address", "must look like *.example.com, without a port, when route.mode is \"wildcard\"");
        }
        Route::Header if address.contains(['/', '*']) => {
            gateway.refuse("address", "must be a host or IP with an optional port when route.mode is \"header\"");
        }
        Route::Wildcard | Route::Header | Route::Uri => {}
    }
}

fn read_secure_access(f: &Fields<'_>, env: &Env, remarks: &mut Remarks) -> Option<SecureAccess> {
    let from_env = match (&env.secure_access_keys, &env.secure_access_active) {
        (Some(keys), Some(active)) => Some((pairs(keys), active.clone())),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            f.refuse(
                "secure_access",
                "OPENSANDBOX_SECURE_ACCESS_KEYS and OPENSANDBOX_SECURE_ACCESS_ACTIVE_KEY must be set together",
            );
            return None;
        }
    };
    let section = f.object("secure_access");
    let from_file = section.as_ref().map(|s| {
        let keys = s.objects("keys").unwrap_or_default();
        let keys = keys.iter().map(|k| {
            let id = k.required("key_id", k.string("key_id")).unwrap_or_default();
            let secret = k.required("key", k.string("key")).unwrap_or_default();
            remarks.unknown(k);
            (id, secret)
        });
        let keys = keys.collect::<Vec<_>>();
        let active = s.required("active_key", s.string("active_key")).unwrap_or_default();
        remarks.unknown(s);
        (keys, active)
    });
    let (keys, active) = from_env.or(from_file)?;
    match signing_key(&keys, &active) {
        Ok(active) => Some(SecureAccess { active }),
        Err(message) => {
            f.refuse("secure_access", message);
            None
        }
    }
}

fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter(|p| !p.trim().is_empty());
    pairs
        .map(|p| p.trim().split_once('=').unwrap_or((p, "")))
        .map(|(id, key)| (id.to_owned(), key.to_owned()))
        .collect()
}

fn signing_key(keys: &[(String, String)], active: &str) -> Result<SigningKey, String> {
    let mut known = BTreeMap::new();
    for (id, key) in keys {
        let mut chars = id.chars();
        let id = match (chars.next(), chars.next()) {
            (Some(c), None) if c.is_ascii_digit() || c.is_ascii_lowercase() => c,
            _ => return Err("every key id must be one character of 0-9a-z".to_owned()),
        };
        let secret = STANDARD.decode(key).ok().filter(|s| !s.is_empty());
        let secret = secret.ok_or_else(|| format!("the key of id {id} must be base64 of at least one byte"))?;
        if known.insert(id, secret).is_some() {
            return Err(format!("key id {id} is given twice"));
        }
    }
    let found = known.into_iter().find(|(id, _)| active.chars().eq([*id]));
    found
        .map(|(id, secret)| SigningKey { id, secret })
        .ok_or_else(|| "the active key must be one of the keys".to_owned())
}

/// How the egress sidecar enforces a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressMode {
    /// By DNS answers.
    Dns,
    /// By DNS answers and nftables.
    DnsNft,
}

impl EgressMode {
    /// The word in configuration and in the sidecar's environment.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::DnsNft => "dns+nft",
        }
    }
}

/// `[egress.upstream_proxy]`.
#[derive(Clone)]
pub struct UpstreamProxy {
    /// http or https URL of the proxy.
    pub url: String,
    /// Value of its Proxy-Authorization header.
    pub authorization: Option<String>,
    /// Secret that holds the proxy's CA certificate.
    pub ca_secret_name: Option<String>,
}

impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamProxy")
            .field("url", &self.url)
            .field("authorization", &self.authorization.as_ref().map(|_| "set"))
            .field("ca_secret_name", &self.ca_secret_name)
            .finish()
    }
}

/// `[egress]`: the sidecar that enforces network policies.
#[derive(Clone, Debug)]
pub struct Egress {
    /// Image of the sidecar; nothing = network policies are refused.
    pub image: Option<String>,
    /// How it enforces.
    pub mode: EgressMode,
    /// Whether IPv6 is switched off in sandboxes that have a policy.
    pub disable_ipv6: bool,
    /// Where the sidecar sends telemetry.
    pub otlp_endpoint: Option<String>,
    /// Requests of the sidecar.
    pub requests: Option<Quantities>,
    /// Limits of the sidecar.
    pub limits: Option<Quantities>,
    /// Proxy that the sidecar goes out through.
    pub upstream_proxy: Option<UpstreamProxy>,
}

impl Egress {
    pub(super) fn read(f: &Fields<'_>, remarks: &mut Remarks) -> Self {
        f.positive("readiness_timeout_seconds");
        remarks.nothing_to_tune(
            f,
            &["readiness_timeout_seconds"],
            "it is Docker's; Kubernetes probes the sidecar here",
        );
        let mode = f.one_of("mode", &[("dns", EgressMode::Dns), ("dns+nft", EgressMode::DnsNft)]);
        let otlp_endpoint = f.words("otlp_endpoint");
        if otlp_endpoint.as_deref().is_some_and(|url| !is_http_url(url)) {
            f.refuse("otlp_endpoint", "must be an http or https URL with a host");
        }
        Self {
            image: f.words("image"),
            mode: mode.unwrap_or(EgressMode::Dns),
            disable_ipv6: f.bool("disable_ipv6").unwrap_or(true),
            otlp_endpoint,
            requests: f.string_map("requests"),
            limits: f.string_map("limits"),
            upstream_proxy: f.object("upstream_proxy").and_then(|p| {
                let proxy = read_upstream_proxy(&p);
                remarks.unknown(&p);
                if proxy.is_some() && mode != Some(EgressMode::DnsNft) {
                    f.refuse("upstream_proxy", "needs egress.mode = \"dns+nft\"");
                }
                proxy
            }),
        }
    }
}

fn read_upstream_proxy(p: &Fields<'_>) -> Option<UpstreamProxy> {
    if p.words("ca_cert_path").is_some() {
        p.refuse("ca_cert_path", "is for Docker only; use ca_secret_name");
    }
    let authorization = p.words("authorization");
    let ca_secret_name = p.words("ca_secret_name");
    let url = p.words("url")?;
    let plain =
        url.split_once("://").is_some_and(|(_, rest)| !rest.trim_end_matches('/').contains(['/', '?', '#', '@']));
    if !is_http_url(&url) || !plain {
        p.refuse("url", "must be an http or https URL without user, path or query");
    }
    Some(UpstreamProxy { url, authorization, ca_secret_name })
}

fn is_http_url(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.split(['/', '?']).next().is_some_and(|host| !host.is_empty()))
}
