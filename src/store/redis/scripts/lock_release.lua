-- R7: gives a hold back; never another's. Answers released | notheld, each with the store's clock.
--
-- ARGV after the names: id session seat(or empty) served(ids)
local id, session, seat, served = arg(1), arg(2), arg(3), arg(4)

local cells, bad = load_all()
if bad then
  return bad
end
local is_released = false
for _, cell in ipairs(cells) do
  local hold = find(cell, id, seat, session)
  local is_free = false
  if hold then
    -- First what is never refused: then the rest is not either, and a Redis whose memory is full can be released, too.
    redis.call('HDEL', cell.key, 'h:' .. hold.id)
    is_free, is_released = give_back(cell, hold.id, true) == 0, true
    if hold.id ~= id then
      forget_hold(cell, id)
    end
    save(cell, hold.rests and hold or nil)
  elseif was_released(cell, id) then
    is_released = true
  end
  if forget_served(cell, session, served) or is_free then
    wake_next(cell)
  end
end
return { is_released and 'released' or 'notheld', text(now) }
