mod boot_time;
mod choice;
mod number;
mod os_release;
