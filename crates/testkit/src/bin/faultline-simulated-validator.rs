//! A simulated validator whose behaviour is set beforehand: to test experiments.

use faultline_testkit::simulated::{self, Arguments, TRUTH_VARIABLE, Truth};
use std::{env, process::ExitCode};

const USAGE: &str = "\
usage: faultline-simulated-validator --ledger DIR [--truth FILE]... [options of a validator]
  --ledger DIR     folder of its lock and its admin socket
  --truth FILE     its settings, one key = value per line; the variable FAULTLINE_TRUTH overrides them
  --accounts DIR   folder of the file that it reads (default: the ledger)
  --identity FILE  a keypair; its public key is the identity
  --rpc-port N     port for JSON-RPC
All other arguments are ignored.";

/// Exit code of a validator that cannot start.
const FAILED: u8 = 1;
/// Wrong usage, as `sysexits.h` has it.
const WRONG_USAGE: u8 = 64;

fn main() -> ExitCode {
    let (arguments, truth) = match read() {
        Ok(read) => read,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    let code = simulated::run(&arguments, truth).unwrap_or_else(|error| {
        eprintln!("faultline-simulated-validator: {error}");
        FAILED
    });
    ExitCode::from(code)
}

fn read() -> Result<(Arguments, Truth), String> {
    let (mut arguments, mut truth) = (Arguments::default(), Truth::default());
    let mut words = env::args().skip(1);
    while let Some(name) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--ledger" => arguments.ledger = value()?.into(),
            "--accounts" => arguments.accounts = Some(value()?.into()),
            "--identity" => arguments.identity = Some(value()?.into()),
            "--rpc-port" => {
                let port = value()?;
                arguments.rpc_port = Some(
                    port.parse()
                        .map_err(|_| format!("--rpc-port {port}: no port"))?,
                );
            }
            "--truth" => truth
                .read_file(value()?.as_ref())
                .map_err(|error| error.to_string())?,
            _ => {}
        }
    }
    if let Ok(text) = env::var(TRUTH_VARIABLE) {
        truth
            .read(&text)
            .map_err(|error| format!("{TRUTH_VARIABLE}: {error}"))?;
    }
    if arguments.ledger.as_os_str().is_empty() {
        return Err("--ledger is missing".to_owned());
    }
    Ok((arguments, truth))
}
