//! Debian's haproxy, in target/: nothing is installed on the machine.

use crate::clients::install::quiet;
use crate::process::{PATIENCE, free_port, http_get};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// haproxy, and what of it a small system lacks; the versions are those of the machine's release of Debian.
const PACKAGES: [&str; 4] = ["haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"];

/// The configuration that is shipped.
pub fn configuration() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/haproxy/haproxy.cfg")
}

/// haproxy's command; nothing where it is not to be had. Under `CI` it must be.
pub fn command() -> Option<Command> {
    static ROOT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let runs = |command: &mut Command| quiet(command.arg("-v"));
    let unpacked = |root: &Path| {
        let mut command = Command::new(root.join("usr/sbin/haproxy"));
        command.env("LD_LIBRARY_PATH", root.join("usr/lib/x86_64-linux-gnu"));
        command
    };
    let root = ROOT.get_or_init(|| {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("haproxy");
        std::fs::create_dir_all(&root).expect("target/tmp");
        let lock = File::create(root.with_extension("lock")).expect("a lock file");
        lock.lock().expect("the lock");
        let there = || runs(&mut unpacked(&root));
        // The lists may be old, or not there yet.
        let found = there()
            || fetch(&root) && there()
            || quiet(Command::new("apt-get").arg("update")) && fetch(&root) && there();
        assert!(
            found || std::env::var_os("CI").is_none(),
            "haproxy is missing and could not be fetched"
        );
        found.then_some(root)
    });
    if root.is_none() {
        eprintln!("haproxy is missing: `apt-get download haproxy` is what the tests use");
    }
    root.as_deref().map(unpacked)
}

fn fetch(root: &Path) -> bool {
    let mut download = Command::new("apt-get");
    if !quiet(download.arg("download").args(PACKAGES).current_dir(root)) {
        return false;
    }
    let files = std::fs::read_dir(root).expect("a folder").flatten();
    files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|e| e == "deb"))
        .all(|path| quiet(Command::new("dpkg").arg("-x").arg(path).arg(root)))
}

/// A member, as the balancer reaches it.
#[derive(Clone, Copy)]
pub struct Behind {
    pub kafka: u16,
    pub http: u16,
}

/// haproxy in front of three members, with the configuration that is shipped.
pub struct Balancer {
    child: Child,
    dir: TempDir,
    /// Port for TessariQL.
    pub http: u16,
}

impl Balancer {
    /// The variables by which the configuration finds its members.
    pub fn environment(members: [Behind; 3], kafka: u16, http: u16) -> Vec<(String, String)> {
        let mut all = vec![
            ("BALANCE_KAFKA".to_owned(), format!("127.0.0.1:{kafka}")),
            ("BALANCE_HTTP".to_owned(), format!("127.0.0.1:{http}")),
        ];
        for (name, member) in ["ONE", "TWO", "THREE"].into_iter().zip(members) {
            all.push((format!("{name}_KAFKA"), format!("127.0.0.1:{}", member.kafka)));
            all.push((format!("{name}_HTTP"), format!("127.0.0.1:{}", member.http)));
            all.push((format!("{name}_HTTP_PORT"), member.http.to_string()));
        }
        all
    }

    /// Starts it on `kafka`, and waits until a member is reached.
    pub fn start(mut command: Command, members: [Behind; 3], kafka: u16) -> Self {
        let http = free_port();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let log = File::create(dir.path().join("log")).expect("a log");
        command
            // In the foreground, one process.
            .arg("-db")
            .arg("-f")
            .arg(configuration())
            .envs(Self::environment(members, kafka, http))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log);
        let mut balancer = Self {
            child: command.spawn().expect("haproxy starts"),
            dir,
            http,
        };
        let start = Instant::now();
        while http_get(http, "/ready").is_none_or(|(status, _)| status != 200) {
            let ended = balancer.child.try_wait().expect("wait");
            assert!(ended.is_none(), "haproxy ended with {ended:?}: {}", balancer.log());
            assert!(start.elapsed() < PATIENCE, "no member is reached: {}", balancer.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        balancer
    }

    /// What it logged: members that come and go.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of haproxy ---\n{}", self.log());
        }
    }
}
