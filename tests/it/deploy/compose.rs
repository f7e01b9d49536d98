//! The compose file: its schema, that its parts agree, and the certificates that it makes.

use super::{checked, image, image_tag, port, strings, text, told};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tessaridb::config::Config;

const MEMBERS: [&str; 3] = ["one", "two", "three"];

fn services() -> Value {
    let mut documents = checked("compose", &["deploy/compose.yaml"]);
    documents[0]["services"].take()
}

/// Variables of a service, with compose's own defaults put in.
fn variables(service: &Value) -> Vec<(String, String)> {
    let all = service["environment"].as_object().expect("variables");
    let one = |(name, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let default = value.strip_prefix("${").and_then(|v| v.strip_suffix('}'));
        let value = default
            .and_then(|v| v.split_once(":-"))
            .map_or_else(|| value.clone(), |(_, d)| d.to_owned());
        (name.clone(), value)
    };
    all.iter().map(one).collect()
}

fn member(services: &Value, name: &str) -> Config {
    let service = &services[name];
    assert!(service["command"].is_null(), "the image's own command runs");
    told(&image::arguments(), &variables(service))
}

#[test]
fn members_are_told_the_balancers_address_and_their_own_certificate() {
    let services = services();
    let published = strings(&services["haproxy"]["ports"]);
    for name in MEMBERS {
        let config = member(&services, name);
        let (host, port) = config.kafka.kafka_advertise.expect("an address");
        assert_eq!(host, "localhost");
        assert!(published.contains(&format!("{port}:{port}")), "{published:?}");
        let cluster = config.cluster;
        for (path, expected) in [
            (cluster.cluster_credential, format!("{name}.pem")),
            (cluster.cluster_key, format!("{name}.key")),
            (cluster.cluster_authority, "ca.pem".to_owned()),
        ] {
            assert_eq!(path, Some(Path::new("/etc/tessaridb/pki").join(expected)));
        }
        let mounts = strings(&services[name]["volumes"]);
        assert_eq!(
            mounts,
            [
                format!("{name}:/var/lib/tessaridb"),
                "pki:/etc/tessaridb/pki:ro".to_owned()
            ]
        );
        assert_eq!(services[name]["image"], Value::from(image_tag()));
    }
    assert_eq!(services["form"]["image"], Value::from(image_tag()));
    assert_eq!(services["certificates"]["image"], Value::from(image_tag()));
}

#[test]
fn the_store_is_formed_of_the_members_before_clients_reach_them() {
    let services = services();
    let form = &services["form"];
    let arguments = strings(&form["command"]);
    let serve = port(member(&services, "one").listen.serve.as_deref());
    assert_eq!(arguments[0], format!("one:{serve}"));
    let rows: Vec<String> = MEMBERS
        .iter()
        .map(|name| {
            format!(
                "{name}={name}:{}",
                port(member(&services, name).cluster.cluster_address.as_deref())
            )
        })
        .collect();
    assert_eq!(arguments[1..], rows);
    for name in MEMBERS {
        assert_eq!(form["depends_on"][name]["condition"], "service_healthy");
        let first = &services[name]["depends_on"]["certificates"]["condition"];
        assert_eq!(first, "service_completed_successfully");
    }
    let balancer = &services["haproxy"];
    assert_eq!(
        balancer["depends_on"]["form"]["condition"],
        "service_completed_successfully"
    );
    let mounted = strings(&balancer["volumes"]);
    assert_eq!(mounted, ["./haproxy/haproxy.cfg:/usr/local/etc/haproxy/haproxy.cfg:ro"]);
    let configured = text("deploy/haproxy/haproxy.cfg");
    for published in strings(&balancer["ports"]) {
        let inner = published.rsplit_once(':').expect("two ports").1.to_owned();
        assert!(configured.contains(&format!("-:{inner}}}\"")), "{inner} is bound");
    }
}

#[test]
fn nobody_may_more_than_it_must() {
    let services = services();
    for (name, service) in services.as_object().expect("services") {
        assert_eq!(service["read_only"], Value::from(true), "{name}");
        assert_eq!(strings(&service["cap_drop"]), ["ALL"], "{name}");
        assert_eq!(strings(&service["security_opt"]), ["no-new-privileges:true"], "{name}");
        let image = service["image"].as_str().expect("an image");
        let tag = image.split_once(':').expect("a tag").1;
        assert!(
            tag.starts_with(|c: char| c.is_ascii_digit()),
            "{image} is of one version"
        );
    }
}

#[test]
fn certificates_are_made_once_and_the_authoritys_key_stays_behind() {
    let services = services();
    let service = &services["certificates"];
    assert_eq!(strings(&service["entrypoint"]), ["sh", "-euc"]);
    let root = tempfile::tempdir().expect("a temporary folder");
    for folder in ["authority", "pki"] {
        std::fs::create_dir(root.path().join(folder)).expect("a folder");
    }
    let script = strings(&service["command"])[0].replace("/etc/tessaridb", root.path().to_str().expect("UTF-8"));
    let program = Path::new(env!("CARGO_BIN_EXE_tessaridb")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a path"));
    let run = || {
        super::output(Command::new("sh").args(["-euc", &script]).env("PATH", &path));
        std::fs::read(root.path().join("pki/three.pem")).expect("a certificate")
    };
    let first = run();
    assert_eq!(run(), first, "the second time nothing is made");
    let mut made: Vec<String> = std::fs::read_dir(root.path().join("pki"))
        .expect("a folder")
        .map(|entry| entry.expect("a file").file_name().into_string().expect("UTF-8"))
        .collect();
    made.sort();
    assert_eq!(
        made,
        [
            "ca.pem",
            "one.key",
            "one.pem",
            "three.key",
            "three.pem",
            "two.key",
            "two.pem"
        ]
    );
}
