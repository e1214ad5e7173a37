-- A leader takes what is due. Answers one of
--   taken next held and each job as registry_get.lua tells it | stale fence
-- each after its name with the store's clock; next is empty when nothing waits.
--
-- ARGV: latest base channel role token request floor now most all. The same request again: its answer was lost, and is
-- given again. All: takes nothing, and tells of everything that was taken in this term.
local role, token, request, floor = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local until_now, most, all = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10] == '1'
local queue_key, taken_key = base .. 'queue:' .. role, base .. 'taken:' .. role

local desk, bad = load_desk(role)
if bad then
  return bad
end
if token < desk.fence then
  return { 'stale', text(now), text(desk.fence) }
end

-- What an earlier term has taken goes back into the queue, where it was.
local function interrupt()
  for _, name in ipairs(redis.call('ZRANGE', taken_key, '0', '-1')) do
    local job = load(name)
    if job then
      enqueue(job)
    end
  end
  redis.call('DEL', taken_key)
end

-- Gives the next attempt of a job to the leader who asks.
local function hand_out(job)
  dequeue(job)
  redis.call('ZADD', taken_key, text(request), job.name)
  desk.last = math.min(desk.last + 1, LIMIT - 1)
  job.interrupted, job.taken = job.taken, 1
  job.attempt, job.ticket = job.attempt + 1, desk.last
  save(job)
end

local takes, interrupts = not all and (token > desk.fence or request > desk.request), token > desk.fence
desk.fence = token
if interrupts then
  desk.request = 0
end
local known = desk.request
if takes then
  desk.request = request
  desk.last = math.max(desk.last, floor, token)
end
if not all or interrupts then
  -- Written each time, for there must be something that replicas can acknowledge (R6).
  redis.call('HSET', base .. 'desk:' .. role, 'v', '1', 'fence', text(desk.fence), 'request', text(desk.request),
    'last', text(desk.last))
end
if interrupts then
  interrupt()
end

local jobs = {}
if takes and request > known then
  local waiting = redis.call('ZRANGE', queue_key, '-inf', text(until_now), 'BYSCORE', 'LIMIT', '0', text(most))
  for _, name in ipairs(waiting) do
    local job = load(name)
    if job and job.role == role then
      hand_out(job)
      jobs[#jobs + 1] = job
    else
      -- Deleted by hand, or not ours: nobody waits here.
      redis.call('ZREM', queue_key, name)
    end
  end
  if #jobs > 0 then
    redis.call('HSET', base .. 'desk:' .. role, 'last', text(desk.last))
  end
else
  local by = all and { '-inf', '+inf' } or { text(request), text(request) }
  for _, name in ipairs(redis.call('ZRANGE', taken_key, by[1], by[2], 'BYSCORE')) do
    local job = load(name)
    if job then
      jobs[#jobs + 1] = job
    else
      redis.call('ZREM', taken_key, name)
    end
  end
end

local first = redis.call('ZRANGE', queue_key, '0', '0', 'WITHSCORES')
local reply = { 'taken', text(now), first[2] and text(tonumber(first[2])) or '', text(redis.call('ZCARD', taken_key)) }
for _, job in ipairs(jobs) do
  tell(reply, job)
end
return reply
