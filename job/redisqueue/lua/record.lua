-- Records a row: stores its result, counts it, and appends its line to the batch's stream. Returns 1, 0 if the row is recorded
-- already, -1 if the batch is unknown, -2 if it is cancelled, -3 if its file is another one, -4 if the delivery was ended,
-- -5 if the file has no such line, -6 if another model has answered rows of the batch. The first answer pins the model.
-- KEYS: meta, done, attempts, results, stream, jobs, checkpoints, deliveries, deaths.
-- ARGV: line, result, 'done' or 'failed', now in ms, checksum of the row, FileID or '', job of a failed row or '',
-- number of the delivery, model of an answer or '', then names of counters of meta and their increments.
local is = redis.call('HMGET', KEYS[1], 'created_ms', 'cancelled_ms', 'file_sha256', 'lines', 'pin', 'mixed')
if not is[1] then
  return -1
end
if is[2] then
  return -2
end
if ARGV[6] ~= '' and is[3] and is[3] ~= '' and string.sub(is[3], 1, #ARGV[6]) ~= ARGV[6] then
  return -3
end
if is[4] and tonumber(ARGV[1]) > tonumber(is[4]) then
  return -5
end
if redis.call('GETBIT', KEYS[2], ARGV[1]) == 1 then
  return 0
end
if tonumber(redis.call('HGET', KEYS[8], ARGV[1]) or 0) ~= tonumber(ARGV[8]) then
  return -4
end
if ARGV[9] ~= '' then
  if not is[5] then
    redis.call('HSET', KEYS[1], 'pin', ARGV[9])
  elseif is[5] ~= ARGV[9] and not is[6] then
    return -6
  end
end
redis.call('SETBIT', KEYS[2], ARGV[1], 1)
for _, i in ipairs({3, 7, 8, 9}) do
  redis.call('HDEL', KEYS[i], ARGV[1])
end
redis.call('HSET', KEYS[4], ARGV[1], ARGV[2])
redis.call('XADD', KEYS[5], '*', 'line', ARGV[1], 'sum', ARGV[5], 'outcome', ARGV[3])
redis.call('HINCRBY', KEYS[1], ARGV[3], 1)
redis.call('HSET', KEYS[1], 'last_ms', ARGV[4])
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[6], ARGV[1], ARGV[7])
else
  redis.call('HDEL', KEYS[6], ARGV[1])
end
for i = 10, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1])
end
