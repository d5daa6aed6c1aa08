//! Decodes the exposition with the wire format and the field numbers, without types of the encoder.

use super::*;
use std::collections::BTreeMap;

/// The fields of one message by number, in the order of arrival.
struct Fields<'a>(Vec<(u64, Field<'a>)>);

enum Field<'a> {
    Varint(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

fn chunk<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let length = varint(bytes) as usize;
    let (chunk, rest) = bytes.split_at(length);
    *bytes = rest;
    chunk
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl<'a> Fields<'a> {
    fn of(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => Field::Varint(varint(&mut bytes)),
                1 => {
                    let (double, rest) = bytes.split_at(8);
                    bytes = rest;
                    Field::Double(f64::from_le_bytes(double.try_into().unwrap()))
                }
                2 => Field::Bytes(chunk(&mut bytes)),
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, field));
        }
        Fields(fields)
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &Field<'a>> {
        self.0
            .iter()
            .filter(move |(n, _)| *n == number)
            .map(|(_, field)| field)
    }

    fn messages(&self, number: u64) -> Vec<Self> {
        let bytes = |field: &Field<'a>| {
            if let Field::Bytes(bytes) = field {
                Fields::of(bytes)
            } else {
                panic!()
            }
        };
        self.all(number).map(bytes).collect()
    }

    fn text(&self, number: u64) -> &'a str {
        let bytes = |field: &Field<'a>| {
            if let Field::Bytes(b) = field {
                std::str::from_utf8(b).unwrap()
            } else {
                ""
            }
        };
        self.all(number).map(bytes).next().unwrap_or_default()
    }

    fn varint(&self, number: u64) -> u64 {
        self.all(number)
            .map(|field| {
                if let Field::Varint(n) = field {
                    *n
                } else {
                    panic!()
                }
            })
            .next()
            .unwrap_or(0)
    }

    fn double(&self, number: u64) -> f64 {
        self.all(number)
            .map(|field| {
                if let Field::Double(x) = field {
                    *x
                } else {
                    panic!()
                }
            })
            .next()
            .unwrap_or(0.0)
    }
}

/// Name, type and series of every family of the exposition.
fn decode(mut page: &[u8]) -> Vec<(String, u64, Vec<Fields<'_>>)> {
    let mut families = Vec::new();
    while !page.is_empty() {
        let family = Fields::of(chunk(&mut page));
        assert!(!family.text(2).is_empty(), "{} has no help", family.text(1));
        families.push((
            family.text(1).to_owned(),
            family.varint(3),
            family.messages(4),
        ));
    }
    families
}

/// (index, count) of a native histogram's positive buckets, computed from spans and differences.
fn buckets(histogram: &Fields<'_>) -> Vec<(i64, i64)> {
    let mut deltas = Vec::new();
    for field in histogram.all(13) {
        let Field::Bytes(mut packed) = *field else {
            panic!()
        };
        while !packed.is_empty() {
            deltas.push(zigzag(varint(&mut packed)));
        }
    }
    let (mut index, mut count, mut found) = (0, 0, Vec::new());
    let mut deltas = deltas.into_iter();
    for span in histogram.messages(12) {
        index += zigzag(span.varint(1));
        for _ in 0..span.varint(2) {
            count += deltas.next().expect("a count for each bucket");
            found.push((index, count));
            index += 1;
        }
    }
    assert_eq!(deltas.next(), None, "a bucket for each count");
    found
}

type Series = BTreeMap<(String, BTreeMap<String, String>), f64>;

fn samples_of(page: &[u8]) -> Series {
    let mut samples = Series::new();
    for (name, kind, series) in decode(page) {
        for one in series {
            let labels: BTreeMap<String, String> = one
                .messages(1)
                .iter()
                .map(|pair| (pair.text(1).to_owned(), pair.text(2).to_owned()))
                .collect();
            let (gauge, counter, histogram) = (one.messages(2), one.messages(3), one.messages(7));
            match (kind, &gauge[..], &counter[..], &histogram[..]) {
                (0, [], [value], []) | (1, [value], [], []) => {
                    samples.insert((name.clone(), labels), value.double(1));
                }
                (4, [], [], [histogram]) => {
                    samples.insert(
                        (format!("{name}_count"), labels.clone()),
                        histogram.varint(1) as f64,
                    );
                    samples.insert((format!("{name}_sum"), labels.clone()), histogram.double(2));
                    for bucket in histogram.messages(3) {
                        let bound = bucket.double(2);
                        let le = if bound.is_infinite() {
                            "+Inf".to_owned()
                        } else {
                            format!("{bound:?}")
                        };
                        let labels = labels
                            .clone()
                            .into_iter()
                            .chain([("le".to_owned(), le)])
                            .collect();
                        samples.insert((format!("{name}_bucket"), labels), bucket.varint(1) as f64);
                    }
                }
                _ => panic!("{name}: type {kind} does not fit its values"),
            }
        }
    }
    samples
}

#[test]
fn the_protobuf_page_equals_the_classic_page() {
    let constant_labels = vec![("cluster", LabelText::from("testnet"))];
    let classic = String::from_utf8(
        encode(&some_of_each(), ExpositionFormat::Classic, &constant_labels).unwrap(),
    )
    .unwrap();
    let parsed = expose::parse_text(&classic).unwrap();
    let wanted: Series = parsed
        .samples
        .iter()
        .map(|s| {
            (
                (s.name.clone(), s.labels.clone().into_iter().collect()),
                s.value,
            )
        })
        .collect();
    let bytes = encode(
        &some_of_each(),
        ExpositionFormat::Protobuf,
        &constant_labels,
    )
    .unwrap();
    assert_eq!(samples_of(&bytes), wanted);
    for (name, kind, _) in decode(&bytes) {
        let word = ["counter", "gauge", "", "", "histogram"][kind as usize];
        assert_eq!(parsed.kind(&name), Some(word), "{name}");
    }
}

#[test]
fn native_buckets_contain_each_value_within_its_bounds() {
    let bytes = encode(
        &some_of_each(),
        ExpositionFormat::Protobuf,
        &ConstantLabels::new(),
    )
    .unwrap();
    let families = decode(&bytes);
    let (_, _, series) = families
        .iter()
        .find(|(name, ..)| name == "agave_replay_slot_seconds")
        .unwrap();
    let total = &series[0].messages(7)[0];
    assert_eq!(zigzag(total.varint(5)), 3);
    assert_eq!((total.double(6), total.varint(7)), (1.0 / 16384.0, 1));
    let index = |value: f64| (value.log2() * 8.0).ceil() as i64;
    assert_eq!(index(0.3), index(0.31));
    assert_eq!(
        buckets(total),
        [(index(0.3), 2), (index(0.4), 1), (index(7.5), 1), (48, 1)]
    );
}

#[test]
fn an_empty_histogram_is_still_exported_as_native() {
    let bytes = encode(
        &tick(vec![histogram(
            &metrics::validator::REPLAY_TIME,
            "load",
            &[],
        )]),
        ExpositionFormat::Protobuf,
        &ConstantLabels::new(),
    )
    .unwrap();
    let families = decode(&bytes);
    let empty = &families[0].2[0].messages(7)[0];
    assert_eq!(empty.messages(12).len(), 1);
    assert_eq!((buckets(empty).len(), empty.varint(1)), (0, 0));
}

#[test]
fn adjacent_native_buckets_share_a_span_with_signed_deltas() {
    let (found, deltas) = spans([(-3, 5), (-2, 1), (4, 7)].into_iter());
    assert_eq!(found, [(-3, 2), (5, 1)]);
    assert_eq!(deltas, [5, -4, 6]);
}
