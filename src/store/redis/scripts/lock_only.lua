-- R7 as it mostly is: a lock, not a semaphore, of which this is the only hold and for which nobody waits, given back by
-- the sidecar that has it. Answers released, as lock_release.lua, which follows in the same step where any of that is
-- otherwise. The record stays for as long as it would have without that: longer than anybody could put the hold back.
--
-- ARGV: as lock_release.lua
do
  local id, session = ARGV[4], ARGV[5]
  local token, ended, _, released, _, hold = record_alone(1, id)
  hold = hold and tonumber(ended) <= tonumber(token) and parse_hold(id, hold)
  if hold and hold.session == session and not hold.rests and hold.keep_until == 0 and now < hold.expires_at then
    redis.call('HDEL', KEYS[4], 'h:' .. id)
    released = string.sub(released .. ' ' .. id, -(RELEASED_KEPT * (ID_LENGTH + 1)))
    redis.call('HSET', KEYS[4], 'ended', token, 'released', released)
    return { 'released', text(now) }
  end
end
