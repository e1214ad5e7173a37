-- Forgets a job, its fence included. Answers forgotten | absent, each with the store's clock.
--
-- ARGV: latest
local ledger, bad = load()
if bad then
  return bad
end
redis.call('DEL', ledger_key)
return { ledger.revision and 'forgotten' or 'absent', text(now) }
