-- Extends a hold, or puts it back where the store has lost it (R4); on all of its names or none. Answers one of
--   extended token holds lease_us restored(0/1) | lost
-- each after its name with the store's clock.
--
-- ARGV after the names: id lease_us(or empty: as it was granted for) guard_us(or empty) asked(as in generation.lua)
-- session seat(or empty) served(ids), and what it takes to put it back, or to say who has it now: owner identity token
-- last permits lease_us at_least_us (or nothing)
local id, lease, session, seat, served = arg(1), tonumber(arg(2)), arg(5), arg(6), arg(7)
local owner, identity, token, last = arg(8), arg(9), tonumber(arg(10) or ''), tonumber(arg(11) or '')
local permits, lease_lost, at_least = tonumber(arg(12) or ''), tonumber(arg(13) or ''), tonumber(arg(14) or '')

local cells, bad = load_all()
if bad then
  return bad
end
local _
_, bad = prepare(arg(3), arg(4))
if bad then
  return bad
end

-- Whether a hold is one more of the owner that has lost one.
local function is_beside(hold)
  return hold.token == token and hold.owner == owner and hold.session == session
end

-- Whether a hold is of an earlier owner: with all of its turn, but for the sidecar's own, which knows who has it.
local function is_older(cell, hold)
  return (hold.in_turn and hold.session ~= session and cell.token or hold.token) < token
end

-- Whether a hold that is gone can be put back: it was not released, and nobody came since.
local function may_return(cell)
  if not owner or token == 0 or cell.token > last or was_released(cell, id) then
    return false
  end
  -- One permit may return though all that its owner had besides, as far as is known here, was given back.
  if permits > 1 and (cell.ended >= token or #cell.holds >= permits) then
    return false
  end
  for _, hold in ipairs(cell.holds) do
    local has_room = permits > 1 and hold.token < token or permits == 1 and (is_beside(hold) or is_older(cell, hold))
    if not has_room then
      return false
    end
  end
  if cell.permits == permits then
    return true
  end
  return #cell.holds == 0 and meet(cell) == nil
end

-- Puts it back. What stands of earlier owners was over when this was granted: a store that was set back to a moment
-- before that does not know.
local function put_back(cell)
  local stays = {}
  for _, hold in ipairs(cell.holds) do
    if permits > 1 or is_beside(hold) then
      table.insert(stays, hold)
    else
      table.insert(cell.gone, 'h:' .. hold.id)
    end
  end
  cell.holds, cell.permits = stays, permits
  add(cell, {
    id = id, session = session, owner = owner, identity = identity, token = token, lease = lease_lost,
    expires_at = now + lease_lost, in_turn = false, rests = false, keep_until = kept(at_least),
  })
  cell.token = math.max(cell.token, last)
end

local missing = {}
for _, cell in ipairs(cells) do
  if not find(cell, id, seat, session) then
    table.insert(missing, cell)
  end
end
for _, cell in ipairs(missing) do
  if not may_return(cell) then
    return { 'lost', text(now) }
  end
end
if missing[1] then
  local floor
  floor, bad = read_floor()
  if bad then
    return bad
  end
  if floor < last then
    write_floor(last)
  end
end
for _, cell in ipairs(missing) do
  put_back(cell)
end
save_cut(cells)
local hold, span
for _, cell in ipairs(cells) do
  hold = find(cell, id, seat, session)
  if hold.id ~= id then
    table.insert(cell.gone, 'h:' .. hold.id)
    forget_hold(cell, hold.id)
    -- Who has it now has not given it back, whatever became of an earlier hold of that request.
    cell.released = string.gsub(cell.released, ' ' .. id, '')
  end
  if hold.in_turn and owner then
    hold.owner, hold.identity, hold.token = owner, identity, token
  end
  hold.id, hold.in_turn, span = id, false, lease or hold.lease
  extend(cell, hold, span)
  save(cell, hold)
  forget_served(cell, session, served)
end
return {
  'extended', text(now), text(hold.token), text(holds_under(cells[#cells], hold.token)), text(span),
  #missing > 0 and '1' or '0',
}
