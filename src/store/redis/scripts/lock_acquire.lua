-- Asks for one lock or several, all or none: R1 with R3 (tokens) and R5 (guard). Answers one of
--   granted token id holds | held name ahead [owner identity token holds remaining_us] | guarded remaining_us
--   | differ name permits | exhausted
-- each after its name with the store's clock,
-- and the answers granted and guarded with the word unconfirmed at the end where that is so (see prepare).
--
-- ARGV after the names: session id owner identity lease_us permits floor queueing(no|plain|fair) guard_us(or empty)
-- acks(0/1: replies count with acknowledgements)
local session, id, owner, identity, lease = arg(1), arg(2), arg(3), arg(4), tonumber(arg(5))
local permits, floor, queueing = tonumber(arg(6)), tonumber(arg(7)), arg(8)
local mine = session .. ':' .. id

local cells, bad = load_all()
if bad then
  return bad
end
local guarded, unconfirmed
guarded, bad, unconfirmed = prepare(arg(9), arg(10) == '1')
if bad then
  return bad
end
if queueing ~= 'no' then
  give_sign_of_life(session)
end

-- The owner has it already: by this very request, whose answer was lost, or by an earlier one. The latter not under a
-- guard: a store that has forgotten the release of a lock, and who got it then, would grant it beside them.
local function present_id()
  for _, holder in ipairs(cells[1].holders) do
    if holder.id == id or (not guarded and holder.session == session and holder.owner == owner) then
      for _, cell in ipairs(cells) do
        if not held_under(cell, holder.id) then
          return nil
        end
      end
      return holder.id
    end
  end
end

local function granted(holder)
  return {
    'granted', text(now), text(holder.token), holder.id, text(holder.holds), unconfirmed and 'unconfirmed' or nil,
  }
end

local present = present_id()
if present then
  local holder
  for _, cell in ipairs(cells) do
    holder = held_under(cell, present)
    if holder.request ~= id and holder.id ~= id then
      holder.holds, holder.request = holder.holds + 1, id
    end
    holder.lease, holder.expires_at = math.max(holder.lease, lease), math.max(holder.expires_at, now + lease)
    save(cell, holder)
  end
  leave_queues(cells, mine)
  return granted(holder)
end

-- All who use a name agree on the number of permits.
for _, cell in ipairs(cells) do
  local in_use = #cell.holders > 0
  if not in_use then
    local first
    first, bad = meet(cell)
    if first and first.text == mine then
      first, bad = meet(cell, first.order)
    end
    if bad then
      return bad
    end
    in_use = first ~= nil
  end
  if in_use and cell.permits ~= permits then
    return { 'differ', text(now), cell.name, text(cell.permits) }
  end
end

local shut
for _, cell in ipairs(cells) do
  cell.had_permits, cell.permits = cell.permits, permits
end
for _, cell in ipairs(cells) do
  local open
  open, bad = is_open_to(cell, mine)
  if bad then
    return bad
  end
  if not open then
    shut = cell
    break
  end
end

-- A ticket at the end of the queue.
local function line_up(cell)
  local last = redis.call('ZRANGE', cell.queue, '-1', '-1', 'WITHSCORES')
  local order = text(tonumber(last[2] or '0') + 1)
  redis.call('ZADD', cell.queue, order, mine)
  if queueing == 'fair' then
    redis.call('ZADD', cell.fair, order, mine)
  end
  if cell.is_stored and cell.had_permits == permits then
    touch(cell)
  else
    save(cell)
  end
end

-- Not now: a ticket for who waits. One whose turn it is for a name that it cannot use yet passes the word on.
if shut or guarded then
  if queueing ~= 'no' then
    for _, cell in ipairs(cells) do
      if not order_of(cell, mine) then
        line_up(cell)
      elseif not guarded and is_open_to(cell, mine) then
        wake_next(cell, order_of(cell, mine))
      end
    end
  end
  if not shut then
    return { 'guarded', text(now), text(guarded), unconfirmed and 'unconfirmed' or nil }
  end
  local ahead = redis.call('ZRANK', shut.queue, mine) or redis.call('ZCARD', shut.queue)
  local reply = { 'held', text(now), shut.name, text(ahead) }
  local first
  for _, holder in ipairs(shut.holders) do
    if not first or holder.expires_at < first.expires_at then
      first = holder
    end
  end
  if first then
    local remaining = text(first.expires_at - now)
    for _, word in ipairs({ first.owner, first.identity, text(first.token), text(first.holds), remaining }) do
      table.insert(reply, word)
    end
  end
  return reply
end

local token = math.max(floor, now)
for _, cell in ipairs(cells) do
  token = math.max(token, cell.token)
end
token = token + 1
if token >= 9007199254740992 then -- 2^53
  return { 'exhausted', text(now) }
end
local holder = {
  id = id, session = session, owner = owner, identity = identity, token = token, holds = 1, request = id,
  lease = lease, expires_at = now + lease,
}
for _, cell in ipairs(cells) do
  cell.token = token
  table.insert(cell.holders, holder)
  save(cell, holder)
end
leave_queues(cells, mine)
return granted(holder)
