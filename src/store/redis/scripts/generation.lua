-- R5 generation, for roles and for locks: which server this is, and since which of its replicas came.
--
-- The replication id is another for every start of a master and for every promotion, also of an old master that was
-- never away. Where replies count with acknowledgements (`acks`, R6) the number of full synchronisations belongs to it:
-- whoever has acknowledged another master's writes has that one's replication id, and comes back by a full
-- synchronisation only. While the number stays what it was, no replica has been elsewhere.
--
-- Nil and the name of the field, where this server does not tell.
local function field_of(section, name)
  local info = redis.call('INFO', section)
  -- Found as plain text first: a pattern would be tried at each of some thousand places.
  local _, at = string.find(info, name .. ':', 1, true)
  return at and string.match(info, '^%w+', at + 1)
end

local function generation_of_server(acks)
  local id = field_of('replication', 'master_replid')
  if not id then
    return nil, 'master_replid'
  end
  if not acks then
    return id
  end
  local synchronised = field_of('stats', 'sync_full')
  if not synchronised then
    return nil, 'sync_full'
  end
  return id .. '/' .. synchronised
end

-- Whoever does not ask for acknowledgements does not mind when replicas come.
local function is_generation(stored, generation)
  return stored == generation or string.match(stored, '^%w+') == generation
end
