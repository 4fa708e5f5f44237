//! Incoming webhooks: programs post messages as bots.
//!
//! `body` reads what a program sends: with `slack` for the format of Slack, whose markup `mrkdwn` translates, and with the `template` of
//! the webhook or of one of the `products`. `row` stores bots and webhooks (`object`), `receive` posts the message, and `requests` keeps
//! what was received. `people` finds those whom Slack's format names. `signature` checks who sent it. `bots` manages the channels and
//! keys with which programs act as a bot. `ts` finds messages by their `ts` in Slack's format. `buttons` finds the buttons that people
//! press, and `responses` has the addresses at which programs answer later. `events` has the types of events for bots, `subscription`
//! their settings, `pause` the pauses and the end of subscriptions, `commands` the commands of bots, and `missing` what their programs
//! asked for in vain.

mod body;
mod bots;
mod buttons;
mod commands;
mod error;
mod events;
mod missing;
mod mrkdwn;
mod object;
mod pause;
mod people;
mod products;
mod receive;
mod rendered;
mod requests;
mod responses;
mod row;
mod signature;
mod slack;
mod subscription;
mod template;
mod ts;

pub use body::{BodyHead, ButtonUse, HookQuery, Incoming};
pub use bots::{
    add_to_channel, create_bot, create_key, delete_bot, delete_key, get_with_keys, patch_bot,
    remove_from_channel,
};
pub use buttons::{
    FoundButton, PRESSED_AGAIN_AFTER, button_use, delete_old_presses, find_button, record_press,
};
pub use commands::{CommandOwner, find_command};
pub use error::{HookError, HookFault};
pub use events::{
    BotDelivery, BotDeliveryState, BotEventFormat, BotEventKind, BotSubscription,
    BotSubscriptionForm, BotSubscriptionWithSecret, BotTransport, SubscriptionPause,
    SubscriptionStatus,
};
pub use missing::{MissingMethod, count_missing_method};
pub use object::{
    Bot, BotCommand, BotForm, BotKey, BotKeyForm, BotObject, BotPatch, BotStatus, BotWithKeys,
    Hook, HookForm, HookObject, HookPatch, HookSecretForm, NewBotKey, NewHook,
};
pub use pause::{pause_subscription, previous_secret_owner, secret_owner};
pub use people::with_handles;
pub use products::event_headers;
pub use receive::{Delivered, FoundHook, Post, PostedBy, delete_old_threads, find, post};
pub use rendered::fenced;
pub use requests::{
    HookRequest, ReceivedRequest, RequestOutcome, delete_old_requests, get_request, get_sent,
    list_requests, record,
};
pub use responses::{
    BotResponse, NewBotResponse, count_response, create_response, delete_old_responses,
    find_response, store_response_message,
};
pub use row::{
    create, delete, get_own, insert_imported_bot, list_bots, list_hooks, patch,
    remove_imported_bot, rotate, set_secret, workspace_of_bot, workspace_of_hook,
};
pub use signature::{Proofs, StandardProof};
pub use slack::archived_text;
pub use subscription::{
    NewSigningSecret, SubscriptionSettings, check_subscriber, delete_subscription, list_deliveries,
    new_signing_secret, put_subscription, replay_delivery, replay_subscription,
    rotate_signing_secret,
};
pub use template::HookTemplate;
pub use ts::{SlackTs, TsRange, find_by_ts, slack_ts, slack_ts_of};
