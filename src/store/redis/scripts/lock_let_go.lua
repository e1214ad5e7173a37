-- R7: giving a lock back, or one of several holds; never another's. Returns how many holds are left; nil when it was not
-- held. A cell whose lock is given back is marked `freed`: the caller saves it, and wakes who is next.
local function let_go(cells, id, request, entirely)
  local holds_left
  for _, cell in ipairs(cells) do
    local holder = held_under(cell, id)
    if not holder then
      if cell.released == id .. ' ' .. request then
        -- The same release once more.
        holds_left = holds_left or 0
      end
    elseif not entirely and (holder.request == request or holder.holds > 1) then
      -- First what is never refused: then the rest is not either, and a Redis whose memory is full can be released, too.
      touch(cell)
      if holder.request ~= request then
        holder.holds, holder.request = holder.holds - 1, request
      end
      holds_left = holder.holds
      save(cell, holder)
    else
      -- Never refused, as above.
      redis.call('HDEL', cell.key, 'h:' .. id)
      give_back(cell, id, request)
      cell.freed, holds_left = true, 0
    end
  end
  return holds_left
end
