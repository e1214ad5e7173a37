-- R4: extends the lease, or puts it back when the store has lost it. Answers one of
--   renewed count reasserted(0/1) listeners [generation] | lost token [session identity]
-- each after its name with the store's clock; or as renew_again.lua, which comes first.
--
-- ARGV: channel session attempt lease_ms token count next_count message guard generation
-- message: what is published where the count is the next one; identity and audience are read from it here.
local session, attempt, lease_ms = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local token, count = tonumber(ARGV[5]), tonumber(ARGV[6])
local audience, identity = string.match(ARGV[8], '^v1 heartbeat %d+ %d+ (%d+) %x+ (.*)$')
local guard, asked = ARGV[9] ~= '0', ARGV[9] -- as in campaign.lua

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
record, changed, bad = prepare(stored, lease_ms, guard, asked)
if bad then
  return bad
end

local ours = lease and lease.session == session and lease.attempt == attempt and lease.token == token
-- A lease of an earlier term, which a failover to a lagging replica has brought back, is no reason to refuse. Whatever
-- has lost a term has begun a watch. Once somebody has been granted the role since, an earlier token is a later term's:
-- of a server whose clock was behind, and a candidate that had not heard of this one. This renewal is late. Where
-- nobody asks of which generation the server is, nobody knows that it has lost anything.
local is_earlier = record.token < token and (not guard or asked == '3' or record.session == '')
local reasserted = not ours and (is_earlier or (not lease and record.token == token and not record.released))
if not ours and not reasserted then
  if changed then
    write_record(record)
  end
  if lease then
    return { 'lost', text(now), text(record.token), lease.session, lease.identity }
  end
  return { 'lost', text(now), text(record.token) }
end

-- Its sender was answered since a watch began, if one did: a request from before is behind by thousands.
local is_up_to_date = count >= record.count
-- The incumbent's own count goes on where a store has lost it: a count that came round again would look like nobody had
-- renewed.
record.count = math.max(record.count, count) + 1
-- The record may have been lost while the lease was not.
record.token = math.max(record.token, token)
extend_record(record, lease_ms)
-- Then the incumbent has the last word again, and so has its release.
if is_up_to_date and not is_guarded(record) then
  record.released, record.session, record.attempt = false, session, attempt
elseif reasserted then
  record.released, record.session, record.attempt = false, '', 0
end
write_lease(session, attempt, token, identity, lease_ms)
write_record(record)
local listeners = publish('heartbeat', token, record.count, audience, session, identity)
return {
  'renewed', text(now), text(record.count), reasserted and '1' or '0', text(listeners),
  guard and record.generation or nil,
}
