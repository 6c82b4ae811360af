//! Makes answers of two brokers comparable: what may differ (ids, addresses, the wall clock, orders that Kafka
//! leaves open) becomes a placeholder or is sorted; everything else stays exactly as it came.

use std::{collections::BTreeMap, net::SocketAddr};

use serde_json::{Map, Value, json};

use crate::{batch, wire};

const ZERO_ID: &str = "00000000-0000-0000-0000-000000000000";

/// The fields by which the elements of a list are told apart, in order of preference.
const KEYS: [&str; 12] = [
    "resourceName",
    "topic",
    "name",
    "topicId",
    "partitionIndex",
    "partition",
    "index",
    "nodeId",
    "brokerId",
    "apiKey",
    "configName",
    "batchIndex",
];

/// Lists whose order is part of the answer.
const ORDERED: [&str; 2] = ["records", "synonyms"];

/// What stands for what in the answers to one case.
#[derive(Debug)]
pub(crate) struct Names {
    prefix: String,
    address: SocketAddr,
    ids: BTreeMap<String, String>,
}

impl Names {
    pub(crate) fn new(prefix: &str, address: SocketAddr) -> Self {
        Self {
            prefix: prefix.to_owned(),
            address,
            ids: BTreeMap::new(),
        }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Remembers the ids of topics that an answer names.
    pub(crate) fn learn(&mut self, answer: &Value) {
        match answer {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(fields) => {
                let text = |key: &str| fields.get(key).and_then(Value::as_str);
                let found = fields.get("errorCode").is_none_or(|code| *code == 0);
                if let (Some(name), Some(id), true) = (text("name"), text("topicId"), found)
                    && id != ZERO_ID
                {
                    self.ids.insert(id.to_owned(), self.without_prefix(name));
                }
                fields.values().for_each(|value| self.learn(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// The comparable form of an answer to `request`.
    pub(crate) fn normalise(&mut self, api: &str, request: &Value, mut answer: Value) -> Value {
        self.learn(&answer);
        if api == "Metadata"
            && lists_all(request)
            && let Some(topics) = answer["topics"].as_array_mut()
        {
            let own = |name: &Value| {
                name.as_str()
                    .is_some_and(|name| name.starts_with(&self.prefix))
            };
            topics.retain(|topic| topic["errorCode"] != 0 || own(&topic["name"]));
        }
        if api == "DescribeQuorum" {
            hide_progress(&mut answer);
        }
        self.value("", request, answer)
    }

    fn value(&self, field: &str, request: &Value, value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| {
                    let value = self.value(&name, request, value);
                    (name, value)
                });
                Value::Object(fields.collect())
            }
            Value::Array(items) => {
                let items: Vec<_> = items
                    .into_iter()
                    .map(|item| self.value(field, request, item))
                    .collect();
                if ORDERED.contains(&field) {
                    items.into()
                } else {
                    keyed(items)
                }
            }
            Value::String(text) => self.text(field, request, text),
            Value::Number(number) => self
                .number(field, number.as_i64())
                .unwrap_or(Value::Number(number)),
            Value::Null | Value::Bool(_) => value,
        }
    }

    fn text(&self, field: &str, request: &Value, text: String) -> Value {
        match field {
            "records" => batch::view(&wire::unhex(&text)),
            "clusterId" => "<cluster>".into(),
            "host" if text == self.address.ip().to_string() => "<host>".into(),
            "topicId" => match self.ids.get(&text) {
                Some(name) => format!("<id of {name}>").into(),
                None if text == ZERO_ID || mentions(request, &text) => text.into(),
                None => "<id>".into(),
            },
            "batchIndexErrorMessage" => self.without_prefix(&without_bounds(text)).into(),
            _ => {
                let named = self.ids.iter().fold(text, |text, (id, name)| {
                    text.replace(id, &format!("<id of {name}>"))
                });
                let named = self.ids.iter().fold(named, |text, (id, name)| {
                    text.replace(&base64_id(id), &format!("<id of {name}>"))
                });
                self.without_prefix(&named).into()
            }
        }
    }

    fn number(&self, field: &str, number: Option<i64>) -> Option<Value> {
        match (field, number?) {
            ("port", port) if port == i64::from(self.address.port()) => Some("<port>".into()),
            ("finalizedFeaturesEpoch", epoch) if epoch >= 0 => Some("<epoch>".into()),
            ("sessionId", id) if id != 0 => Some("<session>".into()),
            ("logAppendTimeMs", time) if time > 0 => Some("<now>".into()),
            _ => None,
        }
    }

    fn without_prefix(&self, text: &str) -> String {
        text.replace(&self.prefix, "")
    }
}

/// How far a quorum is, when it heard of whom, and where its nodes listen, is each broker's own; only what is unknown stays.
fn hide_progress(answer: &mut Value) {
    const OWN: [&str; 6] = [
        "leaderEpoch",
        "highWatermark",
        "logEndOffset",
        "lastFetchTimestamp",
        "lastCaughtUpTimestamp",
        "port",
    ];
    match answer {
        Value::Array(items) => items.iter_mut().for_each(hide_progress),
        Value::Object(fields) => {
            for (name, value) in fields {
                if OWN.contains(&name.as_str()) && value.as_i64().is_some_and(|value| value > 0) {
                    *value = format!("<{name}>").into();
                } else if name == "replicaDirectoryId" && value != ZERO_ID {
                    *value = "<directory>".into();
                } else {
                    hide_progress(value);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The bounds that a message gives for timestamps move with the clock.
fn without_bounds(text: String) -> String {
    match text.split_once("within [") {
        Some((before, _)) => format!("{before}within <bounds>"),
        None => text,
    }
}

/// Kafka prints ids in its messages as URL-safe base64.
fn base64_id(id: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bytes = wire::unhex(&format!("0x{}", id.replace('-', "")));
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            let index = usize::try_from(word >> (18 - 6 * digit) & 63).expect("six bits");
            text.push(char::from(DIGITS[index]));
        }
    }
    text
}

fn lists_all(request: &Value) -> bool {
    request["topics"].as_array().is_none_or(Vec::is_empty)
}

fn mentions(request: &Value, text: &str) -> bool {
    match request {
        Value::String(own) => own == text,
        Value::Array(items) => items.iter().any(|item| mentions(item, text)),
        Value::Object(fields) => fields.values().any(|value| mentions(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A list of structures as a map by what tells them apart, so that its order does not matter.
fn keyed(items: Vec<Value>) -> Value {
    let Some(key) = KEYS
        .into_iter()
        .find(|key| items.iter().all(|item| usable(&item[key])))
    else {
        return items.into();
    };
    if items.is_empty() {
        return items.into();
    }
    let mut map = Map::new();
    for item in items {
        let name = match &item[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if let Some(partitions) = map.get(&name).and_then(|first| merged(first, &item)) {
            map.insert(name, partitions);
            continue;
        }
        let again = (2..).map(|n| format!("{name}#{n}"));
        let free = std::iter::once(name.clone())
            .chain(again)
            .find(|name| !map.contains_key(name));
        map.insert(free.expect("an endless list of names"), item);
    }
    map.into()
}

/// Two entries for one topic as one, if they have no partition in common: how partitions are grouped is left open.
fn merged(first: &Value, second: &Value) -> Option<Value> {
    let field = ["partitions", "partitionResponses"]
        .into_iter()
        .find(|field| first[field].is_object() && second[field].is_object())?;
    let mut whole = first.clone();
    let partitions = whole[field].as_object_mut()?;
    for (index, partition) in second[field].as_object()? {
        if partitions
            .insert(index.clone(), partition.clone())
            .is_some()
        {
            return None;
        }
    }
    Some(whole)
}

fn usable(key: &Value) -> bool {
    key.is_string() || key.is_number()
}

/// One place where two transcripts are unlike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Where: the step's number and name, then the path in the answer.
    pub(crate) path: String,
    /// What the first broker said there.
    pub(crate) left: String,
    /// What the second broker said there.
    pub(crate) right: String,
}

/// All places where two values are unlike.
pub(crate) fn differences(left: &[Value], right: &[Value]) -> Vec<Difference> {
    let mut found = Vec::new();
    let absent = json!({ "step": "absent" });
    for index in 0..left.len().max(right.len()) {
        let (l, r) = (
            left.get(index).unwrap_or(&absent),
            right.get(index).unwrap_or(&absent),
        );
        let name = if l == &absent { r } else { l }["step"]
            .as_str()
            .unwrap_or_default();
        compare(&format!("{}:{name}", index + 1), l, r, &mut found);
    }
    found
}

fn compare(path: &str, left: &Value, right: &Value, found: &mut Vec<Difference>) {
    match (left, right) {
        (Value::Object(l), Value::Object(r)) => {
            let mut names: Vec<_> = l
                .keys()
                .chain(r.keys().filter(|name| !l.contains_key(*name)))
                .collect();
            names.sort();
            for name in names {
                let inner = if name == "answer" {
                    path.to_owned()
                } else {
                    format!("{path}.{name}")
                };
                match (l.get(name), r.get(name)) {
                    (Some(l), Some(r)) => compare(&inner, l, r, found),
                    (l, r) => found.push(Difference {
                        path: inner,
                        left: shown(l),
                        right: shown(r),
                    }),
                }
            }
        }
        (Value::Array(l), Value::Array(r)) => {
            for index in 0..l.len().max(r.len()) {
                let inner = format!("{path}[{index}]");
                match (l.get(index), r.get(index)) {
                    (Some(l), Some(r)) => compare(&inner, l, r, found),
                    (l, r) => found.push(Difference {
                        path: inner,
                        left: shown(l),
                        right: shown(r),
                    }),
                }
            }
        }
        _ if left == right => {}
        _ => found.push(Difference {
            path: path.to_owned(),
            left: shown(Some(left)),
            right: shown(Some(right)),
        }),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), Value::to_string)
}
