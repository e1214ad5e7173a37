-- The jobs after this name, so many at the most; changes nothing. Answers jobs and each as registry_get.lua does, after
-- its name with the store's clock.
--
-- ARGV: latest base channel after most
local after, most = ARGV[4], ARGV[5]

local reply = { 'jobs', text(now) }
local first = after == '' and '-' or '(' .. after
for _, name in ipairs(redis.call('ZRANGE', names_key, first, '+', 'BYLEX', 'LIMIT', '0', most)) do
  local job, bad = load(name)
  if bad then
    return bad
  end
  -- What was deleted by hand, perhaps.
  if job then
    tell(reply, job)
  end
end
return reply
