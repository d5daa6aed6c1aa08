//! Selects the exposition format and encoding from a scraper's headers.

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExpositionFormat {
    /// `text/plain; version=0.0.4`, which every scraper understands.
    Classic,
    OpenMetrics,
    /// Delimited `io.prometheus.client.MetricFamily` messages, with native histograms.
    Protobuf,
}

impl ExpositionFormat {
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// The format preferred by an Accept header; classic text by default. Protobuf needs the setting
/// `native_histograms`: a scraper that reads native histograms may drop the fixed buckets. Equal
/// preferences select the richer format.
pub fn exposition_format(accept: Option<&str>, native_histograms: bool) -> ExpositionFormat {
    let (mut protobuf, mut open_metrics, mut classic) = (0, 0, 0);
    for element in accept.unwrap_or("").split(',').map(parse_element) {
        match element.name.as_str() {
            "application/vnd.google.protobuf"
                if native_histograms
                    && element.proto == Some("io.prometheus.client.MetricFamily")
                    && element.encoding == Some("delimited") =>
            {
                protobuf = protobuf.max(element.quality)
            }
            "application/openmetrics-text"
                if matches!(element.version, None | Some("1.0.0" | "0.0.1")) =>
            {
                open_metrics = open_metrics.max(element.quality)
            }
            "text/plain" | "text/*" | "*/*" => classic = classic.max(element.quality),
            _ => {}
        }
    }
    if protobuf > 0 && protobuf >= open_metrics.max(classic) {
        ExpositionFormat::Protobuf
    } else if open_metrics > 0 && open_metrics >= classic {
        ExpositionFormat::OpenMetrics
    } else {
        ExpositionFormat::Classic
    }
}

pub fn accepts_gzip(accept_encoding: Option<&str>) -> bool {
    let mut wildcard = false;
    for element in accept_encoding.unwrap_or("").split(',').map(parse_element) {
        match element.name.as_str() {
            "gzip" | "x-gzip" => return element.quality > 0,
            "*" => wildcard = element.quality > 0,
            _ => {}
        }
    }
    wildcard
}

struct AcceptElement<'a> {
    /// In lower case.
    name: String,
    /// In thousandths. An invalid quality counts as 0.
    quality: u32,
    version: Option<&'a str>,
    proto: Option<&'a str>,
    encoding: Option<&'a str>,
}

