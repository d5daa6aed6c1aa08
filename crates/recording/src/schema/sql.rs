use super::{
    Column, ColumnKind, DEVICE_COLUMNS, POOL_COLUMNS, PerTickTable,
    fixed::{self, ColumnDeclaration, NOT_NULL, TableDeclaration},
    points::{POINT_TABLES, PointSpec},
};
use std::sync::LazyLock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    pub name: &'static str,
    pub kind: ColumnKind,
    /// The table whose ids the column has; for `id`, its own table.
    pub references: Option<&'static str>,
    /// Text after the type in CREATE TABLE, such as `PRIMARY KEY`; may be empty.
    pub constraint: &'static str,
    /// For docs/RECORDING.md; may be empty.
    pub description: String,
}

#[derive(Debug)]
pub struct TableSpec {
    pub name: &'static str,
    pub columns: Vec<TableColumn>,
    /// Sort column for the order of writing.
    pub order_column: &'static str,
    /// For docs/RECORDING.md.
    pub description: &'static str,
    pub(crate) unique_constraint: &'static str,
}

impl TableSpec {
    pub(crate) fn may_be_missing(&self) -> bool {
        !fixed::MAIN_TABLES
            .iter()
            .chain(fixed::SERIES)
            .any(|(name, ..)| *name == self.name)
    }

    pub(crate) fn create_sql(&self) -> String {
        let column = |column: &TableColumn| {
            let sql = format!(
                "{} {} {}",
                column.name,
                column.kind.sql(),
                column.constraint
            );
            sql.trim_end().to_owned()
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        let columns = columns.join(", ");
        format!(
            "CREATE TABLE {}({columns}{})",
            self.name, self.unique_constraint
        )
    }

    pub(crate) fn insert_sql(&self) -> String {
        let placeholders = vec!["?"; self.columns.len()].join(",");
        format!(
            "INSERT INTO {}({}) VALUES({placeholders})",
            self.name,
            self.column_names()
        )
    }

    pub(crate) fn column_names(&self) -> String {
        self.columns
            .iter()
            .map(|column| column.name)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// For a table of keys: one statement finds the id of a key, one adds the key. The first column
    /// is the id. The other columns are the key and the parameters of both statements.
    pub(crate) fn key_statements(&self) -> [String; 2] {
        let (table, columns) = (self.name, self.column_names());
        let key_columns = columns.trim_start_matches("id,");
        let placeholders = vec!["?"; self.columns.len() - 1].join(",");
        [
            format!("SELECT id FROM {table} WHERE ({key_columns}) = ({placeholders})"),
            format!("INSERT INTO {table}({key_columns}) VALUES({placeholders})"),
        ]
    }
}

pub fn table_named(name: &str) -> Option<&'static TableSpec> {
    TABLES.iter().find(|spec| spec.name == name)
}

pub static TABLES: LazyLock<Vec<TableSpec>> = LazyLock::new(|| {
    let mut tables: Vec<TableSpec> = fixed::MAIN_TABLES.iter().map(fixed_table).collect();
    tables.extend(PerTickTable::ALL.map(per_tick_table));
    tables.extend([
        fixed_table(&(
            "pool",
            "id",
            "The names of thread pools.",
            &fixed::NAME_COLUMNS,
        )),
        keyed_samples_table("pool_sample", "pool", POOL_DESCRIPTION, POOL_COLUMNS),
        fixed_table(&(
            "device",
            "id",
            "The names of block devices.",
            &fixed::NAME_COLUMNS,
        )),
        keyed_samples_table(
            "device_sample",
            "device",
            DEVICE_DESCRIPTION,
            DEVICE_COLUMNS,
        ),
    ]);
    tables.extend(fixed::SERIES.iter().map(fixed_table));
    tables.extend(POINT_TABLES.iter().map(point_table));
    tables
});

const POOL_DESCRIPTION: &str =
    "Totals of a thread pool, where one changed. They [carry forward](#how-to-read-it).";
const DEVICE_DESCRIPTION: &str = "The cgroup's totals for a block device, where one changed. They \
    [carry forward](#how-to-read-it).";

/// A column with the name of such a table has its ids.
const TABLES_WITH_IDS: [&str; 7] = [
    "session", "process", "event", "tick", "pool", "device", "series",
];

fn fixed_column(
    table: &'static str,
    &(name, kind, constraint, description): &ColumnDeclaration,
) -> TableColumn {
    let referenced_table = if name == "id" { table } else { name };
    TableColumn {
        name,
        kind,
        references: TABLES_WITH_IDS
            .contains(&referenced_table)
            .then_some(referenced_table),
        constraint,
        description: description.to_owned(),
    }
}

fn value_column(name: &'static str, kind: ColumnKind, description: String) -> TableColumn {
    TableColumn {
        name,
        kind,
        references: None,
        constraint: "",
        description,
    }
}

fn table_spec(
    name: &'static str,
    order_column: &'static str,
    description: &'static str,
    columns: Vec<TableColumn>,
) -> TableSpec {
    let unique_constraint = match name {
        "series" => ", UNIQUE(metric, labels)",
        _ => "",
    };
    TableSpec {
        name,
        columns,
        order_column,
        description,
        unique_constraint,
    }
}

fn fixed_table(&(name, order_column, description, columns): &TableDeclaration) -> TableSpec {
    let columns = columns
        .iter()
        .map(|declaration| fixed_column(name, declaration));
    table_spec(name, order_column, description, columns.collect())
}

fn metric_column(column: &Column, key: &[&str]) -> TableColumn {
    let metric = column.metric;
    let values = key.iter().chain(column.label_values);
    let pairs: Vec<String> = { metric.label_names.iter().zip(values) }
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    let labels = match pairs.join(",") {
        none if none.is_empty() => none,
        pairs => format!("{{{pairs}}}"),
    };
    let description = format!("`{}{labels}`, {}", metric.name, metric.unit.name());
    value_column(column.name, column.kind(), description)
}

fn per_tick_table(table: PerTickTable) -> TableSpec {
    let mut columns = vec![fixed_column(table.name(), &fixed::TICK_COLUMN)];
    columns.extend(
        table
            .columns()
            .iter()
            .map(|column| metric_column(column, &[])),
    );
    table_spec(table.name(), "tick", table.description(), columns)
}

fn keyed_samples_table(
    name: &'static str,
    key_table: &'static str,
    description: &'static str,
    values: &[Column],
) -> TableSpec {
    let id = |referenced| fixed_column(name, &(referenced, ColumnKind::Integer, NOT_NULL, ""));
    let mut columns = vec![id("tick"), id(key_table)];
    columns.extend(values.iter().map(|column| metric_column(column, &["..."])));
    table_spec(name, "rowid", description, columns)
}

fn point_table(spec: &PointSpec) -> TableSpec {
    let keys = fixed::POINT_COLUMNS
        .iter()
        .map(|declaration| fixed_column(spec.name, declaration));
    let values = spec.fields.iter().map(|(name, description)| {
        let description = description.trim().trim_end_matches('.');
        value_column(name, ColumnKind::Integer, description.to_owned())
    });
    table_spec(
        spec.name,
        "rowid",
        spec.description,
        keys.chain(values).collect(),
    )
}
