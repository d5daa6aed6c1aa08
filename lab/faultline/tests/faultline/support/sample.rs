//! Reports to render: a rich one with every kind of block and texts that mean harm, and the smallest.

use faultline_pages::model::*;

const GIB: f64 = 1_073_741_824.0;
/// Closes a script, an attribute and a comment, and turns the direction of writing.
pub const HOSTILE: &str =
    "</script><img src=x onerror=alert(1)> \"quo'te\" --> \u{202e}txt.exe |*_`";

/// Numbers that look random and are always the same.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1_u64 << 24) as f64
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn number(value: f64, decimals: u8) -> Cell {
    Cell::Number { value, decimals }
}

fn column(title: &str, unit: &str) -> Column {
    Column {
        title: title.to_owned(),
        unit: unit.to_owned(),
    }
}

/// The smallest report: no runs, nothing in its only section.
pub fn smallest() -> Report {
    Report {
        title: "Nothing".to_owned(),
        sections: vec![Section {
            id: "empty".to_owned(),
            title: "Empty".to_owned(),
            blocks: Vec::new(),
        }],
        ..Report::default()
    }
}

const ARMS: [(&str, &str); 3] = [("256", "256 GiB"), ("128", "128 GiB"), ("64", "64 GiB")];

fn runs() -> Vec<RunCard> {
    let mut runs = Vec::new();
    for (id, arm) in ARMS {
        for repeat in 1..=3 {
            let facts = [
                ("file", format!("run-{id}-{repeat}.fltl")),
                (
                    "validator",
                    "Agave 2.1.14 (src:3544e5d8; feat:1725507508)".to_owned(),
                ),
                ("started", format!("2026-11-1{repeat} 08:00:12 UTC")),
                ("lasted", "4:00:00".to_owned()),
                ("memory limit", arm.to_owned()),
                (
                    "ended",
                    if id == "64" {
                        "OOM kill".to_owned()
                    } else {
                        "stopped by the operator".to_owned()
                    },
                ),
            ];
            runs.push(RunCard {
                id: format!("r{id}-{repeat}"),
                name: format!("{arm}, run {repeat}"),
                arm: arm.to_owned(),
                facts: facts
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
            });
        }
    }
    runs[0]
        .facts
        .push(("label note".to_owned(), HOSTILE.to_owned()));
    runs
}

/// One line a run over four hours, with a gap in one.
fn lines(level: impl Fn(usize, f64, &mut Noise) -> f64) -> Vec<Line> {
    let mut noise = Noise(7);
    let mut lines = Vec::new();
    for (index, run) in runs().into_iter().enumerate() {
        let end = if run.id.starts_with("r64") {
            9000
        } else {
            14_400
        };
        let x: Vec<f64> = (0..end).step_by(5).map(f64::from).collect();
        let y = x
            .iter()
            .map(|&at| {
                let value = level(index / 3, at, &mut noise);
                (!(index == 1 && (4000.0..4600.0).contains(&at))).then_some(value)
            })
            .collect();
        lines.push(Line {
            name: run.name,
            run: run.id,
            x,
            y,
        });
    }
    lines
}

fn memory() -> Figure {
    let level = |arm: usize, at: f64, noise: &mut Noise| {
        let limit = [256.0, 128.0, 64.0][arm] * GIB;
        (limit * 0.97).min((20.0 + at / 50.0) * GIB) + noise.next() * GIB * 2.0
    };
    let mut series = lines(level);
    let x = vec![0.0, 14_400.0];
    series.push(Line {
        name: "limit of 128 GiB".to_owned(),
        run: String::new(),
        x,
        y: vec![Some(128.0 * GIB); 2],
    });
    let mark = |at: f64, name: &str, run: &str| Mark {
        at,
        name: name.to_owned(),
        run: run.to_owned(),
    };
    let timeline = Timeline {
        x_label: "time since the first execution".to_owned(),
        y_label: "resident memory (RSS)".to_owned(),
        unit: "B".to_owned(),
        series,
        bands: phases_of_all(),
        marks: vec![
            mark(3600.0, "at tip", "r256-1"),
            mark(3650.0, "at tip", "r256-2"),
            mark(3700.0, "at tip", "r256-3"),
            mark(3720.0, "at tip", "r128-1"),
            mark(3740.0, "at tip", "r128-2"),
            mark(8990.0, "OOM kill", "r64-1"),
            mark(8995.0, HOSTILE, "r64-2"),
            mark(14_390.0, "stopped by the operator", "r256-1"),
        ],
        log: false,
    };
    Figure {
        id: "memory".to_owned(),
        title: "Memory over time, by arm".to_owned(),
        caption:
            "RSS as /proc/PID/status has it, once a second. Between 1:06 and 1:17 the daemon of one run was stopped; \
                  the line is broken there."
                .to_owned(),
        chart: Chart::Timeline(timeline),
    }
}

