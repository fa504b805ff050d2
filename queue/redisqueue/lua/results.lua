-- Returns the results of lines, in their order, up to a size; nil for a line that has none. The first result is always returned.
-- KEYS: results. ARGV: maximum bytes, lines.
local texts, size, found = {}, 0, false
for i = 2, #ARGV do
  local bytes = redis.call('HSTRLEN', KEYS[1], ARGV[i])
  size = size + bytes
  if found and size > tonumber(ARGV[1]) then
    break
  end
  found = found or bytes > 0
  texts[i - 1] = redis.call('HGET', KEYS[1], ARGV[i])
end
return texts
