//! The files that a report becomes, read by others' parsers.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test says so by failing"
)]

use std::{collections::BTreeMap, fs, mem, path::Path};

use crate::support::sample;
use faultline_pages::{
    model::*,
    render::{self, SeriesStyles, csv, html, markdown, svg},
};
use sha2::{Digest as _, Sha256};

fn files(report: &Report) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let written = render::write(report, folder.path(), false).unwrap();
    assert_eq!(written.page, folder.path().join("report.html"));
    let name = |path: &Path| {
        path.strip_prefix(folder.path())
            .unwrap()
            .to_string_lossy()
            .into_owned()
    };
    written
        .files
        .iter()
        .map(|path| (name(path), fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn a_report_has_a_page_a_text_and_table_and_figure_files() {
    let files = files(&sample::rich());
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "figures/anonymous-and-file.svg",
            "figures/cache.svg",
            "figures/correlation.svg",
            "figures/effects.svg",
            "figures/major-faults.svg",
            "figures/memory.svg",
            "figures/misses-by-size.svg",
            "figures/tps-by-arm.svg",
            "figures/tps-by-run.svg",
            "report.html",
            "report.md",
            "tables/labels.csv",
            "tables/tps.csv",
        ]
    );
    assert_eq!(
        self::files(&sample::smallest())
            .into_keys()
            .collect::<Vec<_>>(),
        ["report.html", "report.md"]
    );
}

#[test]
fn a_nearly_empty_report_still_has_all_its_files() {
    let files = files(&sample::degenerate());
    assert_eq!(files.len(), 10);
    for (_, text) in files.iter().filter(|(name, _)| name.ends_with(".svg")) {
        roxmltree::Document::parse(text).unwrap();
    }
    assert_eq!(files["tables/long.csv"].lines().count(), 71);
    assert_eq!(files["tables/bare.csv"], "\r\n");
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    assert_eq!(files(&sample::rich()), files(&sample::rich()));
}

#[test]
fn an_output_path_ending_in_html_gets_only_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/one.html");
    let written = render::write(&sample::smallest(), &path, false).unwrap();
    assert_eq!(written.files, [path]);
}

#[test]
fn existing_report_files_are_overwritten_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("report.md"), "mine").unwrap();
    let error = render::write(&sample::rich(), folder.path(), false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("report.md is there already") && error.contains("--force"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    render::write(&sample::rich(), folder.path(), true).unwrap();
    assert!(
        fs::read_to_string(folder.path().join("report.md"))
            .unwrap()
            .starts_with("# How much")
    );
}

#[test]
fn link_targets_in_the_output_folder_are_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let (out, precious) = (folder.path().join("out"), folder.path().join("precious"));
    fs::create_dir_all(out.join("figures")).unwrap();
    fs::write(&precious, "mine").unwrap();
    for name in ["report.html", "report.md"] {
        std::os::unix::fs::symlink(&precious, out.join(name)).unwrap();
    }
    render::write(&sample::rich(), &out, false).unwrap_err();
    render::write(&sample::rich(), &out, true).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    assert!(
        fs::read_to_string(out.join("report.md"))
            .unwrap()
            .starts_with("# How much")
    );
}

#[test]
fn a_folder_that_cannot_be_created_is_named_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = render::write(&sample::smallest(), &file.join("out"), false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cannot make the folder") && error.contains("file/out"),
        "{error}"
    );
}

