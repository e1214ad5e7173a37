-- Who takes part in a role that is split over shards, or led by who is preferred, and what each leads. Every replica
-- says so for itself a few times per lease; nothing that must be safe rests on it.
--
-- KEYS[1]  a hash: v, and for each session the words `at span leads shuns [rank]`: when it said so on this clock and
--          for how long that stands, in microseconds, two sets of shards, and what it is preferred by
-- ARGV     session, span_us (empty: it takes no part), leads, shuns, ttl_ms, rank (may be empty)
-- Answers  present, the store's clock, and for each that takes part its session, leads, shuns and rank
local key, session, span, leads, shuns, ttl_ms, rank =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local function text(number)
  return string.format('%.0f', number)
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

local function garbage(why)
  return { 'garbage', text(now), key, why }
end

local stored = redis.pcall('HGETALL', key)
if stored.err then
  if string.find(stored.err, 'WRONGTYPE') then
    return garbage('it is not a hash')
  end
  return stored
end

local members, others, over, version = { 'present', text(now) }, 0, {}, nil
for i = 1, #stored, 2 do
  local field, value = stored[i], stored[i + 1]
  if field == 'v' then
    version = value
  elseif field ~= session then
    local at, lasts, theirs, not_theirs, place = string.match(value, '^(%d+) (%d+) (%x+) (%x+) ?(%x*)$')
    if not at or #field ~= 32 or #theirs ~= 64 or #not_theirs ~= 64 or #at > 16 or #lasts > 16
      or (#place ~= 0 and #place ~= 40) then
      return garbage('field ' .. field .. ' is not what a replica says of itself')
    end
    at, lasts = tonumber(at), tonumber(lasts)
    -- One from the future was given before this clock was stepped back: its sender gives another soon.
    if at <= now and now < at + lasts then
      others = others + 1
      for _, word in ipairs({ field, theirs, not_theirs, place }) do
        members[#members + 1] = word
      end
    else
      over[#over + 1] = field
    end
  end
end
if #stored > 0 and version ~= '1' then
  return garbage(version and 'field v is not 1: another version of Baton, or another program, wrote it'
    or 'field v is missing')
end

if span == '' then
  over[#over + 1] = session
else
  local words = { text(now), span, leads, shuns, rank ~= '' and rank or nil }
  redis.call('HSET', key, 'v', '1', session, table.concat(words, ' '))
  redis.call('PEXPIRE', key, ttl_ms)
  for _, word in ipairs({ session, leads, shuns, rank }) do
    members[#members + 1] = word
  end
end
if span == '' and others == 0 then
  redis.call('DEL', key)
else
  -- Not all at once: what is unpacked has a bound.
  for i = 1, #over, 100 do
    redis.call('HDEL', key, unpack(over, i, math.min(i + 99, #over)))
  end
end
return members
