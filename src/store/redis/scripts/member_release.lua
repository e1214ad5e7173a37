-- R7 on a member of a quorum: gives the lease back if it is this candidate's, never another's. A term that is over is
-- over here too, even if this member never had it. Answers released | notheld, each with the store's clock.
--
-- ARGV: channel session attempt token audience. Token 0: there was no term; session and attempt name the grant alone.
-- Attempt 0: another asks in the place of a process that has ended; session and token name the term alone.
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
-- Confirmed, it has the term's token; a grant has this member's own.
local fits = lease and (token == 0 or lease.confirmed == 0 or lease.token == token)
local ours = fits and lease.session == session and (lease.attempt == attempt or (attempt == 0 and token ~= 0))
-- Of a term that another says is over it is not sure that a majority ever had it.
if not ours and (token == 0 or attempt == 0) then
  return { 'notheld', text(now) }
end
record = record or new_record()
record.token, record.over = math.max(record.token, token), math.max(record.over, token)
if (ours and lease.confirmed == 1) or is_released(record) then
  record['until'] = 0
  record.listed_until = math.min(record.listed_until, now + record.lease_ms * 1000)
end
if ours and lease.confirmed == 0 and record.listed_until <= now + lease.remaining_ms * 1000 + 2000 then
  -- Nobody else's question is refused for one that came to nothing.
  record.listed_until = 0
end
record.count = record.count + 1
if ours then
  -- Deleted first: that is never refused, and once it is done the rest of the script is not refused either. A Redis
  -- whose memory is full can be handed over, too.
  redis.call('DEL', lease_key)
end
write_record(record)
if ours and lease.confirmed == 1 then
  -- Of a grant that came to nothing nobody has heard.
  publish('release', lease.token, record.count, audience, lease.session, lease.identity)
end
return { ours and 'released' or 'notheld', text(now) }
