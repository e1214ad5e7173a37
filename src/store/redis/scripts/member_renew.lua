-- R4 on a member of a quorum: extends a term's lease, or puts it back where this member has lost it or missed it.
-- Answers one of
--   renewed count reasserted(0/1) listeners [generation] | lost token [session identity]
-- each after its name with the store's clock; or as member_renew_again.lua, which comes first.
--
-- ARGV: channel session attempt lease_ms token count next_count message guard lists generation
-- (message as in renew.lua)
local session, attempt, lease_ms = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local token, count = tonumber(ARGV[5]), tonumber(ARGV[6])
local audience, identity = string.match(ARGV[8], '^v1 heartbeat %d+ %d+ (%d+) %x+ (.*)$')
local guard, lists = ARGV[9] == '1', ARGV[10]

local lease, bad = read_lease()
if bad then
  return bad
end
local stored
stored, bad = read_record()
if bad then
  return bad
end
local record, changed
record, changed, bad = prepare(clamp(stored, guard_span_ms(stored, lease_ms)), lease_ms, guard)
if bad then
  return bad
end

-- Under whatever token: where the grant's answer was lost, this member was not raised.
local ours = lease and lease.session == session and lease.attempt == attempt
-- A later term stands in the way, and the holder's own release. An earlier term does not, and neither does a grant:
-- that is a question, and the incumbent the answer.
local later = lease and lease.confirmed == 1 and lease.token > token
if not ours and (later or record.over >= token) then
  if changed then
    write_record(record)
  end
  if lease then
    return { 'lost', text(now), text(record.token), lease.session, lease.identity }
  end
  return { 'lost', text(now), text(record.token) }
end

record.token, record.confirmed = math.max(record.token, token), math.max(record.confirmed, token)
extend_record(record, lease_ms)
list_record(record, lists, now + lease_ms * 2000)
-- The members count together, so that one renewal is told by one count.
record.count = math.max(record.count, count) + 1
write_lease(session, attempt, token, identity, lease_ms, 1)
write_record(record)
local listeners = publish('heartbeat', token, record.count, audience, session, identity)
return {
  'renewed', text(now), text(record.count), ours and '0' or '1', text(listeners), guard and record.generation or nil,
}
