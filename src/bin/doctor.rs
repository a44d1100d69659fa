//! Prints what this machine has of what tilewright can use, and what to install for the rest:
//! `cargo run --bin doctor`.

fn main() {
    print!("{}", tilewright::doctor::Findings::examine());
}