/// Phases of every run, each with ends of its own.
fn phases_of_all() -> Vec<Band> {
    let band = |from: f64, to: f64, name: &str, run: &str| Band {
        from,
        to,
        name: name.to_owned(),
        run: run.to_owned(),
    };
    let of_run = |(index, run): (usize, RunCard)| {
        let tip = 3600.0 + index as f64 * 20.0;
        let end = if run.arm == "64 GiB" {
            9000.0
        } else {
            14_400.0
        };
        let reached = if run.arm == "64 GiB" {
            "behind"
        } else {
            "at the tip"
        };
        [
            band(0.0, tip, "catching up", &run.id),
            band(tip, end, reached, &run.id),
        ]
    };
    let mut bands: Vec<Band> = runs().into_iter().enumerate().flat_map(of_run).collect();
    bands.push(band(4000.0, 4600.0, "gap", "r256-2"));
    bands
}

fn faults() -> Figure {
    let level = |arm: usize, at: f64, noise: &mut Noise| {
        let base = [3.0, 80.0, 2500.0][arm];
        let wave = 1.0 + (at / 900.0).sin() * 0.5;
        if noise.next() < 0.02 {
            0.0
        } else {
            base * wave * (0.4 + noise.next())
        }
    };
    Figure {
        id: "major-faults".to_owned(),
        title: "Major faults over time, smoothed over 100 samples".to_owned(),
        caption: "A moving mean over 100 samples, as in the study's Figure 9.".to_owned(),
        chart: Chart::Timeline(Timeline {
            x_label: "time since the first execution".to_owned(),
            y_label: "major faults per second".to_owned(),
            unit: "/s".to_owned(),
            series: lines(level),
            log: true,
            ..Timeline::default()
        }),
    }
}

fn one_run() -> Figure {
    let mut noise = Noise(3);
    let x: Vec<f64> = (0..7200).step_by(2).map(f64::from).collect();
    let mut line = |name: &str, base: f64| Line {
        name: name.to_owned(),
        run: "r128-1".to_owned(),
        x: x.clone(),
        y: x.iter()
            .map(|at| {
                Some((base + (at / 500.0).sin() * base / 9.0 + noise.next() * base / 20.0) * GIB)
            })
            .collect(),
    };
    let series = vec![
        line("anonymous", 30.0),
        line("file", 70.0),
        line("kernel stack and page tables", 2.0),
    ];
    let band = |from: f64, to: f64, name: &str| Band {
        from,
        to,
        name: name.to_owned(),
        run: "r128-1".to_owned(),
    };
    Figure {
        id: "anonymous-and-file".to_owned(),
        title: "Anonymous and file memory of 128 GiB, run 1".to_owned(),
        caption: "memory.stat of the validator's cgroup.".to_owned(),
        chart: Chart::Timeline(Timeline {
            x_label: "time since the first execution".to_owned(),
            y_label: "memory".to_owned(),
            unit: "B".to_owned(),
            series,
            bands: vec![
                band(0.0, 900.0, "loading the snapshot"),
                band(900.0, 3720.0, "catching up"),
                band(3720.0, 5200.0, "at the tip"),
                band(5200.0, 5260.0, "gap"),
                band(5260.0, 7200.0, "at the tip"),
            ],
            marks: vec![
                Mark {
                    at: 900.0,
                    name: "first execution".to_owned(),
                    run: "r128-1".to_owned(),
                },
                Mark {
                    at: 3720.0,
                    name: "at tip".to_owned(),
                    run: "r128-1".to_owned(),
                },
                Mark {
                    at: 6000.0,
                    name: "mark: load doubled".to_owned(),
                    run: "r128-1".to_owned(),
                },
            ],
            log: false,
        }),
    }
}

