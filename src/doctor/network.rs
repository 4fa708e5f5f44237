//! Checks `dns` and `ports`.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
};

use super::{
    finding::Finding,
    http,
    outside::{self, ProbeAnswer},
    subject::{CheckedServer, Program},
};
use crate::{blocking::blocking, config::Config, server::hosts::is_loopback_url};

/// Maximum number of addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// A name of the server, with its addresses.
struct Name {
    host: String,
    addresses: Vec<SocketAddr>,
}

pub(super) async fn check_dns(s: &CheckedServer) -> Finding {
    let names = names(s);
    if names.is_empty() {
        return Finding::skipped("the server has no name in the DNS");
    }
    let port = s.url().and_then(|url| url.port_or_known_default());
    let port = port.unwrap_or(443);
    let (mut problems, mut texts) = (Vec::new(), Vec::new());
    for host in names {
        let found = tokio::net::lookup_host((host.as_str(), port)).await;
        let addresses: BTreeSet<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
        if addresses.is_empty() {
            problems.push(Finding::failed(
                format!("{host} has no address"),
                format!("add an A or AAAA record for {host} that names this server"),
            ));
            continue;
        }
        let listed: Vec<String> = addresses
            .iter()
            .map(|found| found.ip().to_string())
            .collect();
        texts.push(format!("{host} is {}", listed.join(", ")));
        let name = Name {
            host,
            addresses: addresses.into_iter().take(ADDRESSES_MAX).collect(),
        };
        problems.extend(other_servers(s, &name).await);
    }
    Finding::of(problems, texts.join("; "))
}

/// Names in the DNS: that of the public URL, and those of the certificate.
fn names(s: &CheckedServer) -> BTreeSet<String> {
    let url = s.url().filter(|_| !is_loopback_url(&s.public_url));
    let host = url.and_then(|url| url.domain().map(str::to_owned));
    let tls = s.config.tls.iter().flat_map(|tls| tls.names.clone());
    host.into_iter().chain(tls).collect()
}

/// Addresses of a name at which another server answers. If no address leads to this server, the check of the public URL reports it,
/// unless a proxy is ruled out.
async fn other_servers(s: &CheckedServer, name: &Name) -> Vec<Finding> {
    let Ok(db) = s.database() else {
        return Vec::new();
    };
    if s.require_outgoing().is_err() {
        return Vec::new();
    }
    let asked = name.addresses.iter().map(|address| async move {
        let client = http::client_to(&name.host, *address).ok()?;
        let url = s.url()?;
        let base = format!("{}://{}:{}", url.scheme(), name.host, address.port());
        Some((*address, outside::ask(db, &client, &base).await))
    });
    let answers: Vec<(SocketAddr, ProbeAnswer)> = futures::future::join_all(asked)
        .await
        .into_iter()
        .flatten()
        .collect();
    let is_reached = answers
        .iter()
        .any(|(_, answer)| matches!(answer, ProbeAnswer::Own(_)));
    let wrong = answers.into_iter().filter_map(|(address, answer)| {
        let ip = address.ip();
        let problem = match answer {
            ProbeAnswer::Other { name: server, .. } if is_reached || s.has_tls() => {
                format!("{ip}, which is another server ({server})")
            }
            ProbeAnswer::Unreachable(text) if is_reached => format!("{ip}, which {text}"),
            ProbeAnswer::Own(_) | ProbeAnswer::Other { .. } | ProbeAnswer::Unreachable(_) => {
                return None;
            }
        };
        Some(Finding::failed(
            format!("{} is also {problem}", name.host),
            format!(
                "remove {ip} from the records of {}, or make it lead to this server",
                name.host
            ),
        ))
    });
    wrong.collect()
}

pub(super) async fn check_ports(s: &CheckedServer) -> Finding {
    let config = s.config.clone();
    match &s.program {
        Program::This(_) => Finding::ok(format!("the server listens on {}", s.target())),
        Program::Other(pid) => {
            let pid = *pid;
            let looked = blocking((), move || taken_ports(&config, pid)).await;
            looked.unwrap_or_else(|_| Finding::skipped("the ports were not read"))
        }
        Program::Stopped => {
            let looked = blocking((), move || free_ports(&config)).await;
            looked.unwrap_or_else(|_| Finding::skipped("the ports were not read"))
        }
    }
}

/// Settings with an address to listen on, and their values.
fn listens(config: &Config) -> Vec<(&'static str, String)> {
    let plain = config.tls.as_ref().map(|tls| tls.http_listen.clone());
    let main = ("OPENVIBE_LISTEN", config.listen.clone());
    let plain = plain.map(|listen| ("OPENVIBE_HTTP_LISTEN", listen));
    std::iter::once(main).chain(plain).collect()
}

