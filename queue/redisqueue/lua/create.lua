-- Creates a batch. If the batch exists, sets only its weight, if one is given, and its permission
-- to mix models, if mixed is 1. Values: batch, mixed (1 or 0), weight (or 0). Rows: field, value.
-- Returns 1, or 0 if the batch exists.
local meta = batchKey(arg.batch, 'meta')
local existed = redis.call('EXISTS', meta)
if existed == 0 then
  for _, row in ipairs(rows) do
    redis.call('HSET', meta, row.field, row.value)
  end
end
if arg.mixed == '1' then
  redis.call('HSET', meta, 'mixed', 1)
end
if tonumber(arg.weight) > 0 then
  redis.call('HSET', meta, 'weight', arg.weight)
end
return 1 - existed
