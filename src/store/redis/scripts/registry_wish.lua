-- Does what somebody wishes who need not lead. Answers one of
--   granted slot | busy | gone
-- each after its name with the store's clock.
--
-- ARGV: latest base channel name revision wish moment. The wish is run, suspend or resume; the moment is now, or the
-- slot that a job which is resumed begins with.
local name, revision, wish, moment = ARGV[4], tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])

local job, bad = load(name)
if bad then
  return bad
end
if not job or job.revision ~= revision then
  return { 'gone', text(now) }
end
local taken, begun = job.taken == 1, job.attempt > 0
if wish == 'run' then
  if taken then
    return { 'busy', text(now) }
  end
  job.slot = begun and job.slot or moment
  job.due = moment
elseif wish == 'suspend' then
  job.suspended = 1
else
  if job.suspended == 1 and not taken and not begun then
    job.slot, job.due = moment, moment
  end
  job.suspended = 0
end
save(job)
if not taken then
  dequeue(job)
  if begun or wish ~= 'suspend' then
    enqueue(job)
  end
end
publish(name)
return { 'granted', text(now), text(job.slot) }
