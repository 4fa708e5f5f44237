-- Unread mentions of the last 90 days become inbox items; the ID of an item is that of its message.
insert into inbox_items (id, workspace_id, recipient_id, reason, subject_type, subject_id, actor_id, channel_id, thread_id,
        conversation_id, message_id, seq, changed_seq, state, is_quiet, created_at, changed_at)
    select m.id, m.workspace_id, mm.target_id, 'mention', 'message', m.id, m.author_id, m.channel_id, m.thread_id,
        m.conversation_id, m.id, m.seq, m.seq, 'open', true, m.created_at, m.created_at
    from message_mentions mm join messages m on m.id = mm.message_id
    join channel_members cm on cm.channel_id = mm.channel_id and cm.user_id = mm.target_id
    left join reads r on r.conversation_id = mm.thread_id and r.user_id = mm.target_id
    where m.deleted_at is null and m.author_id <> mm.target_id and mm.seq > cm.joined_seq
        and mm.seq > coalesce(r.seq, cm.read_seq) and m.created_at > now() - interval '90 days';
