//! Kernel IR to PTX through LLVM's NVPTX backend.
