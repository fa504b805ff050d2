-- Subtracts a death that was counted for a worker that was only suspended and runs again.
-- KEYS: deaths. ARGV: line.
local n = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if n > 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
elseif n == 1 then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return 1
