-- R1: asks for the lease, with R3 (tokens) and R5 (guard). Answers one of
--   granted token count | held VERSION token remaining_ms session identity | guarded VERSION remaining_us cause
--   | look VERSION span_ms | stale token count | exhausted
-- each after its name with the store's clock. VERSION: token count and writer, which is a session or empty.
-- protocol/reference/lease.rs is the reference for what happens when.
--
-- ARGV: channel session attempt identity lease_ms guard floor known_token known_count known_writer known_age_ms
-- known_unchanged_for_ms known_remaining_ms (the last six empty when nothing is known; guard is 0, or what is
-- asked of the server, as in generation.lua)
local session, attempt, identity, lease_ms = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local guard, asked, floor = ARGV[6] ~= '0', ARGV[6], tonumber(ARGV[7])
local known_token, known_count, known_writer = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]
local known_age_ms, known_unchanged_for_ms = tonumber(ARGV[11]), tonumber(ARGV[12])
local known_remaining_ms = tonumber(ARGV[13])

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
local span_ms = guard_span_ms(record, lease_ms)
clamp(record, span_ms)
-- What prepare found out stays, whatever the answer is. So does what a step of the clock has cut, or it would be cut
-- anew at every question, and end as late as the last of them.
if changed or record.is_clamped then
  write_record(record)
end

-- The candidate has known the record to stand still for a whole lease, on its own clock: the holder's deadline has
-- passed. While a watch goes on, heartbeats name the incumbent all the same, and the count is this server's own.
local function stood_still(for_ms)
  local is_same = known_token == record.token and known_count == record.count
    and (record.session == '' or known_writer == record.session)
  return is_same and known_unchanged_for_ms >= for_ms
end

-- Notes a token that the candidate has seen and the record knows nothing of. True when it has one. The last term's
-- token stays: an incumbent may still renew.
local function learn_floor()
  local is_behind = math.max(record.token, record.floor) < floor
  if is_behind then
    record.floor = floor
  end
  return is_behind
end

-- An answer that says of which version the record is.
local function answer(name, ...)
  return { name, text(now), text(record.token), text(record.count), record.session, ... }
end

local function stale()
  return { 'stale', text(now), text(record.token), text(record.count) }
end

if lease then
  local is_known = not guard
    or (record.session == session and record.attempt == attempt and not is_guarded(record))
  if lease.session == session and lease.attempt == attempt and is_known then
    -- The reply to this very request was lost. It counts like any renewal: others conclude from an unchanged count that
    -- nobody renewed.
    record.count = record.count + 1
    extend_record(record, lease_ms)
    write_lease(session, attempt, lease.token, lease.identity, lease_ms)
    write_record(record)
    publish('grant', lease.token, record.count, '0', session, lease.identity)
    return { 'granted', text(now), text(lease.token), text(record.count) }
  end
  if lease.session == session then
    if lease.attempt > attempt then
      return stale()
    end
    -- An older attempt of this session: its term is over, and the new one begins at once. Or the same, under a guard.
  else
    -- Overdue, whatever this clock says of the TTL (it was stepped back).
    if not stood_still(lease.lease_ms) then
      if guard and is_guarded(record) and learn_floor() then
        write_record(record)
      end
      return answer('held', text(lease.token), text(lease.remaining_ms), lease.session, lease.identity)
    end
  end
elseif record.session == session and (record.attempt > attempt or (record.attempt == attempt and record.released)) then
  return stale()
end

if guard then
  -- Under a guard, also while a lease stands, the floor is noted and no more: what it tells of was forgotten before the
  -- guard began, and a second guard after the first would only cost time.
  if learn_floor() and not is_guarded(record) then
    shut(record, 'regression', span_ms)
    begin_watch(record)
  end
  -- Whether the lease of another's term is gone without a release. A session cannot be in doubt about its own term: it
  -- is here because that is over.
  local is_gone = not lease and not record.released and record.session ~= '' and record.session ~= session
  -- What it knows of an earlier term says nothing of this one.
  local knows = known_token == record.token
  local is_over = stood_still(span_ms)
  if is_gone and not is_over and not is_guarded(record) then
    local renewed_since = knows and known_count < record.count and known_age_ms < span_ms * 1.25
    local gone_early = knows and known_count == record.count and known_remaining_ms > 0
    if ends_later(record) then
      -- Not by its TTL, then. Whoever had it has stepped down when that would have ended.
      shut(record, 'vanished', (record['until'] - now) / 1000)
    elseif renewed_since or gone_early then
      shut(record, 'vanished', span_ms)
    end
  end
  if is_guarded(record) then
    write_record(record)
    return answer('guarded', text(record.guard_until - now), record.guard_cause)
  end
  -- Nor who has not known for a whole lease, on its own clock, that nobody renews: whoever had it has stepped down by
  -- then, whatever this clock says.
  -- A release says so as well, unless a watch has begun since.
  local is_free = record.released and record.session ~= ''
  if not is_free and record.session ~= session and not is_over then
    return answer('look', text(span_ms))
  end
end

local token = math.max(record.token, record.floor, floor, now) + 1
if token >= 9007199254740992 then -- 2^53
  return { 'exhausted', text(now) }
end
record.token, record.count, record.released = token, record.count + 1, false
record.session, record.attempt = session, attempt
extend_record(record, lease_ms)
write_lease(session, attempt, token, identity, lease_ms)
write_record(record)
publish('grant', token, record.count, '0', session, identity)
return { 'granted', text(now), text(token), text(record.count) }
