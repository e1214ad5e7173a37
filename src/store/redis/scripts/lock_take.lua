-- Asking for one lock or several, all or none: R1 with R3 (tokens) and R5 (guard). What it answers is in
-- lock_acquire.lua.

-- This very request was granted before, and its answer lost. Returns the hold, and how many its owner has.
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
  return hold, holds_under(cells[#cells], hold.token)
end

local function hold_of(request, token)
  return {
    id = request.id, session = request.session, owner = request.owner, identity = request.identity, token = token,
    lease = request.lease, expires_at = now + request.lease,
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
  return cells[1].holds[#cells[1].holds], holds_under(cells[1], token)
end

-- All who use a name agree on the number of permits. Returns the cell where they do not; or nil and a reply.
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
    if in_use and cell.permits ~= request.permits then
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
local function line_up(cell, request)
  local last = redis.call('ZRANGE', cell.queue, '-1', '-1', 'WITHSCORES')
  local order = text(tonumber(last[2] or '0') + 1)
  redis.call('ZADD', cell.queue, order, request.ticket)
  cell.has_queue = true
  if request.queueing == 'fair' then
    redis.call('ZADD', cell.fair, order, request.ticket)
    cell.has_fair = true
  end
  if cell.is_stored and cell.had_permits == request.permits then
    touch(cell)
  else
    save(cell)
  end
end

local function held(cell, request)
  drop_dead(cell)
  local ahead = redis.call('ZRANK', cell.queue, request.ticket) or redis.call('ZCARD', cell.queue)
  local reply = { 'held', text(now), cell.name, text(ahead) }
  local _, first = told(cell)
  for _, word in ipairs(free(cell) <= 0 and first or {}) do
    table.insert(reply, word)
  end
  return reply
end

-- Not now: a ticket for who waits. One whose turn it is for a name that it cannot use yet passes the word on.
local function wait_for(cells, shut, guarded, request)
  if request.queueing ~= 'no' then
    for _, cell in ipairs(cells) do
      if not order_of(cell, request.ticket) then
        line_up(cell, request)
      else
        touch(cell)
        if not guarded and is_open_to(cell, request.ticket) then
          wake_next(cell, order_of(cell, request.ticket))
        end
      end
    end
  end
  return shut and held(shut, request)
end

-- The request whose words begin behind this one of the arguments. `yields`: it overtakes nobody who waits.
local function request_at(at, yields)
  local request = {
    session = arg(at + 1), id = arg(at + 2), owner = arg(at + 3), identity = arg(at + 4),
    lease = tonumber(arg(at + 5)), permits = tonumber(arg(at + 6)), floor = tonumber(arg(at + 7)),
    queueing = arg(at + 8), guard = arg(at + 9), acks = arg(at + 10) == '1', beside = arg(at + 11), yields = yields,
  }
  request.ticket = request.session .. ':' .. request.id
  return request
end

-- The next token, above all that were: 2^53 or more when there is none left.
local function next_token(cells, floor)
  local token = math.max(floor, now)
  for _, cell in ipairs(cells) do
    token = math.max(token, cell.token)
  end
  return token + 1
end

-- Returns the reply.
local function take(cells, request)
  local guarded, bad = prepare(request.guard, request.acks)
  if bad then
    return bad
  end
  local floor
  floor, bad = read_floor()
  if bad then
    return bad
  end
  if request.queueing ~= 'no' then
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
    local hold, holds = take_again(cells, request)
    if not hold then
      hold, holds = take_beside(cells, request)
    end
    if hold then
      leave_queues(cells, request.ticket)
      return { 'granted', text(now), text(hold.token), text(holds) }
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
  local token = next_token(cells, math.max(floor, request.floor))
  if token >= 9007199254740992 then -- 2^53
    return { 'exhausted', text(now) }
  end
  write_floor(token)
  for _, cell in ipairs(cells) do
    local hold = hold_of(request, token)
    add(cell, hold)
    save(cell, hold)
  end
  leave_queues(cells, request.ticket)
  return { 'granted', text(now), text(token), '1' }
end
