-- Ends a request that waited, or whose answer never came; what it got meanwhile is given back. Answers cancelled, with
-- the store's clock.
--
-- ARGV after the names: session id
local session, id = arg(1), arg(2)

local cells, bad = load_all()
if bad then
  return bad
end
for _, cell in ipairs(cells) do
  -- First what is never refused: then the rest is not either.
  touch(cell)
  if give_back(cell, id) then
    save(cell)
  end
end
leave_queues(cells, session .. ':' .. id)
return { 'cancelled', text(now) }
