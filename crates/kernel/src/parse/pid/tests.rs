mod pid_cmdline;
mod pid_environ;
mod pid_io;
mod pid_limits;
mod pid_schedstat;
