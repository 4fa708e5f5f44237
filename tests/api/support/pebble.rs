//! A certificate authority for one test: Debian's Pebble, with a DNS server that resolves every name to this machine.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use serde_json::json;

/// Ports below the range from which the system chooses, so that no other test gets one of them.
static NEXT_PORT: AtomicU16 = AtomicU16::new(15_000);

/// A port that nobody listens on, and that no other test of this process uses.
pub fn own_port() -> u16 {
    loop {
        let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        assert!(port < 32_000, "no free port");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub struct Pebble {
    children: Vec<Child>,
    dir: PathBuf,
    acme_port: u16,
    management_port: u16,
    /// Port for TLS-ALPN-01, on which the server must listen.
    pub https_port: u16,
    /// Port for HTTP-01, on which the server must listen.
    pub http_port: u16,
}

impl Pebble {
    /// Starts the authority. It rejects every fifth nonce, as it does by default.
    pub async fn start() -> Self {
        Self::requiring_account(false).await
    }

    /// Same as `start`; new accounts need the external account `kid-1` if `is_bound`.
    pub async fn requiring_account(is_bound: bool) -> Self {
        let dir = std::env::temp_dir().join(format!("openvibe-pebble-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&dir).unwrap();
        let ca = write_certificates(&dir);
        std::fs::write(dir.join("ca.pem"), ca).unwrap();
        let mut this = Self {
            children: Vec::new(),
            acme_port: own_port(),
            management_port: own_port(),
            https_port: own_port(),
            http_port: own_port(),
            dir,
        };
        let keys =
            json!({"kid-1": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"});
        let config = json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{}", this.acme_port),
            "managementListenAddress": format!("127.0.0.1:{}", this.management_port),
            "certificate": this.dir.join("cert.pem"),
            "privateKey": this.dir.join("key.pem"),
            "httpPort": this.http_port,
            "tlsPort": this.https_port,
            "externalAccountBindingRequired": is_bound,
            "externalAccountMACKeys": if is_bound { keys } else { json!({}) },
        }});
        let file = this.dir.join("pebble.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let (dns, management) = (own_port(), own_port());
        this.run(Command::new("pebble-challtestsrv").args([
            "-defaultIPv4",
            "127.0.0.1",
            "-defaultIPv6",
            "",
            "-dns01",
            &format!("127.0.0.1:{dns}"),
            "-management",
            &format!("127.0.0.1:{management}"),
            "-http01",
            "",
            "-https01",
            "",
            "-tlsalpn01",
            "",
        ]));
        this.run(
            Command::new("pebble")
                .args(["-strict", "-dnsserver", &format!("127.0.0.1:{dns}")])
                .arg("-config")
                .arg(&file)
                .env("PEBBLE_VA_NOSLEEP", "1")
                .env("PEBBLE_WFE_NONCEREJECT", "20"),
        );
        for port in [this.acme_port, this.management_port, management] {
            listening(port).await;
        }
        this
    }

    fn run(&mut self, command: &mut Command) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("log"))
            .unwrap();
        let child = command
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("pebble: run scripts/ensure-test-tools.sh");
        self.children.push(child);
    }

    /// Settings of a server for this name, over HTTPS.
    pub fn settings(&self, name: &str) -> Vec<(&'static str, String)> {
        vec![
            ("DOMAIN", name.to_owned()),
            ("LISTEN", format!("127.0.0.1:{}", self.https_port)),
            ("HTTP_LISTEN", format!("127.0.0.1:{}", self.http_port)),
            (
                "ACME_URL",
                format!("https://localhost:{}/dir", self.acme_port),
            ),
            ("CA_FILE", self.dir.join("ca.pem").display().to_string()),
            ("SECRET_KEY", super::SECRET_KEY.to_owned()),
        ]
    }

    /// A client that resolves this name to this machine, and trusts the authority's certificates.
    pub async fn client(&self, name: &str) -> reqwest::Client {
        let ca = std::fs::read(self.dir.join("ca.pem")).unwrap();
        let management = https_client(&ca, "localhost", self.management_port);
        let url = format!("https://localhost:{}/roots/0", self.management_port);
        let root = management.get(url).send().await.unwrap();
        let root = root.bytes().await.unwrap();
        https_client(&root, name, self.https_port)
    }

    /// Number of certificates issued so far.
    pub fn issued(&self) -> usize {
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap();
        log.matches("Issued certificate serial").count()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.kill());
            drop(child.wait());
        }
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

/// A client that resolves this name to this machine, and trusts this authority.
pub fn https_client(authority: &[u8], name: &str, port: u16) -> reqwest::Client {
    // Fails only if a provider was already installed in this process.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .tls_certs_merge([reqwest::Certificate::from_pem(authority).unwrap()])
        .resolve(name, ([127, 0, 0, 1], port).into())
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .tls_info(true)
        .build()
        .unwrap()
}

/// Writes the certificate of the authority's own listener, and returns its issuer.
pub fn write_certificates(dir: &Path) -> String {
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = rcgen::KeyPair::generate().unwrap();
    let root = ca.self_signed(&issuer).unwrap().pem();
    let issuer = rcgen::Issuer::new(ca, issuer);
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let own = own.signed_by(&key, &issuer).unwrap();
    std::fs::write(dir.join("cert.pem"), own.pem()).unwrap();
    std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    root
}

async fn listening(port: u16) {
    let listening = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    super::within("the certificate authority to listen", listening).await;
}
