-- Creates a batch and returns 1. If the batch exists, sets only its weight, if one is given, and its permission to mix models, if ARGV[1]
-- is 1, and returns 0.
-- KEYS: meta. ARGV: 1 if the batch may mix models, else 0, weight or '', then fields and values.
local existed = redis.call('EXISTS', KEYS[1])
if existed == 0 then
  redis.call('HSET', KEYS[1], unpack(ARGV, 3))
end
if ARGV[1] == '1' then
  redis.call('HSET', KEYS[1], 'mixed', 1)
end
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], 'weight', ARGV[2])
end
if existed == 1 then
  return 0
end
return 1
