//! Many validators, by version and hardware.

use super::dashboard::{CLUSTER, Choices, Dashboard, JOB, Section, Variable};
use super::panel::{Panel, bars, lines, mappings, painted, stat, table};
use serde_json::{Value, json};

const VERSION: Variable = Variable {
    name: "version",
    label: "Versions",
    choices: Choices::Labels {
        of: r#"agave_target_info{job=~"$job", cluster=~"$cluster"}"#,
        label: "version",
        many: true,
    },
};

const HARDWARE: Variable = Variable {
    name: "hardware",
    label: "Hardware",
    choices: Choices::Labels { of: r#"agave_up{job=~"$job"}"#, label: "hardware", many: true },
};

const INSTANCES: Variable = Variable {
    name: "instance",
    label: "Validators",
    choices: Choices::Found {
        by: r#"last_over_time(faultline_build_info{job=~"$job", hardware=~"$hardware"}[$__range]) unless on (job, instance) (last_over_time(agave_target_info{job=~"$job"}[$__range]) unless on (job, instance) last_over_time(agave_target_info{job=~"$job", cluster=~"$cluster", version=~"$version"}[$__range]))"#,
        label: "instance",
        many: true,
    },
};

/// The version beside a series of its validator.
const BY_VERSION: &str = "* on (job, instance) group_left (version) \
    max by (job, instance, version) (agave_target_info{@, version=~\"$version\", version!=\"\"})";

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "faultline-fleet",
        title: "Fleet",
        about: "Many validators: who is in trouble, and what differs by version and by hardware. The label hardware comes \
            from the targets' file.",
        since: "now-6h",
        variables: vec![JOB, CLUSTER, VERSION, HARDWARE, INSTANCES],
        sections: vec![all(), each(), by_version(), by_hardware()],
    }
}

fn count(title: &'static str, expression: &str) -> Panel {
    stat(title).ask(expression, "").unit("none").decimals(0).colour("text").nothing("none")
}

fn all() -> Section {
    let red = [(0.5, "red")];
    let panels = vec![
        count("Validators up", "count(agave_up{@} == 1)")
            .says("Followed now.", "Fewer than you run: the table says who is missing."),
        count("At the tip", "count(agave_phase{@, phase=\"at_tip\"} == 1)")
            .says("In the phase at_tip.", "Fewer than are up: some start, some are behind."),
        count("Fell behind", "count(agave_phase{@, phase=\"behind\"} == 1)")
            .steps("green", &red)
            .says("Fell behind after having been at the tip.", "Open the validator from the table.")
            .runbook("AgaveFallingBehind"),
        count("Without a validator", "count(agave_up{@} == 0)")
            .steps("green", &red)
            .says("Daemons that find no validator.", "A host where it should run: the runbook.")
            .runbook("AgaveDown"),
        count("Daemons silent", "count(up{job=~\"$job\"} == 0)")
            .steps("green", &red)
            .says(
                "Targets of the job that cannot be scraped, whatever is chosen above.",
                "Nothing is known of these hosts: the runbook.",
            )
            .runbook("FaultlineDown"),
        count("Alerts firing", "count(ALERTS{@, alertstate=\"firing\", severity!=\"info\"})")
            .steps("green", &red)
            .says("Alerts that fire for a page or a ticket.", "The table below lists the validators.")
            .runbook("AgaveOomAhead"),
    ];
    Section { title: "All of them", panels }
}

/// Headings that link to the validator's own dashboard.
fn linked() -> Value {
    json!([{
        "title": "Overview of ${__value.text}",
        "url": "/d/faultline-overview?${__url_time_range}&${datasource:queryparam}&var-job=%24__all&var-cluster=%24__all&var-instance=${__value.text}"
    }])
}

fn each() -> Section {
    let yes_or_no = [
        ("mappings", mappings(&[(1.0, "yes", "green"), (0.0, "no", "red")])),
        ("custom.cellOptions", json!({ "type": "color-text" })),
    ];
    let answers = [
        ("mappings", mappings(&[(1.0, "answers", "green"), (0.0, "silent", "red")])),
        ("custom.cellOptions", json!({ "type": "color-text" })),
    ];
    let panel = table("Validators")
        .label("instance", "Validator")
        .label("hardware", "Hardware")
        .label("cluster", "Cluster")
        .label("client", "Client")
        .label("version", "Version")
        .series("Validator", &[("links", linked()), ("custom.width", json!(150))])
        .coloured("Daemon", "max by (instance, hardware) (up{@})", &answers)
        .labels_of("max by (instance, cluster, client, version) (agave_target_info{@})")
        .coloured("Up", "max by (instance) (agave_up{@})", &yes_or_no)
        .coloured("Healthy", "max by (instance) (agave_healthy{@})", &yes_or_no)
        .coloured("Behind", "max by (instance) (agave_slots_behind{@})", &painted("none", "transparent", &[(32.0, "orange"), (128.0, "red")]))
        .column("TPS", "suffix:TPS", "max by (instance) (rate(agave_transactions_total{@}[1m]))")
        .coloured(
            "Memory",
            "max by (instance) (agave_memory_unreclaimable_bytes{@} / agave_memory_effective_limit_bytes{@})",
            &painted("percentunit", "transparent", &[(0.8, "orange"), (0.95, "red")]),
        )
        .column("Headroom", "bytes", "max by (instance) (agave_memory_effective_limit_bytes{@} - agave_memory_unreclaimable_bytes{@})")
        .coloured(
            "Faults/s",
            "max by (instance) (rate(agave_process_page_faults_total{@, type=\"major\"}[5m]))",
            &painted("none", "transparent", &[(1000.0, "orange")]),
        )
        .coloured(
            "Reloads",
            "max by (instance) (rate(agave_program_cache_reloads_total{@}[5m]) / on (job, instance) (rate(agave_replay_slot_seconds_count{@, part=\"total\"}[5m]) > 0))",
            &painted("none", "transparent", &[(1.0, "orange"), (3.0, "red")]),
        )
        .coloured(
            "Restarts",
            "sum by (instance) (increase(agave_process_restarts_total{@}[24h]))",
            &painted("none", "transparent", &[(0.5, "orange"), (2.5, "red")]),
        )
        .unit("none")
        .decimals(1)
        .size(24, 10)
        .says(
            "Everybody, with what matters most: memory taken of the limit, major faults per second, program cache reloads per slot, \
             restarts in 24 hours. A click on a name opens the validator's overview.",
            "Sort by a column. One red validator is its host; a red column is the version or the cluster.",
        )
        .runbook("AgaveFallingBehind")
        .more("faultline-overview");
    Section { title: "Each of them", panels: vec![panel] }
}

