-- What every script goes on with, after its layout (single.lua or member.lua) and generation.lua: what both have in
-- common. Lua makes all of it anew for each call, which is more than most calls cost otherwise: what those need comes
-- before it, in files of their own.
--
-- KEYS[1]  the role's lease: a hash with a TTL, there while somebody holds the role
-- KEYS[2]  the role's record: a hash without a TTL; both share a hash tag, so that a cluster keeps them together
-- ARGV[1]  the role's channel
--
-- Three rules hold throughout:
-- * Numbers leave as text made with '%.0f'. A Lua number in a reply or a concatenation is cut to 14 digits; tokens
--   have 16.
-- * The first write is an HSET (but for a release, see there). Redis refuses that one when its memory is full, so a
--   script does all of its work or none.
-- * A key that holds what we did not write is reported and left as it is.
local lease_key, record_key, channel = KEYS[1], KEYS[2], ARGV[1]

local function text(number)
  return string.format('%.0f', number)
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2]) -- microseconds, as are all moments here

local function garbage(key, why)
  return { 'garbage', text(now), key, why }
end

-- Up to 16 digits: what a double holds exactly, and then some.
local function is_number(value)
  return value and #value <= 16 and string.match(value, '^%d+$') ~= nil
end

local function is_session(value)
  return value and #value == 32 and string.match(value, '^%x+$') ~= nil
end

-- Whose keys have this in their field v. Replicas with different stores know nothing of each other's leases.
local WRITERS = { ['1'] = 'redis', q1 = 'quorum' }

-- The fields of a hash; nil when the key is absent; nil and a reply when it is not what we wrote.
local function read(key, fields)
  local values = redis.pcall('HMGET', key, 'v', unpack(fields))
  if values.err then
    if string.find(values.err, 'WRONGTYPE') then
      return nil, garbage(key, 'it is not a hash')
    end
    -- The user may not read it, say: that is told as it is.
    return nil, values
  end
  if not values[1] then
    if redis.call('EXISTS', key) == 0 then
      return nil
    end
    return nil, garbage(key, 'field v is missing')
  end
  if values[1] ~= layout.v then
    if WRITERS[values[1]] then
      return nil, { 'foreign', text(now), key, WRITERS[values[1]], WRITERS[layout.v] }
    end
    local why = 'field v is not ' .. layout.v .. ': another version of Baton, or another program, wrote it'
    return nil, garbage(key, why)
  end
  local hash = {}
  for i, field in ipairs(fields) do
    if not values[i + 1] then
      return nil, garbage(key, 'field ' .. field .. ' is missing')
    end
    hash[field] = values[i + 1]
  end
  return hash
end

local function numbers(key, hash, fields)
  for _, field in ipairs(fields) do
    if not is_number(hash[field]) then
      return garbage(key, 'field ' .. field .. ' is not a number')
    end
    hash[field] = tonumber(hash[field])
  end
end

-- The lease, while it lives; its TTL is Redis's business.
local function read_lease()
  local lease, bad = read(lease_key, { 'session', 'attempt', 'token', 'identity', 'lease_ms', layout.in_lease })
  if not lease then
    return nil, bad
  end
  bad = numbers(lease_key, lease, { 'attempt', 'token', 'lease_ms', layout.in_lease })
  if bad then
    return nil, bad
  end
  if not is_session(lease.session) then
    return nil, garbage(lease_key, 'field session is not a session')
  end
  lease.remaining_ms = redis.call('PTTL', lease_key)
  if lease.remaining_ms < 0 then
    return nil, garbage(lease_key, 'it has no TTL')
  end
  -- More than its whole time cannot be left of a lease: the clock was stepped back.
  if lease.remaining_ms > lease.lease_ms then
    redis.call('PEXPIRE', lease_key, text(lease.lease_ms))
    lease.remaining_ms = lease.lease_ms
  end
  return lease
end

local CAUSES = { [''] = true, generation = true, empty = true, regression = true, vanished = true }