#[test]
fn ids_unfit_as_file_names_and_ragged_tables_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut Report)| {
        let mut report = sample::rich();
        change(&mut report);
        let error = render::write(&report, &folder.path().join("out"), false)
            .unwrap_err()
            .to_string();
        assert!(!folder.path().join("out").exists());
        error
    };
    let table = |report: &mut Report, change: &dyn Fn(&mut Table)| {
        for block in report
            .sections
            .iter_mut()
            .flat_map(|section| &mut section.blocks)
        {
            if let Block::Table(table) = block {
                change(table);
            }
        }
    };
    assert!(
        refused(&|report| table(report, &|table| table.id = "../../etc/passwd".to_owned()))
            .contains("an id has only")
    );
    assert!(
        refused(&|report| table(report, &|table| table.id = "twice".to_owned()))
            .contains("two tables")
    );
    let short = refused(&|report| table(report, &|table| table.rows[1].truncate(1)));
    assert_eq!(short, "table tps: row 2 has 1 cells for 9 columns");
    assert!(
        refused(&|report| report.runs[0].id = "</script>".to_owned()).contains("run \"</script>\"")
    );
    assert!(refused(&|report| report.sections[0].id = String::new()).contains("section \"\""));
}

fn figures(report: &Report) -> Vec<Figure> {
    let blocks = report.blocks();
    blocks
        .filter_map(|block| match block {
            Block::Figure(figure) => Some(figure.clone()),
            _ => None,
        })
        .collect()
}

/// Attributes that are numbers, of all elements.
fn numbers(document: &roxmltree::Document<'_>) -> Vec<f64> {
    let names = ["x", "y", "x1", "x2", "y1", "y2", "width", "height"];
    let attributes = document.descendants().flat_map(|node| node.attributes());
    attributes
        .filter(|one| names.contains(&one.name()))
        .map(|one| one.value().parse().unwrap())
        .collect()
}

#[test]
fn every_figure_is_valid_xml_within_bounds_without_external_requests() {
    let report = sample::rich();
    let looks = SeriesStyles::of(&report);
    for figure in figures(&report) {
        for place in [svg::Surface::File, svg::Surface::Wide, svg::Surface::Narrow] {
            let text = svg::draw(&figure, &looks, place);
            let document = roxmltree::Document::parse(&text).unwrap();
            let root = document.root_element();
            let [width, height] = ["width", "height"]
                .map(|name| root.attribute(name).unwrap().parse::<f64>().unwrap());
            assert_eq!(
                root.attribute("viewBox").unwrap(),
                format!("0 0 {width} {height}")
            );
            let most = width.max(height);
            assert!(
                numbers(&document)
                    .iter()
                    .all(|number| (0.0..=most).contains(number)),
                "{}: {text}",
                figure.id
            );
            assert!(
                !text.contains("href")
                    && !text.contains("url(")
                    && !text.contains("NaN")
                    && !text.contains("inf")
            );
            assert!(!document.descendants().any(|node| {
                ["script", "image", "foreignObject"].contains(&node.tag_name().name())
            }));
        }
    }
}

#[test]
fn figures_of_extreme_numbers_are_valid_and_finite() {
    for log in [false, true] {
        for chart in wild_charts(log) {
            let figure = Figure {
                id: "f".to_owned(),
                title: sample::HOSTILE.to_owned(),
                caption: String::new(),
                chart,
            };
            let text = svg::draw(&figure, &SeriesStyles::default(), svg::Surface::File);
            let document = roxmltree::Document::parse(&text).unwrap();
            assert!(
                numbers(&document).iter().all(|number| number.is_finite()),
                "{text}"
            );
            assert!(!text.contains("NaN"), "{text}");
            html::page(&Report {
                sections: vec![Section {
                    id: "s".to_owned(),
                    title: String::new(),
                    blocks: vec![Block::Figure(figure)],
                }],
                ..Report::default()
            })
            .unwrap();
        }
    }
}

const WILD: [f64; 9] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    -1.0,
    0.0,
    1e300,
];

