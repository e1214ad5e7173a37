-- R6 with R5: enough replicas have acknowledged a write of this server process, so that they acknowledge no other
-- master's from here on; the guard of the locks begins now. Answers confirmed with the store's clock.
--
-- ARGV after the names (none): guard_us
local stored = redis.pcall('HMGET', store_key, 'v', 'run_id')
if stored.err then
  return unreadable(store_key, stored, 'hash')
end
local run_id = run_id_in(redis.call('INFO', 'server'))
if stored[1] == '1' and stored[2] ~= run_id then
  write_store(run_id, now + tonumber(arg(1)))
end
return { 'confirmed', text(now) }
