"""Uses the unmodified slack_sdk as a bot and as a person. SLACK_URL is the base of the methods."""

import os
import urllib.request

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

bot = WebClient(token="xoxb-" + os.environ["SLACK_BOT_KEY"], base_url=os.environ["SLACK_URL"])
person = WebClient(token=os.environ["SLACK_PERSON_KEY"], base_url=os.environ["SLACK_URL"])


def refused(error, call):
    try:
        call()
    except SlackApiError as e:
        assert e.response["error"] == error, e.response
    else:
        raise AssertionError(f"no {error}")


def identity():
    assert bot.api_test()["ok"]
    me = bot.auth_test()
    assert bot.bots_info(bot=me["bot_id"])["bot"]["user_id"] == me["user_id"]
    assert bot.users_info(user=me["user_id"])["user"]["is_bot"]
    assert person.auth_test()["user_id"] != me["user_id"]
    assert bot.team_info()["team"]["id"] == me["team_id"]
    people = [user for page in person.users_list(limit=1) for user in page["members"]]
    assert {user["is_bot"] for user in people} == {True, False}
    assert person.usergroups_list()["usergroups"] == []


def messages():
    channels = bot.conversations_list(types="public_channel,private_channel", exclude_archived=True)["channels"]
    (channel,) = [channel["id"] for channel in channels]
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "Deployed"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "*1.2* to <https://example.org|production> & more"}},
    ]
    posted = bot.chat_postMessage(channel=channel, text="Deployed", blocks=blocks)
    ts = posted["ts"]
    text = bot.conversations_history(channel=channel)["messages"][0]["text"]
    assert "*1.2* to <https://example.org|production> &amp; more" in text, text
    attachments = [{"color": "danger", "text": "failed", "fields": [{"title": "Job", "value": "12", "short": True}]}]
    reply = bot.chat_postMessage(channel=channel, thread_ts=ts, attachments=attachments)
    answer = person.chat_postMessage(channel=channel, thread_ts=ts, text="Thanks, <@%s>" % bot.auth_test()["user_id"])
    replies = [m for page in bot.conversations_replies(channel=channel, ts=ts, limit=1) for m in page["messages"]]
    assert [m["ts"] for m in replies] == [ts, reply["ts"], answer["ts"]], replies
    assert all(m["thread_ts"] == ts for m in replies), replies
    bot.chat_update(channel=channel, ts=ts, text="Deployed _again_")
    assert bot.chat_getPermalink(channel=channel, message_ts=ts)["permalink"].startswith("http")
    bot.reactions_add(channel=channel, timestamp=ts, name="eyes")
    refused("already_reacted", lambda: bot.reactions_add(channel=channel, timestamp=ts, name="eyes"))
    person.reactions_add(channel=channel, timestamp=ts, name="eyes")
    (reaction,) = bot.reactions_get(channel=channel, timestamp=ts)["message"]["reactions"]
    assert (reaction["name"], reaction["count"]) == ("eyes", 2), reaction
    bot.reactions_remove(channel=channel, timestamp=ts, name="eyes")
    refused("cant_update_message", lambda: bot.chat_update(channel=channel, ts=answer["ts"], text="x"))
    refused("cant_delete_message", lambda: bot.chat_delete(channel=channel, ts=answer["ts"]))
    bot.chat_delete(channel=channel, ts=reply["ts"])
    refused("no_text", lambda: bot.chat_postMessage(channel=channel, text=" "))
    refused("channel_not_found", lambda: bot.chat_postMessage(channel="#nowhere", text="x"))
    refused("restricted_action", lambda: bot.conversations_join(channel=channel))
    refused("not_supported", lambda: bot.views_open(trigger_id="1", view={"type": "modal"}))
    refused("unknown_method", lambda: bot.dnd_info())
    assert len(bot.conversations_members(channel=channel)["members"]) == 2
    bot.chat_postEphemeral(channel=channel, user=person.auth_test()["user_id"], text="only you")
    assert bot.users_getPresence(user=person.auth_test()["user_id"])["presence"] == "away"
    topic = person.conversations_setTopic(channel=channel, topic="What ships")["channel"]["topic"]
    assert topic["value"] == "What ships", topic


def files():
    (channel,) = [channel["id"] for channel in bot.conversations_list()["channels"]]
    report = {"filename": "report.txt", "content": "all green"}
    log = {"filename": "log.txt", "content": b"12"}
    shared = bot.files_upload_v2(file_uploads=[report, log], channel=channel, initial_comment="Reports")
    assert [file["name"] for file in shared["files"]] == ["report.txt", "log.txt"], shared
    message = bot.conversations_history(channel=channel)["messages"][0]
    assert message["text"] == "Reports" and len(message["files"]) == 2, message
    file = bot.files_info(file=shared["files"][0]["id"])["file"]
    request = urllib.request.Request(file["url_private"], headers={"Authorization": "Bearer " + bot.token[5:]})
    assert urllib.request.urlopen(request).read() == b"all green"
    refused("cant_delete_file", lambda: bot.files_delete(file=file["id"]))


def previews():
    (channel,) = [channel["id"] for channel in bot.conversations_list()["channels"]]
    url = "https://git.example.org/1"
    ts = person.chat_postMessage(channel=channel, text="See <%s>" % url)["ts"]
    bot.chat_unfurl(channel=channel, ts=ts, unfurls={url: {"title": "Fix it"}})
    refused("cannot_unfurl_url", lambda: bot.chat_unfurl(channel=channel, ts=ts, unfurls={url + "2": {"text": "x"}}))


messages_of_wrong_key = WebClient(token="ov_wrong", base_url=os.environ["SLACK_URL"])
refused("invalid_auth", messages_of_wrong_key.auth_test)
identity()
messages()
files()
previews()
