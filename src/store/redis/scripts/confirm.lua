-- R6: whether a grant that the replicas have acknowledged counts. Not if the server is of another generation by now
-- than when it was given: a replica has come since, and may have acknowledged another master's grant. Nor while the
-- role is shut: somebody else has asked since, and the record was written under the new generation then. Answers
-- confirmed | changed, each with the store's clock. Asked on the connection that waited for the acknowledgements.
local record, bad = read_record()
if bad then
  return bad
end
local generation = generation_of_server(true)
local counts = record and record.generation == generation and not is_guarded(record)
return { counts and 'confirmed' or 'changed', text(now) }
