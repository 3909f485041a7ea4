//! Where a port of a sandbox can be reached. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::config::{Gateway, Ingress, Route, SigningKey};
use crate::error::{ApiError, Code};
use crate::view::View;
use crate::wire::Answer;

/// Port of the egress sidecar's API.
const EGRESS_PORT: u16 = 18080;
const INGRESS_TO: &str = "OpenSandbox-Ingress-To";
const SECURE_ACCESS: &str = "OpenSandbox-Secure-Access";
const EGRESS_AUTH: &str = "OPENSANDBOX-EGRESS-AUTH";

/// A port in a path.
///
/// # Errors
/// 422 when it is no number, 400 when it is no port.
pub fn port(text: &str) -> Result<u16, ApiError> {
    use crate::fields::{Fault, Problem};
    let Ok(number) = text.trim().parse::<i64>() else {
        let problem =
            Problem { fault: Fault::Type, path: vec!["port".to_owned()], message: "must be an integer".to_owned() };
        return Err(ApiError::shape("path", &[problem]));
    };
    match u16::try_from(number) {
        Ok(port) if port > 0 => Ok(port),
        Ok(_) | Err(_) => Err(ApiError::bad(Code::InvalidPort, "the port must be between 1 and 65535")),
    }
}

/// What a lookup asks for.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// Port inside of the sandbox.
    pub port: u16,
    /// Until when a signed endpoint holds, in epoch seconds.
    pub expires: Option<i128>,
    /// The time of the request, in epoch seconds.
    pub now: i64,
}

/// The endpoint, as the API answers it.
///
/// # Errors
/// 404 `POD_IP_NOT_AVAILABLE` while there is no address, 400 when it cannot be signed.
pub fn resolve(ingress: &Ingress, view: &View, lookup: Lookup) -> Result<Value, ApiError> {
    let Lookup { port, .. } = lookup;
    let mut headers = BTreeMap::new();
    let signed = signature(ingress, view, lookup)?;
    let endpoint = match ingress {
        Ingress::Direct => direct(view, port)?,
        Ingress::Gateway(gateway) => through(gateway, view, port, signed.as_deref(), &mut headers),
    };
    if let Some(token) = view.secure_token.as_ref().filter(|_| signed.is_none()) {
        headers.insert(SECURE_ACCESS, token.clone());
    }
    if let Some(token) = view.egress_token.as_ref().filter(|_| port == EGRESS_PORT) {
        headers.insert(EGRESS_AUTH, token.clone());
    }
    let headers = (!headers.is_empty()).then(|| json!(headers));
    Ok(Answer::new().with("endpoint", endpoint).maybe("headers", headers).done())
}

fn direct(view: &View, port: u16) -> Result<String, ApiError> {
    let Some(ip) = &view.ip else {
        let message = format!("sandbox {} has no address yet (it is {})", view.id, view.standing.state.as_str());
        return Err(ApiError::new(http::StatusCode::NOT_FOUND, Code::PodIpNotAvailable, message));
    };
    Ok(match ip.parse() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        Ok(IpAddr::V4(_)) | Err(_) => format!("{ip}:{port}"),
    })
}

fn through(
    gateway: &Gateway,
    view: &View,
    port: u16,
    signed: Option<&str>,
    headers: &mut BTreeMap<&'static str, String>,
) -> String {
    let id = &view.id;
    let label = match signed {
        Some(signed) => format!("{id}-{port}-{}", signed.replace('/', "-")),
        None => format!("{id}-{port}"),
    };
    let address = &gateway.address;
    match gateway.route {
        Route::Wildcard => format!("{label}{}", address.trim_start_matches('*')),
        Route::Uri => match signed {
            Some(signed) => format!("{address}/{id}/{port}/{signed}"),
            None => format!("{address}/{id}/{port}"),
        },
        Route::Header => {
            headers.insert(INGRESS_TO, label);
            address.clone()
        }
    }
}

/// `exp36/sig` when a signed endpoint is asked for.
fn signature(ingress: &Ingress, view: &View, lookup: Lookup) -> Result<Option<String>, ApiError> {
    let Some(expires) = lookup.expires else { return Ok(None) };
    let bad = |message: &str| ApiError::bad(Code::InvalidParameter, format!("expires: {message}"));
    let expires = u64::try_from(expires).map_err(|_| bad("must be a time in epoch seconds"))?;
    if i128::from(expires) <= i128::from(lookup.now) {
        return Err(bad("must lie in the future"));
    }
    let keys = match ingress {
        Ingress::Direct => {
            return Err(bad(
                "endpoints can be signed only with an ingress gateway, and this server has ingress.mode = \"direct\"",
            ));
        }
        Ingress::Gateway(gateway) => gateway.secure_access.as_ref(),
    };
    let keys = keys.ok_or_else(|| bad("this server has no signing keys (ingress.secure_access)"))?;
    Ok(Some(sign(&keys.active, &view.id, lookup.port, expires)))
}

fn sign(key: &SigningKey, id: &str, port: u16, expires: u64) -> String {
    let expires = base36(expires);
    let canonical = format!("v1\nshort\n{id}\n{port}\n{expires}\n");
    let mut hash = Sha256::new();
    for part in [key.secret.as_slice(), canonical.as_bytes()] {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        hash.update(length.to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{expires}/{hex}{}", key.id)
}

fn base36(mut number: u64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut out = Vec::new();
    loop {
        let digit = usize::try_from(number % 36).unwrap_or_default();
        out.push(char::from(DIGITS[digit]));
        number /= 36;
        if number == 0 {
            return out.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_one_that_a_gateway_computes() {
        let key = SigningKey { id: 'a', secret: b"secret".to_vec() };
        let id = "e11488f6-9e0c-4079-a304-185e4a5309b8";
        assert_eq!(sign(&key, id, 8080, 1_999_999_999), "x2qxvj/1c83275ba");
        assert_eq!(sign(&key, id, 18080, 1_999_999_999), "x2qxvj/f5b67948a");
    }
}
