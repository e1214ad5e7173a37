-- Makes a job, or puts another in its place. Answers one of
--   created | replaced | unchanged | exists
-- each after its name with the store's clock, and with the revision of the job that stands there now.
--
-- ARGV: latest base channel name role slot suspended overwrite length body. The body is what was put, which has that
-- length in bytes, and then what leaders write.
local name, role, slot, suspended, overwrite = ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local length, body = tonumber(ARGV[9]), ARGV[10]
local spec, state = string.sub(body, 1, length), string.sub(body, length + 1)

local before, bad = load(name)
if bad then
  return bad
end
if before and before.spec == spec and before.role == role then
  return { 'unchanged', text(now), text(before.revision) }
end
if before and overwrite ~= '1' then
  return { 'exists', text(now), text(before.revision) }
end
-- What renews leases needs room as well: jobs leave it a sixteenth of maxmemory, and no more than it can need. What has
-- no room is refused as Redis itself would.
-- Where scripts may not ask for INFO, there is no such reserve.
local memory = redis.pcall('INFO', 'memory')
memory = type(memory) == 'string' and memory or ''
local most = tonumber(string.match(memory, '\nmaxmemory:(%d+)')) or 0
local used = tonumber(string.match(memory, '\nused_memory:(%d+)')) or 0
if most > 0 and used + #body > most - math.min(most / 16, 16777216) then
  return redis.error_reply('OOM what is left of maxmemory is kept for leases')
end
-- From the clock, so that a revision never comes twice, even if the store lost the ones between.
local revision = math.max((before and before.revision or 0) + 1, now)
if revision >= LIMIT then
  return { 'exhausted', text(now) }
end
local job = {
  name = name, role = role, revision = revision, slot = slot, due = slot, attempt = 0, ticket = 0,
  suspended = suspended, taken = 0, interrupted = 0, spec = spec, state = state,
}
save(job)
if before then
  dequeue(before)
  redis.call('ZREM', base .. 'taken:' .. before.role, name)
end
redis.call('ZADD', names_key, '0', name)
if suspended == 0 then
  enqueue(job)
end

-- Whether it is the first of its role that is due.
local function is_first()
  return suspended == 0 and redis.call('ZRANK', base .. 'queue:' .. role, name) == 0
end

if (before and before.taken == 1) or is_first() then
  publish(name)
end
return { before and 'replaced' or 'created', text(now), text(revision) }
