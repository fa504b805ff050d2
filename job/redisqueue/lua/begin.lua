-- Counts an attempt at a row. Returns a list: its number, and the row's progress if there is any; or one number: 0 if the row is
-- recorded, -1 if the batch is unknown, -2 if it is cancelled, -3 if its file is another one, -4 if the delivery was ended,
-- -5 if the file has no such line, -6 if another model has answered rows of the batch.
-- KEYS: meta, done, attempts, deliveries, checkpoints. ARGV: line, now in ms, FileID or '', number of the delivery, model or ''.
local is = redis.call('HMGET', KEYS[1], 'created_ms', 'cancelled_ms', 'file_sha256', 'lines', 'pin', 'mixed')
if not is[1] then
  return {-1}
end
if is[2] then
  return {-2}
end
if ARGV[3] ~= '' and is[3] and is[3] ~= '' and string.sub(is[3], 1, #ARGV[3]) ~= ARGV[3] then
  return {-3}
end
if is[4] and tonumber(ARGV[1]) > tonumber(is[4]) then
  return {-5}
end
if redis.call('GETBIT', KEYS[2], ARGV[1]) == 1 then
  return {0}
end
if tonumber(redis.call('HGET', KEYS[4], ARGV[1]) or 0) ~= tonumber(ARGV[4]) then
  return {-4}
end
if ARGV[5] ~= '' and is[5] and is[5] ~= ARGV[5] and not is[6] then
  return {-6}
end
redis.call('HSETNX', KEYS[1], 'started_ms', ARGV[2])
return {redis.call('HINCRBY', KEYS[3], ARGV[1], 1), redis.call('HGET', KEYS[5], ARGV[1]) or nil}
