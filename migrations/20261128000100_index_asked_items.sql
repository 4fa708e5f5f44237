-- Finds unanswered questions by the author of their mentions.
create index inbox_items_asked on inbox_items (actor_id, created_at) where reason = 'mention';