fn histogram(id: &str, by_run: bool) -> Figure {
    let mut noise = Noise(11);
    let edges: Vec<f64> = (0..=40).map(|edge| f64::from(edge) * 250.0).collect();
    let mut counts = |peak: f64| -> Vec<f64> {
        let mut shape = |class: f64| {
            (1200.0 * (-(class - peak).powi(2) / 40.0).exp() + noise.next() * 30.0).round()
        };
        (0..40).map(|class| shape(f64::from(class))).collect()
    };
    let series = if by_run {
        let all = runs().into_iter().enumerate();
        all.map(|(n, run)| Counts {
            name: run.name,
            run: run.id,
            counts: counts(25.0 - n as f64),
            above: 0.0,
        })
        .collect()
    } else {
        let arms = ARMS.iter().zip([24.0, 20.0, 9.0]).zip([12.0, 0.0, 0.0]);
        arms.map(|(((_, arm), peak), above)| Counts {
            name: (*arm).to_owned(),
            run: String::new(),
            counts: counts(peak),
            above,
        })
        .collect()
    };
    Figure {
        id: id.to_owned(),
        title: if by_run {
            "Transactions per second, by run"
        } else {
            "Transactions per second, by arm"
        }
        .to_owned(),
        caption: "Samples over three times the average are left out and counted in the legend."
            .to_owned(),
        chart: Chart::Histogram(Histogram {
            x_label: "transactions per second".to_owned(),
            y_label: "samples".to_owned(),
            edges,
            series,
            log: by_run,
        }),
    }
}

fn bars() -> Figure {
    let series = ARMS.iter().enumerate().map(|(index, (_, arm))| {
        let scale = 1.0 + index as f64;
        let mut values: Vec<_> = [412.0, 230.0, 35.0]
            .iter()
            .map(|v| Some((v * scale, Some((v * scale * 0.9, v * scale * 1.15)))))
            .collect();
        values.push(if index == 0 {
            None
        } else {
            Some((80.0 * scale, None))
        });
        BarSeries {
            name: (*arm).to_owned(),
            values,
        }
    });
    Figure {
        id: "cache".to_owned(),
        title: "Program cache, mean per batch".to_owned(),
        caption:
            "Whiskers are 95 % confidence intervals over runs; a dash says that there is no value."
                .to_owned(),
        chart: Chart::Bars(Bars {
            y_label: "per batch".to_owned(),
            categories: [
                "misses",
                "evictions",
                "one hit wonders",
                "time to prune (µs)",
            ]
            .map(str::to_owned)
            .to_vec(),
            series: series.collect(),
            log: false,
        }),
    }
}

/// Of two runs, one with a recorded size between others, and of one without intervals.
fn curves() -> Figure {
    let sizes = [
        256.0, 384.0, 512.0, 640.0, 768.0, 1024.0, 1536.0, 2048.0, 3072.0, 4096.0, 8192.0,
    ];
    let curve = |index: usize| {
        let scale = 1.0 + index as f64;
        let value = |size: f64| scale * 9000.0 * (256.0 / size).powi(2);
        let bar = |size: f64| {
            (
                value(size),
                (index < 2).then_some((value(size) * 0.9, value(size) * 1.1)),
            )
        };
        Curve {
            name: ARMS[index].1.to_owned(),
            run: String::new(),
            points: sizes.iter().map(|size| (*size, bar(*size))).collect(),
            highlight: (index < 2).then_some((512.0, value(512.0) * 1.05)),
        }
    };
    Figure {
        id: "misses-by-size".to_owned(),
        title: "Misses by size".to_owned(),
        caption: "Bands hold one real run with 95 %. Diamonds were recorded.".to_owned(),
        chart: Chart::Curves(Curves {
            x_label: "entries of the program cache".to_owned(),
            y_label: "misses".to_owned(),
            unit: String::new(),
            series: (0..3).map(curve).collect(),
            highlight_label: String::new(),
        }),
    }
}

/// Effects on both sides, a large one, and one that is shown in neither direction.
fn effects() -> Figure {
    let row = |(name, ratio, ends, tone): (&str, f64, (f64, f64), Tone)| ForestRow {
        name: name.to_owned(),
        ratio: (ratio, Some(ends)),
        text: format!(
            "{:.0} % ({:.0} to {:.0} %)",
            100.0 * ratio,
            100.0 * ends.0,
            100.0 * ends.1
        ),
        tone,
    };
    let rows = [
        ("Replay time per slot, p95", 1.12, (1.1, 1.15), Tone::Worse),
        (
            "Program cache time per slot",
            0.15,
            (0.07, 0.27),
            Tone::Better,
        ),
        ("Transactions per second", 0.99, (0.92, 1.06), Tone::Neutral),
        (
            "Major faults per second",
            830.0,
            (410.0, 1700.0),
            Tone::Worse,
        ),
    ];
    Figure {
        id: "effects".to_owned(),
        title: "What changed".to_owned(),
        caption: "Each run counts once.".to_owned(),
        chart: Chart::Forest(Forest {
            x_label: "128 GiB against 256 GiB".to_owned(),
            rows: rows.map(row).into(),
        }),
    }
}

