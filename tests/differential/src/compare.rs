//! Two runs of one scenario, field by field.

use crate::normal::HIDDEN;
use crate::session::Exchange;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// One field in which two answers differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Scenario.
    pub scenario: String,
    /// Step.
    pub step: String,
    /// Path to the field: names, and in brackets the name, number or place of an array's element.
    pub path: String,
    /// What Apache Kafka answered there.
    pub kafka: String,
    /// What tessaridb answered there.
    pub ours: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            scenario,
            step,
            path,
            kafka,
            ours,
        } = self;
        write!(f, "{scenario} / {step} / {path}: kafka {kafka}, ours {ours}")
    }
}

/// Stands for a field, element or step that one side lacks.
const ABSENT: &str = "absent";

/// All differences between the two runs of `scenario`.
pub fn runs(scenario: &str, kafka: &[Exchange], ours: &[Exchange]) -> Vec<Difference> {
    let theirs: HashMap<&str, &Exchange> = kafka
        .iter()
        .map(|exchange| (exchange.step.as_str(), exchange))
        .collect();
    let mine: HashMap<&str, &Exchange> = ours.iter().map(|exchange| (exchange.step.as_str(), exchange)).collect();
    let mut walk = Walk {
        scenario,
        step: "",
        pairs: Pairs::default(),
        found: Vec::new(),
    };
    for exchange in kafka {
        walk.step = &exchange.step;
        match mine.get(exchange.step.as_str()) {
            None => walk.report("step", kind(&exchange.answer), ABSENT.to_owned()),
            Some(other) => match (exchange.answer.get("body"), other.answer.get("body")) {
                (Some(theirs), Some(ours)) => walk.values("", Some(theirs), Some(ours)),
                _ if exchange.answer != other.answer => {
                    walk.report("answer", kind(&exchange.answer), kind(&other.answer));
                }
                _ => {}
            },
        }
    }
    for exchange in ours
        .iter()
        .filter(|exchange| !theirs.contains_key(exchange.step.as_str()))
    {
        walk.step = &exchange.step;
        walk.report("step", ABSENT.to_owned(), kind(&exchange.answer));
    }
    walk.found
}

/// Which symbol of Kafka's run is which of ours: bound where they first meet, one to one.
#[derive(Default)]
struct Pairs {
    kafka: HashMap<String, String>,
    ours: HashMap<String, String>,
}

impl Pairs {
    /// Whether the two are the same id, as far as was seen.
    fn meet(&mut self, kafka: &str, ours: &str) -> bool {
        if kind_of_id(kafka).is_none() || kind_of_id(kafka) != kind_of_id(ours) {
            return kafka == ours;
        }
        match (self.kafka.get(kafka), self.ours.get(ours)) {
            (None, None) => {
                self.kafka.insert(kafka.to_owned(), ours.to_owned());
                self.ours.insert(ours.to_owned(), kafka.to_owned());
                true
            }
            (known, _) => known.is_some_and(|known| known == ours),
        }
    }
}

/// `member` of `member#3`.
fn kind_of_id(text: &str) -> Option<&str> {
    let (kind, number) = text.split_once('#')?;
    number.parse::<u32>().ok().map(|_| kind)
}

struct Walk<'a> {
    scenario: &'a str,
    step: &'a str,
    pairs: Pairs,
    found: Vec<Difference>,
}

impl Walk<'_> {
    fn report(&mut self, path: &str, kafka: String, ours: String) {
        let (scenario, step, path) = (self.scenario.to_owned(), self.step.to_owned(), path.to_owned());
        self.found.push(Difference {
            scenario,
            step,
            path,
            kafka,
            ours,
        });
    }

    fn values(&mut self, path: &str, kafka: Option<&Value>, ours: Option<&Value>) {
        match (kafka, ours) {
            (Some(Value::Object(theirs)), Some(Value::Object(mine))) => {
                let names: BTreeSet<&String> = theirs.keys().chain(mine.keys()).collect();
                for name in names {
                    let path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    self.values(&path, theirs.get(name), mine.get(name));
                }
            }
            (Some(Value::Array(theirs)), Some(Value::Array(mine))) => {
                let theirs = keyed(theirs, |id| self.pairs.kafka.contains_key(id).then(|| id.to_owned()));
                let mine = keyed(mine, |id| self.pairs.ours.get(id).cloned());
                let mut names: Vec<&String> = theirs.iter().map(|(name, _)| name).collect();
                names.extend(
                    mine.iter()
                        .map(|(name, _)| name)
                        .filter(|name| !theirs.iter().any(|(n, _)| n == *name)),
                );
                for name in names {
                    let get = |side: &[(String, &Value)]| -> Option<Value> {
                        side.iter().find(|(n, _)| n == name).map(|(_, value)| (*value).clone())
                    };
                    self.values(&format!("{path}[{name}]"), get(&theirs).as_ref(), get(&mine).as_ref());
                }
            }
            (Some(Value::String(theirs)), Some(Value::String(mine))) if self.pairs.meet(theirs, mine) => {}
            (theirs, mine) if theirs == mine && !theirs.is_some_and(is_id) => {}
            // What one of them hides is not compared.
            (Some(Value::String(text)), Some(_)) | (Some(_), Some(Value::String(text))) if text == HIDDEN => {}
            (theirs, mine) => self.report(path, print(theirs), print(mine)),
        }
    }
}

