//! Devices, buffers, typed launches and the PTX cache.
