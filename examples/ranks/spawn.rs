//! Processes of this program, as torchrun starts them.

use std::{
    env,
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// How long the ranks that are left may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts so many ranks with this process's options, but for those by which it starts them.
fn start(ranks: usize, more: &[&str]) -> Result<Vec<Child>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(failed)?.port();
    let mut arguments = Vec::new();
    let mut given = env::args().skip(1);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--spawn" | "--kill" => drop(given.next()),
            a if a.starts_with("--spawn=") || a.starts_with("--kill=") => {}
            _ => arguments.push(argument),
        }
    }
    let program = env::current_exe().map_err(failed)?;
    let one = |rank: usize| {
        Command::new(&program)
            .args(&arguments)
            .args(more)
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", ranks.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.to_string())
            .env_remove("TORCHELASTIC_USE_AGENT_STORE")
            .stdout(if more.is_empty() { Stdio::inherit() } else { Stdio::piped() })
            .spawn()
            .map_err(failed)
    };
    (0..ranks).map(one).collect()
}

/// Starts ranks, and waits for them.
pub fn all(ranks: usize) -> Result<(), String> {
    let mut failed = Vec::new();
    for (rank, mut child) in start(ranks, &[])?.into_iter().enumerate() {
        if !child.wait().is_ok_and(|status| status.success()) {
            failed.push(rank);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("ranks {failed:?} failed")) }
}

/// Starts ranks, kills one in the middle of its sums, and sees the others end.
pub fn kill(ranks: usize, round: usize) -> Result<(), String> {
    let victim = round % ranks;
    let mut children = start(ranks, &["--until-lost"])?;
    let (send, lines) = mpsc::channel();
    for child in &mut children {
        let (out, send) = (child.stdout.take(), send.clone());
        thread::spawn(move || {
            for line in out.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
    }
    drop(send);
    let mut begun = 0;
    while begun < ranks {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => begun += usize::from(line.ends_with("has begun")),
            Err(_) => {
                children.iter_mut().for_each(|child| drop(child.kill()));
                return Err(format!("round {round}: {begun} of {ranks} ranks have begun"));
            }
        }
    }
    // Somewhere in a sum.
    thread::sleep(Duration::from_millis(3 * round as u64 % 50));
    children[victim].kill().map_err(|error| error.to_string())?;
    let until = Instant::now() + PATIENCE;
    for (rank, child) in children.iter_mut().enumerate() {
        loop {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) if rank == victim || status.success() => break,
                Some(status) => return Err(format!("round {round}: rank {rank} ended with {status}")),
                None if Instant::now() >= until => {
                    let _ = child.kill();
                    return Err(format!("round {round}: rank {rank} did not end within {PATIENCE:?}"));
                }
                None => thread::sleep(Duration::from_millis(10)),
            }
        }
    }
    lines.iter().for_each(|line| println!("round {round}: {line}"));
    Ok(())
}
