-- Asks for one lock or several, all or none: R1 with R3 (tokens) and R5 (guard). Answers one of
--   granted token holds tokens | held name ahead [owner identity token holds remaining_us] | guarded remaining_us
--   | differ name permits | exhausted
-- each after its name with the store's clock.
--
-- ARGV after the names: session id owner identity lease_us permits floor queueing(no|plain|fair) guard_us(or empty)
-- asked(as in generation.lua) beside(an id, or empty) yields(0/1: it overtakes nobody who waits)
-- tokens(more than one for a turn) at_least_us reminds(0/1: it wakes who comes first, once more)

-- This very request was granted before, and its answer lost. Returns the hold, how many its owner has, and with how
-- many tokens.
local function take_again(cells, request)
  for _, cell in ipairs(cells) do
    if not held_under(cell, request.id) then
      return nil
    end
  end
  local hold
  for _, cell in ipairs(cells) do
    hold = held_under(cell, request.id)
    extend(cell, hold, request.lease)
    save(cell, hold)
  end
  local cell = cells[#cells]
  return hold, holds_under(cell, hold.token), hold.in_turn and cell.token - hold.token + 1 or 1
end

local function hold_of(request, token)
  return {
    id = request.id, session = request.session, owner = request.owner, identity = request.identity, token = token,
    lease = request.lease, expires_at = now + request.lease, in_turn = false, rests = false,
    keep_until = kept(request.at_least),
  }
end

-- Its owner has the lock already, under the hold that it names: one more beside that. Returns as take_again.
local function take_beside(cells, request)
  if request.beside == '' or request.permits ~= 1 then
    return nil
  end
  local token
  for _, cell in ipairs(cells) do
    local hold = held_under(cell, request.beside)
    local fits = hold and hold.session == request.session and cell.permits == 1 and #cell.holds < HOLDS_MAX
    if not fits or (token and hold.token ~= token) then
      return nil
    end
    token = hold.token
  end
  for _, cell in ipairs(cells) do
    local hold = hold_of(request, token)
    add(cell, hold)
    save(cell, hold)
  end
  return cells[1].holds[#cells[1].holds], holds_under(cells[1], token), 1
end

-- All who use a name agree on the number of permits, where that is known: a store that evicts forgets it under those
-- who wait. Returns the cell where they do not; or nil and a reply.
local function disagreement(cells, request)
  for _, cell in ipairs(cells) do
    local in_use = #cell.holds > 0
    if not in_use then
      local first, bad = meet(cell)
      if first and first.text == request.ticket then
        first, bad = meet(cell, first.order)
      end
      if bad then
        return nil, bad
      end
      in_use = first ~= nil
    end
    if in_use and cell.is_stored and cell.permits ~= request.permits then
      return cell
    end
  end
end

-- The first name that this request cannot have now; or nil and a reply.
local function shut_to(cells, request)
  for _, cell in ipairs(cells) do
    local open, bad = is_open_to(cell, request.ticket, request.yields)
    if bad or not open then
      return cell, bad
    end
  end
end

-- A ticket at the end of the queue.
local function line_up(cell, request, order)
  redis.call('ZADD', cell.queue, text(order), request.ticket)
  cell.has_queue = true
  if request.queueing == 'fair' then
    redis.call('ZADD', cell.fair, text(order), request.ticket)
    cell.has_fair = true
  elseif cell.has_fair then
    -- It may have been one before.
    redis.call('ZREM', cell.fair, request.ticket)
  end
end

local function last_order(cell)
  local last = redis.call('ZRANGE', cell.queue, '-1', '-1', 'WITHSCORES')
  return tonumber(last[2] or '0')
end

local function held(cell, request)
  drop_dead(cell)
  local ahead = redis.call('ZRANK', cell.queue, request.ticket) or redis.call('ZCARD', cell.queue)
  local reply = { 'held', text(now), cell.name, text(ahead) }
  -- The first of them may have a ticket and no request: a store that has lost a part of its data brings back what was
  -- cancelled.
  if request.reminds and free(cell) > 0 and ahead > 0 then
    wake_next(cell)
  end
  local _, first = told(cell)
  for _, word in ipairs(free(cell) <= 0 and first or {}) do
    table.insert(reply, word)
  end
  return reply
end

-- The tickets of a request, all with one number: so those who wait for several names are in one order everywhere.
local function queue(cells, guarded, request)
  local is_queued, order = true, 0
  for _, cell in ipairs(cells) do
    cell.order = order_of(cell, request.ticket)
    is_queued = is_queued and cell.order ~= nil
  end
  for _, cell in ipairs(is_queued and {} or cells) do
    order = math.max(order, last_order(cell))
  end
  local is_fair = request.queueing == 'fair'
  for _, cell in ipairs(cells) do
    local becomes_fair = is_fair and not cell.is_fair
    cell.is_fair = cell.is_fair or is_fair
    if not is_queued then
      line_up(cell, request, order + 1)
    elseif is_fair then
      line_up(cell, request, cell.order)
    end
    if cell.is_stored and cell.had_permits == request.permits and not becomes_fair then
      touch(cell)
    else
      save(cell)
    end
    -- Whose turn it is for a name that it cannot use yet passes the word on. Nobody behind a fair one could have it.
    local lets_by = is_queued and not guarded and (not is_fair or free(cell) > 1)
    if lets_by and is_open_to(cell, request.ticket) then
      wake_next(cell, order_of(cell, request.ticket))
    end
  end
end

-- Not now: a ticket for who waits.
local function wait_for(cells, shut, guarded, request)
  if request.queueing ~= 'no' then
    queue(cells, guarded, request)
  end
  return shut and held(shut, request)
end

local request = {
  session = arg(1), id = arg(2), owner = arg(3), identity = arg(4), lease = tonumber(arg(5)),
  permits = tonumber(arg(6)),
  floor = tonumber(arg(7)), queueing = arg(8), guard = arg(9), asked = arg(10), beside = arg(11),
  yields = arg(12) == '1', tokens = tonumber(arg(13)), at_least = tonumber(arg(14)), reminds = arg(15) == '1',
  ticket = arg(1) .. ':' .. arg(2),
}

-- The next token, above all that were: 2^53 or more when there is none left.
local function next_token(cells, floor)
  local token = math.max(floor, now)
  for _, cell in ipairs(cells) do
    token = math.max(token, cell.token)
  end
  return token + 1
end

-- With how many tokens the lock is granted: nobody has it in turn where that could pass a fair request by.
local function block(cells)
  local is_plain = #cells == 1 and request.permits == 1 and request.at_least == 0 and not cells[1].is_fair
  return is_plain and math.max(request.tokens, 1) or 1
end

-- Returns the reply.
local function acquire(cells)
  local guarded, bad = prepare(request.guard, request.asked)
  if bad then
    return bad
  end
  local floor
  floor, bad = read_floor()
  if bad then
    return bad
  end
  local is_met = guarded ~= nil
  for _, cell in ipairs(cells) do
    is_met = is_met or cell.has_queue or cell.holds[1] ~= nil
  end
  -- Who gets it at once has no ticket that had to stand.
  if request.queueing ~= 'no' and is_met then
    give_sign_of_life(request.session)
  end
  save_cut(cells)
  for _, cell in ipairs(cells) do
    if was_released(cell, request.id) then
      -- A late repetition, of what was given back since: nobody waits for it.
      local reply, _, first = { 'held', text(now), cell.name, '0' }, told(cell)
      for _, word in ipairs(first or {}) do
        table.insert(reply, word)
      end
      return reply
    end
  end
  -- Not under a guard: a store that has forgotten the end of a lock, and who got it then, would grant it beside them.
  if not guarded then
    local hold, holds, tokens = take_again(cells, request)
    if not hold then
      hold, holds, tokens = take_beside(cells, request)
    end
    if hold then
      leave_queues(cells, request.ticket)
      return { 'granted', text(now), text(hold.token), text(holds), text(tokens) }
    end
  end
  local differs, shut
  differs, bad = disagreement(cells, request)
  if bad then
    return bad
  end
  if differs then
    return { 'differ', text(now), differs.name, text(differs.permits) }
  end
  for _, cell in ipairs(cells) do
    cell.had_permits, cell.permits = cell.permits, request.permits
  end
  shut, bad = shut_to(cells, request)
  if bad then
    return bad
  end
  if shut or guarded then
    return wait_for(cells, shut, guarded, request) or { 'guarded', text(now), text(guarded) }
  end
  local token, tokens = next_token(cells, math.max(floor, request.floor)), block(cells)
  local last = token + (tokens - 1) -- 2^53 + 1 would be rounded
  if last >= 9007199254740992 then -- 2^53
    return { 'exhausted', text(now) }
  end
  write_floor(last)
  for _, cell in ipairs(cells) do
    local hold = hold_of(request, token)
    hold.in_turn = tokens > 1
    add(cell, hold)
    cell.token = last
    save(cell, hold)
  end
  leave_queues(cells, request.ticket)
  return { 'granted', text(now), text(token), '1', text(tokens) }
end

local cells, bad = load_all()
return bad or acquire(cells)
