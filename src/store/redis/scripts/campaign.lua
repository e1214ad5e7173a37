-- R1: asks for the lease, with R3 (tokens) and R5 (guard). Answers one of
--   granted token count | held token count remaining_ms session identity | guarded token count remaining_us cause
--   | look token count | stale token count | exhausted
-- each after its name with the store's clock, and with the word unconfirmed at the end where that is so (see prepare).
-- protocol/lease.rs is the reference for what happens when.
--
-- ARGV: channel session attempt identity lease_ms guard floor known_token known_count known_age_ms known_remaining_ms
-- (the last four empty when nothing is known; guard is 0, 1, or 2: on, and replies count with acknowledgements)
local session, attempt, identity, lease_ms = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local guard, acks, floor = ARGV[6] ~= '0', ARGV[6] == '2', tonumber(ARGV[7])
local known_token, known_count = tonumber(ARGV[8]), tonumber(ARGV[9])
local known_age_ms, known_remaining_ms = tonumber(ARGV[10]), tonumber(ARGV[11])

local lease, bad = read_lease()
if bad then
  return bad
end
local stored
stored, bad = read_record()
if bad then
  return bad
end
local record, changed, unconfirmed = prepare(stored, lease_ms, guard, acks)
-- What prepare found out stays, whatever the answer is.
if changed then
  write_record(record)
end

clamp(record, lease_ms)

-- Gives the lease to the candidate.
local function grant(token)
  record.token, record.count, record.released = token, record.count + 1, false
  record.session, record.attempt = session, attempt
  write_lease(session, attempt, token, identity, lease_ms)
  write_record(record)
  publish('grant', token, record.count, '0', session, identity)
  return { 'granted', text(now), text(token), text(record.count) }
end

local function guarded()
  return {
    'guarded', text(now), text(record.token), text(record.count), text(record.guard_until - now), record.guard_cause,
    unconfirmed and 'unconfirmed' or nil,
  }
end

-- Nobody is granted by a server that no replica has acknowledged yet, not even its own attempt once more.
if unconfirmed and not (lease and lease.session ~= session) then
  -- Noted as under any guard, see below.
  if math.max(record.token, record.floor) < floor then
    record.floor = floor
    write_record(record)
  end
  return guarded()
end

local function stale()
  return { 'stale', text(now), text(record.token), text(record.count) }
end

if lease then
  if lease.session == session and lease.attempt == attempt then
    -- The reply to this very request was lost. It counts like any renewal: others conclude from an unchanged count that
    -- nobody renewed.
    record.count = record.count + 1
    write_record(record)
    extend_lease(lease_ms)
    publish('grant', lease.token, record.count, '0', session, lease.identity)
    return { 'granted', text(now), text(lease.token), text(record.count) }
  end
  if lease.session == session then
    if lease.attempt > attempt then
      return stale()
    end
    -- An older attempt of this session: its term is over, and the new one begins at once.
  else
    -- The candidate saw the count stand still for the holder's whole lease, on its own clock: the holder's deadline has
    -- passed, whatever this clock says of the TTL (it was stepped back). A count says nothing without its token: two
    -- sides of a split count alike.
    local overdue = known_token == record.token and known_count == record.count and known_age_ms >= lease.lease_ms
    if not overdue then
      return {
        'held', text(now), text(lease.token), text(record.count), text(lease.remaining_ms), lease.session,
        lease.identity, unconfirmed and 'unconfirmed' or nil,
      }
    end
  end
else
  local mine = record.session == session
  if mine and record.attempt == attempt and not record.released then
    -- The same campaign once more, after its lease ran out: nobody came in between, so it is the same term.
    return grant(record.token)
  end
  if mine and record.attempt >= attempt then
    return stale()
  end
  -- A session cannot be in doubt about its own term: it is here because that is over.
  if guard and not record.released and not mine then
    -- What it knows of an earlier term says nothing of this one.
    if known_token ~= record.token then
      return { 'look', text(now), text(record.token), text(record.count) }
    end
    local renewed_since = known_count < record.count and known_age_ms < lease_ms * 1.25
    local gone_early = known_count == record.count and known_remaining_ms > 0
    if (renewed_since or gone_early) and not is_guarded(record) then
      guard_until(record, 'vanished', now + lease_ms * 1000)
    end
  end
end

if guard and math.max(record.token, record.floor) < floor then
  -- Under a guard the floor is noted all the same: what it tells of was forgotten before the guard began, and a second
  -- guard after the first would only cost time. The last term's token stays: an incumbent may still renew.
  record.floor = floor
  if not is_guarded(record) then
    guard_until(record, 'regression', now + lease_ms * 1000)
  end
end
if guard and is_guarded(record) then
  write_record(record)
  return guarded()
end

local token = math.max(record.token, record.floor, floor, now) + 1
if token >= 9007199254740992 then -- 2^53
  return { 'exhausted', text(now) }
end
return grant(token)
