//! haproxy's word on its configuration.

use super::{output, text};
use crate::balancer::haproxy::{Balancer, Behind, command, configuration};

fn check(environment: Vec<(String, String)>) {
    if let Some(mut haproxy) = command() {
        output(haproxy.arg("-c").arg("-f").arg(configuration()).envs(environment));
    }
}

#[test]
fn the_configuration_is_valid_with_the_names_of_compose_and_with_others() {
    check(Vec::new());
    let member = Behind {
        kafka: 19092,
        http: 19080,
    };
    check(Balancer::environment([member; 3], 29092, 29080));
}

#[test]
fn every_member_is_reached_and_asked_at_the_usual_ports() {
    let text = text("deploy/haproxy/haproxy.cfg");
    let servers: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.first() == Some(&"server"))
        .collect();
    assert_eq!(servers.len(), 6, "three members, for Kafka clients and for TessariQL");
    for words in servers {
        let (name, address) = (words[1], words[2]);
        let kafka = address.ends_with(&format!("_KAFKA-{name}:9092}}\""));
        let http = address.ends_with(&format!("_HTTP-{name}:9080}}\""));
        assert!(kafka || http, "{words:?}");
        if kafka {
            // /ready is asked of the other port.
            assert_eq!(words[3], "port", "{words:?}");
            assert!(words[4].ends_with("_HTTP_PORT-9080}\""), "{words:?}");
        }
    }
}
