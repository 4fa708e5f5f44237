-- People of each direct channel, also while they are not in the workspace: on their return they are in it again.
create table direct_members (
    user_id uuid not null references users (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    primary key (user_id, channel_id)
);
create index direct_members_channel on direct_members (channel_id);

insert into direct_members (user_id, channel_id)
select cm.user_id, cm.channel_id from channel_members cm join channels ch on ch.id = cm.channel_id
where ch.kind = 'direct';
