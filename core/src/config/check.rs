//! What a parsed config value must satisfy, with Kafka's messages.

use super::kind::{ConfigError, ConfigValue};

/// A check on a parsed value.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// Anything the type allows.
    Any,
    /// A whole number of at least this.
    AtLeast(i64),
    /// A whole number from the first to the second, both included.
    Between(i64, i64),
    /// A fraction between two bounds, both included; as text, which is how they are shown.
    Ratio {
        /// The smallest value.
        min: &'static str,
        /// The largest value.
        max: &'static str,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, in any case.
    OneOfNoCase(&'static [&'static str]),
    /// A list without empty items, of these words alone.
    ListOf {
        /// The words.
        values: &'static [&'static str],
        /// Whether the list may be empty.
        empty: bool,
    },
    /// A list without empty items.
    AnyList {
        /// Whether the list may be empty.
        empty: bool,
    },
    /// Text that is not empty.
    NonEmpty,
    /// A gzip level: -1, or 1 to 9.
    GzipLevel,
    /// `partition:broker` pairs, or `*`.
    ThrottledReplicas,
    /// `id@host:port` entries.
    QuorumVoters,
}

impl Check {
    /// Checks `value`; a list that a check of lists covers loses its duplicates first, as in Kafka.
    pub(super) fn apply(self, name: &str, value: ConfigValue) -> Result<ConfigValue, ConfigError> {
        match (self, value) {
            (Self::ListOf { values, empty }, ConfigValue::List(items)) => {
                let items = distinct(items);
                check_list(name, &items, values, empty)?;
                Ok(ConfigValue::List(items))
            }
            (Self::AnyList { empty }, ConfigValue::List(items)) => {
                let items = distinct(items);
                check_list(name, &items, &[], empty)?;
                Ok(ConfigValue::List(items))
            }
            (Self::ThrottledReplicas, ConfigValue::List(items)) => {
                check_throttled(name, &items)?;
                Ok(ConfigValue::List(items))
            }
            (Self::QuorumVoters, ConfigValue::List(items)) => {
                check_voters(name, &items)?;
                Ok(ConfigValue::List(items))
            }
            (_, ConfigValue::Text(text)) => {
                self.text(name, &text).map(|()| ConfigValue::Text(text))
            }
            (Self::Ratio { min, max }, ConfigValue::Double(number)) => {
                check_ratio(name, number, min, max).map(|()| ConfigValue::Double(number))
            }
            (_, value) => match value.as_long() {
                Some(number) => self.number(name, number).map(|()| value),
                None => Ok(value),
            },
        }
    }

    fn number(self, name: &str, number: i64) -> Result<(), ConfigError> {
        let refuse = |why: String| Err(ConfigError::value(name, number, &why));
        match self {
            Self::AtLeast(min) | Self::Between(min, _) if number < min => {
                refuse(format!("Value must be at least {min}"))
            }
            Self::Between(_, max) if number > max => {
                refuse(format!("Value must be no more than {max}"))
            }
            Self::GzipLevel if number != -1 && !(1..=9).contains(&number) => {
                refuse("Value must be between 1 and 9 or equal to -1".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn text(self, name: &str, text: &str) -> Result<(), ConfigError> {
        match self {
            Self::OneOf(words) => one_of(name, text, words),
            Self::OneOfNoCase(words)
                if !words.iter().any(|word| word.eq_ignore_ascii_case(text)) =>
            {
                let why = format!(
                    "String must be one of (case insensitive): {}",
                    words.join(", ")
                );
                Err(ConfigError::value(name, text, &why))
            }
            Self::NonEmpty if text.is_empty() => {
                Err(ConfigError::value(name, text, "String must be non-empty"))
            }
            _ => Ok(()),
        }
    }
}

fn distinct(items: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(items.len());
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

fn check_list(
    name: &str,
    items: &[String],
    values: &[&str],
    empty_allowed: bool,
) -> Result<(), ConfigError> {
    if items.is_empty() && !empty_allowed {
        let valid = if values.is_empty() {
            "any non-empty value".to_owned()
        } else {
            format!("[{}]", values.join(", "))
        };
        return Err(ConfigError::new(format!(
            "Configuration '{name}' must not be empty. Valid values include: {valid}"
        )));
    }
    for item in items {
        if item.is_empty() {
            return Err(ConfigError::new(format!(
                "Configuration '{name}' values must not be empty."
            )));
        }
        if !values.is_empty() {
            one_of(name, item, values)?;
        }
    }
    Ok(())
}

fn one_of(name: &str, text: &str, words: &[&str]) -> Result<(), ConfigError> {
    if words.contains(&text) {
        return Ok(());
    }
    Err(ConfigError::value(
        name,
        text,
        &format!("String must be one of: {}", words.join(", ")),
    ))
}

fn check_ratio(name: &str, number: f64, min: &str, max: &str) -> Result<(), ConfigError> {
    let bound = |text: &str| text.parse::<f64>().unwrap_or(number);
    let shown = ConfigValue::Double(number);
    if number < bound(min) {
        return Err(ConfigError::value(
            name,
            shown,
            &format!("Value must be at least {min}"),
        ));
    }
    if number > bound(max) {
        return Err(ConfigError::value(
            name,
            shown,
            &format!("Value must be no more than {max}"),
        ));
    }
    Ok(())
}

fn check_throttled(name: &str, items: &[String]) -> Result<(), ConfigError> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let pair = |text: &String| {
        text.is_empty()
            || text
                .split_once(':')
                .is_some_and(|(partition, broker)| digits(partition) && digits(broker))
    };
    if items.iter().all(pair) || items.concat() == "*" {
        return Ok(());
    }
    let why = format!(
        "{name} must be the literal '*' or a list of replicas in the following format: \
         [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    );
    Err(ConfigError::value(
        name,
        format!("[{}]", items.join(", ")),
        &why,
    ))
}

fn check_voters(name: &str, items: &[String]) -> Result<(), ConfigError> {
    for item in items {
        let valid = item.split_once('@').is_some_and(|(id, address)| {
            let port = address.rsplit_once(':').and_then(|(host, port)| {
                if host.is_empty() {
                    None
                } else {
                    port.parse::<u16>().ok()
                }
            });
            id.parse::<i32>().is_ok_and(|id| id >= 0) && port.is_some()
        });
        if !valid {
            return Err(ConfigError::value(
                name,
                format!("[{}]", items.join(", ")),
                &format!("'{item}' is not of the form id@host:port"),
            ));
        }
    }
    Ok(())
}
