use crate::ready_file;
use faultline_core::socket::InheritError;
use faultline_datapoints::ingest;
use faultline_http::web;
use faultline_recording::Error as RecordingError;
use std::error::Error;
use std::io::ErrorKind;

/// True if a restart cannot help, because the error is in the configuration or the units. The
/// service manager need not retry.
pub fn is_permanent(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        is_recording_error(cause) || is_socket_error(cause) || is_ready_file_error(cause)
    })
}

fn is_recording_error(cause: &(dyn Error + 'static)) -> bool {
    use RecordingError::{Damaged, Io, Leftover, Newer, NotARecording, OtherLabels, Truncated};
    match cause.downcast_ref() {
        Some(
            NotARecording { .. }
            | Newer { .. }
            | OtherLabels { .. }
            | Truncated { .. }
            | Damaged { .. }
            | Leftover { .. },
        ) => true,
        Some(Io { source, .. }) => {
            matches!(
                source.kind(),
                ErrorKind::PermissionDenied
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::NotADirectory
            )
        }
        _ => false,
    }
}

fn is_ready_file_error(cause: &(dyn Error + 'static)) -> bool {
    cause
        .downcast_ref()
        .is_some_and(ready_file::Error::is_permanent)
}

fn is_socket_error(cause: &(dyn Error + 'static)) -> bool {
    matches!(cause.downcast_ref(), Some(ingest::Error::NotLoopback(_)))
        || matches!(
            cause.downcast_ref(),
            Some(web::WebError::Exposed { .. } | web::WebError::Unprotected { .. })
        )
        || cause.is::<InheritError>()
}
