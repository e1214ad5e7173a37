-- R7: giving a hold back; never another's. Returns whether it is given back, by now or before. A cell whose lock is
-- free by that is marked `freed`: the caller saves it, and wakes who is next.
local function let_go(cells, id)
  local is_released = false
  for _, cell in ipairs(cells) do
    if held_under(cell, id) then
      -- First what is never refused: then the rest is not either, and a Redis whose memory is full can be released,
      -- too.
      redis.call('HDEL', cell.key, 'h:' .. id)
      cell.freed, cell.changed = give_back(cell, id) == 0, true
      is_released = true
    elseif was_released(cell, id) then
      is_released = true
    end
  end
  return is_released
end
