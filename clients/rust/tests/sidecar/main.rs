//! The client against the real program, which the variable `BATON_BIN` names.

mod jobs;
mod leads;
mod locks;
mod support;
