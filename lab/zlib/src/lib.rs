//! The original zlib, for sizes to compare with published ones. flate2 has one backend in a build,
//! here zlib-rs. Its levels 1 to 8 compress less, as those of zlib-ng do.

#![expect(
    unsafe_code,
    reason = "zlib has only an interface in C; docs/decisions/0027 says what is checked"
)]

use libz_sys as zlib;
use std::{
    ffi::{CStr, c_int, c_void},
    fmt,
};

const WINDOW_BITS: c_int = 15;
const MEMORY_LEVEL: c_int = 8;
const STREAM_SIZE: c_int = size_of::<zlib::z_stream>() as c_int;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error(pub i32);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zlib fails with code {}", self.0)
    }
}

impl std::error::Error for Error {}

pub fn version() -> String {
    // SAFETY: zlib gives a constant text that ends with a zero.
    let version = unsafe { CStr::from_ptr(zlib::zlibVersion()) };
    version.to_string_lossy().into_owned()
}

/// From `Box::into_raw`: zlib's state points back to it, so it must not move.
struct Stream(*mut zlib::z_stream);

// SAFETY: the stream and what it points to have one owner, and zlib has no thread-local state.
unsafe impl Send for Stream {}

impl Stream {
    fn new() -> Self {
        let stream = zlib::z_stream {
            next_in: std::ptr::null_mut(),
            avail_in: 0,
            total_in: 0,
            next_out: std::ptr::null_mut(),
            avail_out: 0,
            total_out: 0,
            msg: std::ptr::null_mut(),
            state: std::ptr::null_mut(),
            zalloc: allocate,
            zfree: free,
            opaque: std::ptr::null_mut(),
            data_type: 0,
            adler: 0,
            reserved: 0,
        };
        Self(Box::into_raw(Box::new(stream)))
    }