fn wild_charts(log: bool) -> [Chart; 12] {
    let y: Vec<Option<f64>> = WILD.iter().map(|value| Some(*value)).collect();
    let x: Vec<f64> = (0..9).map(f64::from).collect();
    let line = |x: Vec<f64>| Line {
        name: sample::HOSTILE.to_owned(),
        run: String::new(),
        x,
        y: y.clone(),
    };
    let bar = WILD
        .iter()
        .map(|value| Some((*value, Some((*value, f64::NAN)))))
        .collect();
    [
        Chart::Timeline(Timeline {
            series: vec![line(x.clone()), line(WILD.to_vec())],
            log,
            ..Timeline::default()
        }),
        Chart::Timeline(Timeline {
            unit: "B".to_owned(),
            log,
            ..Timeline::default()
        }),
        Chart::Histogram(Histogram {
            edges: WILD.to_vec(),
            series: vec![Counts {
                counts: WILD.to_vec(),
                ..Counts::default()
            }],
            log,
            ..Histogram::default()
        }),
        Chart::Histogram(Histogram::default()),
        Chart::Bars(Bars {
            categories: vec![sample::HOSTILE.to_owned(); 9],
            series: vec![BarSeries {
                name: String::new(),
                values: bar,
            }],
            log,
            ..Bars::default()
        }),
        Chart::Bars(Bars::default()),
        Chart::Curves(Curves {
            series: vec![wild_curve()],
            ..Curves::default()
        }),
        Chart::Curves(Curves::default()),
        Chart::Forest(wild_forest()),
        Chart::Forest(Forest::default()),
        Chart::Matrix(Matrix {
            names: vec!["a".to_owned(); 3],
            values: vec![vec![Some(f64::NAN), None]],
        }),
        Chart::Matrix(Matrix::default()),
    ]
}

fn wild_forest() -> Forest {
    let row = |value: &f64| ForestRow {
        name: sample::HOSTILE.to_owned(),
        ratio: (*value, Some((f64::NAN, *value))),
        ..ForestRow::default()
    };
    Forest {
        rows: WILD.iter().map(row).collect(),
        ..Forest::default()
    }
}

fn wild_curve() -> Curve {
    Curve {
        name: sample::HOSTILE.to_owned(),
        points: WILD
            .iter()
            .map(|value| (*value, (*value, Some((f64::NAN, *value)))))
            .collect(),
        highlight: Some((f64::MAX, 1.0)),
        ..Curve::default()
    }
}

#[test]
fn the_answers_of_several_arms_do_not_need_a_picture() {
    let mut report = sample::rich();
    report.overview.clear();
    let [one] = &report.answers[..] else {
        panic!("one arm")
    };
    report.answers = ["256 GiB", "64 GiB"]
        .map(|name| Answers {
            name: name.to_owned(),
            ..one.clone()
        })
        .to_vec();
    let page = html::page(&report).unwrap();
    assert_eq!(page.matches("<div class=\"answers\">").count(), 2);
}

#[test]
fn a_plot_line_breaks_at_missing_values_and_gaps_are_shaded() {
    let report = sample::rich();
    let looks = SeriesStyles::of(&report);
    let all = figures(&report);
    let drawn = |id: &str| {
        svg::draw(
            all.iter().find(|figure| figure.id == id).unwrap(),
            &looks,
            svg::Surface::Wide,
        )
    };
    let memory = drawn("memory");
    let document = roxmltree::Document::parse(&memory).unwrap();
    let pieces = |run: &str| {
        let mut paths = document
            .descendants()
            .filter(|node| node.attribute("data-run") == Some(run));
        paths
            .find_map(|node| Some(node.attribute("d")?.matches('M').count()))
            .unwrap()
    };
    assert_eq!((pieces("r256-1"), pieces("r256-2")), (1, 2));
    assert_eq!(memory.matches("class=\"pgap st\"").count(), 1);
    let one = drawn("anonymous-and-file");
    assert_eq!(
        one.matches("<rect class=\"gap\" ").count(),
        2,
        "the band and its entry in the legend"
    );
}

