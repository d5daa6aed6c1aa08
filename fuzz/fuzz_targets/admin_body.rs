//! Any answer of the admin socket: no panic.
#![no_main]

use faultline_agave::admin::Method;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for method in Method::ALL {
        // The outcome does not matter, only that there is one.
        drop(method.read(1, data));
    }
});
