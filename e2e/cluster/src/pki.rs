//! A certificate authority of the cluster's own, and the identities it issues.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The authority that every certificate of one cluster comes from.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, both PEM.
pub struct Identity {
    /// The certificate, signed by the cluster's authority.
    pub certificate: String,
    /// Its private key, PKCS#8.
    pub key: String,
}

/// The key pair that service-account tokens are signed with, both PEM.
pub struct TokenKey {
    /// For the controller manager and the API server, which sign.
    pub private: String,
    /// For the API server, which verifies.
    pub public: String,
}

impl Authority {
    /// Makes a new authority.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn create() -> Result<Self> {
        let key = KeyPair::generate().context("generate the cluster authority's key")?;
        let params = authority_params()?;
        let certificate = params.self_signed(&key).context("sign the cluster authority")?.pem();
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// The authority's certificate, PEM: what clients trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A client: `user` becomes the user name, `group` its one group.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        self.issue(params)
    }

    /// A server that answers under `names` (DNS names or addresses).
    ///
    /// # Errors
    /// When a name is not valid in a certificate.
    pub fn server(&self, user: &str, names: &[String]) -> Result<Identity> {
        let mut params =
            CertificateParams::new(names.to_vec()).with_context(|| format!("names of {user}: {names:?}"))?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate().context("generate a key")?;
        params.key_usages.push(KeyUsagePurpose::DigitalSignature);
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).context("sign a certificate")?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

impl TokenKey {
    /// Makes a new pair.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn create() -> Result<Self> {
        let key = KeyPair::generate().context("generate the service-account key")?;
        Ok(Self { private: key.serialize_pem(), public: key.public_key_pem() })
    }
}

impl Identity {
    /// Writes `<name>.crt` and `<name>.key` into `dir`.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, dir: &Path, name: &str) -> Result<()> {
        write_private(&dir.join(format!("{name}.crt")), &self.certificate)?;
        write_private(&dir.join(format!("{name}.key")), &self.key)
    }
}

fn authority_params() -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new()).context("describe the cluster authority")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "opensandbox-cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

/// Writes a file that only its owner may read.
///
/// # Errors
/// When it cannot be written.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("write {}", path.display()))
}
