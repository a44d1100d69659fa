//! Processes: what torchrun would start.

use super::{checks::everything, free_port, in_time, sim};
use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};
use tilewright::{Buffer, Communicator, Error, Stream, World};

const TASK: &str = "TILEWRIGHT_TEST_TASK";
/// What a child says is behind this.
const SAYS: &str = "says: ";

/// Not a test: what a process that a test starts does.
#[test]
fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let say = |what: &dyn std::fmt::Display| println!("\n{SAYS}{what}");
    let joined = World::from_env().and_then(|world| Communicator::join(&world, &sim()));
    let all = match joined {
        Ok(all) => all,
        Err(error) => return say(&error),
    };
    let device = all.devices()[0].clone();
    let stream = Stream::new(&device).unwrap();
    match task.as_str() {
        "everything" => match everything(&all) {
            Ok(checks) => say(&format!("{} of {}: {}", all.rank(), all.ranks(), checks > 300)),
            Err(error) => say(&error),
        },
        // Sums until something goes wrong.
        "sums" => {
            let mut x = Buffer::<f32>::zeros(&device, &[257]).unwrap();
            let mut rounds = 0;
            let error = loop {
                if let Err(error) = all.all_reduce(&mut [&mut x], std::slice::from_ref(&stream)) {
                    break error;
                }
                rounds += 1;
                if rounds == 3 {
                    say(&"begun");
                }
            };
            assert!(matches!(error, Error::RankLost { .. }));
            say(&error);
        }
        other => panic!("{other}"),
    }
}

/// A process, and what it says, line by line.
struct Rank {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Rank {
    fn start(task: &str, variables: &[(&str, String)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["processes::child", "--exact", "--nocapture", "--test-threads=1"]).env(TASK, task);
        for name in ["TORCHELASTIC_USE_AGENT_STORE", "TILEWRIGHT_PORT", "TILEWRIGHT_TIMEOUT"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix(SAYS) {
                    let _ = send.send(said.to_string());
                }
            }
        });
        Rank { child, lines }
    }

    fn says(&self) -> String {
        self.lines.recv_timeout(super::LONG).expect("it says something in time")
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn variables(rank: usize, ranks: usize, port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", ranks.to_string()),
        ("LOCAL_RANK", rank.to_string()),
        ("MASTER_ADDR", "127.0.0.1".into()),
        ("MASTER_PORT", port.to_string()),
    ]
}

fn start(task: &str, ranks: usize) -> Vec<Rank> {
    let port = free_port();
    (0..ranks).map(|rank| Rank::start(task, &variables(rank, ranks, port))).collect()
}

#[test]
fn collectives_of_two_to_four_processes() {
    for count in [2, 3, 4] {
        let processes = start("everything", count);
        for (rank, process) in processes.iter().enumerate() {
            assert_eq!(process.says(), format!("{rank} of {count}: true"));
        }
    }
}

#[test]
fn a_killed_process_is_an_error_for_the_others() {
    for count in [2, 3, 4] {
        for victim in [0, count - 1] {
            let mut processes = start("sums", count);
            processes.iter().for_each(|process| assert_eq!(process.says(), "begun"));
            processes[victim].child.kill().unwrap();
            for (rank, process) in processes.iter().enumerate().filter(|(rank, _)| *rank != victim) {
                let said = in_time(|| process.says());
                let expected = format!(
                    "the ranks work together no more: rank {victim} is gone: its process ended, or gave up, without a word"
                );
                assert_eq!(said, expected, "{rank} of {count}");
            }
        }
    }
}

/// A process that stands still says nothing.
#[cfg(unix)]
#[test]
fn a_stopped_process_is_an_error_for_the_others() {
    let port = free_port();
    let with_timeout = |rank| {
        let mut variables = variables(rank, 2, port);
        variables.push(("TILEWRIGHT_TIMEOUT", "4".into()));
        Rank::start("sums", &variables)
    };
    let processes = [with_timeout(0), with_timeout(1)];
    processes.iter().for_each(|process| assert_eq!(process.says(), "begun"));
    let stopped = Command::new("kill").args(["-STOP", &processes[1].child.id().to_string()]).status();
    if !stopped.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no `kill`");
        return;
    }
    assert_eq!(
        in_time(|| processes[0].says()),
        "the ranks work together no more: rank 1 is gone: nothing was heard of it for 4 s"
    );
}

#[test]
fn a_late_process_is_waited_for() {
    let port = free_port();
    // Rank 0, which serves the rendezvous, comes last.
    let first = Rank::start("everything", &variables(1, 2, port));
    thread::sleep(Duration::from_millis(500));
    let second = Rank::start("everything", &variables(0, 2, port));
    assert_eq!((first.says(), second.says()), ("1 of 2: true".into(), "0 of 2: true".into()));
}

#[test]
fn a_process_that_does_not_come_is_named() {
    let port = free_port();
    let with_timeout = |rank, timeout: &str| {
        let mut variables = variables(rank, 3, port);
        variables.push(("TILEWRIGHT_TIMEOUT", timeout.into()));
        Rank::start("everything", &variables)
    };
    let processes = [with_timeout(0, "5"), with_timeout(2, "60")];
    for process in processes {
        assert_eq!(
            in_time(|| process.says()),
            format!("no rendezvous at 127.0.0.1:{port}: rank 1 of 3 did not come within 5 s")
        );
    }
}

#[test]
fn a_process_of_another_world_is_told() {
    let port = free_port();
    let processes = [
        Rank::start("everything", &variables(0, 2, port)),
        Rank::start("everything", &variables(1, 3, port)),
    ];
    for process in processes {
        assert_eq!(
            process.says(),
            format!(
                "no rendezvous at 127.0.0.1:{port}: rank 1 says that there are 3 ranks, and rank 0 that there are 2"
            )
        );
    }
}

#[test]
fn a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let process = Rank::start("everything", &variables(0, 2, port));
    assert_eq!(process.says(), format!("no rendezvous at 127.0.0.1:{port}: the port is taken"));
    // Unless there is another for it.
    let other = free_port();
    let elsewhere = |rank| {
        let mut variables = variables(rank, 2, port);
        variables.push(("TILEWRIGHT_PORT", other.to_string()));
        Rank::start("everything", &variables)
    };
    let processes = [elsewhere(0), elsewhere(1)];
    assert_eq!(processes[0].says(), "0 of 2: true");
    assert_eq!(processes[1].says(), "1 of 2: true");
}

#[test]
fn variables_are_read() {
    let mut variables = variables(0, 2, 1);
    variables[0].1 = "first".into();
    let process = Rank::start("everything", &variables);
    assert_eq!(process.says(), "RANK is `first`, and no number from 0 to 1");
}
