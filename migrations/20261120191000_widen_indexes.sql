-- Indexes for what grows: a person's mentions in one long thread, and sessions that run out.
drop index message_mentions_thread;
create index message_mentions_thread on message_mentions (thread_id, target_id, seq);
create index sessions_expiry on sessions (expires_at);
