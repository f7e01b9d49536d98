//! A tessaridb process of a test's own: a fresh folder, free ports, ended with its handle.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a test waits for something that must happen; far beyond any sane run.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A node under test.
pub struct Process {
    dir: TempDir,
    child: Option<Child>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// Port of --serve.
    pub http: u16,
    /// Port of --kafka.
    pub kafka: u16,
}

impl Process {
    /// Starts a node with fresh ports and waits until it is ready.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(arguments, &[])
    }

    /// Starts a node with variables of its environment.
    pub fn start_in(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut process = Self {
            dir: tempfile::tempdir().expect("a temporary folder"),
            child: None,
            arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
            environment: environment.iter().map(own).collect(),
            http: free_port(),
            kafka: free_port(),
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_tessaridb"));
        command.arg(self.data());
        command.args(["--serve", &format!("127.0.0.1:{}", self.http)]);
        command.args(["--kafka", &self.bootstrap()]);
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
        while http_get(self.http, "/ready").is_none_or(|(status, _)| status != 200) {
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
        let authorization = user.map_or_else(String::new, |(user, password)| {
            let basic = BASE64_STANDARD.encode(format!("{user}:{password}"));
            format!("Authorization: Basic {basic}\r\n")
        });
        let head = format!(
            "POST /script HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\nConnection: close\r\n\
             {authorization}Content-Length: {}\r\n\r\n",
            script.len()
        );
        http(self.http, &format!("{head}{script}")).expect("the node answers")
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
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let body = answer.split_once("\r\n\r\n")?.1;
    Some((status, body.to_owned()))
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
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
