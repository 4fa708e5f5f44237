//! Stores facts about models that their servers reported (`model::FactStore`).

use futures::{FutureExt, future::BoxFuture};
use uuid::Uuid;

use crate::{
    db::{Conn, Db, DbError, now},
    model::FactStore,
};

/// Maximum number of models read per server.
const MODELS_MAX: i64 = 1_000;

/// Stores facts in the table `model_facts`.
pub struct StoredFacts {
    pub db: Db,
}

async fn load(db: &Db, server: &str) -> Result<Vec<(String, String)>, DbError> {
    db.read()
        .await?
        .q("select model, facts from model_facts where server = $1 order by updated_at desc, model limit $2")
        .bind(server)
        .bind(MODELS_MAX)
        .all()
        .await
}

impl FactStore for StoredFacts {
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Vec<(String, String)>> {
        async move {
            load(&self.db, server).await.unwrap_or_else(|e| {
                tracing::warn!(error = %e, "facts about models could not be read; they will be learned again");
                Vec::new()
            })
        }
        .boxed()
    }

    fn save<'a>(&'a self, server: &'a str, model: &'a str, facts: String) -> BoxFuture<'a, ()> {
        let (server, model) = (server.to_owned(), model.to_owned());
        async move {
            let saved = self
                .db
                .write(Uuid::nil(), async move |c: &mut Conn| {
                    c.q("insert into model_facts (server, model, facts, updated_at) values ($1, $2, $3, $4) \
                         on conflict (server, model) do update set facts = excluded.facts, updated_at = excluded.updated_at")
                        .bind(server.clone())
                        .bind(model.clone())
                        .bind(facts.clone())
                        .bind(now())
                        .run()
                        .await
                })
                .await;
            if let Err(e) = saved {
                tracing::warn!(error = %e, "facts about a model could not be stored");
            }
        }
        .boxed()
    }
}
