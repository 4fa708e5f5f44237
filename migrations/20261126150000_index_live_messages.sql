-- Which messages of a conversation are deleted or notices, in the index: an agent's question counts thousands of old messages, and
-- reads the neighbors of hundreds.
drop index messages_conversation;
create index messages_conversation on messages (conversation_id, seq, deleted_at, kind);
