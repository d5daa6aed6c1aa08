use anyhow::{Context, Result, ensure};
use brotli::enc::BrotliEncoderParams;
use faultline_zlib::{Compressor, Decompressor};
use lzokay::compress::{Dict, compress_no_alloc, compress_worst_size};
use snap::raw;
use zstd::{bulk, zstd_safe};

pub const CODEC_NAMES: &str = "zlib-1 to zlib-9, zstd-1 to zstd-22 (with a trained dictionary: zstd-3+dict), brotli-0 to brotli-11, lz4, snappy, lzo";

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Codec {
    Zlib(i32),
    Zstd(i32),
    ZstdDictionary(i32),
    Brotli(i32),
    Lz4,
    Snappy,
    Lzo,
}

impl Codec {
    /// Parses `zstd-3`, `zstd-3+dict`, or `zstd` with its default level.
    pub fn named(name: &str) -> Option<Self> {
        let (family, options) = match name {
            "lz4" => return Some(Self::Lz4),
            "snappy" => return Some(Self::Snappy),
            "lzo" => return Some(Self::Lzo),
            "zlib" => (name, "6"),
            "zstd" => (name, "3"),
            "brotli" => (name, "5"),
            _ => name.split_once('-')?,
        };
        let dictionary_level = options.strip_suffix("+dict");
        let level: i32 = dictionary_level.unwrap_or(options).parse().ok()?;
        Some(match (family, dictionary_level, level) {
            ("zlib", None, 1..=9) => Self::Zlib(level),
            ("zstd", None, 1..=22) => Self::Zstd(level),
            ("zstd", Some(_), 1..=22) => Self::ZstdDictionary(level),
            ("brotli", None, 0..=11) => Self::Brotli(level),
            _ => return None,
        })
    }

    pub fn needs_dictionary(self) -> bool {
        matches!(self, Self::ZstdDictionary(_))
    }

    pub fn name(self) -> String {
        match self {
            Self::Zlib(level) => format!("zlib-{level}"),
            Self::Zstd(level) => format!("zstd-{level}"),
            Self::ZstdDictionary(level) => format!("zstd-{level}+dict"),
            Self::Brotli(level) => format!("brotli-{level}"),
            Self::Lz4 => "lz4".to_owned(),
            Self::Snappy => "snappy".to_owned(),
            Self::Lzo => "lzo".to_owned(),
        }
    }

    /// Library and version; Cargo.toml pins the version.
    pub fn library(self) -> String {
        match self {
            Self::Zlib(_) => format!("zlib {}", faultline_zlib::version()),
            Self::Zstd(_) | Self::ZstdDictionary(_) => {
                format!("zstd {}", zstd_safe::version_string())
            }
            Self::Brotli(_) => "brotli (Rust) 9.1.1".to_owned(),
            Self::Lz4 => "lz4_flex 0.14.0".to_owned(),
            Self::Snappy => "snap 1.1.2".to_owned(),
            Self::Lzo => "lzokay 2.0.1".to_owned(),
        }
    }
}

/// Like a server, coders reuse working memory from record to record.
pub enum Coder {
    Zlib(Compressor, Decompressor),
    Zstd(bulk::Compressor<'static>, bulk::Decompressor<'static>),
    Brotli(i32),
    Lz4,
    Snappy(Box<raw::Encoder>),
    Lzo(Box<Dict>),
}

impl Coder {
    pub fn new(codec: Codec, dictionary: Option<&[u8]>) -> Result<Self> {
        Ok(match codec {
            Codec::Zlib(level) => Self::Zlib(Compressor::new(level)?, Decompressor::new()?),
            Codec::Zstd(level) => {
                Self::Zstd(bulk::Compressor::new(level)?, bulk::Decompressor::new()?)
            }
            Codec::ZstdDictionary(level) => {
                let dictionary = dictionary.context("there is no dictionary")?;
                Self::Zstd(
                    bulk::Compressor::with_dictionary(level, dictionary)?,
                    bulk::Decompressor::with_dictionary(dictionary)?,
                )
            }
            Codec::Brotli(level) => Self::Brotli(level),
            Codec::Lz4 => Self::Lz4,
            Codec::Snappy => Self::Snappy(Box::new(raw::Encoder::new())),
            Codec::Lzo => Self::Lzo(Dict::new()),
        })
    }

