-- Puts a ledger in the place of the one that the writer knows. Answers one of
--   written revision | stale fence | diverged [revision body] | other-role role revision body
-- each after its name with the store's clock.
--
-- ARGV: latest token role base channel job body. No token and no role: the wish of somebody who need not lead, which is
-- published. No base: the writer found no ledger.
local token, role, base = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local channel, job, body = ARGV[5], ARGV[6], ARGV[7]

local ledger, bad = load()
if bad then
  return bad
end
if token then
  local ours, refusal = raise(ledger, role, token)
  -- Another role's leader that knows this very version takes it over.
  if not ours and (refusal[1] == 'stale' or base ~= ledger.revision) then
    return refusal
  end
end
if base ~= ledger.revision then
  if token and (role ~= ledger.role or token ~= ledger.fence) then
    redis.call('HSET', ledger_key, 'v', '1', 'role', role, 'fence', text(token))
  end
  return with_ledger('diverged', ledger)
end
-- From the clock, so that a revision never comes twice, even if the store lost the ones between.
local revision = math.max((ledger.revision or 0) + 1, now)
if revision >= LIMIT then
  return { 'exhausted', text(now) }
end
if token then
  redis.call('HSET', ledger_key, 'v', '1', 'role', role, 'fence', text(token), 'revision', text(revision), 'body', body)
else
  redis.call('HSET', ledger_key, 'v', '1', 'fence', text(ledger.fence), 'revision', text(revision), 'body', body)
  redis.call('PUBLISH', channel, 'v1 ' .. job)
end
return { 'written', text(now), text(revision) }
