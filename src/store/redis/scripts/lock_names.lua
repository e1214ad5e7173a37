-- The names of which there is a record, some of them in use, from a place on; changes nothing. Answers names, the place
-- to go on from (0 at the end) and the names, after its name with the store's clock.
--
-- ARGV after the names (none): place, how many keys of the database to look at, about, whosever they are, and what the
-- keys of records begin with
local _, bad = load_all()
if bad then
  return bad
end
local base = arg(3)
local page = redis.call('SCAN', arg(1), 'MATCH', base .. '*', 'COUNT', arg(2))
local reply = { 'names', text(now), page[1] }
for _, key in ipairs(page[2]) do
  table.insert(reply, string.sub(key, #base + 1))
end
return reply