fn is_id(value: &Value) -> bool {
    value.as_str().is_some_and(|text| kind_of_id(text).is_some())
}

fn kind(answer: &Value) -> String {
    match answer.get("body") {
        Some(body) => {
            let mut text = format!("answered {body}");
            if text.len() > 300 {
                let cut = (0..=300).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                text.truncate(cut);
                text.push_str("..");
            }
            text
        }
        None => answer.as_str().unwrap_or_default().to_owned(),
    }
}

fn print(value: Option<&Value>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), Value::to_string)
}

/// The elements of an array under the name each is known by, so that one lacking element is one difference. An id is a
/// name once it is bound (`bound` tells under which symbol); before that, its place is.
fn keyed(items: &[Value], bound: impl Fn(&str) -> Option<String>) -> Vec<(String, &Value)> {
    const NAMES: [&str; 11] = [
        "api_key",
        "name",
        "topic",
        "resource_name",
        "partition_index",
        "partition",
        "index",
        "group_id",
        "key",
        "member_id",
        "topic_id",
    ];
    let mut seen = HashMap::new();
    items
        .iter()
        .enumerate()
        .map(|(at, item)| {
            let name = NAMES.iter().find_map(|name| match item.get(name) {
                Some(Value::String(text)) if text.is_empty() => None,
                Some(Value::String(text)) if kind_of_id(text).is_some() => bound(text),
                Some(Value::String(text)) => Some(text.clone()),
                Some(Value::Number(number)) => Some(number.to_string()),
                _ => None,
            });
            let name = name.unwrap_or_else(|| at.to_string());
            let count = seen.entry(name.clone()).or_insert(0_usize);
            *count += 1;
            let name = if *count == 1 { name } else { format!("{name}#{count}") };
            (name, item)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn exchange(step: &str, answer: Value) -> Exchange {
        Exchange {
            step: step.to_owned(),
            api: 3,
            version: 1,
            answer,
        }
    }

    #[test]
    fn each_differing_field_is_told_once() {
        let kafka = [
            exchange(
                "a",
                json!({"body": {"topics": [{"name": "x", "code": 0}, {"name": "y", "code": 3}]}}),
            ),
            exchange("b", json!("closed")),
            exchange("c", json!("silent")),
        ];
        let ours = [
            exchange("a", json!({"body": {"topics": [{"name": "y", "code": 17}]}})),
            exchange("b", json!({"body": {}})),
        ];
        let told: Vec<String> = runs("s", &kafka, &ours).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                r#"s / a / topics[x]: kafka {"code":0,"name":"x"}, ours absent"#,
                "s / a / topics[y].code: kafka 3, ours 17",
                "s / b / answer: kafka closed, ours answered {}",
                "s / c / step: kafka silent, ours absent",
            ]
        );
        assert_eq!(runs("s", &kafka, &kafka), []);
    }

    #[test]
    fn ids_are_the_same_where_they_stand_for_the_same() {
        let run = |ids: &[&str]| -> Vec<Exchange> {
            let steps = ids.iter().enumerate();
            steps
                .map(|(at, id)| exchange(&at.to_string(), json!({"body": {"session_id": id}})))
                .collect()
        };
        let kafka = run(&["session#1", "session#2", "session#3", "session#1"]);
        assert_eq!(
            runs("s", &kafka, &run(&["session#1", "", "session#2", "session#1"])).len(),
            1
        );
        assert_eq!(
            runs("s", &kafka, &run(&["session#1", "session#1", "session#2", "session#1"])).len(),
            1
        );
    }
}