fn parse_element(text: &str) -> AcceptElement<'_> {
    let mut parts = text.split(';').map(str::trim);
    let mut element = AcceptElement {
        name: parts.next().unwrap_or("").to_ascii_lowercase(),
        quality: 1000,
        version: None,
        proto: None,
        encoding: None,
    };
    for (key, value) in parts.filter_map(|p| p.split_once('=')) {
        let value = value.trim();
        let unquoted = value.trim_matches('"');
        match key.trim().to_ascii_lowercase().as_str() {
            "q" => {
                element.quality = value
                    .parse::<f32>()
                    .map_or(0, |q| (q.clamp(0.0, 1.0) * 1000.0) as u32)
            }
            "version" => element.version = Some(unquoted),
            "proto" => element.proto = Some(unquoted),
            "encoding" => element.encoding = Some(unquoted),
            _ => {}
        }
    }
    element
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn openmetrics_is_sent_when_the_scraper_prefers_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(
            exposition_format(Some(prometheus), false),
            ExpositionFormat::OpenMetrics
        );
    }

    #[test]
    fn accept_headers_may_have_capital_letters_and_quoted_values() {
        for accept in [
            "Application/OpenMetrics-Text;VERSION=1.0.0,text/plain;q=0.5",
            "application/openmetrics-text;version=\"1.0.0\",text/plain;q=0.5",
            "application/openmetrics-text;q=0.5,text/plain;Q=0.2",
        ] {
            assert_eq!(
                exposition_format(Some(accept), false),
                ExpositionFormat::OpenMetrics,
                "{accept}"
            );
        }
    }

    #[test]
    fn curl_and_scrapers_of_plain_text_get_classic_text() {
        assert_eq!(exposition_format(None, false), ExpositionFormat::Classic);
        assert_eq!(
            exposition_format(Some("*/*"), false),
            ExpositionFormat::Classic
        );
        assert_eq!(
            exposition_format(Some("text/plain;version=0.0.4;q=1,*/*;q=0.1"), false),
            ExpositionFormat::Classic
        );
        assert_eq!(
            exposition_format(
                Some("application/openmetrics-text;q=0.2,text/plain;q=0.8"),
                false
            ),
            ExpositionFormat::Classic
        );
        assert_eq!(
            exposition_format(Some("application/openmetrics-text;q=0"), false),
            ExpositionFormat::Classic
        );
        assert_eq!(
            exposition_format(
                Some("application/openmetrics-text;version=2.0.0,text/plain;q=0.5"),
                false
            ),
            ExpositionFormat::Classic
        );
    }

    /// What Prometheus 2.42 sends with native histograms enabled.
    const NATIVE: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

    #[test]
    fn protobuf_is_sent_only_where_it_is_preferred_and_allowed() {
        assert_eq!(
            exposition_format(Some(NATIVE), true),
            ExpositionFormat::Protobuf
        );
        assert_eq!(
            exposition_format(Some(NATIVE), false),
            ExpositionFormat::OpenMetrics
        );
        assert_eq!(exposition_format(None, true), ExpositionFormat::Classic);
        assert_eq!(
            exposition_format(Some("*/*"), true),
            ExpositionFormat::Classic
        );
        let least = NATIVE.replace("delimited", "delimited;q=0.2");
        assert_eq!(
            exposition_format(Some(&least), true),
            ExpositionFormat::OpenMetrics
        );
        assert_eq!(
            exposition_format(Some(&NATIVE.replace("delimited", "delimited;q=0")), true),
            ExpositionFormat::OpenMetrics
        );
    }

    #[test]
    fn protobuf_of_other_messages_or_framing_is_not_selected() {
        for other in [
            NATIVE.replace("delimited", "text"),
            NATIVE.replace("MetricFamily", "Other"),
        ] {
            assert_eq!(
                exposition_format(Some(&other), true),
                ExpositionFormat::OpenMetrics,
                "{other}"
            );
        }
        assert_eq!(
            exposition_format(Some("application/vnd.google.protobuf"), true),
            ExpositionFormat::Classic
        );
    }

    #[test]
    fn gzip_is_used_only_where_accepted() {
        assert!(accepts_gzip(Some("gzip")));
        assert!(accepts_gzip(Some("deflate, gzip;q=0.5")));
        assert!(accepts_gzip(Some("*")));
        assert!(!accepts_gzip(Some("gzip;q=0")));
        assert!(!accepts_gzip(Some("gzip;Q=0")));
        assert!(accepts_gzip(Some("GZIP")));
        assert!(!accepts_gzip(Some("*, gzip;q=0")));
        assert!(!accepts_gzip(Some("br")));
        assert!(!accepts_gzip(None));
    }

    fn header() -> impl Strategy<Value = Vec<String>> {
        let media = prop_oneof![
            Just("application/openmetrics-text".to_owned()),
            Just("application/vnd.google.protobuf".to_owned()),
            Just("text/plain".to_owned()),
            Just("*/*".to_owned()),
            Just("gzip".to_owned()),
            Just("*".to_owned()),
            any::<String>(),
        ];
        let parameter = prop_oneof![
            Just(String::new()),
            Just(";version=1.0.0".to_owned()),
            any::<f32>().prop_map(|q| format!("; q={q}")),
            "[;=q. 0-9é-]{0,12}",
        ];
        let element = (media, parameter)
            .prop_map(|(media, parameter)| (media + &parameter).replace(',', ";"));
        proptest::collection::vec(element, 0..8)
    }

    proptest! {
        #[test]
        fn format_negotiation_ignores_the_order_of_accept_elements(elements in header(), native: bool) {
            let reversed: Vec<String> = elements.iter().rev().cloned().collect();
            prop_assert_eq!(exposition_format(Some(&elements.join(",")), native), exposition_format(Some(&reversed.join(",")), native));
        }

        #[test]
        fn responses_are_gzipped_only_if_gzip_or_any_encoding_is_accepted(elements in header()) {
            let text = elements.join(",");
            if accepts_gzip(Some(&text)) {
                prop_assert!(text.to_ascii_lowercase().contains("gzip") || text.contains('*'), "{}", text);
            }
        }
    }
}
