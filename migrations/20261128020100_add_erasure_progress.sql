-- Progress of erasures: the number of messages, once it is known, and the SHA-256 of the user's ID, by which an ended erasure is found
-- when the ID itself is erased.
alter table erasures add column total bigint;
alter table erasures add column user_hash text;
create index erasures_by_hash on erasures (workspace_id, user_hash);
