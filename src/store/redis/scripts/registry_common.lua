-- What every script about jobs that are made at run time begins with. protocol/reference/job_registry.rs is the
-- reference for what happens when.
--
-- KEYS[1]  the names of all of them: a sorted set in which all have one score, so that they stand by name
-- ARGV[1]  when the sender gives this request up, in microseconds of this clock
-- ARGV[2]  what all their keys begin with:
--          registry:<name>  a job: a hash without a TTL
--          queue:<role>     a sorted set: which jobs wait until when, in milliseconds of the leaders' clock of the day
--          taken:<role>     a sorted set: which jobs were taken, by which request
--          desk:<role>      a hash: the latest term that has taken, its last request, and the greatest token of an
--                           attempt
-- ARGV[3]  the channel on which leaders hear of jobs
-- and then each script's own.
--
-- The keys of a name and of a role are made here: which role a job had is known here only. All of them share one hash
-- tag, so that a cluster keeps them together.
--
-- The three rules of common.lua hold here, too: numbers leave as text made with '%.0f'; the first write is an HSET,
-- which a full memory refuses (but where room is given back); what we did not write is reported and left as it is.
local names_key, base, channel = KEYS[1], ARGV[2], ARGV[3]
local LIMIT = 9007199254740992 -- 2^53: up to there a double counts exactly

local function text(number)
  return string.format('%.0f', number)
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2]) -- microseconds

-- Nobody waits for the answer any more: it may have been repeated since, and acted on.
if now > tonumber(ARGV[1]) then
  return { 'late', text(now) }
end

local function garbage(key, why)
  return { 'garbage', text(now), key, why }
end

local function is_number(value)
  return value and #value <= 16 and string.match(value, '^%d+$') ~= nil and tonumber(value) < LIMIT
end

-- The fields of a hash; nil when it is absent; nil and a reply when it holds what we did not write. `numbers` of them
-- come first.
local function read(key, numbers, fields)
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
  if values[1] ~= '1' then
    return nil, garbage(key, 'field v is not 1: another version of Baton, or another program, wrote it')
  end
  local found = {}
  for i, field in ipairs(fields) do
    local value = values[i + 1]
    if not value then
      return nil, garbage(key, 'field ' .. field .. ' is missing')
    end
    if i <= numbers and not is_number(value) then
      return nil, garbage(key, 'field ' .. field .. ' is not a number')
    end
    found[field] = i <= numbers and tonumber(value) or value
  end
  return found
end

local JOB = {
  'revision', 'slot', 'due', 'attempt', 'ticket', 'suspended', 'taken', 'interrupted', 'role', 'spec', 'state',
}

-- A job as it stands; nil and perhaps a reply, as above.
local function load(name)
  local job, bad = read(base .. 'registry:' .. name, 8, JOB)
  if job then
    job.name = name
  end
  return job, bad
end

local function save(job)
  redis.call('HSET', base .. 'registry:' .. job.name, 'v', '1', 'revision', text(job.revision), 'slot',
    text(job.slot), 'due', text(job.due), 'attempt', text(job.attempt), 'ticket', text(job.ticket), 'suspended',
    text(job.suspended), 'taken', text(job.taken), 'interrupted', text(job.interrupted), 'role', job.role, 'spec',
    job.spec, 'state', job.state)
end

-- A job at the end of a reply.
local function tell(reply, job)
  for _, word in ipairs({
    job.name, job.role, text(job.revision), text(job.slot), text(job.due), text(job.attempt), text(job.ticket),
    text(job.suspended), text(job.taken), text(job.interrupted), job.spec, job.state,
  }) do
    reply[#reply + 1] = word
  end
end

-- What is known of a role's leaders; nil and a reply when it is not ours.
local function load_desk(role)
  local desk, bad = read(base .. 'desk:' .. role, 3, { 'fence', 'request', 'last' })
  if bad then
    return nil, bad
  end
  return desk or { fence = 0, request = 0, last = 0 }
end

local function enqueue(job)
  redis.call('ZADD', base .. 'queue:' .. job.role, text(job.due), job.name)
end

local function dequeue(job)
  redis.call('ZREM', base .. 'queue:' .. job.role, job.name)
end

local function publish(name)
  redis.call('PUBLISH', channel, 'v1 ' .. name)
end

-- Everything that is kept of a job goes.
local function take_away(job)
  dequeue(job)
  redis.call('ZREM', base .. 'taken:' .. job.role, job.name)
  redis.call('ZREM', names_key, job.name)
  redis.call('DEL', base .. 'registry:' .. job.name)
end
