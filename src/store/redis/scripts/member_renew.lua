-- R4 on a member of a quorum: extends a term's lease, or puts it back where this member has lost it or missed it. A
-- grant to another that came to nothing in between does not stand in the way; a later term does. Answers one of
--   renewed count reasserted(0/1) listeners | lost token [session identity]
-- each after its name with the store's clock.
--
-- ARGV: channel session attempt identity lease_ms guard token count audience
local session, attempt, identity, lease_ms = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local guard, token, count, audience = ARGV[6] == '1', tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]

local lease, bad = read_lease()
if bad then
  return bad
end
local stored
stored, bad = read_record()
if bad then
  return bad
end
local record, changed = prepare(clamp(stored, lease_ms), lease_ms, guard)

local ours = lease and lease.session == session and lease.attempt == attempt and lease.token <= token
local stands = record.confirmed < token or (record.confirmed == token and not record.released)
local reasserted = not lease and stands
if not ours and not reasserted then
  if changed then
    write_record(record)
  end
  if lease then
    return { 'lost', text(now), text(record.token), lease.session, lease.identity }
  end
  return { 'lost', text(now), text(record.token) }
end

record.token, record.confirmed, record.released = math.max(record.token, token), token, false
-- The members count together, so that one renewal is told by one count.
record.count = math.max(record.count, count) + 1
if reasserted then
  write_lease(session, attempt, token, identity, 1, lease_ms)
  write_record(record)
else
  write_record(record)
  extend_lease(token, 1, lease_ms)
end
local listeners = publish('heartbeat', token, record.count, audience, session, identity)
return { 'renewed', text(now), text(record.count), reasserted and '1' or '0', text(listeners) }
