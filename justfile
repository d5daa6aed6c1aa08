# Every recipe is one command that can be typed as well.

# What there is.
default:
    @just --list

# All tests; those with a real validator where one is found.
test:
    cargo test --workspace

# What CI asks of the code before it runs it.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo run -q -p xtask -- tidy
    cargo run -q -p xtask -- metrics-doc --check
    cargo run -q -p xtask -- dashboards --check
    scripts/deny || [ $? = 3 ]

# Renews the expected pages; read the difference before you keep it.
golden:
    FAULTLINE_RENEW=1 cargo test -p faultlined --test faultlined golden
    git diff --stat -- daemon/faultlined/tests/cases

# Writes docs/METRICS.md from the catalog, and the API's pages.
docs:
    cargo run -q -p xtask -- metrics-doc
    cargo doc --workspace --no-deps

# The documents as a site: target/book/index.html.
book:
    scripts/book

# The daemon with its built-in stand-in: http://127.0.0.1:9912
demo:
    cargo run --release --bin faultlined -- run --demo

# A real leader and follower that push to the daemon's default port.
cluster *arguments:
    cargo run -p faultline-testkit --bin faultline-cluster -- --metrics http://127.0.0.1:9913 {{arguments}}

# All benchmarks.
bench:
    cargo bench --workspace

# Fuzzes every target.
fuzz seconds="60":
    scripts/fuzz {{seconds}}

# Everything CI does.
ci:
    .ci/run
