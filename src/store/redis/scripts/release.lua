-- R7: gives the lease back if it is this candidate's, never another's. Answers released | notheld, each with the
-- store's clock.
--
-- ARGV: channel session attempt token audience. Token 0: the reply that would have told it never came; session and
-- attempt name the lease alone. Attempt 0: another asks in the place of a process that has ended; session and token
-- name the term alone.
local session, attempt, token, audience = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

local lease, bad = read_lease()
if bad then
  return bad
end
local record
record, bad = read_record()
if bad then
  return bad
end
local fits = lease and (token == 0 or lease.token == token)
local ours = fits and lease.session == session and (lease.attempt == attempt or (attempt == 0 and token ~= 0))
if not ours then
  return { 'notheld', text(now) }
end
record = record or new_record()
record.count, record.released = record.count + 1, true
record.token = math.max(record.token, lease.token)
-- Deleted first: that is never refused, and once it is done the rest of the script is not refused either. A Redis whose
-- memory is full can be handed over, too.
redis.call('DEL', lease_key)
write_record(record)
publish('release', lease.token, record.count, audience, lease.session, lease.identity)
return { 'released', text(now) }