fn matrix() -> Figure {
    let names = [
        "RSS",
        "VSZ",
        "major faults",
        "minor faults",
        "swap as VSZ − RSS",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut noise = Noise(5);
    let mut values: Vec<Vec<Option<f64>>> = Vec::new();
    for row in 0..5_usize {
        values.push(
            (0..5)
                .map(|column| {
                    Some(if row == column {
                        1.0
                    } else {
                        noise.next() * 2.0 - 1.0
                    })
                })
                .collect(),
        );
    }
    values[1][3] = None;
    Figure {
        id: "correlation".to_owned(),
        title: "Correlation of memory and faults".to_owned(),
        caption: "Pearson's r over the samples of 128 GiB, run 1.".to_owned(),
        chart: Chart::Matrix(Matrix { names, values }),
    }
}

fn tps() -> Table {
    let heads = [
        ("arm", ""),
        ("runs", ""),
        ("TPS, mean", "/s"),
        ("TPS, maximum", "/s"),
        ("at zero TPS", "s"),
        ("replay time per slot, p95", "ms"),
        ("difference to 256 GiB", "%"),
        ("caught up", "h:mm"),
        ("kept up", ""),
    ];
    let row = |index: usize| {
        let n = index as f64;
        let difference = Cell::Estimate {
            value: 12.345 * n,
            low: 10.1 * n,
            high: 14.9 * n,
            decimals: 1,
        };
        vec![
            text(ARMS[index].1),
            number(3.0, 0),
            Cell::Estimate {
                value: 4_567.891_234 - n * 811.0,
                low: 4410.2,
                high: 4730.7,
                decimals: 1,
            },
            number(11_234.0 - n, 0),
            number(12.0 * n, 0),
            Cell::Estimate {
                value: 310.5 + n * 41.7,
                low: 300.1,
                high: 320.9 + n * 50.0,
                decimals: 1,
            },
            if index == 0 {
                Cell::Missing("the reference".to_owned())
            } else {
                difference
            },
            if index == 2 {
                Cell::Missing("never reached the tip".to_owned())
            } else {
                text("1:02")
            },
            text(["in 3 of 3", "in 3 of 3", "in 0 of 3"][index]),
        ]
    };
    Table {
        id: "tps".to_owned(),
        title: "Transactions per second, by arm".to_owned(),
        note: "Mean without samples over three times the average; maximum with them; from the first execution on."
            .to_owned(),
        columns: heads.map(|(title, unit)| column(title, unit)).to_vec(),
        rows: (0..3).map(row).collect(),
    }
}

fn hostile_table() -> Table {
    Table {
        id: "labels".to_owned(),
        title: format!("Labels as given: {HOSTILE}"),
        note: HOSTILE.to_owned(),
        columns: vec![
            column("label", ""),
            column(HOSTILE, "GiB"),
            column("two\nlines", ""),
        ],
        rows: vec![
            vec![
                text("=cmd|' /C calc'!A0"),
                number(-1.5, 2),
                text("a, \"b\"\r\nc"),
            ],
            vec![text(HOSTILE), Cell::Missing(HOSTILE.to_owned()), text("")],
            vec![text("@sum"), number(f64::NAN, 2), text("1. not a list")],
        ],
    }
}

fn answers() -> Vec<Answers> {
    vec![Answers {
        name: "128 GiB".to_owned(),
        findings: vec![Finding {
            verdict: "look".to_owned(),
            text: format!("RAM: {HOSTILE}"),
        }],
    }]
}

fn caveats() -> Vec<Caveat> {
    vec![
        Caveat {
            what:
                "The runs of one arm were made on three days; the network's load differed by 8 %."
                    .to_owned(),
            remedy: "Replay the same slots in all arms (pairing by slot).".to_owned(),
        },
        Caveat {
            what: format!("The daemon of 256 GiB, run 2 missed 10 minutes; its label is {HOSTILE}"),
            remedy: "Leave the gap out of rates, as was done here, or repeat the run.".to_owned(),
        },
    ]
}

/// Three arms of three runs, every kind of block, values that are missing, and [`HOSTILE`] wherever words come from
/// outside.
pub fn rich() -> Report {
    let section = |id: &str, title: &str, blocks: Vec<Block>| Section {
        id: id.to_owned(),
        title: title.to_owned(),
        blocks,
    };
    let prose = |text: &str| Block::Text(text.to_owned());
    Report {
        title: "How much memory does a validator need?".to_owned(),
        subtitle: "Nine runs in three arms (memory limit 256, 128 and 64 GiB), Agave 2.1.14, four hours each".to_owned(),
        verdict: Verdict {
            headline: "128 GiB kept up with the tip in all three runs, 64 GiB in none: the smallest limit that is enough \
                       lies above 64 and at or below 128 GiB."
                .to_owned(),
            bullets: vec![
                "Replay time per slot, p95: 12.3 % longer at 128 GiB than at 256 GiB (95 % interval 10.1 to 14.9 %), which \
                 is more than the margin of 5 %."
                    .to_owned(),
                "Major faults: 27 times as many at 128 GiB, 830 times as many at 64 GiB.".to_owned(),
                "All three runs at 64 GiB ended by an OOM kill after two and a half hours.".to_owned(),
            ],
            kind: VerdictKind::Differs,
        },
        answers: answers(),
        overview: vec![Block::Figure(effects())],
        runs: runs(),
        caveats: caveats(),
        sections: vec![
            section(
                "throughput",
                "Throughput",
                vec![
                    prose("Transactions per second are counted from the first execution on, once a second."),
                    Block::Table(tps()),
                    Block::Figure(histogram("tps-by-arm", false)),
                    Block::Figure(histogram("tps-by-run", true)),
                ],
            ),
            section(
                "memory-and-faults",
                "Memory and faults",
                vec![
                    Block::Figure(memory()),
                    Block::Figure(faults()),
                    Block::Figure(one_run()),
                    Block::Figure(matrix()),
                ],
            ),
            section("program-cache", "Program cache", vec![Block::Figure(bars()), Block::Figure(curves())]),
            section("labels-section", HOSTILE, vec![Block::Table(hostile_table()), prose(HOSTILE)]),
        ],
        made_by: "faultline 0.1.0".to_owned(),
        ..Report::default()
    }
}

/// One run, and figures and tables that have next to nothing in them, or too much.
pub fn degenerate() -> Report {
    let line = |y: Vec<Option<f64>>| {
        let x = (0..y.len()).map(|at| at as f64).collect();
        Line {
            name: "line".to_owned(),
            run: "only".to_owned(),
            x,
            y,
        }
    };

    let name = "a name without any place to break "
        .replace(' ', "_")
        .repeat(5);
    let run = RunCard {
        id: "only".to_owned(),
        name: name.clone(),
        arm: name,
        facts: Vec::new(),
    };
    let blocks = vec![
        timeline("no-line", Vec::new(), false),
        timeline("no-value", vec![line(vec![None, None])], true),
        timeline("one-point", vec![line(vec![Some(5.0)])], false),
        timeline(
            "zeros",
            vec![line(vec![Some(0.0), Some(0.0), None, Some(0.0)])],
            true,
        ),
        timeline("constant", vec![line(vec![Some(1e12), Some(1e12)])], true),
        timeline(
            "negative",
            vec![line(vec![Some(-5e10), Some(-5e10)])],
            false,
        ),
        Block::Table(long_table()),
        Block::Table(Table {
            id: "bare".to_owned(),
            ..Table::default()
        }),
    ];
    let section = Section {
        id: "all".to_owned(),
        title: "All".to_owned(),
        blocks,
    };
    Report {
        title: "Degenerate".to_owned(),
        runs: vec![run],
        sections: vec![section],
        ..Report::default()
    }
}

fn timeline(id: &str, series: Vec<Line>, log: bool) -> Block {
    let chart = Chart::Timeline(Timeline {
        unit: "B".to_owned(),
        series,
        log,
        ..Timeline::default()
    });
    Block::Figure(Figure {
        id: id.to_owned(),
        title: id.to_owned(),
        caption: String::new(),
        chart,
    })
}

fn long_table() -> Table {
    let rows = (0..70)
        .map(|row| vec![text(&format!("pool {row}")), number(f64::from(row), 0)])
        .collect();
    Table {
        id: "long".to_owned(),
        title: "Pools".to_owned(),
        columns: vec![column("pool", ""), column("faults", "")],
        rows,
        ..Table::default()
    }
}
