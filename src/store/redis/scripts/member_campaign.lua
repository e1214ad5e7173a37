-- The first step of a quorum's campaign (R1, with R3 and R5): grants the lease for a third of its time. Of that nothing
-- is published, for nobody leads by it yet. Answers one of
--   granted token released(0/1) confirmed | held token remaining_ms confirmed(0/1) session identity
--   | guarded token remaining_us cause | stale token | unlisted token remaining_us lists | exhausted
-- each after its name with the store's clock.
--
-- ARGV: channel session attempt identity lease_ms guard floor over_session over_token lists (over: the last term that
-- the candidate knows to be over; empty when it knows of none)
local session, attempt, identity, lease_ms = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local guard, floor, over_session, over_token = ARGV[6] == '1', tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9])
local lists = ARGV[10]

-- What part of a lease a grant holds this member until it is raised: a candidate that dies in between costs no more.
local PROVISIONAL = 3

-- A lease that another kind of store wrote: whoever has it may lead, so it is an objection as any other.
local function of_another_store()
  local token, holder, name = unpack(redis.call('HMGET', lease_key, 'token', 'session', 'identity'))
  local remaining_ms = redis.call('PTTL', lease_key)
  if remaining_ms > 0 and is_number(token) and is_session(holder) and name then
    return { 'held', text(now), token, text(math.min(remaining_ms, lease_ms)), '1', holder, name }
  end
end

local lease, bad = read_lease()
if bad then
  return bad[1] == 'foreign' and of_another_store() or bad
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
-- Whoever is granted in the end, with a floor or without, gets a greater token (R3). One that has no successor is no
-- token that anybody had.
if floor > record.token and floor < 9007199254740991 then -- 2^53 - 1
  record.token, changed = floor, true
end
if changed then
  write_record(record)
end

if now < record.listed_until and not lists_agree(record.lists, lists) then
  return { 'unlisted', text(now), text(record.token), text(record.listed_until - now), record.lists }
end

local function granted(token)
  return { 'granted', text(now), text(token), is_released(record) and '1' or '0', text(record.confirmed) }
end

if lease and lease.confirmed == 1 and lease.session == over_session and lease.token == over_token then
  -- This member has not heard of it, or not yet. The release has no listeners to tell of.
  redis.call('DEL', lease_key)
  record['until'], record.count = 0, record.count + 1
  write_record(record)
  publish('release', lease.token, record.count, '0', lease.session, lease.identity)
  lease = nil
end

if lease and lease.session == session and lease.attempt == attempt then
  return granted(lease.token)
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
if guard and not lease and ends_later(record) then
  return { 'guarded', text(now), text(record.token), text(record['until'] - now), 'vanished' }
end

local token = math.max(record.token, floor, now) + 1
if token >= 9007199254740992 then -- 2^53
  return { 'exhausted', text(now) }
end
record.token, record.session, record.attempt = token, session, attempt
-- It may come to nothing: what a term has told before is not forgotten for it.
if now >= record.listed_until or record.lists == lists then
  list_record(record, lists, now + lease_ms / PROVISIONAL * 1000)
end
end_guard(record)
write_lease(session, attempt, token, identity, lease_ms / PROVISIONAL, 0)
write_record(record)
return granted(token)
