-- A variant runs a message of a chat again: it begins with the messages of the first chat before that one, whose `seq` is `variant_seq`.
-- The three columns are null in all other threads. The first chat is deleted only together with its variants.
alter table threads add column first_thread_id uuid;
alter table threads add column variant_message_id uuid;
alter table threads add column variant_seq bigint;
create index threads_variants on threads (first_thread_id) where first_thread_id is not null;
create index threads_versions on threads (variant_message_id) where variant_message_id is not null;
