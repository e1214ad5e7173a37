-- R4 on a member of a quorum as it mostly is: nothing but time has changed since this incumbent's last renewal. As
-- renew_again.lua, which says why INFO need not be asked; but a token is not one candidate's alone here.
--
-- ARGV: as member_renew.lua
do
  local record = redis.pcall('HMGET', KEYS[2],
    'count', 'token', 'confirmed', 'generation', 'guard_cause', 'lists', 'lease_ms', 'v')
  local lease = redis.pcall('HMGET', KEYS[1], 'token', 'session', 'attempt', 'confirmed', 'lease_ms')
  local lease_ms, token, lists = ARGV[4], ARGV[5], ARGV[10]
  if record[1] == ARGV[6] and record[2] == token and record[3] == token and lease[1] == token
    and lease[2] == ARGV[2] and lease[3] == ARGV[3] and lease[4] == '1' and lease[5] == lease_ms
    and (record[4] == ARGV[11] or ARGV[9] == '0') and record[5] == '' and record[6] == lists
    and record[7] == lease_ms and record[8] == 'q1' then
    local clock = redis.call('TIME')
    local now, span = clock[1] * 1000000 + clock[2], lease_ms * 1000
    local till = string.format('%.0f', now + span)
    redis.call('HSET', KEYS[2], 'count', ARGV[7], 'until', till,
      'listed_until', string.format('%.0f', now + 2 * span))
    redis.call('PEXPIRE', KEYS[1], lease_ms)
    return { 'again', till, redis.call('PUBLISH', ARGV[1], ARGV[8]) }
  end
end
