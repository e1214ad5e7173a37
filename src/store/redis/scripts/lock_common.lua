-- What the scripts about locks share, after lock_head.lua, which names KEYS and ARGV.
local is_looking = false -- nothing may be written

local function arg(i)
  return ARGV[first_arg + i]
end

local function garbage(key, why)
  return { 'garbage', text(now), key, why }
end

-- The reply to an error of reading a key. That the user may not read it, say, is told as it is.
local function unreadable(key, failed, kind)
  if string.find(failed.err, 'WRONGTYPE') then
    return garbage(key, 'it is not a ' .. kind)
  end
  return failed
end

-- A reply when the key holds something else, and how much is in it when it does not; pcall answers a number then.
local function not_sorted(key)
  local reply = redis.pcall('ZCARD', key)
  if type(reply) == 'table' then
    return unreadable(key, reply, 'sorted set')
  end
  return nil, reply
end

local function by_token(one, other)
  return one.token < other.token
end

local NUMBERS = { 'token', 'ended', 'permits', 'longest' }

-- Reads the fields of a lock's hash into the cell. Returns a reply when it is not what we wrote.
local function parse_cell(cell, hash)
  if hash.v ~= '1' then
    return garbage(cell.key, 'field v is not 1: another version of Baton, or another program, wrote it')
  end
  for _, field in ipairs(NUMBERS) do
    if not is_number(hash[field]) then
      return garbage(cell.key, 'field ' .. field .. ' is not a number')
    end
    cell[field] = tonumber(hash[field])
  end
  if not hash.released then
    return garbage(cell.key, 'field released is missing')
  end
  cell.released, cell.is_stored, cell.is_fair = hash.released, true, hash.is_fair == '1'
  for field, value in pairs(hash) do
    if string.sub(field, 1, 2) == 'h:' then
      local hold = parse_hold(string.sub(field, 3), value)
      if not hold then
        return garbage(cell.key, 'field ' .. field .. ' is not a hold')
      end
      if now < hold.expires_at then
        table.insert(cell.holds, hold)
      else
        -- Its lease has ended.
        table.insert(cell.gone, field)
      end
    end
  end
  table.sort(cell.holds, by_token)
end

-- One name, and whether anybody may wait for it; nil and a reply when a key of it is not what we wrote.
local function load(i)
  local cell = {
    key = KEYS[3 * i + 1], queue = KEYS[3 * i + 2], fair = KEYS[3 * i + 3], name = ARGV[2 + i],
    token = 0, ended = 0, permits = 0, longest = 0, released = '', holds = {}, gone = {},
    is_fair = false, -- whether there has been a fair ticket: then nobody has it in turn
  }
  local flat = redis.pcall('HGETALL', cell.key)
  if flat.err then
    return nil, unreadable(cell.key, flat, 'hash')
  end
  local bad, tickets, fair
  bad, tickets = not_sorted(cell.queue)
  if not bad then
    bad, fair = not_sorted(cell.fair)
  end
  if not bad then
    cell.has_queue, cell.has_fair = tickets > 0, fair > 0
  end
  if not bad and #flat > 0 then
    local hash = {}
    for at = 1, #flat, 2 do
      hash[flat[at]] = flat[at + 1]
    end
    bad = parse_cell(cell, hash)
  end
  if bad then
    return nil, bad
  end
  return cell
end

-- All names; nil and a reply when a key is not what we wrote.
local function load_all()
  local bad = not_sorted(sessions_key)
  if bad then
    return nil, bad
  end
  local cells = {}
  for i = 1, names do
    cells[i], bad = load(i)
    if bad then
      return nil, bad
    end
  end
  return cells
end

local function touch(cell)
  local ttl_ms = text(math.ceil(cell.longest / 1000) + RECORD_MS)
  redis.call('PEXPIRE', cell.key, ttl_ms)
  if cell.has_queue then
    redis.call('PEXPIRE', cell.queue, ttl_ms)
  end
  if cell.has_fair then
    redis.call('PEXPIRE', cell.fair, ttl_ms)
  end
end

