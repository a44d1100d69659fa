//! The proc macros tile_kernel and schedule.
