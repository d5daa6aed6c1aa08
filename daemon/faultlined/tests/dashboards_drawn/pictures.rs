//! Checks that the pictures in the documents have true color, so that a reader can tell red from
//! green.

use flate2::read::ZlibDecoder;
use std::{fs, io::Read, path::Path};

const MAX_BYTES: usize = 3_000_000;
const MIN_PIXELS: usize = 100;
/// Pictures without red: they have no threshold line and no fifth series.
const WITHOUT_RED: [&str; 2] = ["accounts.png", "validator.png"];
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Bytes of a pixel of eight bits each.
const RGB: usize = 3;

/// Number of saturated pixels of a picture, by color.
#[derive(Debug, Default)]
struct Pixels {
    red: usize,
    yellow: usize,
    green: usize,
}

impl Pixels {
    fn add(&mut self, &[red, green, blue]: &[u8; RGB]) {
        if red.max(green).max(blue) - red.min(green).min(blue) < 80 || blue > 140 {
            return;
        }
        match (red > 180, green) {
            (true, ..=110) => self.red += 1,
            (true, _) => self.yellow += 1,
            (false, 130..) => self.green += 1,
            _ => {}
        }
    }
}

fn be_u32(bytes: &[u8]) -> usize {
    u32::from_be_bytes(bytes.try_into().expect("four bytes")) as usize
}

/// The pixels of a PNG without interlacing. Otherwise, the reason why the file cannot be a
/// screenshot of the browser.
fn decode(png: &[u8]) -> Result<Vec<[u8; RGB]>, String> {
    let mut rest = png.strip_prefix(SIGNATURE).ok_or("it is no PNG")?;
    let (mut header, mut data): (&[u8], Vec<u8>) = (&[], Vec::new());
    while let Some((length, after)) = rest.split_at_checked(4) {
        let (kind, after) = after.split_at(4);
        let (chunk, after) = after.split_at(be_u32(length));
        match kind {
            b"IHDR" => header = chunk,
            b"IDAT" => data.extend_from_slice(chunk),
            _ => {}
        }
        rest = &after[4..];
    }
    if header[8..] != [8, 2, 0, 0, 0] {
        return Err(format!("it is not in true colour: {:?}", &header[8..]));
    }
    let mut rows = Vec::new();
    let decoded = ZlibDecoder::new(data.as_slice()).read_to_end(&mut rows);
    decoded.map_err(|error| error.to_string())?;
    Ok(unfilter(&rows, be_u32(&header[..4]) * RGB))
}

fn unfilter(rows: &[u8], width: usize) -> Vec<[u8; RGB]> {
    let mut above = vec![0; width];
    let mut pixels = Vec::new();
    for row in rows.chunks_exact(width + 1) {
        let (filter, mut line) = (row[0], row[1..].to_vec());
        for at in 0..width {
            let left = |row: &[u8]| at.checked_sub(RGB).map_or(0, |before| row[before]);
            let (a, b, c) = (left(&line), above[at], left(&above));
            let predicted = match filter {
                1 => a,
                2 => b,
                3 => a.midpoint(b),
                4 => paeth(a, b, c),
                _ => 0,
            };
            line[at] = line[at].wrapping_add(predicted);
        }
        pixels.extend(line.as_chunks().0);
        above = line;
    }
    pixels
}

/// The Paeth predictor: the nearest of left, above and upper left to their linear prediction.
fn paeth(a: u8, b: u8, c: u8) -> u8 {
    let [left, above, corner] = [a, b, c].map(i16::from);
    let distance = |value: i16| (left + above - corner - value).abs();
    if distance(left) <= distance(above) && distance(left) <= distance(corner) {
        a
    } else if distance(above) <= distance(corner) {
        b
    } else {
        c
    }
}

/// Why a picture is not acceptable.
fn problem(name: &str, png: &[u8]) -> Option<String> {
    let mut pixels = Pixels::default();
    match decode(png) {
        Ok(all) => all.iter().for_each(|pixel| pixels.add(pixel)),
        Err(why) => return Some(why),
    }
    let Pixels { red, yellow, green } = pixels;
    let has_red = WITHOUT_RED.contains(&name) || red >= MIN_PIXELS;
    let is_quantized = !has_red || yellow.min(green) < MIN_PIXELS;
    is_quantized.then(|| format!("too few saturated pixels: {pixels:?}"))
}

#[test]
fn pictures_of_dashboards_keep_red_yellow_and_green() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut bytes, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(root.join("grafana/dashboards")).expect("the dashboards") {
        let name = entry.expect("a dashboard").path().with_extension("png");
        let name = name.file_name().expect("a file").display().to_string();
        let png = fs::read(root.join("docs/images/dashboards").join(&name));
        let png = png.unwrap_or_default();
        bytes += png.len();
        wrong.extend(problem(&name, &png).map(|what| format!("{name}: {what}")));
    }
    assert_eq!(wrong, [""; 0]);
    assert!(bytes <= MAX_BYTES, "{bytes} bytes");
}
