-- R6: whether a grant that the replicas have acknowledged counts, as confirm.lua for roles. Answers confirmed | changed,
-- each with the store's clock.
local stored = redis.pcall('HGET', store_key, 'generation')
if type(stored) == 'table' and stored.err then
  return unreadable(store_key, stored, 'hash')
end
return { stored == generation_of_server(true) and 'confirmed' or 'changed', text(now) }
