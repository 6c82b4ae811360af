//! Types of config values, and how text becomes a value and a value text again.

use std::fmt;

/// The type of a config, with the number that `DescribeConfigs` answers carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigType {
    /// `true` or `false`, in any case.
    Boolean,
    /// Text without surrounding white space.
    String,
    /// A 32-bit number.
    Int,
    /// A 16-bit number.
    Short,
    /// A 64-bit number.
    Long,
    /// A fraction.
    Double,
    /// Items separated by commas.
    List,
    /// The name of a Java class.
    Class,
    /// Text that is never shown.
    Password,
}

impl ConfigType {
    /// Returns Kafka's number of the type in `DescribeConfigs` answers.
    #[must_use]
    pub const fn code(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }

    /// Returns whether values of this type are hidden from answers.
    #[must_use]
    pub const fn is_sensitive(self) -> bool {
        matches!(self, Self::Password)
    }

    /// Parses `text` as this type; `name` is for the message of a failure.
    pub(super) fn parse(self, name: &str, text: &str) -> Result<ConfigValue, ConfigError> {
        let trimmed = trim(text);
        let not_a_number =
            |kind: &str| ConfigError::value(name, text, &format!("Not a number of type {kind}"));
        Ok(match self {
            Self::Boolean if trimmed.eq_ignore_ascii_case("true") => ConfigValue::Boolean(true),
            Self::Boolean if trimmed.eq_ignore_ascii_case("false") => ConfigValue::Boolean(false),
            Self::Boolean => {
                return Err(ConfigError::value(
                    name,
                    text,
                    "Expected value to be either true or false",
                ));
            }
            Self::String | Self::Class | Self::Password => ConfigValue::Text(trimmed.to_owned()),
            Self::Int => ConfigValue::Int(trimmed.parse().map_err(|_| not_a_number("INT"))?),
            Self::Short => ConfigValue::Short(trimmed.parse().map_err(|_| not_a_number("SHORT"))?),
            Self::Long => ConfigValue::Long(trimmed.parse().map_err(|_| not_a_number("LONG"))?),
            Self::Double => {
                ConfigValue::Double(parse_double(trimmed).ok_or_else(|| not_a_number("DOUBLE"))?)
            }
            Self::List if trimmed.is_empty() => ConfigValue::List(Vec::new()),
            Self::List => ConfigValue::List(
                trimmed
                    .split(',')
                    .map(|item| trim(item).to_owned())
                    .collect(),
            ),
        })
    }
}

/// A parsed config value.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigValue {
    /// A [`ConfigType::Boolean`].
    Boolean(bool),
    /// A [`ConfigType::Int`].
    Int(i32),
    /// A [`ConfigType::Short`].
    Short(i16),
    /// A [`ConfigType::Long`].
    Long(i64),
    /// A [`ConfigType::Double`]; compared with its bounds and shown, never computed with.
    Double(f64),
    /// A [`ConfigType::String`], [`ConfigType::Class`] or [`ConfigType::Password`].
    Text(String),
    /// A [`ConfigType::List`].
    List(Vec<String>),
}

impl ConfigValue {
    /// Returns the value as a 64-bit number, if it is a whole number.
    #[must_use]
    pub fn as_long(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(i64::from(*value)),
            Self::Short(value) => Some(i64::from(*value)),
            Self::Long(value) => Some(*value),
            Self::Boolean(_) | Self::Double(_) | Self::Text(_) | Self::List(_) => None,
        }
    }
}

/// Writes the value as Kafka shows it: trimmed, in plain digits, lists joined by commas.
impl fmt::Display for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Short(value) => value.fmt(f),
            Self::Long(value) => value.fmt(f),
            Self::Double(value) => write_double(f, *value),
            Self::Text(value) => f.write_str(value),
            Self::List(items) => f.write_str(&items.join(",")),
        }
    }
}

/// A value that Kafka's checks refuse, in Kafka's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    message: String,
}

impl ConfigError {
    /// Makes an error with a message of its own.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    /// Makes the error for one value of one config.
    pub(super) fn value(name: &str, value: impl fmt::Display, why: &str) -> Self {
        Self::new(format!(
            "Invalid value {value} for configuration {name}: {why}"
        ))
    }

    /// Returns the message, as it stands in answers.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Cuts what Java's `String.trim` cuts: every character up to the space.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|character| character <= ' ')
}

/// Reads a decimal fraction as Java does, without its hexadecimal, `NaN` and `Infinity` forms.
fn parse_double(text: &str) -> Option<f64> {
    let digits = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let plain = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if plain { digits.parse().ok() } else { None }
}

/// Writes a fraction as Java does: at least one digit after the point, and `E` notation outside 0.001..10,000,000.
fn write_double(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    let size = value.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return write!(f, "{value:?}");
    }
    let scientific = format!("{value:E}");
    match scientific.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => write!(f, "{digits}.0E{exponent}"),
        _ => f.write_str(&scientific),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: ConfigType, text: &str) -> String {
        match kind.parse("some.name", text) {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn numbers_are_read_and_shown_as_java_does() {
        assert_eq!(shown(ConfigType::Int, " 007 "), "7");
        assert_eq!(shown(ConfigType::Int, "+5"), "5");
        assert_eq!(
            shown(ConfigType::Int, "2147483648"),
            "Invalid value 2147483648 for configuration some.name: Not a number of type INT"
        );
        assert_eq!(
            shown(ConfigType::Long, " x"),
            "Invalid value  x for configuration some.name: Not a number of type LONG"
        );
        assert_eq!(
            shown(ConfigType::Short, "40000"),
            "Invalid value 40000 for configuration some.name: Not a number of type SHORT"
        );
        assert_eq!(shown(ConfigType::Double, "0.50"), "0.5");
        assert_eq!(shown(ConfigType::Double, "1"), "1.0");
        assert_eq!(shown(ConfigType::Double, "0.0001"), "1.0E-4");
        assert_eq!(
            shown(ConfigType::Double, "1.7976931348623157E308"),
            "1.7976931348623157E308"
        );
    }

    #[test]
    fn lists_keep_empty_items_between_commas() {
        assert_eq!(
            ConfigType::List.parse("l", " a , b,").unwrap(),
            ConfigValue::List(vec!["a".into(), "b".into(), String::new()])
        );
        assert_eq!(
            ConfigType::List.parse("l", "  ").unwrap(),
            ConfigValue::List(Vec::new())
        );
    }

    #[test]
    fn booleans_are_two_words() {
        assert_eq!(shown(ConfigType::Boolean, "TRUE"), "true");
        assert_eq!(
            shown(ConfigType::Boolean, "yes"),
            "Invalid value yes for configuration some.name: Expected value to be either true or false"
        );
    }
}
