//! The two engines, and their URLs in settings.

use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// Address of the database.
#[derive(Clone)]
pub enum DatabaseUrl {
    Sqlite(PathBuf),
    Postgres(String),
}

impl std::fmt::Debug for DatabaseUrl {
    /// Omits the URL of a `PostgreSQL` server, which may contain a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Self::Postgres(_) => f.write_str("Postgres([hidden])"),
        }
    }
}

impl DatabaseUrl {
    /// Parses `sqlite://PATH` or `postgres://…`.
    ///
    /// # Errors
    /// A message with the supported forms.
    pub fn parse(url: &str) -> Result<Self, String> {
        if let Some(path) = url
            .strip_prefix("sqlite://")
            .or_else(|| url.strip_prefix("sqlite:"))
        {
            Ok(Self::Sqlite(PathBuf::from(path)))
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Ok(Self::Postgres(url.to_owned()))
        } else {
            Err("the URL must start with sqlite:// or postgres://".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use openvibe_sqlite::SqliteConnection;
    use sqlx::Connection;

    #[tokio::test]
    async fn sqlite_keeps_the_plan_of_a_statement() {
        let mut c = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let options: Vec<String> = sqlx::query_scalar("pragma compile_options")
            .fetch_all(&mut c)
            .await
            .unwrap();
        assert!(
            options.iter().any(|option| option == "ENABLE_QPSG"),
            "build with the flags in .cargo/config.toml"
        );
    }
}
