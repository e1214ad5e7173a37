-- R5 generation, for roles and for locks: which server this is, and since which of its replicas came.
--
-- `asked`, in every script: 1: for the replication id; 2: also for who has synchronised; 3: for nothing (`guard:
-- heard`, `durability: synchronous`): then all servers are one.
--
-- The replication id is another for every start of a master and for every promotion, also of an old master that was
-- never away. Where replies count with acknowledgements (R6) the number of synchronisations belongs to it.
-- While it stays what it was, no replica has come, so none has been elsewhere. Also not one that goes on from where it
-- was: what it acknowledged another master it may have lost in a crash, and its disk tells of a time before that.
--
-- Nil and the name of the field, where this server does not tell.
local function field_of(section, name)
  local info = redis.call('INFO', section)
  -- Found as plain text first, which a name is: a pattern would be tried at each of some thousand places.
  local _, at = string.find(info, name .. ':')
  return at and string.match(info, '^%w+', at + 1)
end

local function generation_of_server(asked)
  if asked == '3' then
    return ''
  end
  local id = field_of('replication', 'master_replid')
  if not id then
    return nil, 'master_replid'
  end
  if asked ~= '2' then
    return id
  end
  local synchronised = 0
  for _, name in ipairs({ 'sync_full', 'sync_partial_ok' }) do
    local times = tonumber(field_of('stats', name))
    if not times then
      return nil, name
    end
    synchronised = synchronised + times
  end
  return string.format('%s/%.0f', id, synchronised)
end

-- In seconds, rounded either way.
local function uptime_of_server()
  return tonumber(field_of('server', 'uptime_in_seconds') or '0')
end

-- Whoever does not ask for acknowledgements does not mind when replicas come. Whoever asks for nothing takes all for
-- this server's own, and leaves what stands there to those who ask.
local function is_generation(stored, generation)
  return generation == '' or stored == generation or string.match(stored, '^%w+') == generation
end
