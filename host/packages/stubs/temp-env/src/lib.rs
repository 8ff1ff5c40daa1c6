//! Empty: only tests of uv name `temp-env`.
