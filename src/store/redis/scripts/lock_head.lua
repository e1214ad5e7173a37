-- What every script about locks begins with, after generation.lua. protocol/reference/locks.rs is the reference for
-- what happens when.
--
-- KEYS[1]  the store: a hash, which generation of the server the locks were written under
-- KEYS[2]  the sessions: a sorted set, until when each sidecar's tickets stand
-- KEYS[3]  the floor: a number, the greatest token of any name
-- and for each name three keys, which are there for RECORD_SPAN and the longest lease granted, after the last grant,
-- extension or ticket:
--          the lock: a hash, its holds (a field h:<id> each) and what is remembered
--          the queue: a sorted set, the tickets <session>:<id> in the order of their coming
--          the fair queue: the same, of those tickets that nobody may overtake
-- All keys share one hash tag, so that several names are one step and a cluster keeps them together.
-- ARGV[1]  when the sender gives this request up, in microseconds of this clock; empty when it does not know
-- ARGV[2]  what the channel of a session's wakes begins with
-- and then the names; the rest is each script's own.
--
-- The three rules of common.lua hold here, too: numbers leave as text made with '%.0f'; the first write is one that a
-- full memory refuses, where it may be refused at all (a script may take back room first); what we did not write is
-- reported and left as it is.
local store_key, sessions_key, floor_key = KEYS[1], KEYS[2], KEYS[3]
local names = (#KEYS - 3) / 3
local first_arg = 2 + names

local DAY_MS = 86400000
local RECORD_MS = 120000 -- RECORD_SPAN
local TICKET_US = 5000000 -- TICKET_SPAN
local HOLDS_MAX, RELEASED_KEPT, DEAD_DROPPED_MAX = 100, 8, 16
local ID_LENGTH = 32

local function text(number)
  return string.format('%.0f', number)
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2]) -- microseconds, as are all moments and spans here

-- Nobody waits for the answer any more: what it asks for may have been repeated or cancelled since.
if ARGV[1] ~= '' and now > tonumber(ARGV[1]) then
  return { 'late', text(now) }
end

-- Up to 16 digits: what a double holds exactly, and then some.
local function is_number(value)
  return value and #value <= 16 and string.match(value, '^%d+$') ~= nil
end

local function is_id(value)
  return value and #value == ID_LENGTH and string.match(value, '^%x+$') ~= nil
end

-- `session token lease expires_at state keep_until bytes-of-owner owner identity`, the last two with spaces and all.
-- `state`: 0; 1: it goes from request to request beside its sidecar, which alone knows whose it is (in_turn); 2: it was
-- given back before keep_until, and is not free before (rests).
local function parse_hold(id, value)
  local session, token, lease, expires_at, state, keep_until, bytes, rest =
    string.match(value, '^(%x+) (%d+) (%d+) (%d+) ([012]) (%d+) (%d+) (.*)$')
  local sound = session and is_id(id) and #session == ID_LENGTH
    and math.max(#token, #lease, #expires_at, #keep_until, #bytes) <= 16 -- what a double holds exactly
  if not sound or string.sub(rest, bytes + 1, bytes + 1) ~= ' ' then
    return nil
  end
  local hold = {
    id = id, session = session, token = tonumber(token), lease = tonumber(lease), expires_at = tonumber(expires_at),
    in_turn = state == '1', rests = state == '2', keep_until = tonumber(keep_until),
    owner = string.sub(rest, 1, bytes), identity = string.sub(rest, bytes + 2),
  }
  -- None is longer than it was granted for: one that seems so began before this clock was stepped back.
  if hold.expires_at > now + hold.lease then
    hold.expires_at, hold.is_cut = now + hold.lease, true
  end
  hold.keep_until = math.min(hold.keep_until, now + hold.lease)
  return hold
end

-- The short ways (lock_free.lua, lock_only.lua) are for one lock that is alone in every way: a few commands, and
-- nothing of lock_common.lua. This is what is remembered of it, and the hold of this id, where all is as we write it,
-- it is no semaphore, has so many holds, and nobody waits. Nil where anything is otherwise: then the whole script,
-- which follows in the same step, does what there is to do, and tells what is wrong.
local function record_alone(holds, id)
  local record = redis.pcall('HMGET', KEYS[4],
    'v', 'permits', 'token', 'ended', 'longest', 'released', 'is_fair', 'h:' .. id)
  local fields = 7 + holds
  if record[1] == false then
    -- There is none: then it has no field at all.
    record, fields = { '1', '1', '0', '0', '0', '', '0' }, 0
  end
  local token, ended, longest = record[3], record[4], record[5]
  if names == 1 and record[1] == '1' and record[2] == '1' and is_number(token) and is_number(ended)
    and is_number(longest) and record[6] and record[7] and redis.call('EXISTS', KEYS[5], KEYS[6]) == 0
    and redis.call('HLEN', KEYS[4]) == fields then
    return token, ended, longest, record[6], record[7], record[8]
  end
end