local RECORD = { 'token', 'count', 'released', 'session', 'attempt', 'generation', 'guard_until', 'guard_cause' }
for _, field in ipairs(layout.in_record) do
  RECORD[#RECORD + 1] = field
end

for _, field in ipairs(layout.texts) do
  RECORD[#RECORD + 1] = field
end

-- What is remembered; nil when nothing is.
local function read_record()
  local record, bad = read(record_key, RECORD)
  if not record then
    return nil, bad
  end
  bad = numbers(record_key, record, { 'token', 'count', 'attempt', 'guard_until' })
    or numbers(record_key, record, layout.in_record)
  if bad then
    return nil, bad
  end
  if record.session ~= '' and not is_session(record.session) then
    return nil, garbage(record_key, 'field session is not a session')
  end
  if record.released ~= '0' and record.released ~= '1' then
    return nil, garbage(record_key, 'field released is neither 0 nor 1')
  end
  if not CAUSES[record.guard_cause] then
    return nil, garbage(record_key, 'field guard_cause is not a cause')
  end
  record.released = record.released == '1'
  return record
end

-- It counts from this clock, so that what was known of a lost record never fits it by chance.
local function new_record()
  local record = {
    token = 0, count = now, released = false, session = '', attempt = 0, generation = '', guard_until = 0,
    guard_cause = '',
  }
  for _, field in ipairs(layout.in_record) do
    record[field] = 0
  end
  for _, field in ipairs(layout.texts) do
    record[field] = ''
  end
  return record
end

local function write_record(record)
  local fields = { 'v', layout.v, 'token', text(record.token), 'count', text(record.count),
    'released', record.released and '1' or '0', 'session', record.session, 'attempt', text(record.attempt),
    'generation', record.generation, 'guard_until', text(record.guard_until), 'guard_cause', record.guard_cause }
  for _, field in ipairs(layout.in_record) do
    fields[#fields + 1], fields[#fields + 2] = field, text(record[field])
  end
  for _, field in ipairs(layout.texts) do
    fields[#fields + 1], fields[#fields + 2] = field, record[field]
  end
  redis.call('HSET', record_key, unpack(fields))
end

-- `confirmed`: 0 or 1, for a member of a quorum only. `lease_ms` may be a fraction.
local function write_lease(session, attempt, token, identity, lease_ms, confirmed)
  local ttl = text(math.ceil(lease_ms))
  local fields = { 'v', layout.v, 'session', session, 'attempt', text(attempt), 'token', text(token),
    'identity', identity, 'lease_ms', ttl }
  if layout.in_lease then
    fields[#fields + 1], fields[#fields + 2] = layout.in_lease, text(confirmed)
  end
  redis.call('HSET', lease_key, unpack(fields))
  local expires = redis.pcall('PEXPIRE', lease_key, ttl)
  if type(expires) == 'table' and expires.err then
    -- The user may not do that. A lease without a TTL would stand for ever; without it the same error ends the script.
    redis.call('DEL', lease_key)
    redis.call('PEXPIRE', lease_key, ttl)
  end
end

-- R5: whether the role is shut for new grants.
local function is_guarded(record)
  return now < record.guard_until
end

-- R5: for how long a guard lasts that this request begins, in milliseconds: by the longer of both leases.
local function guard_span_ms(record, lease_ms)
  return math.max(lease_ms, record and record.lease_ms or 0)
end

-- R5: shuts the role for a span in milliseconds, unless it is shut for longer already.
local function shut(record, cause, span_ms)
  local moment = now + span_ms * 1000
  if record.guard_cause == '' or record.guard_until < moment then
    record.guard_until, record.guard_cause = moment, cause
  end
  record.lease_ms = math.max(record.lease_ms, math.ceil(span_ms))
end

-- Forgets a guard that is over, so that a step of this clock back does not begin it again.
local function end_guard(record)
  if not is_guarded(record) then
    record.guard_until, record.guard_cause = 0, ''
  end
end

-- No guard is longer than what it was set for: one that seems so was set before this clock was stepped back. Likewise
-- the end of a lease, or the role would be shut until this clock is there.
local function clamp(record, span_ms)
  if record then
    local latest = now + span_ms * 1000
    record.is_clamped = latest < record['until'] or latest < record.guard_until
    record.guard_until, record['until'] = math.min(record.guard_until, latest), math.min(record['until'], latest)
    if record.listed_until then
      record.is_clamped = record.is_clamped or now + span_ms * 2000 < record.listed_until
      record.listed_until = math.min(record.listed_until, now + span_ms * 2000)
    end
  end
  return record
end

-- By how much a lease's TTL may end before the moment that its record remembers: it is counted in whole milliseconds.
local TTL_ROUNDING_US = 2000

-- Whether the lease that the record remembers, and that its holder did not give back, should still stand.
local function ends_later(record)
  return now + TTL_ROUNDING_US < record['until']
end

-- The lease was given or extended now. A guard that stands keeps the length it was set for.
local function extend_record(record, lease_ms)
  end_guard(record)
  record.lease_ms = is_guarded(record) and math.max(record.lease_ms, lease_ms) or lease_ms
  record['until'] = now + lease_ms * 1000
end

-- What anybody knows of the record, and what it says of a release, is from before something was forgotten: whoever
-- wants the role watches it anew. By its own clock, because a guard ends by this one, which may be stepped. The count
-- is one that nobody can have come to elsewhere, nor an incumbent by renewals that were not answered.
local WATCH_STEP = 4096

local function begin_watch(record)
  record.session, record.attempt = '', 0
  local salt = tonumber(string.sub(record.generation, 1, 4), 16) or 0
  record.count = math.max(record.count + WATCH_STEP + salt, now)
end

-- R5 generation and empty. `asked` as in generation.lua. Returns the record to go on with and whether it differs from
-- what is stored; or nil, nil and a reply.
local function prepare(record, lease_ms, guard, asked)
  if not guard then
    return record or new_record(), record and record.is_clamped
  end
  local generation, missing = generation_of_server(asked)
  if not generation then
    return nil, nil, { 'untold', text(now), missing }
  end
  if record and is_generation(record.generation, generation) then
    return record, record.is_clamped
  end
  local span_ms, is_new = guard_span_ms(record, lease_ms), not record
  record = record or new_record()
  record.generation = generation
  shut(record, is_new and 'empty' or 'generation', span_ms)
  if not layout.is_watched then
    -- It may be of an earlier time, with a release that was the last one then.
    record.confirmed = 0
  elseif not is_new then
    begin_watch(record)
  end
  return record, true
end

-- R8. The identity comes last, since it may hold spaces. Returns how many heard it.
local function publish(kind, token, count, audience, session, identity)
  return redis.call('PUBLISH', channel,
    table.concat({ 'v1', kind, text(token), text(count), audience, session, identity }, ' '))
end
