use super::*;

#[test]
fn the_demo_folder_is_private_and_removed_with_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let (one, two) = (new_folder().unwrap(), new_folder().unwrap());
    assert_ne!(one.path(), two.path());
    assert!(
        one.path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("faultline-demo-")
    );
    assert_eq!(
        std::fs::metadata(one.path()).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let (gone, other) = (one.path().to_owned(), two.path().to_owned());
    drop(one);
    assert!(!gone.exists() && other.exists());
}

#[test]
fn the_reserved_port_is_closed_until_a_listener_binds() {
    let (socket, port) = reserve_port().unwrap();
    let connect = || std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    assert_eq!(
        connect().unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
    rustix::net::listen(&socket, 1).unwrap();
    connect().unwrap();
}

#[test]
fn starting_a_program_that_is_not_the_mock_validator_fails() {
    let Err(error) = start(
        Path::new("/bin/true"),
        SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        None,
        None,
    ) else {
        panic!("true is no validator")
    };
    assert!(
        error.to_string().contains("ended before it was ready"),
        "{error:#}"
    );
}
