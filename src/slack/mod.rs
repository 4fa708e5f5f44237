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

pub use args::Args;
pub use fault::SlackFault;
pub use ids::{
    Direct, SlackTs, TsRange, bot_id, channel_id, parse_bot, parse_channel, parse_user, team_id,
    user_id,
};
pub use method::{MethodKind, SlackMethod};
pub use mrkdwn::to_mrkdwn;
pub use objects::{Addresses, ThreadFacts, bot, conversation, message, person, reactions, robot};
pub use references::name_references;
pub use rows::{
    ConversationFilter, ConversationRow, Listing, RobotRow, channel_named, find_by_ts,
    find_conversation, find_robot, handle_owner, list_bots_in, list_conversations, list_members_in,
    list_robots, user_with_email,
};