fn by_version() -> Section {
    let reloads = "rate(agave_program_cache_reloads_total{@}[$__rate_interval]) / on (job, instance) \
        (sum without (part) (rate(agave_replay_slot_seconds_count{@, part=\"total\"}[$__rate_interval])) > 0)";
    let panels = vec![
        bars("Validators by version")
            .ask("count by (version) (agave_target_info{@, version!=\"\"})", "{{version}}")
            .unit("none")
            .decimals(0)
            .size(6, 8)
            .colour("blue")
            .nothing("none")
            .says(
                "How many run which version.",
                "Fewer than are up: for the rest it is not known, the daemon cannot ask their RPC.",
            ),
        lines("Unreclaimable memory, by version")
            .ask(&format!("avg by (version) (agave_memory_unreclaimable_bytes{{@}} {BY_VERSION})"), "{{version}}")
            .unit("bytes")
            .size(6, 8)
            .zero_based()
            .says(
                "Mean of the version's validators.",
                "A new version far above: hold the upgrade until limits are adapted.",
            )
            .runbook("AgaveOomAhead"),
        lines("Throughput, by version")
            .ask(
                &format!("avg by (version) (rate(agave_transactions_total{{@}}[$__rate_interval]) {BY_VERSION})"),
                "{{version}}",
            )
            .unit("suffix:TPS")
            .slow()
            .size(6, 8)
            .zero_based()
            .says("Mean of the version's validators.", "Versions part: look at replay time, then at memory."),
        lines("Reloads per slot, by version")
            .ask(&format!("avg by (version) (({reloads}) {BY_VERSION})"), "{{version}}")
            .unit("none")
            .slow()
            .size(6, 8)
            .zero_based()
            .says(
                "The capacity is a constant of the version.",
                "A version that reloads: upgrade, or build it with a larger cache.",
            )
            .runbook("AgaveCacheThrash"),
    ];
    Section { title: "By version", panels }
}

fn by_hardware() -> Section {
    let replay = "histogram_quantile(0.95, sum by (le, hardware) (rate(agave_replay_slot_seconds_bucket{@, part=\"total\"}[$__rate_interval])))";
    let panels = vec![
        lines("Time to replay a slot, p95, by hardware")
            .ask(replay, "{{hardware}}")
            .unit("s")
            .slow()
            .size(6, 8)
            .zero_based()
            .steps("transparent", &[(0.4, "red")])
            .says("Over all validators of a kind.", "Above 400 ms: this hardware does not carry the cluster's load.")
            .runbook("AgaveFallingBehind"),
        lines("Major faults, by hardware")
            .ask("avg by (hardware) (rate(agave_process_page_faults_total{@, type=\"major\"}[$__rate_interval]))", "{{hardware}}")
            .unit("suffix:/s")
            .size(6, 8)
            .zero_based()
            .says("Mean of the kind's validators.", "One kind faults, the other does not: memory, or its disks.")
            .runbook("AgaveMajorFaultStorm"),
        lines("Least headroom, by hardware")
            .ask("min by (hardware) (1 - agave_memory_unreclaimable_bytes{@} / agave_memory_effective_limit_bytes{@})", "{{hardware}}")
            .unit("percentunit")
            .size(6, 8)
            .range(0.0, 1.0)
            .steps("transparent", &[(0.2, "red")])
            .says("The validator of each kind that is worst off, as a share of its limit.", "Below 20 %: this kind is the next to run out.")
            .runbook("AgaveOomAhead"),
        bars("Most memory taken")
            .ask("topk(8, max by (instance) (agave_memory_unreclaimable_bytes{@} / agave_memory_effective_limit_bytes{@}))", "{{instance}}")
            .unit("percentunit")
            .decimals(1)
            .size(6, 8)
            .range(0.0, 1.0)
            .steps("green", &[(0.8, "orange"), (0.95, "red")])
            .says("The eight nearest to their limit.", "The alert OOM ahead looks at the growth too.")
            .runbook("AgaveOomAhead"),
    ];
    Section { title: "By hardware", panels }
}
