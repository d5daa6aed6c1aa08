//! Which dialect and which encoding a scraper's headers ask for.

/// A dialect of the text exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `text/plain; version=0.0.4`: what every scraper and curl understand.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Dialect {
    /// The Content-Type of the answer.
    pub const fn content_type(self) -> &'static str {
        match self {
            Dialect::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Dialect::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The dialect an Accept header prefers; classic text where it asks for neither, or asks for nothing.
pub fn dialect(accept: Option<&str>) -> Dialect {
    let (mut open, mut classic) = (0, 0);
    for (media, quality, version) in accept.unwrap_or("").split(',').map(media_range) {
        match media {
            "application/openmetrics-text" if matches!(version, None | Some("1.0.0" | "0.0.1")) => {
                open = open.max(quality)
            }
            "text/plain" | "text/*" | "*/*" => classic = classic.max(quality),
            _ => {}
        }
    }
    if open > 0 && open >= classic { Dialect::OpenMetrics } else { Dialect::Classic }
}

/// Whether an Accept-Encoding header takes gzip.
pub fn accepts_gzip(accept_encoding: Option<&str>) -> bool {
    let mut star = false;
    for (coding, quality, _) in accept_encoding.unwrap_or("").split(',').map(media_range) {
        match coding {
            "gzip" | "x-gzip" => return quality > 0,
            "*" => star = quality > 0,
            _ => {}
        }
    }
    star
}

/// (media type or coding, quality in thousandths, version) of one element. A quality that is no number counts as 0.
fn media_range(element: &str) -> (&str, u32, Option<&str>) {
    let mut parts = element.split(';').map(str::trim);
    let media = parts.next().unwrap_or("");
    let (mut quality, mut version) = (1000, None);
    for (key, value) in parts.filter_map(|p| p.split_once('=')) {
        match key.trim() {
            "q" => quality = value.trim().parse::<f32>().map_or(0, |q| (q.clamp(0.0, 1.0) * 1000.0) as u32),
            "version" => version = Some(value.trim()),
            _ => {}
        }
    }
    (media, quality, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_openmetrics_when_it_prefers_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(dialect(Some(prometheus)), Dialect::OpenMetrics);
    }

    #[test]
    fn curl_and_scrapers_of_plain_text_get_classic_text() {
        assert_eq!(dialect(None), Dialect::Classic);
        assert_eq!(dialect(Some("*/*")), Dialect::Classic);
        assert_eq!(dialect(Some("text/plain;version=0.0.4;q=1,*/*;q=0.1")), Dialect::Classic);
        assert_eq!(dialect(Some("application/openmetrics-text;q=0.2,text/plain;q=0.8")), Dialect::Classic);
        assert_eq!(dialect(Some("application/openmetrics-text;q=0")), Dialect::Classic);
        assert_eq!(dialect(Some("application/openmetrics-text;version=2.0.0,text/plain;q=0.5")), Dialect::Classic);
    }

    #[test]
    fn gzip_is_used_only_where_it_is_taken() {
        assert!(accepts_gzip(Some("gzip")));
        assert!(accepts_gzip(Some("deflate, gzip;q=0.5")));
        assert!(accepts_gzip(Some("*")));
        assert!(!accepts_gzip(Some("gzip;q=0")));
        assert!(!accepts_gzip(Some("*, gzip;q=0")));
        assert!(!accepts_gzip(Some("br")));
        assert!(!accepts_gzip(None));
    }
}
