-- The first step of a quorum's campaign (R1, with R3 and R5 generation and empty): grants the lease for a third of its
-- time. Nothing is published, for nobody leads by it yet. Answers one of
--   granted token | held token remaining_ms confirmed(0/1) session identity | guarded token remaining_us cause
--   | stale token | exhausted
-- each after its name with the store's clock.
--
-- ARGV: channel session attempt identity lease_ms guard floor
local session, attempt, identity, lease_ms = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local guard, floor = ARGV[6] == '1', tonumber(ARGV[7])

-- What part of a lease a grant holds this member until it is raised: a candidate that dies in between costs no more.
local PROVISIONAL = 3

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
record, changed, bad = prepare(clamp(stored, lease_ms), lease_ms, guard)
if bad then
  return bad
end
if changed then
  write_record(record)
end

if lease and lease.session == session and lease.attempt == attempt then
  return { 'granted', text(now), text(lease.token) }
end
if lease and lease.session == session and lease.attempt > attempt then
  return { 'stale', text(now), text(record.token) }
end
if lease and lease.session ~= session then
  return {
    'held', text(now), text(lease.token), text(lease.remaining_ms), text(lease.confirmed), lease.session,
    lease.identity,
  }
end
if record.session == session and record.attempt >= attempt then
  return { 'stale', text(now), text(record.token) }
end
if guard and is_guarded(record) then
  return { 'guarded', text(now), text(record.token), text(record.guard_until - now), record.guard_cause }
end

local token = math.max(record.token, floor, now) + 1
if token >= 9007199254740992 then -- 2^53
  return { 'exhausted', text(now) }
end
record.token, record.session, record.attempt = token, session, attempt
end_guard(record)
write_lease(session, attempt, token, identity, lease_ms / PROVISIONAL, 0)
write_record(record)
return { 'granted', text(now), text(token) }
