//! Slack's Web API, translated at the edge: IDs, arguments, errors, markup, and objects. `routes::slack` calls the functions that the
//! `/v1` routes call, and `rows` reads the rows that only Slack's API lists.

mod args;
mod fault;
mod ids;
mod method;
mod mrkdwn;
mod objects;
mod references;
mod rows;
mod uploads;

pub use args::Args;
pub use fault::SlackFault;
pub use ids::{
    app_id, bot_id, channel_id, file_id, parse_bot, parse_channel, parse_file, parse_user, team_id,
    ts_at, user_id,
};
pub use method::{MethodKind, SlackMethod};
pub use mrkdwn::to_mrkdwn;
pub use objects::{
    Addresses, ThreadFacts, agent, bot, conversation, file, message, person, reactions, robot,
};
pub use references::name_references;
pub use rows::{
    AgentRow, ConversationFilter, ConversationRow, ConversationType, Listing, RobotRow,
    channel_named, find_agent, find_conversation, find_robot, handle_owner, is_member_in,
    list_bots_in, list_conversations, list_members_in, list_robots, shows_emails, user_with_email,
};
pub(crate) use rows::{agent_sql, is_pair};
pub use uploads::{
    AnnouncedFile, announce_file, delete_old_uploads, find_announced, use_announced,
};
