//! Name lookups of the C library, which a statically linked program cannot load plugins for.

use std::ffi::{CStr, c_char, c_int};

/// The databases that codebox looks up, with the services that the C library itself contains.
const SERVICES: [(&CStr, &CStr); 3] = [(c"hosts", c"files dns"), (c"passwd", c"files"), (c"group", c"files")];

// SAFETY: glibc declares the function with this signature, and the only build that has this module is linked with glibc.
unsafe extern "C" {
    /// Replaces the services of a database in `/etc/nsswitch.conf`, for this process.
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// Restricts lookups to services that need no plugin. A plugin would bring the machine's own C library into the process, which
/// can be another version.
///
/// Called before the process has other threads.
pub(crate) fn use_built_in_services() {
    for (database, services) in SERVICES {
        // SAFETY: both texts are static and end with a zero byte. The function fails only for texts that it does not
        // know, and changes nothing then.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}
