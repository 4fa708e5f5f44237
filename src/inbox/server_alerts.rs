//! Problems that the server's admins have to solve: a JSON value in `meta`, and for each admin of the oldest workspace a notice, which
//! closes when the problem is solved.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    InboxSubject, InboxSubjectKind,
    notice::{self, Notice},
};
use crate::{
    db::{Conn, DbError, dialect},
    ids::WorkspaceId,
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    /// Part of the server with a problem.
    pub enum ServerAlert {
        /// The newest backup failed.
        Backup = "backup",
        /// The newest backup cannot be restored.
        Drill = "drill",
        /// No new certificate can be obtained or read.
        Certificate = "certificate",
        /// The disk will be full soon.
        Disk = "disk",
        /// A new version closes a security hole.
        Update = "update",
    }
}

/// IDs of the subjects of these notices, without the number of the part.
const SUBJECTS: u128 = 0x0190_0000_0000_7000_8000_0000_0000_0000;
/// Time after which a failing certificate is a problem: most causes, such as a new DNS record, are gone by then.
const CERTIFICATE_AFTER: Duration = Duration::from_hours(24);

impl ServerAlert {
    /// ID of the subject of its notices.
    pub fn subject(self) -> Uuid {
        Uuid::from_u128(SUBJECTS | u128::from(self as u8))
    }

    /// The part with this subject.
    pub fn of_subject(id: Uuid) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|alert| alert.subject() == id)
    }

    /// Time for which a problem can exist without a notice.
    fn patience(self) -> Duration {
        match self {
            Self::Certificate => CERTIFICATE_AFTER,
            Self::Backup | Self::Drill | Self::Disk | Self::Update => Duration::ZERO,
        }
    }
}

/// A problem that is not solved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Problem {
    since: Timestamp,
    text: String,
    /// True if the notices were opened.
    is_announced: bool,
}

type Problems = BTreeMap<ServerAlert, Problem>;

/// A value of a newer version that this one cannot read counts as none.
async fn read(c: &mut Conn) -> Result<Problems, DbError> {
    let row = c
        .q("select value from meta where key = 'server_alerts'")
        .opt::<(String,)>()
        .await?;
    let problems = row.and_then(|(value,)| serde_json::from_str(&value).ok());
    Ok(problems.unwrap_or_default())
}

/// Sentences about the problems, by the subject of their notices.
///
/// # Errors
/// Only database errors.
pub async fn texts(c: &mut Conn) -> Result<HashMap<Uuid, String>, DbError> {
    let problems = read(c).await?.into_iter();
    Ok(problems
        .map(|(alert, problem)| (alert.subject(), problem.text))
        .collect())
}

/// Records the problem of a part of the server, or that it has none, and opens or closes the notices for the admins of the workspace.
/// An admin who is done with a notice does not get it again before the problem was solved.
///
/// # Errors
/// Only database errors.
pub async fn settle(
    c: &mut Conn,
    workspace: WorkspaceId,
    alert: ServerAlert,
    problem: Option<&str>,
    at: Timestamp,
) -> Result<(), DbError> {
    dialect::lock_workspace(c, workspace.0).await?;
    let before = read(c).await?;
    let mut problems = before.clone();
    if let Some(text) = problem {
        let known = problems.entry(alert).or_insert_with(|| Problem {
            since: at,
            text: String::new(),
            is_announced: false,
        });
        text.clone_into(&mut known.text);
        if !known.is_announced && at.since(known.since) >= alert.patience() {
            known.is_announced = true;
            let notice = Notice {
                workspace,
                subject: InboxSubject::new(InboxSubjectKind::Server, alert.subject()),
                actor: None,
                channel: None,
            };
            notice::open_for_admins(c, &notice).await?;
        }
    } else if problems
        .remove(&alert)
        .is_some_and(|known| known.is_announced)
    {
        notice::close_notice(c, workspace, alert.subject(), None).await?;
    }
    if problems == before {
        return Ok(());
    }
    let value = serde_json::to_string(&problems).map_err(|e| DbError::Start(e.to_string()))?;
    c.q("insert into meta (key, value) values ('server_alerts', $1) on conflict (key) do update set value = excluded.value")
        .bind(value)
        .run()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_a_subject_of_its_own() {
        for alert in ServerAlert::ALL {
            assert_eq!(ServerAlert::of_subject(alert.subject()), Some(*alert));
        }
        assert_eq!(ServerAlert::of_subject(Uuid::nil()), None);
    }
}
