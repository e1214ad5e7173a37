-- generation.lua for a server whose scripts may not ask for INFO: the sidecar has asked on this connection, and tells
-- in the last argument, which is taken away, what it was answered. It asks again behind each script that may grant, and
-- takes the answer for nothing if the server is another by then (store/redis/connection/evidence.rs).
local replication_id, synchronised, told_uptime_s = string.match(table.remove(ARGV), '^(%w*) (%d*) (%d*)$')

local function generation_of_server(asked)
  if asked == '3' then
    return ''
  end
  if replication_id == '' then
    return nil, 'master_replid'
  end
  if asked ~= '2' then
    return replication_id
  end
  if synchronised == '' then
    return nil, 'sync_full'
  end
  return replication_id .. '/' .. synchronised
end

-- It has been asked a while ago: it is up for no less by now.
local function uptime_of_server()
  return tonumber(told_uptime_s) or 0
end

-- Whoever does not ask for acknowledgements does not mind when replicas come. Whoever asks for nothing takes all for
-- this server's own, and leaves what stands there to those who ask.
local function is_generation(stored, generation)
  return generation == '' or stored == generation or string.match(stored, '^%w+') == generation
end
