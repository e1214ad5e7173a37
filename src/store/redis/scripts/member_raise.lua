-- The second step of a quorum's campaign: confirms a grant under the term's token, for a whole lease. From now on this
-- member objects to others. Not across a restart: what else it granted meanwhile may be forgotten. Answers one of
--   raised count | gone token
-- each after its name with the store's clock.
--
-- ARGV: channel session attempt identity lease_ms guard token lists
local session, attempt, lease_ms = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])
local guard, token, lists = ARGV[6] == '1', tonumber(ARGV[7]), ARGV[8]

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

local granted = lease and lease.session == session and lease.attempt == attempt and lease.token <= token
if not granted or (guard and is_guarded(record)) then
  if changed then
    write_record(record)
  end
  return { 'gone', text(now), text(record.token) }
end
record.count = record.count + 1
record.token, record.confirmed = math.max(record.token, token), math.max(record.confirmed, token)
extend_record(record, lease_ms)
list_record(record, lists, now + lease_ms * 2000)
write_record(record)
write_lease(session, attempt, token, lease.identity, lease_ms, 1)
publish('grant', token, record.count, '0', session, lease.identity)
return { 'raised', text(now), text(record.count) }
