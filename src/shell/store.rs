//! Where scripts are carried out.

use crate::auth::Caller;
use crate::ql::exec::Scripts;
use crate::ql::{self, Parameters};
use crate::tls::{self, CertificateError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use ureq::tls::{RootCerts, TlsConfig};
use zeroize::Zeroizing;

/// A store to run scripts on.
pub enum Store {
    /// A store of this process.
    Local {
        /// Its engine.
        scripts: Arc<dyn Scripts>,
        /// In whose name.
        caller: Caller,
        /// The runtime it lives in.
        runtime: Handle,
    },
    /// A node reached over HTTP.
    Remote(Remote),
}

/// Why a script brought no outcomes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The script was refused, or one of its statements failed.
    #[error("{0}")]
    Failed(String),
    /// The store cannot be reached.
    #[error("{0}")]
    Unusable(String),
}

impl Store {
    /// Carries out a script; its outcomes as text.
    pub(super) fn execute(&self, script: &str, parameters: &BTreeMap<String, String>) -> Result<String, StoreError> {
        match self {
            Self::Local {
                scripts,
                caller,
                runtime,
            } => {
                let parameters = literals(parameters)?;
                let running = scripts.execute(caller.clone(), script.to_owned().into(), parameters);
                let outcomes = runtime
                    .block_on(running)
                    .map_err(|error| StoreError::Failed(error.to_string()))?;
                let mut text = String::new();
                for outcome in &outcomes {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{outcome}");
                }
                Ok(text)
            }
            Self::Remote(remote) => remote.execute(script, parameters),
        }
    }
}

fn literals(parameters: &BTreeMap<String, String>) -> Result<Parameters, StoreError> {
    let read = |(name, source): (&String, &String)| match ql::parse_literal(source) {
        Ok(value) => Ok((name.clone(), value)),
        Err(error) => Err(StoreError::Failed(format!("the parameter ${name}: {error}"))),
    };
    parameters.iter().map(read).collect()
}

/// A node at an address.
pub struct Remote {
    agent: ureq::Agent,
    address: String,
    scheme: &'static str,
    /// `Authorization`, where somebody signs in.
    authorization: Option<Zeroizing<String>>,
}

impl Remote {
    /// The node whose HTTP port is at `address`, `host:port`.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            agent: agent(None),
            address: address.into(),
            scheme: "http",
            authorization: None,
        }
    }

    /// Signs in with each script.
    pub fn signed_in_as(self, name: &str, password: &str) -> Self {
        let pair = Zeroizing::new(format!("{name}:{password}"));
        Self {
            authorization: Some(Zeroizing::new(format!("Basic {}", STANDARD.encode(&*pair)))),
            ..self
        }
    }

    /// The same node by TLS, which one of the authorities in this PEM file must vouch for, and no other.
    ///
    /// # Errors
    /// The file holds no authority.
    pub fn trusting(self, authority: &Path) -> Result<Self, CertificateError> {
        let authorities = tls::read_certificates(authority)?;
        let roots = authorities
            .iter()
            .map(|der| ureq::tls::Certificate::from_der(der).to_owned());
        let config = TlsConfig::builder().root_certs(RootCerts::from(roots)).build();
        Ok(Self {
            agent: agent(Some(config)),
            scheme: "https",
            ..self
        })
    }

    /// Asks whether the node takes requests. Answers within some seconds.
    ///
    /// # Errors
    /// It says that it doesn't, or can't be reached.
    pub fn ready(&self) -> Result<(), StoreError> {
        let unusable = |error: &dyn std::fmt::Display| StoreError::Unusable(format!("{}: {error}", self.address));
        let answer = self
            .agent
            .get(format!("{}://{}/ready", self.scheme, self.address))
            .config()
            .timeout_global(Some(READY_TIME))
            .build()
            .call()
            .map_err(|error| unusable(&error))?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(unusable(&format_args!("not ready ({})", answer.status()))),
        }
    }

    fn execute(&self, script: &str, parameters: &BTreeMap<String, String>) -> Result<String, StoreError> {
        let unusable = |error: &dyn std::fmt::Display| StoreError::Unusable(format!("{}: {error}", self.address));
        let body = serde_json::json!({ "script": script, "parameters": parameters }).to_string();
        let mut request = self
            .agent
            .post(format!("{}://{}/script", self.scheme, self.address))
            .header("Content-Type", "application/json")
            .header("Accept", "text/plain");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization.as_str());
        }
        let mut response = request.send(&body).map_err(|error| unusable(&error))?;
        // An answer may be larger than the messages in it: as text, bytes take two digits each.
        let text = response
            .body_mut()
            .with_config()
            .limit(ANSWER_LIMIT)
            .read_to_string()
            .map_err(|error| unusable(&error))?;
        if response.status().is_success() {
            return Ok(text);
        }
        match serde_json::from_str::<Failure>(&text) {
            Ok(failure) => Err(StoreError::Failed(failure.error)),
            Err(_) => Err(unusable(&format_args!("not a tessaridb node ({})", response.status()))),
        }
    }
}

fn agent(tls: Option<TlsConfig>) -> ureq::Agent {
    let mut config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(10)))
        .user_agent(concat!("tessaridb/", env!("CARGO_PKG_VERSION")))
        // Scripts go to the node itself; its address is not one that a proxy could know.
        .proxy(None);
    if let Some(tls) = tls {
        config = config.tls_config(tls);
    }
    config.build().into()
}

/// How long a node may take to say whether it is ready.
const READY_TIME: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read.
const ANSWER_LIMIT: u64 = 1 << 30;

#[derive(serde::Deserialize)]
struct Failure {
    error: String,
}
