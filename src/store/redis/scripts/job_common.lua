-- What every script about the ledgers of jobs begins with. protocol/reference/ledger.rs is the reference for what
-- happens when.
--
-- KEYS[1]  the job's ledger: a hash without a TTL
-- ARGV[1]  when the sender gives this request up, in microseconds of this clock
--
-- The three rules of common.lua hold here, too: numbers leave as text made with '%.0f'; the only write is an HSET,
-- which a full memory refuses (but for a script that forgets); what we did not write is reported and left as it is.
local ledger_key = KEYS[1]
local LIMIT = 9007199254740992 -- 2^53: up to there a double counts exactly

local function text(number)
  return string.format('%.0f', number)
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2]) -- microseconds

-- Nobody waits for the answer any more: somebody else may have written since, or the store may have lost who did.
if now > tonumber(ARGV[1]) then
  return { 'late', text(now) }
end

local function garbage(why)
  return { 'garbage', text(now), ledger_key, why }
end

local function is_number(value)
  return value and #value <= 16 and string.match(value, '^%d+$') ~= nil and tonumber(value) < LIMIT
end

-- The ledger; revision and body are nil where none was written yet, and role is false where no role is known. nil and
-- a reply when the key holds what we did not write.
local function load()
  local values = redis.pcall('HMGET', ledger_key, 'v', 'role', 'fence', 'revision', 'body')
  if values.err then
    if string.find(values.err, 'WRONGTYPE') then
      return nil, garbage('it is not a hash')
    end
    -- The user may not read it, say: that is told as it is.
    return nil, values
  end
  local v, role, fence, revision, body = unpack(values, 1, 5)
  if not v then
    if redis.call('EXISTS', ledger_key) == 0 then
      return { fence = 0 }
    end
    return nil, garbage('field v is missing')
  end
  if v ~= '1' then
    return nil, garbage('field v is not 1: another version of Baton, or another program, wrote it')
  end
  if role and not string.match(role, '^[a-z0-9][a-z0-9-]*/?%d*$') then
    return nil, garbage('field role is not the name of a role')
  end
  if not is_number(fence) then
    return nil, garbage('field fence is not a token')
  end
  if not revision and not body then
    return { role = role, fence = tonumber(fence) }
  end
  if not is_number(revision) then
    return nil, garbage('field revision is not a number')
  end
  if not body then
    return nil, garbage('field body is missing')
  end
  return { role = role, fence = tonumber(fence), revision = tonumber(revision), body = body }
end

-- Raises the fence to a term of the role whose ledger this is; where nothing is written, any role's. Tokens of two
-- roles are never compared. Whether that may be, and if not a reply.
local function raise(ledger, role, token)
  if ledger.role == role then
    if token < ledger.fence then
      return false, { 'stale', text(now), text(ledger.fence) }
    end
  elseif ledger.revision then
    -- A release that knew no roles has written none.
    return false, { 'other-role', text(now), ledger.role or '', text(ledger.revision), ledger.body }
  end
  return true
end

-- A reply that ends with the ledger, if one was written.
local function with_ledger(name, ledger)
  return { name, text(now), ledger.revision and text(ledger.revision), ledger.body }
end
