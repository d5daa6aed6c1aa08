//! One panel: what is asked, how it is drawn, and what its reader should do about it.

mod json;

use serde_json::{Map, Value, json};

/// Where runbooks are published: a placeholder which the operator replaces in one go, as in the alerts.
pub(crate) const RUNBOOKS: &str = "https://faultline.example/docs/runbooks/";

/// What an expression has in its braces for the validator that is looked at.
const CHOSEN: &str = r#"job=~"$job", instance=~"$instance""#;

/// The kinds of panel that are used: those which can be drawn and looked at without a Grafana server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    TimeSeries,
    Stat,
    BarGauge,
    Table,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::TimeSeries => "timeseries",
            Kind::Stat => "stat",
            Kind::BarGauge => "bargauge",
            Kind::Table => "table",
        }
    }
}

/// How a limit's line is told from others.
const LINE_STYLE: &str = "custom.lineStyle";

/// One question to Prometheus.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) expression: String,
    pub(crate) legend: String,
}

/// Something that is only drawn, by the name of the series or column it holds for.
#[derive(Debug, Clone)]
struct Override {
    name: String,
    properties: Vec<(&'static str, Value)>,
}

/// A panel, built up word by word.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    kind: Kind,
    pub(crate) title: &'static str,
    pub(crate) shows: &'static str,
    pub(crate) act: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) queries: Vec<Query>,
    pub(crate) runbooks: Vec<&'static str>,
    pub(crate) leads_to: Option<&'static str>,
    pub(crate) width: u64,
    pub(crate) height: u64,
    defaults: Map<String, Value>,
    custom: Map<String, Value>,
    options: Map<String, Value>,
    overrides: Vec<Override>,
    names: Vec<(String, &'static str)>,
    unread: Vec<String>,
    slow: bool,
}

fn panel(kind: Kind, title: &'static str, width: u64, height: u64) -> Panel {
    Panel {
        kind,
        title,
        shows: "",
        act: "",
        unit: "",
        queries: Vec::new(),
        runbooks: Vec::new(),
        leads_to: None,
        width,
        height,
        defaults: Map::new(),
        custom: Map::new(),
        options: Map::new(),
        overrides: Vec::new(),
        names: Vec::new(),
        unread: Vec::new(),
        slow: false,
    }
}

/// Lines over time.
pub(crate) fn lines(title: &'static str) -> Panel {
    let mut panel = panel(Kind::TimeSeries, title, 12, 8);
    for (name, value) in [
        ("lineWidth", json!(1)),
        ("fillOpacity", json!(0)),
        ("showPoints", json!("never")),
        ("spanNulls", json!(false)),
        ("drawStyle", json!("line")),
    ] {
        panel.custom.insert(name.to_owned(), value);
    }
    panel.options.insert("tooltip".to_owned(), json!({ "mode": "multi", "sort": "desc" }));
    panel
        .options
        .insert("legend".to_owned(), json!({ "displayMode": "list", "placement": "bottom", "showLegend": true }));
    panel
}

/// The newest number, large.
pub(crate) fn stat(title: &'static str) -> Panel {
    let mut panel = panel(Kind::Stat, title, 4, 4);
    panel
        .options
        .insert("reduceOptions".to_owned(), json!({ "calcs": ["lastNotNull"], "fields": "", "values": false }));
    panel.options.insert("colorMode".to_owned(), json!("value"));
    panel.options.insert("graphMode".to_owned(), json!("none"));
    panel
}

/// A bar for each series.
pub(crate) fn bars(title: &'static str) -> Panel {
    let mut panel = panel(Kind::BarGauge, title, 8, 8);
    panel
        .options
        .insert("reduceOptions".to_owned(), json!({ "calcs": ["lastNotNull"], "fields": "", "values": false }));
    panel.options.insert("orientation".to_owned(), json!("horizontal"));
    panel.options.insert("displayMode".to_owned(), json!("basic"));
    panel.options.insert("valueMode".to_owned(), json!("text"));
    panel.options.insert("showUnfilled".to_owned(), json!(true));
    panel.options.insert("minVizHeight".to_owned(), json!(16));
    panel.options.insert("maxVizHeight".to_owned(), json!(28));
    panel.defaults.insert("min".to_owned(), json!(0));
    panel
}

