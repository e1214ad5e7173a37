-- A job as it stands; changes nothing. Answers job [name role revision slot due attempt ticket suspended taken
-- interrupted spec state], after its name with the store's clock.
--
-- ARGV: latest base channel name
local job, bad = load(ARGV[4])
if bad then
  return bad
end
local reply = { 'job', text(now) }
if job then
  tell(reply, job)
end
return reply
