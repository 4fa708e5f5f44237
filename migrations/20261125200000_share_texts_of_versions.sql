-- Texts of versions that a change of a base makes are stored once. `profile_of` is the earlier version of the agent with the
-- same profile as written; its own `profile` is empty then. With `is_split`, the instructions in `resolved` are those of the
-- bases only, those of the profile follow them, and the files are in the profile. Rows of earlier servers are complete.
alter table agent_versions add column profile_of bigint;
alter table agent_versions add column is_split boolean not null default FALSE;
