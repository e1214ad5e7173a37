-- R7: gives a hold back; never another's. Answers released | notheld, each with the store's clock.
--
-- ARGV after the names: id
local cells, bad = load_all()
if bad then
  return bad
end
local is_released = let_go(cells, arg(1))
for _, cell in ipairs(cells) do
  if cell.changed then
    save(cell)
  end
  if cell.freed then
    wake_next(cell)
  end
end
return { is_released and 'released' or 'notheld', text(now) }
