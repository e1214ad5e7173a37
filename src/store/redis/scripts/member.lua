-- The layout of a Redis that is one member of a quorum. The reference is protocol/quorum/member.rs.
-- v: what tells its keys from others'; in_lease: 1 once the lease was raised or renewed, so that its candidate may
-- lead, else 0; in_record: the numbers that only its records have. over: the greatest token of
-- a term that its holder gave back; confirmed: the greatest that was confirmed here; lease_ms and until: as in
-- single.lua, of the lease that was confirmed last (until: 0 once its holder gave it back).
local layout = { v = 'q1', in_lease = 'confirmed', in_record = { 'over', 'confirmed', 'lease_ms', 'until' } }

-- Whether the last term that was confirmed here was given back by its holder.
local function is_released(record)
  return record.confirmed > 0 and record.over >= record.confirmed
end
