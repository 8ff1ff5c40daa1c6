//! The error numbers of WASI preview 1 that host functions answer with.

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const ACCES: i32 = 2;
pub(crate) const BADF: i32 = 8;
pub(crate) const DQUOT: i32 = 19;
pub(crate) const FAULT: i32 = 21;
pub(crate) const INVAL: i32 = 28;
pub(crate) const IO: i32 = 29;
pub(crate) const MFILE: i32 = 33;
pub(crate) const PIPE: i32 = 64;
pub(crate) const ROFS: i32 = 69;
pub(crate) const XDEV: i32 = 75;