    /// `record` must not be empty.
    pub fn compress(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let written = match self {
            Self::Zlib(compressor, _) => {
                // Incompressible data grows by a few bytes per block.
                out.resize(record.len() + record.len() / 8 + 128, 0);
                compressor.compress(record, out)?
            }
            Self::Zstd(compressor, _) => {
                out.reserve(zstd_safe::compress_bound(record.len()));
                compressor.compress_to_buffer(record, out)?
            }
            Self::Brotli(level) => {
                let size_bits = usize::BITS - record.len().leading_zeros();
                let params = BrotliEncoderParams {
                    quality: *level,
                    lgwin: size_bits.clamp(16, 22) as i32,
                    size_hint: record.len(),
                    ..BrotliEncoderParams::default()
                };
                brotli::BrotliCompress(&mut &*record, out, &params)?;
                out.len()
            }
            Self::Lz4 => {
                out.resize(lz4_flex::block::get_maximum_output_size(record.len()), 0);
                lz4_flex::block::compress_into(record, out)?
            }
            Self::Snappy(encoder) => {
                out.resize(raw::max_compress_len(record.len()), 0);
                encoder.compress(record, out)?
            }
            Self::Lzo(work_memory) => {
                out.resize(compress_worst_size(record.len()), 0);
                compress_no_alloc(record, out, work_memory)?
            }
        };
        out.truncate(written);
        Ok(())
    }

    /// Fails if `out` does not get `size` bytes.
    pub fn decompress(&mut self, bytes: &[u8], size: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if !matches!(self, Self::Zstd(..) | Self::Brotli(_)) {
            out.resize(size, 0);
        }
        let written = match self {
            Self::Zlib(_, decompressor) => decompressor.decompress(bytes, out)?,
            Self::Zstd(_, decompressor) => {
                out.reserve(size);
                decompressor.decompress_to_buffer(bytes, out)?
            }
            Self::Brotli(_) => {
                brotli::BrotliDecompress(&mut &*bytes, out)?;
                out.len()
            }
            Self::Lz4 => lz4_flex::block::decompress_into(bytes, out)?,
            Self::Snappy(_) => raw::Decoder::new().decompress(bytes, out)?,
            Self::Lzo(_) => lzokay::decompress::decompress(bytes, out)?,
        };
        out.truncate(written);
        ensure!(out.len() == size, "{} bytes instead of {size}", out.len());
        Ok(())
    }

    pub fn round_trip(&mut self, record: &[u8], compressed: &mut Vec<u8>) -> Result<()> {
        let mut restored = Vec::new();
        self.compress(record, compressed)?;
        self.decompress(compressed, record.len(), &mut restored)?;
        ensure!(restored == record, "the restored record differs");
        Ok(())
    }
}

