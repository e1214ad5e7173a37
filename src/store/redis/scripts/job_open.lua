-- A leader's first look in its term: shuts the ledger to every earlier term of its role. Answers one of
--   opened [revision body] | stale fence | other-role role revision body
-- each after its name with the store's clock. A look at another role's ledger changes nothing: job_write.lua takes it
-- over.
--
-- ARGV: latest token role
local token, role = tonumber(ARGV[2]), ARGV[3]

local ledger, bad = load()
if bad then
  return bad
end
local ours, refusal = raise(ledger, role, token)
if not ours then
  return refusal
end
-- Written each time, for there must be something that replicas can acknowledge (R6).
redis.call('HSET', ledger_key, 'v', '1', 'role', role, 'fence', text(token))
return with_ledger('opened', ledger)
