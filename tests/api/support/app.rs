//! The server within the test's process.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use openvibe::{
    app::App,
    config::{Config, NotifyPace, parse_duration},
    db::Db,
    http::serve::Bounds,
    nodes::bus::Bus,
};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{ModelServer, Person, TestDatabase, id, sign_up, sign_up_with, text, within};

pub struct TestApp {
    pub base: String,
    pub model: ModelServer,
    pub(super) settings: BTreeMap<String, String>,
    bound: fn(&mut Bounds),
    /// Polling interval, if it differs from the default.
    pub(super) poll: Option<Duration>,
    stop: CancellationToken,
    running: JoinSet<()>,
    db: Option<Db>,
    bus: Option<Arc<Bus>>,
    metrics: Option<SocketAddr>,
    /// Shared with the server, so that no other test can use the database before the server has shut down.
    pub place: Arc<TestDatabase>,
}

/// Settings that all tests use, by name without the prefix.
pub fn settings(
    place: &TestDatabase,
    model: &ModelServer,
    others: &[(&str, &str)],
) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = place.settings().into_iter().collect();
    let fixed = [
        ("LISTEN", "127.0.0.1:0"),
        ("MODEL_BASE_URL", &model.url),
        ("MODEL_API_KEY", "sk-test-key"),
        ("RETRY_DELAYS", "10ms,20ms,30ms"),
        ("EXAMPLE", "off"),
    ];
    for (name, value) in fixed.iter().chain(others) {
        settings.insert((*name).to_owned(), (*value).to_owned());
    }
    settings
}

impl TestApp {
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a server with additional settings, whose names omit the prefix; an empty value unsets a setting.
    pub async fn with(others: &[(&str, &str)]) -> Self {
        Self::bounded(others, |_| {}).await
    }

    /// Starts a server with other bounds, for tests for which the default ones are too large or too slow.
    pub async fn bounded(others: &[(&str, &str)], bound: fn(&mut Bounds)) -> Self {
        let place = Arc::new(TestDatabase::migrated().await);
        let model = ModelServer::start().await;
        let settings = settings(&place, &model, others);
        let mut app = Self::unstarted(place, model, settings);
        app.bound = bound;
        app.run().await;
        app
    }

    /// Starts a server on a database that the test manages itself.
    pub async fn on(place: TestDatabase, others: &[(&str, &str)]) -> Self {
        let model = ModelServer::start().await;
        let settings = settings(&place, &model, others);
        let mut app = Self::unstarted(Arc::new(place), model, settings);
        app.run().await;
        app
    }

    /// Like `with`, but the node practically never polls, so that all events arrive over the bus.
    pub async fn on_bus_only(others: &[(&str, &str)]) -> Self {
        let place = Arc::new(TestDatabase::migrated().await);
        let model = ModelServer::start().await;
        let settings = settings(&place, &model, others);
        let mut app = Self::unstarted(place, model, settings);
        app.poll = Some(Duration::from_hours(1));
        app.run().await;
        app
    }

    pub(super) fn unstarted(
        place: Arc<TestDatabase>,
        model: ModelServer,
        settings: BTreeMap<String, String>,
    ) -> Self {
        Self {
            base: String::new(),
            model,
            place,
            settings,
            db: None,
            bus: None,
            metrics: None,
            bound: |_| {},
            poll: None,
            stop: CancellationToken::new(),
            running: JoinSet::new(),
        }
    }

    /// Checks whether the server knows of another one on its database.
    pub(super) fn has_peers(&self) -> bool {
        self.bus.as_ref().is_some_and(|bus| bus.has_peers())
    }

    /// Checks whether the server knows another one on its database that is ready for clients.
    pub(super) fn has_ready_peer(&self) -> bool {
        self.bus.as_ref().is_some_and(|bus| bus.has_ready_peer())
    }

