-- R6 with R5: enough replicas have acknowledged a write of this server process, so that they acknowledge no other
-- master's from here on; the guard's lease begins now. Answers confirmed with the store's clock.
--
-- ARGV: channel lease_ms
local lease_ms = tonumber(ARGV[2])

local record, bad = read_record()
if bad then
  return bad
end
local run_id = run_id_in(redis.call('INFO', 'server'))
if record and record.run_id ~= run_id then
  record.run_id = run_id
  guard_until(record, 'generation', now + lease_ms * 1000)
  write_record(record)
end
return { 'confirmed', text(now) }
