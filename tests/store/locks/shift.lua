-- Moves every stored moment back by ARGV[1] microseconds, or on, and then drops what has ended before. ARGV[2]: what
-- all keys begin with; then the names.
local span = tonumber(ARGV[1])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local function earlier(text) return string.format('%.0f', tonumber(text) - span) end
local store = ARGV[2] .. 'store'
local till = redis.call('HGET', store, 'guard_until')
if till and till ~= '0' then redis.call('HSET', store, 'guard_until', earlier(till)) end
local sessions = redis.call('ZRANGE', ARGV[2] .. 'sessions', 0, -1)
for _, session in ipairs(sessions) do redis.call('ZINCRBY', ARGV[2] .. 'sessions', -span, session) end
for i = 3, #ARGV do
  local key = ARGV[2] .. 'lock:' .. ARGV[i]
  local hash = redis.call('HGETALL', key)
  for at = 1, #hash, 2 do
    if string.sub(hash[at], 1, 2) == 'h:' then
      local head, moment, state, kept, rest = string.match(hash[at + 1], '^(%x+ %d+ %d+) (%d+) (%d) (%d+) (.*)$')
      local later = kept == '0' and kept or earlier(kept)
      if span < 0 and tonumber(moment) <= now then
        redis.call('HDEL', key, hash[at])
      else
        redis.call('HSET', key, hash[at], table.concat({ head, earlier(moment), state, later, rest }, ' '))
      end
    end
  end
end
