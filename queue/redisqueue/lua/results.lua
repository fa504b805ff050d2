-- Returns the results of lines, in their order, up to a size; nil for a line that has none. The
-- first result is always returned. Values: batch, max_bytes. Rows: line.
local results, texts, size, found = batchKey(arg.batch, 'results'), {}, 0, false
for n, row in ipairs(rows) do
  local bytes = redis.call('HSTRLEN', results, row.line)
  size = size + bytes
  if found and size > tonumber(arg.max_bytes) then
    break
  end
  found = found or bytes > 0
  texts[n] = redis.call('HGET', results, row.line)
end
return texts