#[test]
fn a_markdown_table_is_aligned_and_escapes_markup() {
    let report = sample::rich();
    let text = markdown::markdown(&report);
    let golden = "\
| arm | runs | TPS, mean (/s) | TPS, maximum (/s) | at zero TPS (s) | replay time per slot, p95 (ms) | difference to 256 GiB (%) | caught up (h:mm) | kept up |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |
| 256 GiB | 3 | 4,567.9 \\[4,410.2, 4,730.7\\] | 11,234 | 0 | 310.5 \\[300.1, 320.9\\] | – (the reference) | 1:02 | in 3 of 3 |
";
    assert!(text.contains(golden), "{text}");
    let hostile = "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt; \"quo'te\" --&gt; [U+202E]txt.exe \\|\\*\\_\\`";
    assert!(
        text.contains(&hostile.replace('[', "\\[").replace(']', "\\]")),
        "{text}"
    );
    assert!(text.contains("| \\=cmd\\|' /C calc'\\!A0 |"), "{text}");
    assert!(text.contains("| 1\\. not a list |"), "{text}");
    assert!(text.contains("![Memory over time, by arm](figures/memory.svg)"));
    let pipes = |line: &str| line.matches('|').count() - line.matches("\\|").count();
    let mut inside = 0;
    for line in text.lines() {
        let now = if line.starts_with('|') {
            pipes(line)
        } else {
            0
        };
        assert!(inside == 0 || now == 0 || inside == now, "{line}");
        inside = now;
    }
    assert!(!text.contains('\u{202e}') && !text.contains('<'));
}

/// A reader of RFC 4180 that shares nothing with the writer.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field, mut quoted) =
        (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quoted, letter) {
            (true, '"') if letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            (true, '"') => quoted = false,
            (true, letter) => field.push(letter),
            (false, '"') => quoted = true,
            (false, ',') => record.push(mem::take(&mut field)),
            (false, '\r') => {
                assert_eq!(letters.next(), Some('\n'));
                record.push(mem::take(&mut field));
                records.push(mem::take(&mut record));
            }
            (false, letter) => field.push(letter),
        }
    }
    assert!(
        field.is_empty() && record.is_empty(),
        "the last line has its end"
    );
    records
}

#[test]
fn a_csv_has_full_precision_interval_columns_and_missing_value_reasons() {
    let files = files(&sample::rich());
    let tps = records(&files["tables/tps.csv"]);
    assert_eq!(
        tps[0],
        [
            "arm",
            "runs",
            "TPS, mean [/s]",
            "TPS, mean low [/s]",
            "TPS, mean high [/s]",
            "TPS, maximum [/s]",
            "at zero TPS [s]",
            "replay time per slot, p95 [ms]",
            "replay time per slot, p95 low [ms]",
            "replay time per slot, p95 high [ms]",
            "difference to 256 GiB [%]",
            "difference to 256 GiB low [%]",
            "difference to 256 GiB high [%]",
            "difference to 256 GiB missing because",
            "caught up [h:mm]",
            "caught up missing because",
            "kept up",
        ]
    );
    assert_eq!(
        tps[1][..5],
        ["256 GiB", "3", "4567.891234", "4410.2", "4730.7"]
    );
    assert_eq!(tps[1][10..14], ["", "", "", "the reference"]);
    assert_eq!(tps[3][14..16], ["", "never reached the tip"]);
    assert!(tps.iter().all(|record| record.len() == tps[0].len()));

    let labels = records(&files["tables/labels.csv"]);
    assert_eq!(
        labels[1],
        ["'=cmd|' /C calc'!A0", "-1.5", "", "a, \"b\"  c"]
    );
    let hostile = sample::HOSTILE.replace('\u{202e}', "[U+202E]");
    assert_eq!(labels[2], [&hostile, "", &hostile, ""]);
    assert_eq!(
        labels[3],
        ["'@sum", "", "not a finite number", "1. not a list"]
    );
}

#[test]
fn an_empty_table_has_only_a_header() {
    let table = Table {
        columns: vec![Column {
            title: "a".to_owned(),
            unit: String::new(),
        }],
        ..Table::default()
    };
    assert_eq!(csv::csv(&table), "a\r\n");
    assert_eq!(markdown::table(&table), "| a |\n| --- |\n");
}

