-- Asking for one lock or several, all or none: R1 with R3 (tokens) and R5 (guard). What it answers is in
-- lock_acquire.lua.

-- The owner has it already: by this very request, whose answer was lost, or by an earlier one. Not under a guard: a
-- store that has forgotten the end of a lock, and who got it then, would grant it beside them.
local function present_id(cells, request, guarded)
  if guarded then
    return nil
  end
  for _, holder in ipairs(cells[1].holders) do
    if holder.id == request.id or (holder.session == request.session and holder.owner == request.owner) then
      for _, cell in ipairs(cells) do
        if not held_under(cell, holder.id) then
          return nil
        end
      end
      return holder.id
    end
  end
end

-- The owner has it once more, or for longer.
local function take_again(cells, present, request)
  local holder
  for _, cell in ipairs(cells) do
    holder = held_under(cell, present)
    if holder.request ~= request.id and holder.id ~= request.id then
      holder.holds, holder.request = holder.holds + 1, request.id
    end
    holder.lease = math.max(holder.lease, request.lease)
    holder.expires_at = math.max(holder.expires_at, now + request.lease)
    save(cell, holder)
  end
  return holder
end

-- All who use a name agree on the number of permits. Returns the cell where they do not; or nil and a reply.
local function disagreement(cells, request)
  for _, cell in ipairs(cells) do
    local in_use = #cell.holders > 0
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
  local ahead = redis.call('ZRANK', cell.queue, request.ticket) or redis.call('ZCARD', cell.queue)
  local reply = { 'held', text(now), cell.name, text(ahead) }
  local first
  for _, holder in ipairs(cell.holders) do
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

-- Not now: a ticket for who waits. One whose turn it is for a name that it cannot use yet passes the word on.
local function wait_for(cells, shut, guarded, request)
  if request.queueing ~= 'no' then
    for _, cell in ipairs(cells) do
      if not order_of(cell, request.ticket) then
        line_up(cell, request)
      elseif not guarded and is_open_to(cell, request.ticket) then
        wake_next(cell, order_of(cell, request.ticket))
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
    queueing = arg(at + 8), guard = arg(at + 9), acks = arg(at + 10) == '1', yields = yields,
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
  if request.queueing ~= 'no' then
    give_sign_of_life(request.session)
  end
  local present = present_id(cells, request, guarded)
  if present then
    local holder = take_again(cells, present, request)
    leave_queues(cells, request.ticket)
    return { 'granted', text(now), text(holder.token), holder.id, text(holder.holds) }
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
  local token = next_token(cells, request.floor)
  if token >= 9007199254740992 then -- 2^53
    return { 'exhausted', text(now) }
  end
  local holder = {
    id = request.id, session = request.session, owner = request.owner, identity = request.identity, token = token,
    holds = 1, request = request.id, lease = request.lease, expires_at = now + request.lease,
  }
  for _, cell in ipairs(cells) do
    cell.token = token
    table.insert(cell.holders, holder)
    save(cell, holder)
  end
  leave_queues(cells, request.ticket)
  return { 'granted', text(now), text(token), holder.id, text(holder.holds) }
end
