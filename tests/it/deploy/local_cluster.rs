//! deploy/local-cluster, run as a person would.

use super::file;
use crate::process::PATIENCE;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

struct LocalCluster {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl LocalCluster {
    /// Starts it and waits until it has told how to go on.
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(file("deploy/local-cluster"))
            .arg(folder)
            .arg("--free-ports")
            .args(["--binary", env!("CARGO_BIN_EXE_tessaridb")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("local-cluster starts");
        let out = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (tell, lines) = channel();
        std::thread::spawn(move || out.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let mut cluster = Self {
            child,
            lines,
            said: Vec::new(),
        };
        cluster.until("Ctrl-C stops all");
        cluster
    }

    /// Reads on until a line has this in it.
    fn until(&mut self, what: &str) {
        let start = Instant::now();
        loop {
            let left = (2 * PATIENCE).saturating_sub(start.elapsed());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("it does not say {what:?}: {:#?}", self.said));
            let found = line.contains(what);
            self.said.push(line);
            if found {
                return;
            }
        }
    }

    /// Process id of a member, as told last.
    fn pid(&self, member: &str) -> i32 {
        let told = self.said.iter().rev().find_map(|line| {
            let rest = line.strip_prefix(&format!("{member}: process "))?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        });
        told.unwrap_or_else(|| panic!("the process of {member}: {:#?}", self.said))
    }

    /// The lines that follow what is said to be pasted, run by a shell elsewhere.
    fn paste(&self, before: &str) -> String {
        let at = self
            .said
            .iter()
            .position(|line| line.contains(before))
            .expect("an example");
        let indented = |line: &&String| line.is_empty() || line.starts_with("    ");
        let pasted: Vec<&str> = self.said[at + 1..]
            .iter()
            .take_while(indented)
            .map(|line| line.trim())
            .collect();
        let out = Command::new("bash")
            .args(["-ec", &pasted.join("\n")])
            .current_dir(std::env::temp_dir())
            .output()
            .expect("bash runs");
        let (text, error) = (
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr),
        );
        assert!(out.status.success(), "{pasted:#?}: {text}{error}");
        text.into_owned()
    }

    fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status;
            }
            assert!(start.elapsed() < 2 * PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        // SAFETY: a signal to a child that may have ended, but has not been waited for if it has not.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
            let _ = self.child.wait();
        }
    }
}

fn signal(pid: i32, signal: i32) -> bool {
    // SAFETY: a signal to a process this test started.
    unsafe { libc::kill(pid, signal) == 0 }
}

fn stop(folder: &Path) -> (bool, String) {
    let mut command = Command::new(file("deploy/local-cluster"));
    let out = command.arg("stop").arg(folder).output().expect("it runs");
    (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn a_local_cluster_serves_clients_outlives_a_kill_and_goes_on_where_it_was_stopped() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let folder: PathBuf = root.path().join("cluster");
    let mut cluster = LocalCluster::start(&folder);
    let records = cluster.paste("paste:");
    assert_eq!(records.lines().count(), 3, "{records}");
    let told = cluster.paste("To see the members");
    assert_eq!(told.matches("state: 'voting'").count(), 3, "{told}");
    assert!(told.contains("'kafka:billing'"), "{told}");

    assert!(signal(cluster.pid("two"), libc::SIGKILL), "two runs");
    cluster.until("two ended with -9");
    cluster.until("two: process ");
    let start = Instant::now();
    while cluster.paste("To see the members").matches("state: 'voting'").count() != 3 {
        assert!(start.elapsed() < PATIENCE, "two is not back");
    }
    // Through the very member that was killed.
    let records = cluster.paste("paste:");
    assert_eq!(records.lines().count(), 3, "{records}");

    let (stopped, error) = stop(&folder);
    assert!(stopped, "{error}");
    assert!(cluster.ended().success(), "{:#?}", cluster.said);
    for member in ["one", "two", "three"] {
        assert!(!signal(cluster.pid(member), 0), "{member} still runs");
    }
    let (stopped, error) = stop(&folder);
    assert!(!stopped && error.contains("nothing runs"), "{error}");

    let mut again = LocalCluster::start(&folder);
    let told = again.paste("To see the members");
    let lasts: u32 = told
        .match_indices("last: ")
        .map(|(at, _)| {
            told[at + 6..]
                .split(|c: char| !c.is_ascii_digit())
                .next()
                .expect("a number")
        })
        .map(|n| n.parse::<u32>().expect("a number"))
        .sum();
    assert_eq!(lasts, 6, "what both examples produced: {told}");
    assert!(signal(again.child.id() as i32, libc::SIGINT), "Ctrl-C");
    assert!(again.ended().success(), "{:#?}", again.said);
}

#[test]
fn a_folder_whose_members_run_is_left_alone() {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(root.path().join("cluster")).expect("a folder");
    let held = std::fs::File::create(root.path().join("cluster/lock")).expect("a lock");
    held.lock().expect("the lock");
    let out = Command::new(file("deploy/local-cluster"))
        .arg(root.path().join("cluster"))
        .output()
        .expect("it runs");
    assert!(!out.status.success());
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(error.contains("run already"), "{error}");
}
