//! A tessaridb process of a test's own: a fresh folder, free ports, ended with its handle.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rand::Rng;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, version};

/// How long a test waits for something that must happen; far beyond any sane run.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A node under test.
pub struct Process {
    dir: TempDir,
    child: Option<Child>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// A shell's script that runs its arguments, where one is needed.
    by: Option<String>,
    certificates: Option<Certificates>,
    /// Port of --serve.
    pub http: u16,
    /// Port of --kafka.
    pub kafka: u16,
    /// Port of --resp.
    pub resp: u16,
}

impl Process {
    /// Starts a node with fresh ports and waits until it is ready.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(arguments, &[])
    }

    /// Starts a node with variables of its environment.
    pub fn start_in(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::new(arguments, environment, None, None)
    }

    /// Starts a node by a shell's script, which ends with running `"$0" "$@"`.
    pub fn start_by(script: &str, arguments: &[&str]) -> Self {
        Self::new(arguments, &[], Some(script), None)
    }

    /// Starts a node under TLS, with a certificate by an authority of the test's own.
    pub fn start_tls(arguments: &[&str]) -> Self {
        let certificates = Certificates::make();
        let (certificate, key) = (certificates.path("node.pem"), certificates.path("node.key"));
        let mut all = vec!["--tls-cert", &certificate, "--tls-key", &key];
        all.extend(arguments);
        Self::new(&all, &[], None, Some(certificates.clone()))
    }

    fn new(
        arguments: &[&str],
        environment: &[(&str, &str)],
        by: Option<&str>,
        certificates: Option<Certificates>,
    ) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut process = Self {
            dir: tempfile::tempdir().expect("a temporary folder"),
            child: None,
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
            environment: environment.iter().map(own).collect(),
            by: by.map(str::to_owned),
            certificates,
            http: free_port(),
            kafka: free_port(),
            resp: free_port(),
        };
        process.restart();
        process
    }

    /// Starts a node that holds the database `shop.orders`, with bare names read there.
    pub fn with_database() -> Self {
        let process = Self::start(&["--kafka-database", "shop.orders"]);
        process.script("DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders;");
        process
    }

    /// The node's folder.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Where Kafka clients connect.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.kafka)
    }

    /// The authority and certificates of a node under TLS.
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("a node under TLS")
    }

    /// GET, over TLS where the node has it: status and body, or nothing where nobody answers.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        self.http(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ))
    }

    fn http(&self, request: &str) -> Option<(u16, String)> {
        match &self.certificates {
            Some(certificates) => exchange(&mut certificates.connect(self.http)?, request),
            None => http(self.http, request),
        }
    }

    /// Sends the running node a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(self.pid() as i32, signal) };
    }

    /// Most memory the node ever held, in KiB.
    pub fn peak_memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("a process");
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).expect("a peak");
        line.split_whitespace()
            .nth(1)
            .and_then(|n| n.parse().ok())
            .expect("a number")
    }

    /// Process id of the running node.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("running").id()
    }

    /// What the node logged, over all its starts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// The command that starts the node.
    pub fn command(&self) -> Command {
        let program = env!("CARGO_BIN_EXE_tessaridb");
        let mut command = match &self.by {
            None => Command::new(program),
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", script, program]);
                shell
            }
        };
        command.arg(self.data());
        command.args(["--serve", &format!("127.0.0.1:{}", self.http)]);
        command.args(["--kafka", &self.bootstrap()]);
        command.args(["--resp", &format!("127.0.0.1:{}", self.resp)]);
        command.args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the node again on the same folder and ports and waits until it is ready.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "still running");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("log"))
            .expect("log file");
        let mut command = self.command();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("log file"))
            .stderr(log);
        self.child = Some(command.spawn().expect("tessaridb starts"));
        let start = Instant::now();
        while self.get("/ready").is_none_or(|(status, _)| status != 200) {
            let ended = self.child.as_mut().and_then(|c| c.try_wait().expect("wait"));
            assert!(ended.is_none(), "ended with {ended:?}: {}", self.log());
            assert!(start.elapsed() < PATIENCE, "not ready: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill");
            child.wait().expect("wait");
        }
    }

    /// SIGTERM, and the status it ends with.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("running");
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("wait") {
                return status;
            }
            if start.elapsed() > PATIENCE {
                child.kill().expect("kill");
                panic!("did not stop on SIGTERM: {}", self.log());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs TessariQL over HTTP and returns the printed outcome; a refusal fails the test.
    pub fn script(&self, script: &str) -> String {
        let (status, body) = self.try_script(script);
        assert_eq!(status, 200, "{script}: {body}");
        body
    }

    /// As [`Process::script`], signed in.
    pub fn script_as(&self, user: &str, password: &str, script: &str) -> String {
        let (status, body) = self.try_script_as(Some((user, password)), script);
        assert_eq!(status, 200, "{script}: {body}");
        body
    }

    /// Runs TessariQL over HTTP: status and body as text.
    pub fn try_script(&self, script: &str) -> (u16, String) {
        self.try_script_as(None, script)
    }

    /// As [`Process::try_script`], signed in where a user is given.
    pub fn try_script_as(&self, user: Option<(&str, &str)>, script: &str) -> (u16, String) {
        self.ask_as(user, script).expect("the node answers")
    }

    /// As [`Process::try_script`], or nothing where nobody answers.
    pub fn ask(&self, script: &str) -> Option<(u16, String)> {
        self.ask_as(None, script)
    }

    fn ask_as(&self, user: Option<(&str, &str)>, script: &str) -> Option<(u16, String)> {
        let authorization = user.map_or_else(String::new, |(user, password)| {
            let basic = BASE64_STANDARD.encode(format!("{user}:{password}"));
            format!("Authorization: Basic {basic}\r\n")
        });
        let head = format!(
            "POST /script HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\nConnection: close\r\n\
             {authorization}Content-Length: {}\r\n\r\n",
            script.len()
        );
        self.http(&format!("{head}{script}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- log of the node ---\n{}", self.log());
        }
    }
}

