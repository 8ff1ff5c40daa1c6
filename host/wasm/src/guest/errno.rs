//! The error numbers of WASI preview 1 that host functions return.

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const ACCES: i32 = 2;
pub(crate) const AGAIN: i32 = 6;
pub(crate) const BADF: i32 = 8;
pub(crate) const DEADLK: i32 = 16;
pub(crate) const DQUOT: i32 = 19;
pub(crate) const EXIST: i32 = 20;
pub(crate) const FAULT: i32 = 21;
pub(crate) const INVAL: i32 = 28;
pub(crate) const IO: i32 = 29;
pub(crate) const ISDIR: i32 = 31;
pub(crate) const MFILE: i32 = 33;
pub(crate) const NFILE: i32 = 41;
pub(crate) const NODEV: i32 = 43;
pub(crate) const NOENT: i32 = 44;
pub(crate) const NOSPC: i32 = 51;
pub(crate) const NOTDIR: i32 = 54;
pub(crate) const NOTSOCK: i32 = 57;
pub(crate) const PERM: i32 = 63;
pub(crate) const PIPE: i32 = 64;
pub(crate) const ROFS: i32 = 69;
pub(crate) const SPIPE: i32 = 70;
pub(crate) const XDEV: i32 = 75;
