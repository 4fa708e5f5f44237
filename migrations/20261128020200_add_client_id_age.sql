-- Finds client IDs that are old enough to be forgotten.
create index client_ids_age on client_ids (created_at);