local function held_under(cell, id)
  for at, hold in ipairs(cell.holds) do
    if hold.id == id and not hold.rests then
      return hold, at
    end
  end
end

-- Whether a hold has this token; or, in a turn, may have it.
local function is_under(cell, hold, token)
  return hold.token == token or hold.in_turn and hold.token <= token and token <= cell.token
end

-- How many holds there are under a token: of one owner.
local function holds_under(cell, token)
  local count = 0
  for _, hold in ipairs(cell.holds) do
    if hold.token == token and not hold.rests then
      count = count + 1
    end
  end
  return count
end

-- How many may still have it: a matter of owners and not of holds.
local function free(cell)
  local owners, last = 0, nil
  for _, hold in ipairs(cell.holds) do
    if hold.token ~= last then
      owners, last = owners + 1, hold.token
    end
  end
  return cell.permits - owners
end

local function add(cell, hold)
  cell.token = math.max(cell.token, hold.token)
  cell.longest = math.max(cell.longest, hold.lease)
  table.insert(cell.holds, hold)
end

local function extend(cell, hold, lease)
  hold.lease = math.max(hold.lease, lease)
  hold.expires_at = math.max(hold.expires_at, now + lease)
  cell.longest = math.max(cell.longest, lease)
end

local function hold_text(hold)
  return table.concat({
    hold.session, text(hold.token), text(hold.lease), text(hold.expires_at),
    hold.rests and '2' or hold.in_turn and '1' or '0', text(hold.keep_until), tostring(#hold.owner), hold.owner,
    hold.identity,
  }, ' ')
end

-- Writes what is remembered, and the hold that has changed, if one has.
local function save(cell, hold)
  local fields = {
    'v', '1', 'token', text(cell.token), 'ended', text(cell.ended), 'permits', text(cell.permits),
    'longest', text(cell.longest), 'released', cell.released, 'is_fair', cell.is_fair and '1' or '0',
  }
  if hold then
    table.insert(fields, 'h:' .. hold.id)
    table.insert(fields, hold_text(hold))
  end
  redis.call('HSET', cell.key, unpack(fields))
  for _, field in ipairs(cell.gone) do
    -- One whose lease has ended may have come again under the same id.
    if not held_under(cell, string.sub(field, 3)) then
      redis.call('HDEL', cell.key, field)
    end
  end
  cell.gone = {}
  touch(cell)
end

-- Writes the ends of leases that were cut, or they would begin anew with every look.
local function save_cut(cells)
  for _, cell in ipairs(cells) do
    for _, hold in ipairs(cell.holds) do
      if hold.is_cut then
        redis.call('HSET', cell.key, 'h:' .. hold.id, hold_text(hold))
      end
    end
  end
end

-- Whether this hold was given back, as far as that is remembered.
local function was_released(cell, id)
  return string.find(cell.released, id, 1, true) ~= nil
end

-- Whether a hold rests; of this id, where one is named.
local function rests(cell, id)
  for _, hold in ipairs(cell.holds) do
    if hold.rests and (not id or hold.id == id) then
      return true
    end
  end
  return false
end

-- The hold of this id, or of the seat (an id, or empty) in whose turn it was granted; as far as it is this sidecar's to
-- change. None that rests: it was given back.
local function find(cell, id, seat, session)
  local hold = held_under(cell, id)
  if not hold and seat ~= '' and not rests(cell, id) then
    hold = held_under(cell, seat)
  end
  return hold and (not hold.in_turn or hold.session == session) and hold or nil
end

-- What was given back under this id does not come again.
local function forget_hold(cell, id)
  cell.released = string.sub(cell.released .. ' ' .. id, -(RELEASED_KEPT * (ID_LENGTH + 1)))
end

-- Takes a hold away; or, where it may rest and is to be shut for longer, leaves it to that. Returns how many its owner
-- has left; nil where it is not held.
local function give_back(cell, id, may_rest)
  local hold, at = held_under(cell, id)
  if not hold then
    return nil
  end
  if may_rest and now < hold.keep_until then
    hold.rests, hold.in_turn, hold.expires_at = true, false, hold.keep_until
  else
    table.remove(cell.holds, at)
    table.insert(cell.gone, 'h:' .. id)
  end
  forget_hold(cell, id)
  local left = holds_under(cell, hold.token)
  if left == 0 then
    -- All of its turn, too.
    cell.ended = math.max(cell.ended, cell.permits == 1 and cell.token or hold.token)
  end
  return left
end

-- Who holds it: owner, identity, token, holds and remaining_us of each owner; and of the one whose lease ends first.
local function told(cell)
  local holders, first = {}, nil
  local last, last_end, count
  for at, hold in ipairs(cell.holds) do
    if not last or last.token ~= hold.token then
      last, last_end, count = hold, 0, 0
    end
    last_end, count = math.max(last_end, hold.expires_at), count + 1
    local next_hold = cell.holds[at + 1]
    if not next_hold or next_hold.token ~= hold.token then
      local words = { last.owner, last.identity, text(last.token), text(count), text(last_end - now) }
      table.insert(holders, words)
      if not first or last_end < first.ends then
        first = { ends = last_end, words = words }
      end
    end
  end
  return holders, first and first.words
end

-- R3: the greatest token of any name, which are forgotten; or nil and a reply.
local function read_floor()
  local stored = redis.pcall('GET', floor_key)
  if type(stored) == 'table' then
    return nil, unreadable(floor_key, stored, 'string')
  end
  if stored and not is_number(stored) then
    return nil, garbage(floor_key, 'it is not a number')
  end
  return tonumber(stored or '0')
end

-- For as long as it may be ahead of this clock, which may have been stepped back, and longer.
local function write_floor(token)
  redis.call('SET', floor_key, text(token), 'PX', text(math.ceil(math.max(token - now, 0) / 1000) + DAY_MS))
end

-- Whether a session gave a sign of life of late.
local lives_cache = {}
local function lives(session)
  if lives_cache[session] == nil then
    local till = redis.call('ZSCORE', sessions_key, session)
    lives_cache[session] = till and now < tonumber(till) or false
    -- No ticket stands for longer than that: one that seems to had its sign of life before this clock was stepped back.
    if till and tonumber(till) > now + TICKET_US and not is_looking then
      redis.call('ZADD', sessions_key, text(now + TICKET_US), session)
    end
  end
  return lives_cache[session]
end

local function give_sign_of_life(session)
  redis.call('ZADD', sessions_key, text(now + TICKET_US), session)
  redis.call('PEXPIRE', sessions_key, text(TICKET_US / 1000))
  lives_cache[session] = true
end

local function drop(cell, ticket)
  redis.call('ZREM', cell.queue, ticket)
  redis.call('ZREM', cell.fair, ticket)
end

-- The tickets of requests that were served in a turn go: their ids, with spaces between. Whether there are any.
local function forget_served(cell, session, served)
  for id in string.gmatch(served, '%x+') do
    drop(cell, session .. ':' .. id)
  end
  return served ~= ''
end

-- The first ticket of a queue behind this order, and its own order, whether its sidecar lives or not; nil and a reply
-- when it is not a ticket.
local function ticket_after(key, order)
  local found
  if order then
    found = redis.call('ZRANGE', key, '(' .. text(order), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
  else
    found = redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')
  end
  if not found[1] then
    return nil
  end
  local session, id = string.match(found[1], '^(%x+):(%x+)$')
  local at = tonumber(found[2])
  if not is_id(session) or not is_id(id) or not is_number(text(at)) then
    return nil, garbage(key, 'a member of it is not a ticket')
  end
  return { text = found[1], session = session, id = id, order = at }
end

-- The first ticket behind this order whose sidecar lives; dead ones on the way are dropped.
local function meet(cell, order)
  while cell.has_queue do
    local ticket, bad = ticket_after(cell.queue, order)
    if not ticket or lives(ticket.session) then
      return ticket, bad
    end
    drop(cell, ticket.text)
  end
end

-- Drops some of the dead at the head of the queue, whose places those behind them count.
local function drop_dead(cell)
  for _ = 1, DEAD_DROPPED_MAX do
    local ticket = cell.has_queue and ticket_after(cell.queue)
    if not ticket or lives(ticket.session) then
      return
    end
    drop(cell, ticket.text)
  end
end

local function order_of(cell, ticket)
  return cell.has_queue and tonumber(redis.call('ZSCORE', cell.queue, ticket) or '') or nil
end

-- Whether this request may have it now: nobody overtakes a fair ticket, and one that yields overtakes none.
local function is_open_to(cell, mine, yields)
  local left = free(cell)
  local queue, has_any = cell.fair, cell.has_fair
  if yields then
    queue, has_any = cell.queue, cell.has_queue
  end
  if left > 0 and not has_any then
    return true
  end
  local my_order, first, at = order_of(cell, mine) or math.huge, 0, nil
  while first < left do
    local ticket, bad = ticket_after(queue, at)
    if bad then
      return false, bad
    end
    if not ticket or ticket.order >= my_order then
      return true
    end
    if lives(ticket.session) then
      first, at = first + 1, ticket.order
    else
      drop(cell, ticket.text)
    end
  end
  return false
end

-- Until when it is not free: nothing, for who asks for none.
local function kept(at_least)
  return at_least > 0 and now + at_least or 0
end

-- Wakes the first in the queue, or the first behind this order, when there is something free; but not this one. A lost
-- wake-up costs time, and no more: so the work that it belongs to is not called off for a queue that holds something
-- else. Where a hold rests, who waits is to learn when that is over.
local function wake_next(cell, order, except)
  if not cell.has_queue or free(cell) <= 0 and not rests(cell) then
    return
  end
  local ticket = meet(cell, order)
  if ticket and ticket.text ~= except then
    redis.call('PUBLISH', ARGV[2] .. ticket.session, 'v1 ' .. ticket.id .. ' ' .. cell.name)
  end
end

-- Takes a request's tickets away, and wakes who can go on.
local function leave_queues(cells, mine)
  for _, cell in ipairs(cells) do
    if cell.has_queue or cell.has_fair then
      drop(cell, mine)
    end
    wake_next(cell)
  end
end

local function write_store(generation, guard_until)
  redis.call('HSET', store_key, 'v', '1', 'generation', generation, 'guard_until', text(guard_until), 'kept', text(now))
  redis.call('PEXPIRE', store_key, text(DAY_MS))
end

-- R5 for the whole store: notices another generation of the server. Returns for how long it stays shut for new grants,
-- if it is; or nil and a reply. `asked` as in generation.lua.
local function prepare(guard, asked)
  if guard == '' then
    return nil
  end
  guard = tonumber(guard)
  local stored = redis.pcall('HMGET', store_key, 'v', 'generation', 'guard_until', 'kept')
  if stored.err then
    return nil, unreadable(store_key, stored, 'hash')
  end
  local known = stored[1] or redis.call('EXISTS', store_key) == 1
  if known and (stored[1] ~= '1' or not stored[2] or not is_number(stored[3])) then
    return nil, garbage(store_key, 'its fields are not those of Baton')
  end
  local generation, missing = generation_of_server(asked)
  if not generation then
    return nil, { 'untold', text(now), missing }
  end
  local guard_until = now + guard
  if not known then
    -- Whole seconds, rounded either way: the server may be almost a second younger than it says.
    local uptime_s = uptime_of_server() - 1
    local left = guard - math.max(uptime_s, 0) * 1000000
    guard_until = left > 0 and now + left or 0
  elseif is_generation(stored[2], generation) then
    generation = stored[2]
    -- One that is over is forgotten: a step of this clock back does not begin it again. And none is longer than that:
    -- one that seems so was set before such a step.
    local stored_until = tonumber(stored[3])
    guard_until = stored_until <= now and 0 or math.min(stored_until, guard_until)
  end
  -- It is kept for a day from then on.
  local is_kept = stored[4] and is_number(stored[4]) and now < tonumber(stored[4]) + DAY_MS * 500
  if not is_kept or stored[2] ~= generation or text(guard_until) ~= stored[3] then
    write_store(generation, guard_until)
  end
  return now < guard_until and guard_until - now or nil
end
