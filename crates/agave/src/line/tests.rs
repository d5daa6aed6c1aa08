use super::*;
use crate::Reason;

fn split(body: &str) -> Vec<Result<String, Reason>> {
    split_with(LineSplitter::new(), body.as_bytes(), usize::MAX)
}

fn split_with(
    mut splitter: LineSplitter,
    body: &[u8],
    chunk: usize,
) -> Vec<Result<String, Reason>> {
    let mut found = Vec::new();
    let mut keep = |line: Result<&[u8], crate::BadLine>| {
        found.push(
            line.map(|line| String::from_utf8_lossy(line).into_owned())
                .map_err(|bad| bad.reason),
        );
    };
    for chunk in body.chunks(chunk.max(1)) {
        splitter.feed(chunk, &mut keep);
    }
    splitter.finish(&mut keep);
    found
}

fn lines(texts: &[&str]) -> Vec<Result<String, Reason>> {
    texts.iter().map(|text| Ok((*text).to_owned())).collect()
}

#[test]
fn lines_end_at_lf_or_crlf_and_empty_ones_are_skipped() {
    assert_eq!(
        split("a b=1i 1\r\n\n\r\nc d=2i 2\ne f=3i 3"),
        lines(&["a b=1i 1", "c d=2i 2", "e f=3i 3"])
    );
}

#[test]
fn a_newline_inside_a_string_does_not_end_the_line() {
    assert_eq!(
        split("p,host_id=A m=\"one\ntwo, \\\"three\\\"\n\" 1\nq,host_id=A x=1i 2\n"),
        lines(&[
            "p,host_id=A m=\"one\ntwo, \\\"three\\\"\n\" 1",
            "q,host_id=A x=1i 2"
        ])
    );
}

#[test]
fn an_unbalanced_quote_discards_only_its_own_line() {
    let body = "p,host_id=A m=\"C:\\\" 1\nbank_frozen,host_id=A slot=1i 2\nq,host_id=A x=2i 3\n";
    assert_eq!(
        split(body),
        lines(&[
            "p,host_id=A m=\"C:\\\" 1",
            "bank_frozen,host_id=A slot=1i 2",
            "q,host_id=A x=2i 3"
        ])
    );
}

#[test]
fn an_unbalanced_quote_ends_at_the_next_valid_point() {
    assert_eq!(
        split("p,host_id=A m=\"x\nno point\nq,host_id=A x=2i 3\n"),
        lines(&["p,host_id=A m=\"x\nno point", "q,host_id=A x=2i 3"])
    );
}

#[test]
fn a_quote_not_at_a_value_start_does_not_open_a_string() {
    assert_eq!(
        split("p,t=a\"b x=1i 1\nq x=1i 2\n"),
        lines(&["p,t=a\"b x=1i 1", "q x=1i 2"])
    );
}

#[test]
fn an_overlong_line_is_reported_once_and_skipped() {
    let body = format!(
        "{}\n{}\n{}\nok x=1i 1\n",
        "a".repeat(20),
        "b".repeat(21),
        "c".repeat(400)
    );
    for chunk in [1, 7, 1000] {
        let found = split_with(LineSplitter::with_max_line(20), body.as_bytes(), chunk);
        let expected = [
            Ok("a".repeat(20)),
            Err(Reason::TooLong),
            Err(Reason::TooLong),
            Ok("ok x=1i 1".into()),
        ];
        assert_eq!(found, expected, "chunks of {chunk}");
    }
}

#[test]
fn the_line_splitters_memory_is_bounded_for_any_input() {
    for filler in ["a", "=\"", "x=\"\nab", "\n\"="] {
        let mut splitter = LineSplitter::with_max_line(1024);
        for _ in 0..2_000 {
            splitter.feed(filler.repeat(50).as_bytes(), |line| line.is_ok());
            assert!(
                splitter.memory_bytes() <= 4 * 1024,
                "{filler:?}: {} bytes",
                splitter.memory_bytes()
            );
        }
    }
}

#[test]
fn a_truncated_body_leaves_no_partial_line() {
    let mut splitter = LineSplitter::new();
    splitter.feed(b"bank_frozen,host_id=A slot=12", |_| {
        panic!("not a whole line")
    });
    assert_eq!(splitter.reset(), 29);
    let mut found = 0;
    splitter.feed(b"q x=1i 1\n", |line| {
        found += usize::from(line == Ok(b"q x=1i 1"))
    });
    assert_eq!(found, 1);
}