    /// Runs `work` from `input` into `output`. Returns the bytes written.
    fn run(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        work: unsafe extern "C" fn(*mut zlib::z_stream, c_int) -> c_int,
    ) -> Result<usize, Error> {
        let length = |bytes: usize| u32::try_from(bytes).map_err(|_| Error(zlib::Z_BUF_ERROR));
        let (avail_in, avail_out) = (length(input.len())?, length(output.len())?);
        // SAFETY: the pointer is that of `new` until `drop`. zlib reads `avail_in` bytes of
        // `input`, which it does not change, and writes at most `avail_out` bytes of `output`. Both
        // outlive the call, and zlib uses neither after it.
        let (code, left) = unsafe {
            (*self.0).next_in = input.as_ptr().cast_mut();
            (*self.0).avail_in = avail_in;
            (*self.0).next_out = output.as_mut_ptr();
            (*self.0).avail_out = avail_out;
            let code = work(self.0, zlib::Z_FINISH);
            (code, (*self.0).avail_out as usize)
        };
        match code {
            zlib::Z_STREAM_END => Ok(output.len().saturating_sub(left)),
            // `deflate` returns `Z_OK` if `output` is too short.
            zlib::Z_OK => Err(Error(zlib::Z_BUF_ERROR)),
            code => Err(Error(code)),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the pointer is that of `Box::into_raw` in `new`, and nothing uses it after this.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

extern "C" fn allocate(_: *mut c_void, items: u32, size: u32) -> *mut c_void {
    // SAFETY: any sizes are allowed; a product that overflows gives null.
    unsafe { libc::calloc(items as usize, size as usize) }
}

extern "C" fn free(_: *mut c_void, memory: *mut c_void) {
    // SAFETY: zlib frees what `allocate` gave it, once.
    unsafe { libc::free(memory) }
}

pub struct Compressor(Stream);

impl Compressor {
    pub fn new(level: i32) -> Result<Self, Error> {
        let stream = Stream::new();
        // SAFETY: a stream with its allocators, the version of the linked library, and the size of
        // the stream type of `libz-sys`.
        let code = unsafe {
            zlib::deflateInit2_(
                stream.0,
                level,
                zlib::Z_DEFLATED,
                WINDOW_BITS,
                MEMORY_LEVEL,
                zlib::Z_DEFAULT_STRATEGY,
                zlib::zlibVersion(),
                STREAM_SIZE,
            )
        };
        match code {
            zlib::Z_OK => Ok(Self(stream)),
            code => Err(Error(code)),
        }
    }

    pub fn compress(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, Error> {
        // SAFETY: a stream that `deflateInit2_` has initialized.
        match unsafe { zlib::deflateReset(self.0.0) } {
            zlib::Z_OK => self.0.run(input, output, zlib::deflate),
            code => Err(Error(code)),
        }
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: as in `compress`; the stream itself is freed after this.
        unsafe { zlib::deflateEnd(self.0.0) };
    }
}

pub struct Decompressor(Stream);

impl Decompressor {
    pub fn new() -> Result<Self, Error> {
        let stream = Stream::new();
        // SAFETY: as in `Compressor::new`.
        let code =
            unsafe { zlib::inflateInit2_(stream.0, WINDOW_BITS, zlib::zlibVersion(), STREAM_SIZE) };
        match code {
            zlib::Z_OK => Ok(Self(stream)),
            code => Err(Error(code)),
        }
    }

    /// Returns the bytes written. Fails for an invalid record, or if `output` is too short.
    pub fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, Error> {
        // SAFETY: a stream that `inflateInit2_` has initialized.
        match unsafe { zlib::inflateReset(self.0.0) } {
            zlib::Z_OK => self.0.run(input, output, zlib::inflate),
            code => Err(Error(code)),
        }
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: as in `decompress`; the stream itself is freed after this.
        unsafe { zlib::inflateEnd(self.0.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of which some repeat.
    fn record(size: u32) -> Vec<u8> {
        let word = |place: u32| place.wrapping_mul(2_654_435_761) >> 27;
        (0..size)
            .map(|place| (word(place / 7) ^ word(place % 613)) as u8)
            .collect()
    }

    #[test]
    fn records_are_decompressed_individually_with_checked_lengths() {
        let (mut compressor, mut decompressor) =
            (Compressor::new(6).unwrap(), Decompressor::new().unwrap());
        for size in [20_000, 0, 1, 300, 100_000] {
            let record = record(size);
            let mut packed = vec![0; record.len() + 200];
            let length = compressor.compress(&record, &mut packed).unwrap();
            packed.truncate(length);
            let mut restored = vec![0; record.len()];
            let written = decompressor.decompress(&packed, &mut restored);
            assert_eq!((written, &restored), (Ok(record.len()), &record));
            let too_short = Err(Error(zlib::Z_BUF_ERROR));
            let short = compressor.compress(&record, &mut vec![0; length - 1]);
            assert_eq!(short, too_short, "{size}");
            if size > 0 {
                let short = decompressor.decompress(&packed, &mut restored[1..]);
                assert_eq!(short, too_short, "{size}");
            }
            assert!(
                decompressor
                    .decompress(&packed[..length - 1], &mut restored)
                    .is_err()
            );
        }
        assert!(Compressor::new(10).is_err());
        assert!(decompressor.decompress(b"no zlib", &mut [0; 9]).is_err());
    }

    #[test]
    fn compressed_sizes_match_zlib() {
        // Python's zlib.compress over zlib 1.2.13; zlib-rs gives 12,584, 7,636 and 7,420.
        for (level, size) in [(1, 8955), (6, 7417), (9, 7417)] {
            let mut packed = vec![0; 20_000];
            let length = Compressor::new(level)
                .unwrap()
                .compress(&record(20_000), &mut packed);
            assert_eq!(length, Ok(size), "{level}");
        }
        assert!(version().starts_with("1."), "{}", version());
    }
}