pub fn train_dictionary(records: &[&[u8]], max_bytes: usize) -> Result<Vec<u8>> {
    zstd::dict::from_samples(records, max_bytes)
        .context("zstd makes no dictionary: the records are too few or too small")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half random, half words.
    pub fn record(random: &mut fastrand::Rng, size: usize) -> Vec<u8> {
        (0..size)
            .map(|position| {
                if position % 64 < 32 {
                    random.u8(..)
                } else {
                    b"program invoked"[position % 15]
                }
            })
            .collect()
    }

    const ALL: [&str; 13] = [
        "zlib-1",
        "zlib",
        "zlib-9",
        "zstd-1",
        "zstd",
        "zstd-19",
        "zstd-3+dict",
        "brotli-0",
        "brotli-5",
        "brotli-11",
        "lz4",
        "snappy",
        "lzo",
    ];

    #[test]
    fn every_codec_restores_every_record() {
        let mut random = fastrand::Rng::with_seed(3);
        let samples: Vec<Vec<u8>> = (0..400).map(|_| record(&mut random, 600)).collect();
        let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
        let dictionary = train_dictionary(&samples, 8192).unwrap();
        for name in ALL {
            let codec = Codec::named(name).unwrap();
            assert_eq!(Codec::named(&codec.name()), Some(codec));
            let mut coder = Coder::new(codec, Some(&dictionary)).unwrap();
            let (mut packed, mut restored) = (Vec::new(), Vec::new());
            // No empty record: LZO cannot decompress its own output for it.
            for size in [2, 1, 3, 64, 300, 5000, 200_000, 1] {
                let record = record(&mut random, size);
                coder.compress(&record, &mut packed).unwrap();
                assert!(
                    size < 5000 || packed.len() < size,
                    "{name} {size} {}",
                    packed.len()
                );
                coder.decompress(&packed, size, &mut restored).unwrap();
                assert_eq!(restored, record, "{name} {size}");
                let noise: Vec<u8> = (0..size).map(|_| random.u8(..)).collect();
                coder.compress(&noise, &mut packed).unwrap();
                coder.decompress(&packed, size, &mut restored).unwrap();
                assert_eq!(restored, noise, "{name} {size}");
            }
        }
    }

    #[test]
    fn codec_libraries_have_the_versions_named_in_results() {
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        #[expect(clippy::disallowed_methods, reason = "asks cargo, in a test")]
        let metadata = std::process::Command::new(env!("CARGO"))
            .args(["metadata", "--format-version=1", "--locked", "--offline"])
            .args(["--filter-platform", &platform])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
        let package = |name: &str| {
            let all = metadata["packages"].as_array().unwrap();
            all.iter().find(|package| package["name"] == name).unwrap()
        };
        for (codec, crate_name) in [
            ("brotli", "brotli"),
            ("lz4", "lz4_flex"),
            ("snappy", "snap"),
            ("lzo", "lzokay"),
        ] {
            let library = Codec::named(codec).unwrap().library();
            let version = package(crate_name)["version"].as_str().unwrap();
            assert!(
                library.ends_with(&format!(" {version}")),
                "{library} {version}"
            );
        }
        assert!(
            Codec::named("zlib")
                .unwrap()
                .library()
                .starts_with("zlib 1.")
        );
        assert!(
            Codec::named("zstd")
                .unwrap()
                .library()
                .starts_with("zstd 1.")
        );
    }

    #[test]
    fn a_dictionary_improves_small_records_and_another_cannot_decode_them() {
        let mut random = fastrand::Rng::with_seed(4);
        let samples: Vec<Vec<u8>> = (0..400).map(|_| record(&mut random, 200)).collect();
        let dictionary =
            train_dictionary(&samples.iter().map(Vec::as_slice).collect::<Vec<_>>(), 8192).unwrap();
        let record = record(&mut random, 200);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        Coder::new(Codec::ZstdDictionary(3), Some(&dictionary))
            .unwrap()
            .compress(&record, &mut with)
            .unwrap();
        let mut plain = Coder::new(Codec::Zstd(3), None).unwrap();
        plain.compress(&record, &mut without).unwrap();
        assert!(
            with.len() < without.len(),
            "{} {}",
            with.len(),
            without.len()
        );
        assert!(plain.decompress(&with, 200, &mut without).is_err());
        assert!(train_dictionary(&[b"abc"], 8192).is_err());
    }

    #[test]
    fn an_unknown_codec_name_is_refused() {
        for bad in [
            "",
            "zip",
            "zlib-0",
            "zlib-10",
            "zstd-23",
            "zstd--1",
            "lz4-1",
            "brotli-12",
            "zstd-x",
            "lzo-",
        ] {
            assert_eq!(Codec::named(bad), None, "{bad}");
        }
    }
}
