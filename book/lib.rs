//! Seedlog's manual, as a package: the Rust examples in its pages are compiled and run, its tables are compared with the code.
//!
//! The pages are in `book/src`; read them there, or with `mdbook serve book`.

/// The pages that have Rust examples; others are only text.
#[cfg(doctest)]
pub mod pages {
    #[doc = include_str!("src/architecture/boundary.md")]
    pub struct Boundary;

    #[doc = include_str!("src/reference/settings.md")]
    pub struct Settings;

    #[doc = include_str!("src/testing/simulator.md")]
    pub struct Simulator;
}

#[cfg(test)]
mod tests {
    use seedlog_core::{
        config::{broker_keys, topic_keys},
        protocol::ApiKey,
    };

    const APIS: &str = include_str!("src/reference/apis.md");
    const SETTINGS: &str = include_str!("src/reference/settings.md");

    /// Returns the rows of the table behind a mark, without its head.
    fn table<'page>(page: &'page str, mark: &str) -> Vec<Vec<&'page str>> {
        let (_, rest) = page.split_once(mark).expect("the mark is there");
        let (table, _) = rest
            .split_once("<!-- end -->")
            .expect("the table has an end");
        let rows = table
            .lines()
            .filter(|line| line.starts_with('|') && !line.starts_with("| ---"));
        let cells = |line: &'page str| line.split('|').map(str::trim).collect();
        rows.skip(1).map(cells).collect()
    }

    #[test]
    fn apis_are_those_that_are_served() {
        let written: Vec<_> = table(APIS, "<!-- apis -->")
            .into_iter()
            .map(|row| row[1..5].join(" "))
            .collect();
        let range =
            |range: seedlog_core::protocol::VersionRange| format!("{}–{}", range.min, range.max);
        let served: Vec<_> = ApiKey::ALL
            .iter()
            .map(|api| {
                let spec = api.spec();
                let (served, advertised) = (range(spec.served), range(spec.advertised));
                format!("{} {} {served} {advertised}", spec.name, api.key())
            })
            .collect();
        assert_eq!(written, served);
    }

    #[test]
    fn settings_with_an_effect_are_those_of_the_core() {
        for (mark, keys) in [
            (
                "<!-- broker settings -->",
                broker_keys().collect::<Vec<_>>(),
            ),
            ("<!-- topic settings -->", topic_keys().iter().collect()),
        ] {
            let written: Vec<_> = table(SETTINGS, mark)
                .into_iter()
                .map(|row| (row[1].trim_matches('`'), row[2].trim_matches('`')))
                .collect();
            let mut honoured: Vec<_> = keys
                .into_iter()
                .filter(|key| key.is_honoured())
                .map(|key| (key.name(), key.default_text().unwrap_or_default()))
                .collect();
            honoured.sort_unstable();
            assert_eq!(written, honoured, "{mark}");
        }
    }
}
