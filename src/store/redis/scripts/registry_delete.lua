-- Removes a job. Answers deleted | absent, each after its name with the store's clock.
--
-- ARGV: latest base channel name
local job, bad = load(ARGV[4])
if bad then
  return bad
end
if not job then
  return { 'absent', text(now) }
end
take_away(job)
if job.taken == 1 then
  publish(job.name)
end
return { 'deleted', text(now) }