    pub(super) async fn run(&mut self) {
        let mut settings = self.settings.clone();
        let retention = settings.remove("EVENT_RETENTION");
        let mut config = Config::from_values(settings).unwrap();
        if let Some(retention) = retention {
            // Tests cannot wait for the shortest time that the setting permits.
            config.event_retention = parse_duration(&retention).unwrap();
        }
        config.notify_pace = NotifyPace {
            settled_after: Duration::ZERO,
            check_every: Duration::from_millis(100),
        };
        config.password_cost = argon2::ParamsBuilder::new()
            .m_cost(argon2::Params::MIN_M_COST)
            .t_cost(1)
            .build()
            .unwrap();
        // Tests share the processor, and the vector of a question would come too late.
        config.embedding_wait = Duration::from_secs(3);
        config.program = env!("CARGO_BIN_EXE_openvibe").into();
        let mut app = App::build(config).await.unwrap();
        (self.bound)(app.bounds_mut());
        if let Some(interval) = self.poll {
            assert!(app.poll_every(interval));
        }
        self.base = format!("http://{}", app.address());
        self.db = Some(app.db());
        self.bus = Some(app.bus());
        self.metrics = app.metrics_address();
        self.place.keep_connection().await;
        self.stop = CancellationToken::new();
        let (stop, place) = (self.stop.clone(), Arc::clone(&self.place));
        self.running.spawn(async move {
            app.run(async move { stop.cancelled().await })
                .await
                .unwrap();
            drop(place);
        });
    }

    /// Address of `OPENVIBE_METRICS_LISTEN`.
    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics.unwrap()
    }

    /// The server's own database handle.
    pub fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Shuts the server down, as SIGTERM does.
    pub async fn stop(&mut self) {
        self.db = None;
        self.place.close().await;
        self.stop.cancel();
        while let Some(ended) = within("the server to stop", self.running.join_next()).await {
            ended.unwrap();
        }
    }

    /// Restarts the server with the same data and additional settings; its address changes.
    pub async fn restart(&mut self, others: &[(&str, &str)]) {
        self.stop().await;
        for (name, value) in others {
            self.settings
                .insert((*name).to_owned(), (*value).to_owned());
        }
        self.run().await;
    }

    /// Creates the first account and its workspace. Returns the user.
    pub async fn founder(&self, name: &str) -> Person {
        let form = match self.settings.get("SETUP_TOKEN") {
            Some(token) => json!({"setup_token": token}),
            None => json!({}),
        };
        let mut person = sign_up_with(&self.base, name, form).await;
        let workspace = person
            .post("/v1/workspaces", json!({"name": format!("{name} Works")}))
            .await
            .is(201);
        person.enter(&id(&workspace)).await;
        person
    }

    /// Adds a new user to the admin's workspace.
    pub async fn join(&self, admin: &Person, name: &str, role: &str) -> Person {
        let invite = admin
            .post("/v1/invites", json!({"role": role}))
            .await
            .is(201);
        sign_up(&self.base, name, Some(&text(&invite, "/token"))).await
    }

    /// Adds a guest to the channels of the admin with these names.
    pub async fn join_as_guest(&self, admin: &Person, name: &str, channels: &[&str]) -> Person {
        let mut ids = Vec::new();
        for channel in channels {
            ids.push(id(&admin.channel(channel).await));
        }
        let form = json!({"role": "guest", "channel_ids": ids});
        let invite = admin.post("/v1/invites", form).await.is(201);
        sign_up(&self.base, name, Some(&text(&invite, "/token"))).await
    }
}

impl Drop for TestApp {
    /// The server shuts down in the background, at the latest when the test's runtime ends.
    fn drop(&mut self) {
        self.place.try_close();
        self.stop.cancel();
        self.running.detach_all();
    }
}

/// A workspace with an admin, a member, and #general.
pub struct Team {
    pub app: TestApp,
    /// Admin.
    pub ada: Person,
    /// Member.
    pub bo: Person,
    /// ID of #general.
    pub general: String,
}

pub async fn team() -> Team {
    team_with(&[]).await
}

pub async fn team_with(settings: &[(&str, &str)]) -> Team {
    team_of(TestApp::with(settings).await).await
}

/// Creates the first workspace of a server.
pub async fn team_of(app: TestApp) -> Team {
    let ada = app.founder("Ada").await;
    let bo = app.join(&ada, "Bo", "member").await;
    let general = id(&ada.channel("general").await);
    Team {
        app,
        ada,
        bo,
        general,
    }
}

impl Team {
    pub fn model(&self) -> &ModelServer {
        &self.app.model
    }

    /// Waits until every task has ended or is parked.
    pub async fn settled(&self) {
        self.app.place.settled().await;
    }
}
