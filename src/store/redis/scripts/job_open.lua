-- A leader's first look in its term: shuts the ledger to every earlier term. Answers one of
--   opened [revision body] | stale fence
-- each after its name with the store's clock.
--
-- ARGV: latest token
local token = tonumber(ARGV[2])

local ledger, bad = load()
if bad then
  return bad
end
if token < ledger.fence then
  return { 'stale', text(now), text(ledger.fence) }
end
-- Written each time, for there must be something that replicas can acknowledge (R6).
redis.call('HSET', ledger_key, 'v', '1', 'fence', text(token))
return with_ledger('opened', ledger)