/// A row for each thing, a column for each question and label.
pub(crate) fn table(title: &'static str) -> Panel {
    let mut panel = panel(Kind::Table, title, 24, 8);
    panel.custom.insert("align".to_owned(), json!("auto"));
    panel.custom.insert("minWidth".to_owned(), json!(60));
    panel.options.insert("showHeader".to_owned(), json!(true));
    panel.options.insert("cellHeight".to_owned(), json!("sm"));
    panel
}

impl Panel {
    /// Asks; `@` in braces stands for the chosen job and instance.
    pub(crate) fn ask(mut self, expression: &str, legend: &str) -> Self {
        let expression = expression.replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let expression = expression.replace("{@", &format!("{{{CHOSEN}"));
        self.queries.push(Query { expression, legend: legend.to_owned() });
        self
    }

    pub(crate) fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// What it shows, and what to do when; every panel has both.
    pub(crate) fn says(mut self, shows: &'static str, act: &'static str) -> Self {
        (self.shows, self.act) = (shows, act);
        self
    }

    /// Links to the runbook of an alert.
    pub(crate) fn runbook(mut self, alert: &'static str) -> Self {
        self.runbooks.push(alert);
        self
    }

    /// Links to the dashboard that says more.
    pub(crate) fn more(mut self, uid: &'static str) -> Self {
        self.leads_to = Some(uid);
        self
    }

    pub(crate) fn size(mut self, width: u64, height: u64) -> Self {
        (self.width, self.height) = (width, height);
        self
    }

    /// A colour from the beginning, and others from a value on. Lines show them as dashes.
    pub(crate) fn steps(mut self, first: &str, steps: &[(f64, &str)]) -> Self {
        self.defaults.insert("thresholds".to_owned(), thresholds(first, steps));
        if self.kind == Kind::TimeSeries {
            self.custom.insert("thresholdsStyle".to_owned(), json!({ "mode": "dashed" }));
        } else {
            self.defaults.insert("color".to_owned(), json!({ "mode": "thresholds" }));
        }
        self
    }

    /// Whether it shows from where on a value is bad: by colours, a line, or a cell.
    pub(crate) fn shows_a_bound(&self) -> bool {
        let colours = |value: &Value| value["steps"].as_array().is_some_and(|steps| steps.len() > 1);
        let of_series = |(name, value): &(&str, Value)| match *name {
            "thresholds" => colours(value),
            name => name == LINE_STYLE,
        };
        self.defaults.get("thresholds").is_some_and(colours)
            || self.overrides.iter().flat_map(|change| &change.properties).any(of_series)
    }

    /// Words instead of numbers.
    pub(crate) fn words(mut self, words: &[(f64, &str, &str)]) -> Self {
        self.defaults.insert("mappings".to_owned(), mappings(words));
        self
    }

    pub(crate) fn range(mut self, min: f64, max: f64) -> Self {
        self.defaults.insert("min".to_owned(), json!(min));
        self.defaults.insert("max".to_owned(), json!(max));
        self
    }

    pub(crate) fn zero_based(mut self) -> Self {
        self.defaults.insert("min".to_owned(), json!(0));
        self
    }

    pub(crate) fn decimals(mut self, decimals: u64) -> Self {
        self.defaults.insert("decimals".to_owned(), json!(decimals));
        self
    }

    /// What stands there when nothing is known.
    pub(crate) fn nothing(mut self, words: &str) -> Self {
        self.defaults.insert("noValue".to_owned(), json!(words));
        self
    }

    /// One colour for all.
    pub(crate) fn colour(mut self, colour: &str) -> Self {
        self.defaults.insert("color".to_owned(), json!({ "mode": "fixed", "fixedColor": colour }));
        self
    }

    /// The name of the series instead of its value.
    pub(crate) fn names_only(mut self) -> Self {
        self.options.insert("textMode".to_owned(), json!("name"));
        self
    }

    /// One on the other, filled.
    pub(crate) fn stacked(mut self) -> Self {
        self.custom.insert("stacking".to_owned(), json!({ "mode": "normal", "group": "A" }));
        self.custom.insert("fillOpacity".to_owned(), json!(40));
        self
    }

    /// A step from value to value instead of a slope.
    pub(crate) fn stepped(mut self) -> Self {
        self.custom.insert("lineInterpolation".to_owned(), json!("stepAfter"));
        self
    }

