-- Ends a request that waited, or whose answer never came; what it got meanwhile is given back. Answers cancelled, with
-- the store's clock.
--
-- ARGV after the names: session id keeps(0/1: only its ticket goes)
local session, id, keeps = arg(1), arg(2), arg(3) == '1'

local cells, bad = load_all()
if bad then
  return bad
end
for _, cell in ipairs(cells) do
  -- First what is never refused: then the rest is not either.
  touch(cell)
  if not keeps and give_back(cell, id) then
    save(cell)
  end
end
leave_queues(cells, session .. ':' .. id)
return { 'cancelled', text(now) }
