//! The manifests: Kubernetes' schema, strictly, and that they agree with each other and with the binary.

use super::{checked, image, port, strings, told};
use serde_json::Value;
use std::collections::BTreeMap;
use tessaridb::config::Config;

const FOLDER: &str = "deploy/kubernetes";

fn resources() -> Vec<String> {
    let kustomization = &checked("plain", &["deploy/kubernetes/kustomization.yaml"])[0];
    let tag = &kustomization["images"][0]["newTag"];
    assert_eq!(tag, env!("CARGO_PKG_VERSION"));
    let mut all = strings(&kustomization["resources"]);
    // Applied by hand, once the store is formed.
    all.push("clients/service.yaml".to_owned());
    all.iter().map(|name| format!("{FOLDER}/{name}")).collect()
}

/// All manifests, by kind and name.
fn manifests() -> BTreeMap<String, Value> {
    let paths = resources();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let name = |manifest: &Value| {
        let text = |v: &Value| v.as_str().expect("text").to_owned();
        format!("{} {}", text(&manifest["kind"]), text(&manifest["metadata"]["name"]))
    };
    checked("kubernetes", &paths)
        .into_iter()
        .map(|m| (name(&m), m))
        .collect()
}

fn members(manifests: &BTreeMap<String, Value>) -> &Value {
    &manifests["StatefulSet tessaridb"]["spec"]
}

fn container(members: &Value) -> &Value {
    &members["template"]["spec"]["containers"][0]
}

/// What the member number `ordinal` is told.
fn member(members: &Value, ordinal: u64) -> Config {
    let container = container(members);
    assert_eq!(container["command"], Value::Null, "the image's entrypoint runs");
    let arguments: Vec<String> = strings(&container["args"])
        .into_iter()
        .map(|a| {
            a.replace("$(POD_NAME)", &format!("tessaridb-{ordinal}"))
                .replace("$(POD_NAMESPACE)", "shop")
        })
        .collect();
    assert!(arguments.iter().all(|a| !a.contains("$(")), "{arguments:?}");
    told(&arguments, &[])
}

#[test]
fn the_manifests_are_those_that_are_known_and_follow_their_schemas() {
    let all: Vec<String> = manifests().into_keys().collect();
    assert_eq!(
        all,
        [
            "Job tessaridb-form",
            "PodDisruptionBudget tessaridb",
            "Service tessaridb",
            "Service tessaridb-peers",
            "StatefulSet tessaridb"
        ]
    );
}

#[test]
fn each_member_has_its_name_its_certificate_and_its_ports() {
    let manifests = manifests();
    let members = members(&manifests);
    let service = members["serviceName"].as_str().expect("a service");
    assert_eq!(service, "tessaridb-peers");
    let config = member(members, 1);
    let host = format!("tessaridb-1.{service}");
    assert_eq!(config.kafka.kafka_advertise, Some((format!("{host}.shop.svc"), 9092)));
    let cluster = &config.cluster;
    for (path, expected) in [
        (&cluster.cluster_credential, format!("/etc/tessaridb/pki/{host}.pem")),
        (&cluster.cluster_key, format!("/etc/tessaridb/pki/{host}.key")),
        (&cluster.cluster_authority, "/etc/tessaridb/pki/ca.pem".to_owned()),
    ] {
        assert_eq!(path.as_deref().and_then(|p| p.to_str()), Some(&*expected));
    }
    let listened: BTreeMap<&str, u16> = [
        ("http", config.listen.serve.as_deref()),
        ("kafka", config.listen.kafka.as_deref()),
        ("peers", config.cluster.cluster_address.as_deref()),
    ]
    .map(|(name, address)| (name, port(address)))
    .into();
    let container = container(members);
    let ports = container["ports"].as_array().expect("ports");
    let shown: BTreeMap<&str, u16> = ports
        .iter()
        .map(|p| {
            (
                p["name"].as_str().expect("a name"),
                p["containerPort"].as_u64().expect("a port") as u16,
            )
        })
        .collect();
    assert_eq!(shown, listened);
    for service in ["Service tessaridb", "Service tessaridb-peers"] {
        for p in manifests[service]["spec"]["ports"].as_array().expect("ports") {
            let target = p["targetPort"].as_str().expect("a name");
            assert_eq!(p["port"].as_u64(), Some(u64::from(listened[target])), "{service}");
        }
    }
    let mounts: Vec<&str> = container["volumeMounts"]
        .as_array()
        .expect("mounts")
        .iter()
        .map(|m| m["mountPath"].as_str().expect("a path"))
        .collect();
    assert_eq!(mounts, ["/var/lib/tessaridb", "/etc/tessaridb/pki"]);
    let path = config.path.expect("a folder");
    assert!(path.starts_with(mounts[0]), "{}", path.display());
}

