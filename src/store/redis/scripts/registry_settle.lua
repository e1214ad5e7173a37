-- Ends an attempt. Answers one of
--   settled | gone | stale fence
-- each after its name with the store's clock.
--
-- ARGV: latest base channel name token revision ticket, and slot due attempt [state] unless the job is done.
-- No state: what stands there stays.
local name, token, revision, ticket = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local job, bad = load(name)
if bad then
  return bad
end
if not job or job.revision ~= revision then
  return { 'gone', text(now) }
end
local desk
desk, bad = load_desk(job.role)
if bad then
  return bad
end
if token < desk.fence then
  return { 'stale', text(now), text(desk.fence) }
end
-- A store that has lost its last writes may know of an earlier attempt only, never of a later one.
if job.taken == 0 or job.ticket > ticket then
  return { 'gone', text(now) }
end
if not ARGV[8] then
  take_away(job)
  return { 'settled', text(now) }
end
job.slot, job.due, job.attempt = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
job.taken, job.state = 0, ARGV[11] or job.state
save(job)
redis.call('ZREM', base .. 'taken:' .. job.role, name)
dequeue(job)
if job.attempt > 0 or job.suspended == 0 then
  enqueue(job)
end
return { 'settled', text(now) }
