-- R7: gives a lock back, or one of several holds; never another's. Answers released holds | notheld, each after its
-- name with the store's clock.
--
-- ARGV after the names: id request entirely(0/1)
local id, request, entirely = arg(1), arg(2), arg(3) == '1'

local cells, bad = load_all()
if bad then
  return bad
end
local holds_left
for _, cell in ipairs(cells) do
  local holder = held_under(cell, id)
  if holder then
    -- First what is never refused: then the rest is not either, and a Redis whose memory is full can be released, too.
    touch(cell)
    local repeated = holder.request == request
    if not entirely and (repeated or holder.holds > 1) then
      if not repeated then
        holder.holds, holder.request = holder.holds - 1, request
      end
      holds_left = holder.holds
      save(cell, holder)
    else
      give_back(cell, id, request)
      holds_left = 0
      save(cell)
      wake_next(cell)
    end
  elseif cell.released == id .. ' ' .. request then
    -- The same release once more.
    holds_left = holds_left or 0
  end
end
if not holds_left then
  return { 'notheld', text(now) }
end
return { 'released', text(now), text(holds_left) }
