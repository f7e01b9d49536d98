//! The pair of files a node shows its clients, read again when they change.

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

/// Bytes that a file of certificates or of a key may have.
pub const MAX_FILE: u64 = 1 << 20;

/// Why a pair of files can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file can't be read.
    #[error("{}: {error}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file is larger than [`MAX_FILE`].
    #[error("{} is too large for PEM of certificates or a key", .0.display())]
    TooLarge(PathBuf),
    /// No certificate in PEM.
    #[error("{} holds no certificate in PEM", .0.display())]
    NoCertificate(PathBuf),
    /// No private key in PEM.
    #[error("{} holds no private key in PEM", .0.display())]
    NoKey(PathBuf),
    /// The key is another certificate's.
    #[error("the key in {} is not that of the certificate in {}", .key.display(), .certificate.display())]
    Mismatch {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// The TLS library doesn't take it.
    #[error("the certificate can't be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// Where the pair lies.
pub(super) struct Files {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// What was found in the files.
type Found = Result<(Vec<u8>, Vec<u8>), CertificateError>;

/// The pair in use, and what is known of the files.
pub(super) struct Certificates {
    files: Files,
    current: ArcSwap<CertifiedKey>,
    seen: Mutex<Seen>,
    /// Files are compared by hash, so that a key's text isn't kept.
    hasher: RandomState,
    replaced: AtomicU64,
    refused: AtomicU64,
}

/// Hashes of what the files held.
struct Seen {
    /// The pair in use.
    used: u64,
    /// Unusable at the last look: who replaces two files isn't done between them, so it is judged at the next look.
    doubted: Option<u64>,
    /// Unusable, and told.
    told: Option<u64>,
}

impl Certificates {
    pub(super) fn open(files: Files) -> Result<Self, CertificateError> {
        let hasher = RandomState::new();
        let found = read(&files);
        let used = hash(&hasher, &found);
        let (certificate, key) = found?;
        let current = ArcSwap::from_pointee(pair(&files, &certificate, &key)?);
        Ok(Self {
            files,
            current,
            seen: Mutex::new(Seen {
                used,
                doubted: None,
                told: None,
            }),
            hasher,
            replaced: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Reads the files and takes what is new in them; `asked`: judges it at once. Blocks.
    pub(super) fn look(&self, asked: bool) {
        let found = read(&self.files);
        let at_hand = hash(&self.hasher, &found);
        let mut seen = self.seen.lock();
        if at_hand == seen.used {
            (seen.doubted, seen.told) = (None, None);
            return;
        }
        if seen.told == Some(at_hand) {
            return;
        }
        match found.and_then(|(certificate, key)| pair(&self.files, &certificate, &key)) {
            Ok(pair) => {
                self.current.store(Arc::new(pair));
                *seen = Seen {
                    used: at_hand,
                    doubted: None,
                    told: None,
                };
                self.replaced.fetch_add(1, Relaxed);
                tracing::info!(certificate = %self.files.certificate.display(), "a new certificate is in use");
            }
            Err(error) if asked || seen.doubted == Some(at_hand) => {
                (seen.doubted, seen.told) = (None, Some(at_hand));
                self.refused.fetch_add(1, Relaxed);
                tracing::warn!(%error, "the certificate was changed and can't be used; the former one stays in use");
            }
            Err(_) => seen.doubted = Some(at_hand),
        }
    }

    pub(super) fn reloads(&self) -> (u64, u64) {
        (self.replaced.load(Relaxed), self.refused.load(Relaxed))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates")
            .field("certificate", &self.files.certificate)
            .field("key", &self.files.key)
            .finish_non_exhaustive()
    }
}

fn hash(hasher: &RandomState, found: &Found) -> u64 {
    match found {
        Ok(bytes) => hasher.hash_one(bytes),
        Err(error) => hasher.hash_one(error.to_string()),
    }
}

fn read(files: &Files) -> Found {
    Ok((read_file(&files.certificate)?, read_file(&files.key)?))
}

/// Reads a file of PEM.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |error| CertificateError::Read {
        path: path.to_owned(),
        error,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > MAX_FILE {
        true => Err(CertificateError::TooLarge(path.to_owned())),
        false => Ok(bytes),
    }
}

/// The certificates in PEM, at least one.
pub(super) fn chain(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    chain
        .ok()
        .filter(|chain| !chain.is_empty())
        .ok_or_else(|| CertificateError::NoCertificate(path.to_owned()))
}

fn pair(files: &Files, certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, CertificateError> {
    let chain = chain(&files.certificate, certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateError::NoKey(files.key.clone()))?;
    CertifiedKey::from_der(chain, key, &super::provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => CertificateError::Mismatch {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
        },
        error => error.into(),
    })
}
