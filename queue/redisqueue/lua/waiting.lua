-- Returns the number of rows of a queue that wait in their batches.
-- KEYS: the turns of the queue. ARGV: prefix of the keys of waiting rows.
local n = 0
for _, batch in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  n = n + redis.call('LLEN', ARGV[1] .. batch)
end
return n