    /// Powers of ten along the axis.
    pub(crate) fn logarithmic(mut self) -> Self {
        self.custom.insert("scaleDistribution".to_owned(), json!({ "type": "log", "log": 10 }));
        self
    }

    /// Mean and highest value of each series in a table beside its name.
    pub(crate) fn with_numbers(mut self) -> Self {
        let legend = json!({ "displayMode": "table", "placement": "right", "showLegend": true, "calcs": ["mean", "max"], "sortBy": "Mean", "sortDesc": true });
        self.options.insert("legend".to_owned(), legend);
        self
    }

    /// What is told every ten seconds: no rate over less.
    pub(crate) fn slow(mut self) -> Self {
        self.slow = true;
        self
    }

    /// How one series is drawn, by its legend.
    pub(crate) fn series(mut self, legend: &str, properties: &[(&'static str, Value)]) -> Self {
        self.overrides.push(Override { name: legend.to_owned(), properties: properties.to_vec() });
        self
    }

    /// A limit: a dashed line without filling.
    pub(crate) fn limit(self, legend: &str, colour: &str) -> Self {
        let properties = [
            ("color", json!({ "mode": "fixed", "fixedColor": colour })),
            (LINE_STYLE, json!({ "fill": "dash", "dash": [8, 6] })),
            ("custom.fillOpacity", json!(0)),
            ("custom.stacking", json!({ "mode": "none", "group": "A" })),
        ];
        self.series(legend, &properties)
    }

    /// The colour of one series.
    pub(crate) fn paint(self, legend: &str, colour: &str) -> Self {
        self.series(legend, &[("color", json!({ "mode": "fixed", "fixedColor": colour }))])
    }

    /// A column of labels of a table, under another heading.
    pub(crate) fn label(mut self, label: &str, heading: &'static str) -> Self {
        self.names.push((label.to_owned(), heading));
        // A name made of digits is no number.
        self.series(heading, &[("unit", json!("string"))])
    }

    /// Labels of these series for a table's rows, without a column for the value.
    pub(crate) fn labels_of(mut self, expression: &str) -> Self {
        self.unread.push(format!("Value #{}", letter(self.queries.len())));
        self.ask(expression, "")
    }

    /// A column of numbers of a table.
    pub(crate) fn column(self, heading: &'static str, unit: &str, expression: &str) -> Self {
        self.coloured(heading, expression, &[("unit", json!(unit))])
    }

    /// A column of whole numbers of a table.
    pub(crate) fn count(self, heading: &'static str, expression: &str) -> Self {
        self.coloured(heading, expression, &[("unit", json!("none")), ("decimals", json!(0))])
    }

    /// A column of numbers of a table, drawn as the properties say.
    pub(crate) fn coloured(
        mut self,
        heading: &'static str,
        expression: &str,
        properties: &[(&'static str, Value)],
    ) -> Self {
        let letter = letter(self.queries.len());
        self.names.push((format!("Value #{letter}"), heading));
        self.ask(expression, "").series(heading, properties)
    }
}

/// `A` for the first.
pub(super) fn letter(at: usize) -> char {
    ('A'..='Z').nth(at).unwrap_or('Z')
}

/// Colours by value, for a panel or a column.
pub(crate) fn thresholds(first: &str, steps: &[(f64, &str)]) -> Value {
    let all = std::iter::once(json!({ "color": first, "value": null }))
        .chain(steps.iter().map(|(value, colour)| json!({ "color": colour, "value": value })));
    json!({ "mode": "absolute", "steps": all.collect::<Vec<_>>() })
}

/// Words by value, for a panel or a column.
pub(crate) fn mappings(words: &[(f64, &str, &str)]) -> Value {
    let each = words
        .iter()
        .enumerate()
        .map(|(at, (value, text, colour))| (value.to_string(), json!({ "text": text, "color": colour, "index": at })));
    json!([{ "type": "value", "options": each.collect::<Map<_, _>>() }])
}

/// A column whose cells take the colour of their value.
pub(crate) fn painted(unit: &str, first: &str, steps: &[(f64, &str)]) -> [(&'static str, Value); 3] {
    [
        ("unit", json!(unit)),
        ("thresholds", thresholds(first, steps)),
        ("custom.cellOptions", json!({ "type": "color-background", "mode": "basic" })),
    ]
}
