//! Limits that the tool `file_search` of a profile sets for all functions that it provides.

use super::places;
use crate::{
    agents::profiles::{Tool, tools::FileSearchTool},
    db::Conn,
    ids::ChannelId,
    tool_fault::ToolFault,
    tools::{
        arguments::Arguments,
        rights::Rights,
        runner::{CallError, ToolTask},
    },
};

const LIMIT_DEFAULT: i64 = 8;
const LIMIT_MAX: i64 = 20;

pub(super) struct Options {
    limit_max: i64,
    /// Minimum score of a hit, as a fraction of the best score.
    pub(super) score_share: f64,
    /// Channels to which searches are restricted; `None` for all. With an empty list, nothing is found.
    channels: Option<Vec<ChannelId>>,
}

impl Options {
    pub(super) fn of(tools: &[Tool]) -> Self {
        let tool = tools.iter().find_map(|tool| match tool {
            Tool::FileSearch(tool) => Some(tool),
            _ => None,
        });
        let ranking = tool.and_then(|tool| tool.ranking_options.as_ref());
        Self {
            limit_max: tool
                .and_then(|tool| tool.max_num_results)
                .map_or(LIMIT_MAX, |max| i64::from(max).min(LIMIT_MAX)),
            score_share: ranking
                .and_then(|ranking| ranking.score_threshold)
                .unwrap_or(0.0),
            channels: tool.and_then(FileSearchTool::channels),
        }
    }

    /// Maximum number of hits for a call.
    ///
    /// # Errors
    /// `bad_arguments`.
    pub(super) fn limit(&self, arguments: &Arguments<'_>) -> Result<i64, ToolFault> {
        let wanted = arguments.number("limit", 1..=LIMIT_MAX)?;
        Ok(wanted.unwrap_or(LIMIT_DEFAULT).min(self.limit_max))
    }

    /// Checks whether the tool allows messages of a channel to be read.
    pub(super) fn permit(&self, channel: ChannelId) -> bool {
        let channels = self.channels.as_ref();
        channels.is_none_or(|channels| channels.contains(&channel))
    }

    /// Checks whether the tool is not restricted to some channels.
    pub(super) fn permits_all(&self) -> bool {
        self.channels.is_none()
    }

    /// Channels that a call searches; `None` for all.
    ///
    /// # Errors
    /// `bad_arguments`, `not_found` for an unknown channel or one that the profile excludes.
    pub(super) async fn channels(
        &self,
        c: &mut Conn,
        of: &ToolTask,
        rights: &Rights,
        arguments: &Arguments<'_>,
    ) -> Result<Option<Vec<ChannelId>>, CallError> {
        let Some(named) = arguments.text("channel")? else {
            return Ok(self.channels.clone());
        };
        let channel = places::channel(c, of.workspace, rights, named).await?;
        if self.permit(channel) {
            Ok(Some(vec![channel]))
        } else {
            Err(places::missing("this agent does not search that channel"))
        }
    }
}