#[test]
fn a_point_gives_name_tags_fields_and_time() {
    let point =
        Point::parse(b"cost,host_id=A,is_leader=true a=1i,b=-2i,c=1.5,d=1,e=false,f=\"x, \\\"y\\\" z=1i\",g=7u 99")
            .unwrap();
    assert_eq!(
        (point.name(), point.tag("host_id"), point.tag("is_leader")),
        ("cost", Some("A"), Some("true"))
    );
    assert_eq!(point.timestamp(), Some(99));
    let values: Vec<_> = point
        .fields()
        .map(|field| field.and_then(|field| field.value()).unwrap())
        .collect();
    let Some(Value::Str(text)) = values.get(5) else {
        panic!("{values:?}")
    };
    assert_eq!(
        (text.decode().as_ref(), text.raw()),
        ("x, \"y\" z=1i", "x, \\\"y\\\" z=1i")
    );
    assert_eq!(
        values[..5],
        [
            Value::Int(1),
            Value::Int(-2),
            Value::Float(1.5),
            Value::Float(1.0),
            Value::Bool(false)
        ]
    );
    assert_eq!(values.get(6), Some(&Value::Int(7)));
    assert_eq!(point.check(), Ok(()));
}

#[test]
fn a_key_ends_at_its_equals_sign_at_any_length() {
    for key in [
        "k",
        "p95_us",
        "a-b.c:d/e<f",
        "1234567",
        "12345678",
        "123456789",
        "abcdefg9",
        "é1é2é3é4é5",
        "0123456789abcdef0",
    ] {
        let line = format!("a,host_id=A {key}=1i,{key}{key}=\"=\" 7");
        let point = Point::parse(line.as_bytes()).unwrap();
        let keys: Vec<&str> = point.fields().map(|field| field.unwrap().key).collect();
        assert_eq!(keys, [key, &key.repeat(2)]);
    }
}

#[test]
fn a_point_without_a_time_has_none() {
    assert_eq!(Point::parse(b"a,host_id=A b=1i").unwrap().timestamp(), None);
    assert_eq!(
        Point::parse(b"a,host_id=A b=\"x 12\"").unwrap().timestamp(),
        None
    );
}

#[test]
fn floats_may_be_nan_or_infinite() {
    for (text, check) in [
        ("NaN", f64::is_nan as fn(f64) -> bool),
        ("inf", |f| f == f64::INFINITY),
        ("-inf", |f| f == f64::NEG_INFINITY),
    ] {
        let Ok(Value::Float(value)) = Value::parse(text) else {
            panic!("{text}")
        };
        assert!(check(value), "{text}");
    }
}

#[test]
fn each_kind_of_bad_line_names_its_reason() {
    let checked = |line: &'static [u8]| {
        Point::parse(line)
            .and_then(|point| point.check())
            .map_err(|bad| bad.reason)
    };
    for (line, reason) in [
        (&b""[..], Reason::NoName),
        (b",host_id=A x=1i 1", Reason::NoName),
        (b"{\"a\" b", Reason::NoName),
        (b"name", Reason::NoFields),
        (b"a,host_id=A 1700000000000000000", Reason::NoFields),
        (b"a,host_id=A  1", Reason::NoFields),
        (b"a,host_id x=1i 1", Reason::BadTag),
        (b"a,=A x=1i 1", Reason::BadTag),
        (b"a,host_id=A x 1", Reason::BadField),
        (b"a,host_id=A =1i 1", Reason::BadField),
        (b"a,host_id=A eight_by,=1i 1", Reason::BadField),
        (b"a,host_id=A nine_byte\"=1i 1", Reason::BadField),
        (b"a,host_id=A x=1i, 1", Reason::BadField),
        (b"a,host_id=A x=\"y\"z 1", Reason::BadField),
        (b"a,host_id=A x=\"y 1", Reason::UnbalancedQuote),
        (b"a,host_id=A x=1z 1", Reason::BadValue),
        (b"a,host_id=A x= 1", Reason::BadValue),
        (b"a,host_id=A x=9223372036854775808i 1", Reason::BadValue),
        (b"a,host_id=A x=\xff 1", Reason::NotUtf8),
    ] {
        assert_eq!(
            checked(line),
            Err(reason),
            "{}",
            String::from_utf8_lossy(line)
        );
    }
}

#[test]
fn a_parse_error_quotes_at_most_eighty_characters_of_the_line() {
    let line = format!("{}\n", "\u{e9}".repeat(500));
    let bad = Point::parse(line.as_bytes()).unwrap_err();
    assert_eq!(bad.text.as_str().chars().count(), 80);
}

#[test]
fn name_and_host_id_are_found_without_parsing_the_rest() {
    let line = b"bank_frozen,host_id=Abc,x=y \xff\xff";
    assert_eq!(
        (name_of(line), host_id_of(line, b"bank_frozen")),
        (Some(&b"bank_frozen"[..]), Some(&b"Abc"[..]))
    );
    assert_eq!(
        (
            name_of(b"x"),
            name_of(b",a=b"),
            host_id_of(b"a,tag=b c=1i", b"a")
        ),
        (None, None, None)
    );
}
