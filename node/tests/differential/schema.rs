//! The message schemas that ship inside Kafka's own client library, read from its jar: the last word on
//! the wire format, and a codec independent of the one the broker under test uses.

use std::{collections::BTreeMap, fs, ops::RangeInclusive, path::Path};

use serde_json::Value;

/// One request or response type.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) valid: RangeInclusive<i16>,
    pub(crate) flexible: Versions,
    pub(crate) fields: Vec<Field>,
}

/// One field of a message or of a structure inside it.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) versions: Versions,
    pub(crate) nullable: Versions,
    pub(crate) tagged: Versions,
    pub(crate) tag: u32,
    /// What an absent field means; already typed for the wire.
    pub(crate) default: Value,
    /// Whether this field keeps its own, older layout in flexible versions.
    pub(crate) never_flexible: bool,
}

/// The type of a field.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    Array(Box<Self>),
    Struct(Vec<Field>),
}

/// A range of versions as the schemas write it: `3+`, `0-4`, `7` or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Versions {
    from: i16,
    to: i16,
}

impl Versions {
    const NONE: Self = Self { from: 0, to: -1 };

    pub(crate) fn contains(self, version: i16) -> bool {
        (self.from..=self.to).contains(&version)
    }

    fn parse(text: &str) -> Self {
        let number = |part: &str| {
            part.parse()
                .unwrap_or_else(|_| panic!("version range {text:?}"))
        };
        if text == "none" {
            Self::NONE
        } else if let Some(from) = text.strip_suffix('+') {
            Self {
                from: number(from),
                to: i16::MAX,
            }
        } else if let Some((from, to)) = text.split_once('-') {
            Self {
                from: number(from),
                to: number(to),
            }
        } else {
            Self {
                from: number(text),
                to: number(text),
            }
        }
    }

    fn of(field: &Value, key: &str) -> Self {
        field[key].as_str().map_or(Self::NONE, Self::parse)
    }
}

/// Every API of the client library, by its name ("Produce").
#[derive(Debug)]
pub(crate) struct Schemas {
    apis: BTreeMap<String, Api>,
}

/// The two messages of one API.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) key: i16,
    pub(crate) request: Message,
    pub(crate) response: Message,
}

impl Schemas {
    /// Reads all `*Request.json` and `*Response.json` of a folder.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut apis = BTreeMap::new();
        let entries =
            fs::read_dir(folder).unwrap_or_else(|e| panic!("schemas in {}: {e}", folder.display()));
        for entry in entries {
            let path = entry.expect("a readable schema folder").path();
            let Some(name) = path
                .file_name()
                .and_then(|n| n.to_str()?.strip_suffix("Request.json"))
            else {
                continue;
            };
            let request = parse_json(&path);
            let response = parse_json(&folder.join(format!("{name}Response.json")));
            if request["validVersions"] == "none" {
                continue;
            }
            let key = request["apiKey"]
                .as_i64()
                .and_then(|k| i16::try_from(k).ok())
                .expect("an api key");
            let api = Api {
                key,
                request: message(&request),
                response: message(&response),
            };
            apis.insert(name.to_owned(), api);
        }
        Self { apis }
    }

    pub(crate) fn api(&self, name: &str) -> &Api {
        self.apis
            .get(name)
            .unwrap_or_else(|| panic!("no API is called {name}"))
    }
}

/// Kafka's schema files are JSON with whole-line comments.
fn parse_json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let bare: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    serde_json::from_str(&bare).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn message(json: &Value) -> Message {
    let valid = Versions::of(json, "validVersions");
    let mut common = BTreeMap::new();
    for shared in json["commonStructs"].as_array().into_iter().flatten() {
        let name = shared["name"].as_str().expect("a name").to_owned();
        common.insert(name, fields(&shared["fields"], &BTreeMap::new()));
    }
    Message {
        valid: valid.from..=valid.to,
        flexible: Versions::of(json, "flexibleVersions"),
        fields: fields(&json["fields"], &common),
    }
}

fn fields(json: &Value, common: &BTreeMap<String, Vec<Field>>) -> Vec<Field> {
    json.as_array()
        .into_iter()
        .flatten()
        .map(|field| parse_field(field, common))
        .collect()
}

fn parse_field(json: &Value, common: &BTreeMap<String, Vec<Field>>) -> Field {
    let name = json["name"].as_str().expect("a field name");
    let kind = kind(json["type"].as_str().expect("a field type"), json, common);
    Field {
        name: lower_camel(name),
        default: default(&json["default"], &kind),
        kind,
        versions: Versions::of(json, "versions"),
        nullable: Versions::of(json, "nullableVersions"),
        tagged: Versions::of(json, "taggedVersions"),
        tag: json["tag"]
            .as_u64()
            .and_then(|t| u32::try_from(t).ok())
            .unwrap_or_default(),
        never_flexible: json["flexibleVersions"] == "none",
    }
}

fn kind(text: &str, json: &Value, common: &BTreeMap<String, Vec<Field>>) -> Kind {
    match text {
        "bool" => Kind::Bool,
        "int8" => Kind::Int8,
        "int16" => Kind::Int16,
        "uint16" => Kind::Uint16,
        "int32" => Kind::Int32,
        "uint32" => Kind::Uint32,
        "int64" => Kind::Int64,
        "float64" => Kind::Float64,
        "uuid" => Kind::Uuid,
        "string" => Kind::String,
        "bytes" | "records" => Kind::Bytes,
        _ => match text.strip_prefix("[]") {
            Some(element) => Kind::Array(Box::new(kind(element, json, common))),
            None if json["fields"].is_array() => Kind::Struct(fields(&json["fields"], common)),
            None => Kind::Struct(common.get(text).cloned().unwrap_or_default()),
        },
    }
}

fn default(json: &Value, kind: &Kind) -> Value {
    let text = json
        .as_str()
        .map_or_else(|| json.to_string(), str::to_owned);
    if text == "null" && !json.is_null() {
        return Value::Null;
    }
    match kind {
        Kind::Bool => (text == "true").into(),
        Kind::Int8 | Kind::Int16 | Kind::Uint16 | Kind::Int32 | Kind::Uint32 | Kind::Int64 => {
            integer(&text).into()
        }
        Kind::Float64 => text.parse::<f64>().unwrap_or_default().into(),
        Kind::Uuid => "00000000-0000-0000-0000-000000000000".into(),
        Kind::String => json.as_str().unwrap_or_default().into(),
        Kind::Bytes => "0x".into(),
        Kind::Array(_) => Value::Array(Vec::new()),
        Kind::Struct(_) => Value::Object(serde_json::Map::new()),
    }
}

fn integer(text: &str) -> i64 {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).unwrap_or_default(),
        None => text.parse().unwrap_or_default(),
    }
}

fn lower_camel(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}
