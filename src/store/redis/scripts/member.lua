-- The layout of a Redis that is one member of a quorum. The reference is protocol/reference/quorum_member.rs.
-- v: what tells its keys from others'; in_lease: 1 once the lease was raised or renewed, so that its candidate may
-- lead, else 0; in_record: the numbers that only its records have. over: the greatest token of
-- a term that its holder gave back; confirmed: the greatest that was confirmed here; lease_ms and until: as in
-- single.lua, of the lease that was confirmed last (until: 0 once its holder gave it back).
-- listed_until: until when another list of the members than `lists` is an objection; lists: by which it was last
-- granted or confirmed, both of a change with | between them.
local layout = {
  v = 'q1', in_lease = 'confirmed', in_record = { 'over', 'confirmed', 'lease_ms', 'until', 'listed_until' },
  texts = { 'lists' },
}

-- Whether two replicas' lists have one in common. Nothing is known of one that is empty.
local function lists_agree(one, other)
  if one == '' or other == '' then
    return true
  end
  for list in string.gmatch(one, '[^|]+') do
    for another in string.gmatch(other, '[^|]+') do
      if list == another then
        return true
      end
    end
  end
  return false
end

-- A lease by these lists was confirmed or extended.
local function list_record(record, lists, moment)
  local agree = lists_agree(record.lists, lists)
  record.listed_until = agree and math.max(record.listed_until, moment) or moment
  record.lists = lists
end

-- Whether the last term that was confirmed here was given back by its holder.
local function is_released(record)
  return record.confirmed > 0 and record.over >= record.confirmed
end