#[test]
fn embedded_page_data_cannot_close_its_script_element() {
    let page = html::page(&sample::rich()).unwrap();
    let (_, rest) = page
        .split_once(r#"<script type="application/json" id="Data">"#)
        .unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    assert!(!data.contains('<') && !data.contains('>') && !data.contains('&'));
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let marks = data["charts"][0]["marks"].as_array().unwrap();
    assert!(
        marks
            .iter()
            .any(|mark| mark["short"].as_str().unwrap().starts_with("</script><img"))
    );
    assert_eq!(page.matches("<script").count(), 3);
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_page_tables_csv_equals_the_csv_file() {
    let files = files(&sample::rich());
    let (_, rest) = files["report.html"]
        .split_once("data:text&#x2f;csv;charset=utf-8,")
        .unwrap();
    let mut bytes = Vec::new();
    let mut letters = rest.split_once('"').unwrap().0.bytes();
    while let Some(letter) = letters.next() {
        bytes.push(match letter {
            b'%' => {
                let digits = [letters.next().unwrap(), letters.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            letter => letter,
        });
    }
    assert_eq!(String::from_utf8(bytes).unwrap(), files["tables/tps.csv"]);
}

#[test]
fn a_report_with_long_series_is_thinned_with_a_note() {
    let x: Vec<f64> = (0..200_000).map(f64::from).collect();
    let y: Vec<Option<f64>> = x
        .iter()
        .map(|at| Some((at / 1000.0).sin() + at % 7.0))
        .collect();
    let series = vec![Line {
        name: "long".to_owned(),
        run: String::new(),
        x,
        y,
    }];
    let chart = Chart::Timeline(Timeline {
        series,
        ..Timeline::default()
    });
    let figure = Figure {
        id: "f".to_owned(),
        title: "f".to_owned(),
        caption: String::new(),
        chart,
    };
    let section = Section {
        id: "s".to_owned(),
        title: "s".to_owned(),
        blocks: vec![Block::Figure(figure)],
    };
    let page = html::page(&Report {
        sections: vec![section],
        ..Report::default()
    })
    .unwrap();
    assert!(page.len() < 500_000, "{}", page.len());
    assert!(page.contains("the recordings have all values"));
}

#[test]
fn the_charting_library_matches_its_published_digest() {
    // Of the files in the npm package uplot 1.6.32.
    let published = [
        (
            "uPlot.iife.min.js",
            "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        ),
        (
            "uPlot.min.css",
            "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        ),
        (
            "uPlot.LICENSE",
            "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
        ),
    ];
    for (name, sum) in published {
        let bytes = fs::read(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../pages/assets/vendor")
                .join(name),
        )
        .unwrap();
        let found: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(found, sum, "{name}");
    }
}

#[test]
fn no_asset_can_close_its_enclosing_element() {
    for name in [
        "report.js",
        "report.css",
        "vendor/uPlot.iife.min.js",
        "vendor/uPlot.min.css",
    ] {
        let text = fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../pages/assets")
                .join(name),
        )
        .unwrap();
        assert!(!text.contains("</") && !text.contains("<!--"), "{name}");
    }
}

#[test]
fn figure_file_colours_are_those_of_the_light_theme() {
    let asset = |name: &str| {
        fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../pages/assets")
                .join(name),
        )
        .unwrap()
    };
    let (figure, page) = (asset("figure.css"), asset("report.css"));
    let light = page.split_once("@media").unwrap().0;
    let of_page = |name: &str| light.split_once(&format!("--{name}: ")).unwrap().1[..7].to_owned();
    let classes = "k0 k1 k2 k3 k4 k5 k6 k7 kn b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 b10 b11 b12 gap p0 p1 p2 p3 p4 p5 p6 p7 p8 p9 p10 p11 p12 pgap pos neg na better worse";
    for name in classes.split(' ') {
        let rule = figure
            .lines()
            .find(|line| line.starts_with(&format!(".{name}{{")))
            .unwrap();
        assert!(rule.contains(&of_page(name)), "{name}: {rule}");
    }
}
