//! A dashboard: sections of panels, the variables above them, and the links between dashboards.

use super::panel::Panel;
use serde_json::{Value, json};

/// Columns of Grafana's grid.
const COLUMNS: u64 = 24;

/// Panels under a heading.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) panels: Vec<Panel>,
}

/// Something to choose above the panels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) choices: Choices,
}

/// Where the choices come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choices {
    /// The values of a label: one of them, or with `many` any number and all at first.
    Labels { of: &'static str, label: &'static str, many: bool },
    /// The values of a label in what an expression has: one of them, or with `many` any number and all at first.
    Found { by: &'static str, label: &'static str, many: bool },
    /// These, the first at first.
    These(&'static [&'static str]),
}

/// One dashboard.
#[derive(Debug)]
pub(crate) struct Dashboard {
    pub(crate) uid: &'static str,
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) since: &'static str,
    pub(crate) variables: Vec<Variable>,
    pub(crate) sections: Vec<Section>,
}

/// The job under which daemons are scraped.
pub(crate) const JOB: Variable = Variable {
    name: "job",
    label: "Job",
    choices: Choices::Labels { of: "faultline_build_info", label: "job", many: true },
};

/// The cluster that a daemon's configuration names; none is one too.
pub(crate) const CLUSTER: Variable = Variable {
    name: "cluster",
    label: "Cluster",
    choices: Choices::Labels { of: r#"agave_target_info{job=~"$job"}"#, label: "cluster", many: true },
};

/// One validator: of the chosen clusters, or of a daemon that has followed none, since the one that is missing is looked for.
pub(crate) const INSTANCE: Variable = Variable {
    name: "instance",
    label: "Validator",
    choices: Choices::Found {
        by: r#"last_over_time(faultline_build_info{job=~"$job"}[$__range]) unless on (job, instance) (last_over_time(agave_target_info{job=~"$job"}[$__range]) unless on (job, instance) last_over_time(agave_target_info{job=~"$job", cluster=~"$cluster"}[$__range]))"#,
        label: "instance",
        many: false,
    },
};

impl Dashboard {
    /// Panels in their order.
    pub(crate) fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.sections.iter().flat_map(|section| &section.panels)
    }

    /// The dashboard as Grafana has it; `all` are uid and title of every one.
    pub(crate) fn json(&self, all: &[(&'static str, &'static str)]) -> Value {
        let title_of = |uid: &str| all.iter().find(|(other, _)| *other == uid).map(|(_, title)| *title);
        let mut panels = Vec::new();
        let (mut id, mut top) = (1, 0);
        for section in &self.sections {
            panels.push(json!({ "id": id, "type": "row", "title": section.title, "collapsed": false, "panels": [],
                "gridPos": { "x": 0, "y": top, "w": COLUMNS, "h": 1 } }));
            (id, top) = (id + 1, top + 1);
            let (mut left, mut tallest) = (0, 0);
            for panel in &section.panels {
                if left + panel.width > COLUMNS {
                    (left, top, tallest) = (0, top + tallest, 0);
                }
                panels.push(panel.json(id, (left, top), title_of));
                (id, left, tallest) = (id + 1, left + panel.width, tallest.max(panel.height));
            }
            top += tallest;
        }
        let variables: Vec<Value> =
            std::iter::once(datasource()).chain(self.variables.iter().map(Variable::json)).collect();
        json!({
            "uid": self.uid,
            "title": format!("Faultline / {}", self.title),
            "description": self.about,
            "tags": ["faultline"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "time": { "from": self.since, "to": "now" },
            "refresh": "30s",
            "templating": { "list": variables },
            "annotations": { "list": [] },
            "links": all.iter().filter(|(uid, _)| *uid != self.uid).map(link).collect::<Vec<_>>(),
            "panels": panels,
        })
    }
}

fn link((uid, title): &(&'static str, &'static str)) -> Value {
    json!({ "type": "link", "title": title, "url": format!("/d/{uid}"), "icon": "dashboard", "includeVars": true,
        "keepTime": true, "targetBlank": false, "asDropdown": false, "tags": [], "tooltip": "" })
}

fn datasource() -> Value {
    json!({ "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0,
        "includeAll": false, "multi": false, "options": [], "refresh": 1, "regex": "", "current": {} })
}

impl Variable {
    /// One whose choices Prometheus is asked for, once more when the time range changes: what is past is offered too.
    fn asked(&self, query: &str, regex: &str, many: bool) -> Value {
        json!({
            "name": self.name, "label": self.label, "type": "query",
            "datasource": { "type": "prometheus", "uid": "${datasource}" },
            "query": { "query": query, "refId": self.name }, "definition": query,
            "refresh": 2, "sort": 1, "regex": regex, "hide": 0, "options": [],
            // Chosen by what is above them, instances are spelt out; elsewhere all includes those without the label.
            "multi": many, "includeAll": many,
            "allValue": if many && self.name != "instance" { json!(".*") } else { Value::Null },
            "current": if many { json!({ "text": ["All"], "value": ["$__all"] }) } else { json!({}) },
        })
    }

    fn json(&self) -> Value {
        match self.choices {
            Choices::Labels { of, label, many } => self.asked(&format!("label_values({of}, {label})"), "", many),
            Choices::Found { by, label, many } => {
                let query = format!("query_result(count by ({label}) ({by}))");
                self.asked(&query, &format!("/{label}=\"([^\"]*)\"/"), many)
            }
            Choices::These(choices) => {
                let option =
                    |(at, choice): (usize, &&str)| json!({ "text": choice, "value": choice, "selected": at == 0 });
                let first = choices.first().copied().unwrap_or_default();
                json!({
                    "name": self.name, "label": self.label, "type": "custom", "query": choices.join(","), "hide": 0,
                    "multi": false, "includeAll": false, "current": { "text": first, "value": first },
                    "options": choices.iter().enumerate().map(option).collect::<Vec<_>>(),
                })
            }
        }
    }
}