#[test]
fn the_job_forms_the_store_of_all_members() {
    let manifests = manifests();
    let members = members(&manifests);
    let count = members["replicas"].as_u64().expect("replicas");
    let job = &manifests["Job tessaridb-form"]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(strings(&job["command"]), ["form"]);
    let config = member(members, 0);
    let (serve, peers) = (
        port(config.listen.serve.as_deref()),
        port(config.cluster.cluster_address.as_deref()),
    );
    let mut expected = vec![format!("tessaridb-0.tessaridb-peers:{serve}")];
    expected.extend((0..count).map(|n| format!("tessaridb_{n}=tessaridb-{n}.tessaridb-peers:{peers}")));
    assert_eq!(strings(&job["args"]), expected);
    assert_eq!(job["image"], container(members)["image"]);
    assert_eq!(
        manifests["Service tessaridb-peers"]["spec"]["publishNotReadyAddresses"],
        true
    );
    assert_eq!(manifests["Service tessaridb-peers"]["spec"]["clusterIP"], "None");
}

#[test]
fn members_are_selected_kept_apart_and_stopped_one_at_a_time() {
    let manifests = manifests();
    let members = members(&manifests);
    let template = &members["template"];
    let labels = &template["metadata"]["labels"];
    let apart = &template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    let budget = &manifests["PodDisruptionBudget tessaridb"]["spec"];
    for selector in [
        &members["selector"]["matchLabels"],
        &apart["labelSelector"]["matchLabels"],
        &budget["selector"]["matchLabels"],
        &manifests["Service tessaridb"]["spec"]["selector"],
        &manifests["Service tessaridb-peers"]["spec"]["selector"],
    ] {
        assert_eq!(selector, labels);
    }
    assert_ne!(
        &manifests["Job tessaridb-form"]["spec"]["template"]["metadata"]["labels"],
        labels
    );
    assert_eq!(budget["maxUnavailable"], 1);
    // Longer than a stop takes at most: 5 s before it, then 10 s to hand over, 6 s and 10 s to answer.
    let grace = template["spec"]["terminationGracePeriodSeconds"].as_u64();
    assert!(grace > Some(31), "{grace:?}");
    let container = container(members);
    for (probe, path) in [
        ("startupProbe", "/health"),
        ("livenessProbe", "/health"),
        ("readinessProbe", "/ready"),
    ] {
        assert_eq!(container[probe]["httpGet"]["path"], path);
        assert_eq!(container[probe]["httpGet"]["port"], "http");
    }
}

#[test]
fn nobody_is_root_or_writes_but_to_its_volume() {
    let manifests = manifests();
    let user = image::instruction("USER");
    let uid: u64 = user.split(':').next().and_then(|id| id.parse().ok()).expect("a number");
    for template in [
        &members(&manifests)["template"],
        &manifests["Job tessaridb-form"]["spec"]["template"],
    ] {
        let pod = &template["spec"];
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["runAsUser"], uid);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let container = &pod["containers"][0]["securityContext"];
        assert_eq!(container["readOnlyRootFilesystem"], true);
        assert_eq!(container["allowPrivilegeEscalation"], false);
        assert_eq!(strings(&container["capabilities"]["drop"]), ["ALL"]);
    }
}
