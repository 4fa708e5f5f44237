-- Schedules of API keys. One text for SQLite and PostgreSQL.

-- Key that wrote the prompt: its scopes hold for each slot, and its end pauses the schedule. Null for a person. The ID stays when the
-- key is revoked.
alter table schedules add column api_key_id uuid;
-- The keys of earlier schedules are not known: with the ID of no key, they pause until their owners set the prompt again.
update schedules set api_key_id = id where is_by_key;
alter table schedules drop column is_by_key;
