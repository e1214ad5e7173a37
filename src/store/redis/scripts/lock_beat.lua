-- A sidecar's sign of life, for as long as any of its requests waits. Answers alive, with the store's clock.
--
-- ARGV after the names (none): session
local _, bad = load_all()
if bad then
  return bad
end
redis.call('ZREMRANGEBYSCORE', sessions_key, '-inf', text(now))
give_sign_of_life(arg(1))
return { 'alive', text(now) }
