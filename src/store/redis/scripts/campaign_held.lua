-- R1 as it mostly is where somebody else leads: the lease is another's, as the record says, nothing was forgotten, and
-- the candidate has not known the record to stand still for as long as the lease. Answers held, as campaign.lua, which
-- follows in the same step where any of that is otherwise or a text is not what we write.
--
-- ARGV: as campaign.lua
do
  local lease = redis.pcall('HMGET', KEYS[1], 'session', 'token', 'attempt', 'lease_ms', 'v', 'identity')
  local record = redis.pcall('HMGET', KEYS[2], 'session', 'token', 'attempt', 'lease_ms', 'v', 'count', 'guard_cause',
    'guard_until', 'released', 'floor', 'until', 'generation')
  local session, token, count, lease_ms = lease[1], lease[2], record[6], lease[4]
  local is_theirs = session and session ~= ARGV[2] and record[1] == session and token and record[2] == token
    and record[3] == lease[3] and record[4] == lease_ms and lease[5] == '1' and record[5] == '1' and lease[6]
    and count and record[7] == '' and record[8] == '0' and record[9] == '0' and record[10] and record[11] and record[12]
  if is_theirs and #session == 32 and #token <= 16 and #count <= 16 and string.find(
    table.concat({ session, token, count, lease[3], lease_ms, record[10], record[11] }, ' '),
    '^%x+ %d+ %d+ %d+ %d+ %d+ %d+$') then
    local has_moved = ARGV[8] ~= token or ARGV[9] ~= count or tonumber(ARGV[12]) < tonumber(lease_ms)
    local left_ms = redis.call('PTTL', KEYS[1])
    -- A campaign always asks which server this is: renewals do not (renew_again.lua).
    local generation = ARGV[6] ~= '0' and generation_of_server(ARGV[6])
    local is_same = ARGV[6] == '0' or (generation and is_generation(record[12], generation))
    if has_moved and is_same and left_ms > 0 and left_ms <= tonumber(lease_ms) then
      local clock = redis.call('TIME')
      local now = clock[1] * 1000000 + clock[2]
      -- An end further away than that was set before this clock was stepped back.
      if tonumber(record[11]) <= now + math.max(tonumber(lease_ms), tonumber(ARGV[5])) * 1000 then
        now = string.format('%.0f', now)
        return { 'held', now, token, count, session, token, left_ms, session, lease[6] }
      end
    end
  end
end
