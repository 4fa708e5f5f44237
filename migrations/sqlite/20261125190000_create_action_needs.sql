-- Approvals that an action needs: of the requester, an admin, any member, or the person in `user_id`, as `who` says. `decided_by` approved
-- it, or denied the action. People can be aliases of erased ones, so they are no foreign keys.
create table action_needs (
    action_id uuid not null references actions (id) on delete cascade,
    position bigint not null,
    who text not null,
    user_id uuid,
    decided_by uuid,
    decided_at timestamptz,
    primary key (action_id, position)
);

-- They were JSON. An ID there ends with 26 base-32 digits: 28 with leading zeros, of which four are five hexadecimal digits.
insert into action_needs (action_id, position, who, user_id, decided_by, decided_at)
    with recursive needs (action_id, position, need) as (select a.id, n.key, n.value from actions a, json_each(a.needs) n),
    people (text) as (select need ->> 'user_id' from needs union select need ->> 'by' from needs),
    digits (n) as (select 0 union all select n + 1 from digits where n < 27),
    groups (text, n, hex) as (
        select text, n / 4, printf('%05x', sum((instr('0123456789abcdefghjkmnpqrstvwxyz', substr('00' || substr(text, -26), n + 1, 1)) - 1)
            << (15 - 5 * (n % 4))))
        from people cross join digits where text is not null group by text, n / 4),
    ids (text, id) as (select text, unhex(substr(group_concat(hex, '' order by n), 4)) from groups group by text)
    select n.action_id, n.position, n.need ->> 'who', u.id, d.id, replace(n.need ->> 'at', 'Z', '+00:00')
    from needs n left join ids u on u.text = n.need ->> 'user_id' left join ids d on d.text = n.need ->> 'by';
alter table actions drop column needs;
