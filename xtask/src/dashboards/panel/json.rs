//! A panel as Grafana's JSON has it.

use super::{Kind, Override, Panel, Query, RUNBOOKS, letter, thresholds};
use serde_json::{Map, Value, json};

impl Panel {
    /// An axis that ends there at least: nothing but zeros is not drawn as if it could be 100.
    fn soft_end(&self) -> Option<Value> {
        let end = match self.unit {
            "percentunit" => 0.01,
            "none" => 1.0,
            unit if unit.starts_with("suffix:") => 0.01,
            _ => return None,
        };
        (self.kind == Kind::TimeSeries && !self.defaults.contains_key("max")).then(|| json!(end))
    }

    /// The panel as Grafana has it; `dashboards` gives titles by uid.
    pub(crate) fn json(&self, id: u64, place: (u64, u64), title_of: impl Fn(&str) -> Option<&'static str>) -> Value {
        let mut defaults = self.defaults.clone();
        defaults.insert("unit".to_owned(), json!(self.unit));
        let mut custom = self.custom.clone();
        custom.extend(self.soft_end().map(|end| ("axisSoftMax".to_owned(), end)));
        defaults.insert("custom".to_owned(), Value::Object(custom));
        if self.kind == Kind::TimeSeries && !defaults.contains_key("color") {
            defaults.insert("color".to_owned(), json!({ "mode": "palette-classic" }));
        }
        if !defaults.contains_key("thresholds") {
            defaults.insert("thresholds".to_owned(), thresholds("text", &[]));
        }
        let mut panel = json!({
            "id": id,
            "type": self.kind.word(),
            "title": self.title,
            "description": format!("{}\n\n**What to do:** {}", self.shows, self.act),
            "gridPos": { "x": place.0, "y": place.1, "w": self.width, "h": self.height },
            "datasource": { "type": "prometheus", "uid": "${datasource}" },
            "targets": self.targets(),
            "fieldConfig": { "defaults": defaults, "overrides": self.overrides_json() },
            "options": self.options,
            "links": self.links(title_of),
            "transformations": self.transformations(),
        });
        if self.slow {
            panel["interval"] = json!("30s");
        }
        panel
    }

    fn targets(&self) -> Vec<Value> {
        let one = |(at, query): (usize, &Query)| {
            let now = self.kind != Kind::TimeSeries;
            json!({
                "refId": letter(at),
                "datasource": { "type": "prometheus", "uid": "${datasource}" },
                "expr": query.expression,
                "legendFormat": query.legend,
                "instant": now,
                "range": !now,
                "format": if self.kind == Kind::Table { "table" } else { "time_series" },
                "editorMode": "code",
            })
        };
        self.queries.iter().enumerate().map(one).collect()
    }

    fn overrides_json(&self) -> Vec<Value> {
        let one = |change: &Override| {
            let property = |(id, value): &(&str, Value)| json!({ "id": id, "value": value });
            json!({
                "matcher": { "id": "byName", "options": change.name },
                "properties": change.properties.iter().map(property).collect::<Vec<_>>(),
            })
        };
        self.overrides.iter().map(one).collect()
    }

    fn links(&self, title_of: impl Fn(&str) -> Option<&'static str>) -> Vec<Value> {
        let runbook = |alert: &&str| json!({ "title": format!("Runbook: {alert}"), "url": format!("{RUNBOOKS}{alert}.md"), "targetBlank": true });
        let more = self.leads_to.map(|uid| {
            let title = format!("More: {}", title_of(uid).unwrap_or(uid));
            json!({ "title": title, "url": format!("/d/{uid}?${{__url_time_range}}&${{__all_variables}}") })
        });
        more.into_iter().chain(self.runbooks.iter().map(runbook)).collect()
    }

    /// Tables: one of many, without what nobody reads, in the order in which columns were named.
    fn transformations(&self) -> Vec<Value> {
        if self.kind != Kind::Table {
            return Vec::new();
        }
        let single = self.queries.len() == 1;
        let field =
            |name: &str| if single && name.starts_with("Value #") { "Value".to_owned() } else { name.to_owned() };
        let renamed: Map<String, Value> = self.names.iter().map(|(name, to)| (field(name), json!(to))).collect();
        let order: Map<String, Value> =
            self.names.iter().enumerate().map(|(at, (name, _))| (field(name), json!(at))).collect();
        let unread = ["Time"].into_iter().map(str::to_owned).chain(self.unread.iter().map(|name| field(name)));
        let excluded: Map<String, Value> = unread.map(|name| (name, json!(true))).collect();
        vec![
            json!({ "id": "merge", "options": {} }),
            json!({ "id": "organize", "options": { "excludeByName": excluded, "renameByName": renamed, "indexByName": order } }),
        ]
    }
}
