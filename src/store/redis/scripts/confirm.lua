-- R6: whether the grant of a token, which the replicas have acknowledged, counts. Not if the server is of another
-- generation by now than when it was given: a replica has come since, and may have acknowledged another master's grant.
-- Nor if somebody else has asked since and noticed that: a watch has begun then. Answers confirmed | changed, each with
-- the store's clock. Asked on the connection that waited for the acknowledgements.
--
-- ARGV: channel token
local record, bad = read_record()
if bad then
  return bad
end
local generation = generation_of_server('2')
local counts = record and record.token == tonumber(ARGV[2]) and record.generation == generation
  and record.session ~= '' and not is_guarded(record)
return { counts and 'confirmed' or 'changed', text(now) }
