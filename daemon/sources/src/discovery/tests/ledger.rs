use super::{
    super::ledger::{LedgerSearch, listener_pid, lock_holders},
    scan::run_by,
    *,
};
use rustix::io::Errno;
use std::{
    fs,
    os::unix::{fs::MetadataExt, net::UnixListener},
};

/// `proc/locks` of a host where `pid` holds the lock on a file.
fn lock(host: &FakeHost, pid: u32, file: &std::path::Path) {
    let meta = fs::metadata(file).unwrap();
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let line = format!(
        "1: FLOCK  ADVISORY  WRITE {pid} {major:02x}:{minor:02x}:{} 0 EOF\n",
        meta.ino()
    );
    host.write("proc/locks", line).unwrap();
}

#[test]
fn the_ledger_lock_owner_is_the_validator_unless_preparing_the_ledger() {
    let host = host();
    let ledger = tempfile::tempdir().unwrap();
    fs::write(ledger.path().join("ledger.lock"), "").unwrap();
    FakeProcess::validator(77)
        .line("agave-validator --ledger /elsewhere")
        .write_to(&host);
    lock(&host, 77, &ledger.path().join("ledger.lock"));
    let fixture = SearchFixture::new(&host);
    let mut by_ledger = LedgerSearch::new(ledger.path());
    let target = by_ledger.find(&fixture.context()).unwrap();
    assert_eq!((target.process.pid, target.found_by), (77, "ledger.lock"));
    FakeProcess::validator(77)
        .line("agave-validator --ledger /elsewhere init")
        .write_to(&host);
    assert_eq!(pid_of(&by_ledger.find(&fixture.context())), None);
}

#[test]
fn the_validator_using_the_ledger_is_found_under_any_path() {
    let host = host();
    let ledger = tempfile::tempdir().unwrap();
    let fixture = SearchFixture::new(&host);
    let mut by_ledger = LedgerSearch::new(ledger.path());
    assert!(
        problem_text(&by_ledger.find(&fixture.context()))
            .starts_with("absent: no process listens on")
    );
    FakeProcess::validator(77)
        .line("agave-validator --ledger /data")
        .write_to(&host);
    FakeProcess::validator(78)
        .line(&format!(
            "agave-validator --ledger {}",
            ledger.path().display()
        ))
        .write_to(&host);
    assert_eq!(pid_of(&by_ledger.find(&fixture.context())), Some(78));
    host.remove("proc/78").unwrap();
    assert_eq!(pid_of(&by_ledger.find(&fixture.context())), None);
    host.write("proc/77/root/x", "").unwrap();
    std::os::unix::fs::symlink(ledger.path(), host.path("proc/77/root/data")).unwrap();
    assert_eq!(pid_of(&by_ledger.find(&fixture.context())), Some(77));
}

#[test]
fn another_users_process_using_the_ledger_is_not_a_successor() {
    let host = host();
    let ledger = tempfile::tempdir().unwrap();
    let lock_file = ledger.path().join("ledger.lock");
    fs::write(&lock_file, "").unwrap();
    let line = format!("agave-validator --ledger {}", ledger.path().display());
    let appears = |pid, user| {
        FakeProcess::validator(pid).line(&line).write_to(&host);
        run_by(&host, pid, user);
        lock(&host, pid, &lock_file);
    };
    appears(77, 1000);
    let (fixture, mut by_ledger) = (SearchFixture::new(&host), LedgerSearch::new(ledger.path()));
    let before = by_ledger.find(&fixture.context()).unwrap();
    host.remove("proc/77").unwrap();
    appears(90, 1001);
    let context = SearchContext {
        previous_target: Some(&before),
        ..fixture.context()
    };
    let found = by_ledger.find(&context);
    assert_eq!(
        problem_text(&found)
            .matches("process 90 has a validator's name, but does not run as user ")
            .count(),
        1
    );
    appears(91, 1000);
    assert_eq!(pid_of(&by_ledger.find(&context)), Some(91));
    // The process ended before it could be followed. A process must still have its user.
    host.remove("proc/91").unwrap();
    assert_eq!(pid_of(&by_ledger.find(&context)), None);
}

#[test]
fn a_successor_that_ends_before_it_is_followed_does_not_hide_the_previous_user() {
    let host = host();
    let ledger = tempfile::tempdir().unwrap();
    let lock_file = ledger.path().join("ledger.lock");
    fs::write(&lock_file, "").unwrap();
    let appears = |pid, user| {
        FakeProcess::validator(pid).write_to(&host);
        run_by(&host, pid, user);
    };
    appears(77, 1000);
    lock(&host, 77, &lock_file);
    let (fixture, mut by_ledger) = (SearchFixture::new(&host), LedgerSearch::new(ledger.path()));
    let before = by_ledger.find(&fixture.context()).unwrap();
    host.remove("proc/77").unwrap();
    let own_pid = std::process::id();
    appears(own_pid, 1000);
    let listening = UnixListener::bind(ledger.path().join("admin.rpc")).unwrap();
    let context = SearchContext {
        previous_target: Some(&before),
        shares_pid_namespace: true,
        ..fixture.context()
    };
    let found = by_ledger.find(&context).unwrap();
    assert_eq!((found.process.pid, found.found_by), (own_pid, "admin.rpc"));
    drop(listening);
    host.remove(&format!("proc/{own_pid}")).unwrap();
    appears(90, 1001);
    lock(&host, 90, &lock_file);
    assert_eq!(pid_of(&by_ledger.find(&context)), None);
}

#[test]
fn the_kernel_gives_the_listener_of_the_admin_socket() {
    let ledger = tempfile::tempdir().unwrap();
    let socket = ledger.path().join("admin.rpc");
    assert_eq!(listener_pid(&socket), Err(Errno::NOENT));
    let listening = UnixListener::bind(&socket).unwrap();
    assert_eq!(listener_pid(&socket), Ok(Some(std::process::id())));
    let found = finder(
        config::TargetSelector::Ledger(ledger.path().into()),
        HostRoot::default(),
    )
    .find_once()
    .unwrap();
    assert_eq!(
        (found.process.pid, found.found_by),
        (std::process::id(), "admin.rpc")
    );
    drop(listening);
    assert_eq!(listener_pid(&socket), Err(Errno::CONNREFUSED));
}

#[tokio::test]
async fn querying_the_socket_listener_works_on_a_tokio_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.rpc");
    let _listening = UnixListener::bind(&socket).unwrap();
    assert_eq!(listener_pid(&socket), Ok(Some(std::process::id())));
}

#[test]
fn a_listener_that_never_accepts_does_not_block_discovery() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.rpc");
    let deaf = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&deaf, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&deaf, 0).unwrap();
    assert_eq!(listener_pid(&path), Ok(Some(std::process::id())));
    assert_eq!(listener_pid(&path), Err(Errno::AGAIN));
}

#[test]
fn the_kernel_lists_a_lock_of_the_current_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.lock");
    let file = fs::File::create(&path).unwrap();
    let root = HostRoot::default();
    assert_eq!(lock_holders(&root, &path), Ok(Vec::new()));
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert_eq!(lock_holders(&root, &path), Ok(vec![std::process::id()]));
}
