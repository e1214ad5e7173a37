-- R4 as it mostly is: nothing but time has changed since this incumbent's last renewal. The record is compared with
-- what that left, text by text, and the lease by its token, which no other term has. Where anything differs the whole
-- renewal, renew.lua, follows in the same step. Answers
--   again until_us listeners
-- where the lease now stands until then, by the store's clock.
--
-- ARGV: as renew.lua. The server's generation is the one that this connection was told of last, so that INFO is not
-- asked. If the server is of another by now, the next campaign notices: that always asks, before anything is granted,
-- so that a guard may begin later for it, and never ends earlier.
do
  local record = redis.pcall('HMGET', KEYS[2],
    'count', 'token', 'session', 'attempt', 'generation', 'guard_cause', 'lease_ms', 'v')
  local lease = redis.pcall('HMGET', KEYS[1], 'token')
  local lease_ms, token = ARGV[4], ARGV[5]
  if record[1] == ARGV[6] and record[2] == token and lease[1] == token and record[3] == ARGV[2]
    and record[4] == ARGV[3] and (record[5] == ARGV[10] or ARGV[9] == '0') and record[6] == ''
    and record[7] == lease_ms and record[8] == '1' then
    local clock = redis.call('TIME')
    local till = string.format('%.0f', clock[1] * 1000000 + clock[2] + lease_ms * 1000)
    redis.call('HSET', KEYS[2], 'count', ARGV[7], 'until', till)
    redis.call('PEXPIRE', KEYS[1], lease_ms)
    return { 'again', till, redis.call('PUBLISH', ARGV[1], ARGV[8]) }
  end
end