fn free_ports(config: &Config) -> Finding {
    let (mut problems, mut free) = (Vec::new(), Vec::new());
    for (setting, listen) in listens(config) {
        match bind(&listen) {
            Ok(()) => free.push(listen),
            Err(e) => problems.push(explain(setting, &listen, &e)),
        }
    }
    Finding::of(problems, format!("{} can be used", free.join(" and ")))
}

fn bind(listen: &str) -> io::Result<()> {
    let bound = match TcpListener::bind(listen) {
        // A machine without IPv6, as at the start of the server.
        Err(e) if listen.starts_with("[::]:") && e.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(listen.replacen("[::]", "0.0.0.0", 1))
        }
        bound => bound,
    };
    bound.map(drop)
}

fn explain(setting: &str, listen: &str, e: &io::Error) -> Finding {
    let port = listen.rsplit_once(':').map_or(listen, |(_, port)| port);
    match e.kind() {
        io::ErrorKind::AddrInUse => match port.parse().ok().and_then(holder_of) {
            Some(holder) => Finding::failed(
                format!(
                    "port {port} is held by {} (PID {})",
                    holder.name, holder.pid
                ),
                format!("stop {}, or set {setting} to another port", holder.name),
            ),
            None => Finding::failed(
                format!("port {port} is held by another program"),
                format!("find it with `ss -ltnp`, or set {setting} to another port"),
            ),
        },
        io::ErrorKind::PermissionDenied => Finding::failed(
            format!("this user has no right to listen on port {port}"),
            "give the service AmbientCapabilities=CAP_NET_BIND_SERVICE, as `openvibe install` does",
        ),
        _ => Finding::failed(
            format!("the server cannot listen on {listen} ({e})"),
            format!("set {setting} to an address of this machine"),
        ),
    }
}

/// Checks the ports of a running server.
fn taken_ports(config: &Config, pid: Option<u32>) -> Finding {
    let (mut problems, mut taken) = (Vec::new(), Vec::new());
    for (setting, listen) in listens(config) {
        let port = listen
            .to_socket_addrs()
            .ok()
            .and_then(|mut found| found.next())
            .map(|address| address.port());
        let holder = port.and_then(holder_of);
        match holder {
            Some(holder) if pid.is_some_and(|pid| pid != holder.pid) => {
                problems.push(Finding::failed(
                    format!(
                        "port {} is held by {} (PID {}), not by the server",
                        port.unwrap_or_default(),
                        holder.name,
                        holder.pid
                    ),
                    format!("stop {}, or set {setting} to another port", holder.name),
                ));
            }
            // Without the right to see other people's processes, the holder is unknown.
            Some(_) => taken.push(listen),
            None if port == Some(0) || bind(&listen).is_err() => taken.push(listen),
            None => problems.push(Finding::warning(
                format!("the running server does not listen on {listen}"),
                format!("start it again with the present {setting}, or run this with the server's settings"),
            )),
        }
    }
    Finding::of(
        problems,
        format!("the server listens on {}", taken.join(" and ")),
    )
}

/// A process that listens on a port.
struct PortHolder {
    name: String,
    pid: u32,
}

/// The process that listens on a port, if it can be found: Linux lists sockets by number, and the sockets of each process.
fn holder_of(port: u16) -> Option<PortHolder> {
    let sockets: BTreeSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|table| listening_sockets(&fs::read_to_string(table).unwrap_or_default(), port))
        .map(|number| format!("socket:[{number}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.find(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        files.flatten().any(|file| {
            let target = fs::read_link(file.path()).unwrap_or_default();
            target.to_str().is_some_and(|name| sockets.contains(name))
        })
    })?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(PortHolder {
        name: name.trim().to_owned(),
        pid,
    })
}

/// Numbers of the sockets that listen on a port, in a table of Linux: the second column is the local address, the fourth the state,
/// of which 0A is listening, and the tenth the number.
fn listening_sockets(table: &str, port: u16) -> Vec<String> {
    let end = format!(":{port:04X}");
    let found = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_listening = columns.get(1)?.ends_with(&end) && *columns.get(3)? == "0A";
        is_listening.then(|| (*columns.get(9).unwrap_or(&"")).to_owned())
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_a_port_are_read_from_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n\
            \x20  1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0\n";
        assert_eq!(listening_sockets(table, 8080), ["4711"]);
        assert!(listening_sockets(table, 80).is_empty());
    }

    #[test]
    fn the_process_of_a_port_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let holder = holder_of(port).unwrap();
        assert_eq!(holder.pid, std::process::id());
        let taken = bind(&format!("127.0.0.1:{port}")).unwrap_err();
        let found = explain("OPENVIBE_LISTEN", &format!("127.0.0.1:{port}"), &taken);
        let held = format!(
            "port {port} is held by {} (PID {})",
            holder.name, holder.pid
        );
        assert_eq!(found.text, held);
    }
}
