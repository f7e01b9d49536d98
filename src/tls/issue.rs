//! `tessaridb certs`: an authority for development and tests, and certificates by it.
//!
//! ```text
//!   DIR/ca.pem  DIR/ca.key        the authority; one that is there is used again
//!   DIR/NAME.pem  DIR/NAME.key    a node's pair, for serving clients and for other nodes alike
//! ```

use super::certificates::{CertificateError, chain, read_file};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, RootCertStore};

/// What the authority calls itself.
const AUTHORITY: &str = "tessaridb development authority";
/// Years an authority and a node's certificate are good for.
const AUTHORITY_YEARS: i16 = 10;
const NODE_YEARS: i16 = 2;

/// Why nothing, or not everything, was issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// No node's name.
    #[error("{0:?} is no name for a node: letters, digits, dots and hyphens, or an IP address")]
    Name(String),
    /// The authority's own name.
    #[error("a node can't be called ca: that is the authority's file")]
    Reserved,
    /// One of the two files of the authority is missing.
    #[error("{} is there and {} is not", .there.display(), .missing.display())]
    Half {
        /// The file that is there.
        there: PathBuf,
        /// The file that isn't.
        missing: PathBuf,
    },
    /// A node's key or certificate is there already, perhaps in use.
    #[error("{} is there already: --renew replaces a node's key and certificate", .0.display())]
    There(PathBuf),
    /// The authority can't be read.
    #[error(transparent)]
    Authority(#[from] CertificateError),
    /// What the authority signs doesn't prove right by its certificate.
    #[error("{} is not an authority that `tessaridb certs` made, or {} is not its key", .certificate.display(), .key.display())]
    Foreign {
        /// The authority's certificate.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// A file can't be written.
    #[error("{}: {error}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The certificate library refuses.
    #[error("a certificate can't be made: {0}")]
    Library(#[from] rcgen::Error),
}

/// Makes sure of an authority in `folder` and issues a certificate to each node. Answers the files written. Keys and
/// certificates that nodes have already are replaced where `renew` says so; else nothing at all is written.
///
/// A certificate is good for its node's name, `localhost`, 127.0.0.1 and ::1, on either end of a connection. Keys are
/// readable by their owner alone.
///
/// # Errors
/// What was written before a file could not be written stays.
pub fn issue(folder: &Path, nodes: &[String], renew: bool) -> Result<Vec<PathBuf>, IssueError> {
    for node in nodes {
        check_name(node)?;
    }
    let pair = |node: &String| [format!("{node}.key"), format!("{node}.pem")];
    let mut there = nodes.iter().flat_map(pair).map(|file| folder.join(file));
    if let Some(there) = there.find(|path| !renew && fs::symlink_metadata(path).is_ok()) {
        return Err(IssueError::There(there));
    }
    fs::create_dir_all(folder).map_err(|error| IssueError::Write {
        path: folder.to_owned(),
        error,
    })?;
    let mut written = Vec::new();
    let authority = Authority::at(folder, &mut written)?;
    for node in nodes {
        let key = KeyPair::generate()?;
        let certificate = node_params(node)?.signed_by(&key, &authority.issuer)?;
        authority.prove(certificate.der(), node)?;
        // The key first: a node that looks between the two sees a pair that doesn't match, and looks again.
        written.push(write(&folder.join(format!("{node}.key")), &key.serialize_pem(), 0o600)?);
        written.push(write(&folder.join(format!("{node}.pem")), &certificate.pem(), 0o644)?);
    }
    Ok(written)
}

struct Authority {
    certificate: PathBuf,
    key: PathBuf,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The one that is there, or a new one.
    fn at(folder: &Path, written: &mut Vec<PathBuf>) -> Result<Self, IssueError> {
        let (certificate, key) = (folder.join("ca.pem"), folder.join("ca.key"));
        let (der, pair) = match (certificate.exists(), key.exists()) {
            (true, true) => {
                let der = chain(&certificate, &read_file(&certificate)?)?.swap_remove(0);
                let pem = read_file(&key)?;
                let pair = std::str::from_utf8(&pem)
                    .ok()
                    .and_then(|pem| KeyPair::from_pem(pem).ok());
                (der, pair.ok_or_else(|| CertificateError::NoKey(key.clone()))?)
            }
            (false, false) => {
                let pair = KeyPair::generate()?;
                let new = authority_params().self_signed(&pair)?;
                written.push(write(&key, &pair.serialize_pem(), 0o600)?);
                written.push(write(&certificate, &new.pem(), 0o644)?);
                (new.der().clone(), pair)
            }
            (there, _) => {
                let (there, missing) = match there {
                    true => (certificate, key),
                    false => (key, certificate),
                };
                return Err(IssueError::Half { there, missing });
            }
        };
        Ok(Self {
            certificate,
            key,
            der,
            issuer: Issuer::new(authority_params(), pair),
        })
    }

    /// Checks a certificate as a client would that trusts this authority alone.
    fn prove(&self, certificate: &CertificateDer<'_>, node: &str) -> Result<(), IssueError> {
        let proven = || -> Result<(), rustls::Error> {
            let mut roots = RootCertStore::empty();
            roots.add(self.der.clone())?;
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), super::provider())
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
            let name = ServerName::try_from(node).map_err(|error| rustls::Error::General(error.to_string()))?;
            verifier
                .verify_server_cert(certificate, &[], &name, &[], UnixTime::now())
                .map(drop)
        };
        proven().map_err(|_| IssueError::Foreign {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        })
    }
}

/// A name that certificates can bear and that stays in the folder as a file's.
fn check_name(name: &str) -> Result<(), IssueError> {
    let wrong = || IssueError::Name(name.to_owned());
    if name.eq_ignore_ascii_case("ca") {
        return Err(IssueError::Reserved);
    }
    ServerName::try_from(name).map_err(|_| wrong())?;
    match name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:_".contains(&b)) {
        true => Ok(()),
        false => Err(wrong()),
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    good_for(&mut params, AUTHORITY_YEARS);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn node_params(node: &str) -> Result<CertificateParams, IssueError> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    if !names.iter().any(|name| name == node) {
        names.insert(0, node.to_owned());
    }
    let mut params = CertificateParams::new(names)?;
    good_for(&mut params, NODE_YEARS);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, node);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

/// From yesterday, as clocks differ.
fn good_for(params: &mut CertificateParams, years: i16) {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let from = today.yesterday().unwrap_or(today);
    // The 28th is in every month.
    let day = |of: jiff::civil::Date| of.day().min(28).unsigned_abs();
    params.not_before = date_time_ymd(from.year().into(), from.month().unsigned_abs(), day(from));
    params.not_after = date_time_ymd((from.year() + years).into(), from.month().unsigned_abs(), day(from));
}

/// Puts a whole file in place of what was there.
fn write(path: &Path, text: &str, mode: u32) -> Result<PathBuf, IssueError> {
    let failed = |error| IssueError::Write {
        path: path.to_owned(),
        error,
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    // One that an interrupted run left may have another mode.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    drop(file);
    fs::rename(&beside, path).map_err(failed)?;
    Ok(path.to_owned())
}