/// GET over HTTP: status and body, or nothing where nobody answers.
pub fn http_get(port: u16, path: &str) -> Option<(u16, String)> {
    http(
        port,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    )
}

/// Any request over HTTP: status and body, or nothing where nobody answers.
pub fn http(port: u16, request: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    exchange(&mut stream, request)
}

fn exchange(stream: &mut (impl Read + Write), request: &str) -> Option<(u16, String)> {
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let body = answer.split_once("\r\n\r\n")?.1;
    Some((status, body.to_owned()))
}

/// A client's end of a connection under TLS.
pub type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// An authority and a node's certificate, made by `tessaridb certs`.
#[derive(Clone)]
pub struct Certificates {
    dir: Arc<TempDir>,
    client: Arc<ClientConfig>,
}

impl Certificates {
    /// A new authority, and a certificate for a node called `node`.
    pub fn make() -> Self {
        let dir = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        issue(dir.path(), "node");
        let mut roots = RootCertStore::empty();
        for der in tessaridb::tls::read_certificates(&dir.path().join("ca.pem")).expect("an authority") {
            roots.add(der).expect("a root");
        }
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            dir,
            client: Arc::new(client),
        }
    }

    /// A file of the folder.
    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Issues a certificate by the same authority, in place of one that is there.
    pub fn issue(&self, node: &str) {
        issue(self.dir.path(), node);
    }

    /// Connects and shakes hands; nothing where that fails.
    pub fn connect(&self, port: u16) -> Option<Encrypted> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        stream.set_nodelay(true).ok()?;
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(self.client.clone(), name).expect("a session");
        let mut encrypted = StreamOwned::new(session, stream);
        encrypted.conn.complete_io(&mut encrypted.sock).ok()?;
        Some(encrypted)
    }

    /// The certificate that a new connection is shown.
    pub fn shown(&self, port: u16) -> CertificateDer<'static> {
        let encrypted = self.connect(port).expect("a handshake");
        encrypted.conn.peer_certificates().expect("a certificate")[0]
            .clone()
            .into_owned()
    }

    /// The certificate in a file.
    pub fn certificate(&self, name: &str) -> CertificateDer<'static> {
        let path = self.dir.path().join(name);
        tessaridb::tls::read_certificates(&path)
            .expect("a certificate")
            .swap_remove(0)
    }
}

fn issue(dir: &Path, node: &str) {
    let folder = dir.to_str().expect("UTF-8");
    let (status, _, error) = run(&["certs", folder, "--renew", "--node", node], dir);
    assert_eq!(status, Some(0), "{error}");
}

/// A port that was free a moment ago. None that the kernel gives to outgoing connections: one of those might take it before
/// the node does, or while the node is down.
pub fn free_port() -> u16 {
    let mut random = rand::rng();
    loop {
        let port = random.random_range(10_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Runs the binary to its end: status, standard output, standard error.
pub fn run(arguments: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_tessaridb"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("tessaridb runs");
    (
        out.status.code(),
        String::from_utf8_lossy(&out.stdout).into_owned(),
        String::from_utf8_lossy(&out.stderr).into_owned(),
    )
}
