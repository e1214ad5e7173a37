-- R1 as it mostly is: a lock, not a semaphore and not for a time at least, that nobody holds or waits for, on a store
-- that is open. Answers granted, as lock_acquire.lua, which follows in the same step where any of that is otherwise.
--
-- ARGV: as lock_acquire.lua
do
  local session, id, owner, identity, lease = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
  local before, ended, longest, released, is_fair
  if ARGV[9] == '1' and ARGV[12] ~= '' and ARGV[17] == '0' then
    before, ended, longest, released, is_fair = record_alone(0, id)
  end
  local store = before and redis.pcall('HMGET', store_key, 'v', 'generation', 'guard_until', 'kept')
  -- No guard stands, and what says so is there for half a day yet.
  if before and not string.find(released, id, 1, true) and store[1] == '1' and store[2] and store[3] == '0'
    and store[4] and now < tonumber(store[4]) + DAY_MS * 500 then
    local floor = redis.pcall('GET', floor_key) or '0'
    -- R5: which server this is, is asked before each grant. It may have been another's replica a moment ago.
    local generation = generation_of_server(ARGV[13])
    if generation and is_generation(store[2], generation) and type(floor) == 'string'
      and string.find(floor, '^%d+$') then
      local token = math.max(now, floor, ARGV[10], before) + 1
      local tokens = is_fair == '1' and '1' or ARGV[16]
      local last = token + (tokens - 1) -- 2^53 + 1 would be rounded
      if last < 9007199254740992 then -- 2^53
        local token_text, is_turn = text(token), tokens ~= '1'
        local last_text = is_turn and text(last) or token_text
        longest = tonumber(lease) > tonumber(longest) and lease or longest
        redis.call('SET', floor_key, last_text, 'PX', text(math.ceil((last - now) / 1000) + DAY_MS))
        redis.call('HSET', KEYS[4], 'v', '1', 'token', last_text, 'ended', ended, 'permits', '1',
          'longest', longest, 'released', released, 'is_fair', is_fair, 'h:' .. id, table.concat({
            session, token_text, lease, text(now + lease), is_turn and '1' or '0', '0', #owner, owner, identity,
          }, ' '))
        redis.call('PEXPIRE', KEYS[4], text(math.ceil(longest / 1000) + RECORD_MS))
        return { 'granted', text(now), token_text, '1', tokens }
      end
    end
  end
end
