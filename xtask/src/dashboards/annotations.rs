//! Events that every dashboard marks in its panels: the same everywhere.

use super::queries::{DATA_SOURCE_VARIABLE, missing_labels, replace_variables};
use crate::rules::expression::Names;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Annotations {
    list: Vec<Annotation>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Annotation {
    name: String,
    enable: bool,
    datasource: Value,
    expr: String,
    title_format: String,
    icon_color: String,
}

impl Annotations {
    pub(super) fn expressions(&self) -> impl Iterator<Item = &String> {
        self.list.iter().map(|annotation| &annotation.expr)
    }

    /// Replaces `=~` before `$instance` with `=`, because some dashboards select several instances. Annotations must otherwise be equal.
    fn for_one_instance(&self) -> Vec<Annotation> {
        let mut list = self.list.clone();
        for annotation in &mut list {
            annotation.expr = annotation.expr.replace("=~\"$instance\"", "=\"$instance\"");
        }
        list
    }
}

/// Checks the first dashboard's annotations, and that the others have the same. Each comes with the
/// uid of its dashboard.
pub(super) fn all<'a>(
    mut dashboards: impl Iterator<Item = (&'a str, &'a Annotations)>,
    names: &Names,
    broken: &mut Vec<String>,
) {
    let Some((first, annotations)) = dashboards.next() else {
        return;
    };
    let expected = annotations.for_one_instance();
    if expected.is_empty() {
        broken.push(format!("{first}: no annotations"));
    }
    for annotation in &expected {
        let expression = replace_variables(&annotation.expr);
        let mut wrong = names.wrong_with_query(&expression);
        wrong.extend(missing_labels(&annotation.title_format, &expression));
        if annotation.datasource["uid"] != DATA_SOURCE_VARIABLE {
            wrong.push(format!("its data source is not {DATA_SOURCE_VARIABLE}"));
        }
        let name = &annotation.name;
        broken.extend(
            wrong
                .iter()
                .map(|what| format!("annotation {name:?}: {what}")),
        );
    }
    for (uid, annotations) in dashboards {
        if annotations.for_one_instance() != expected {
            broken.push(format!("{uid}: its annotations are not those of {first}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;
    use crate::run::read;
    use std::path::Path;

    fn wrong(change: fn(&mut Vec<Annotation>)) -> String {
        let root = crate::root();
        let mut both = ["fleet", "host"].map(|name| {
            let file = format!("grafana/dashboards/{name}.json");
            let text = read(&root, Path::new(&file)).unwrap();
            let dashboard: Value = serde_json::from_str(&text).unwrap();
            let annotations: Annotations =
                serde_json::from_value(dashboard["annotations"].clone()).unwrap();
            (name, annotations)
        });
        change(&mut both[1].1.list);
        let mut broken = Vec::new();
        let dashboards = both.iter().map(|(name, annotations)| (*name, annotations));
        all(dashboards, &rules::names(&root).unwrap(), &mut broken);
        broken.join("\n")
    }

    #[test]
    fn annotations_that_differ_between_dashboards_are_reported() {
        assert_eq!(wrong(|_| ()), "");
        for change in [
            Vec::clear as fn(&mut Vec<Annotation>),
            |list| list[0].enable = false,
            |list| list[0].expr.push_str(" > 1"),
        ] {
            assert!(wrong(change).contains("host: its annotations are not those"));
        }
    }
}
