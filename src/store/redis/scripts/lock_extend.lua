-- Extends a lock, or puts it back where the store has lost it (R4); on all of its names or none. Answers one of
--   extended token holds lease_us restored(0/1) | lost
-- each after its name with the store's clock.
--
-- ARGV after the names: id lease_us(or empty: as it was granted for) guard_us(or empty) acks(as in lock_acquire.lua),
-- and what it takes to put it back: session owner identity token holds permits lease_us (or nothing)
local id, lease = arg(1), tonumber(arg(2))
local session, owner, identity, token = arg(5), arg(6), arg(7), tonumber(arg(8) or '')
local holds, permits, lease_lost = tonumber(arg(9) or ''), tonumber(arg(10) or ''), tonumber(arg(11) or '')

local cells, bad = load_all()
if bad then
  return bad
end
local _
_, bad = prepare(arg(3), arg(4) == '1')
if bad then
  return bad
end

-- Whether a lock that is gone can be put back: nobody came since, and it was not released.
local function may_return(cell)
  if not session or #cell.holders >= permits or cell.token > token or cell.ended >= token then
    return false
  end
  local newest = cell.holders[#cell.holders]
  if newest and newest.token >= token then
    return false
  end
  if cell.permits == permits then
    return true
  end
  return #cell.holders == 0 and meet(cell) == nil
end

local missing = {}
for _, cell in ipairs(cells) do
  if not held_under(cell, id) then
    table.insert(missing, cell)
  end
end
for _, cell in ipairs(missing) do
  if not may_return(cell) then
    return { 'lost', text(now) }
  end
end
for _, cell in ipairs(missing) do
  cell.token, cell.permits = math.max(cell.token, token), permits
  table.insert(cell.holders, {
    id = id, session = session, owner = owner, identity = identity, token = token, holds = holds, request = id,
    lease = lease_lost, expires_at = now + lease_lost,
  })
end
local holder
for _, cell in ipairs(cells) do
  holder = held_under(cell, id)
  holder.lease = lease or holder.lease
  holder.expires_at = now + holder.lease
  save(cell, holder)
end
return {
  'extended', text(now), text(holder.token), text(holder.holds), text(holder.lease), #missing > 0 and '1' or '0',
}
