-- Puts a ledger in the place of the one that the writer knows. Answers one of
--   written revision | stale fence | diverged [revision body]
-- each after its name with the store's clock.
--
-- ARGV: latest token base channel job body. No token: the wish of somebody who need not lead, which is published. No
-- base: the writer found no ledger.
local token, base, channel, job, body = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]

local ledger, bad = load()
if bad then
  return bad
end
if token and token < ledger.fence then
  return { 'stale', text(now), text(ledger.fence) }
end
local fence = token or ledger.fence
if base ~= ledger.revision then
  if fence ~= ledger.fence then
    redis.call('HSET', ledger_key, 'v', '1', 'fence', text(fence))
  end
  return with_ledger('diverged', ledger)
end
-- From the clock, so that a revision never comes twice, even if the store lost the ones between.
local revision = math.max((ledger.revision or 0) + 1, now)
if revision >= LIMIT then
  return { 'exhausted', text(now) }
end
redis.call('HSET', ledger_key, 'v', '1', 'fence', text(fence), 'revision', text(revision), 'body', body)
if not token then
  redis.call('PUBLISH', channel, 'v1 ' .. job)
end
return { 'written', text(now), text(revision) }
