-- R6: whether a grant that the replicas have acknowledged counts, as confirm.lua for roles. Answers confirmed |
-- changed, each with the store's clock.
local stored = redis.pcall('HMGET', store_key, 'generation', 'guard_until')
if stored.err then
  return unreadable(store_key, stored, 'hash')
end
local counts = stored[1] == generation_of_server('2') and is_number(stored[2]) and now >= tonumber(stored[2])
return { counts and 'confirmed' or 'changed', text(now) }
