-- Records a row: stores its result, counts it, and appends its line to the batch's stream. Returns 1, 0 if the row is recorded
-- already, -1 if the batch is unknown, -2 if it is cancelled, -3 if its file is another one.
-- KEYS: meta, done, attempts, results, stream, jobs.
-- ARGV: line, result, 'done' or 'failed', now in ms, checksum of the row, FileID or '', job of a failed row or '', then names of counters of meta and their increments.
local is = redis.call('HMGET', KEYS[1], 'created_ms', 'cancelled_ms', 'file_sha256')
if not is[1] then
  return -1
end
if is[2] then
  return -2
end
if ARGV[6] ~= '' and is[3] and is[3] ~= '' and string.sub(is[3], 1, #ARGV[6]) ~= ARGV[6] then
  return -3
end
if redis.call('SETBIT', KEYS[2], ARGV[1], 1) == 1 then
  return 0
end
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('HSET', KEYS[4], ARGV[1], ARGV[2])
redis.call('XADD', KEYS[5], '*', 'line', ARGV[1], 'sum', ARGV[5], 'outcome', ARGV[3])
redis.call('HINCRBY', KEYS[1], ARGV[3], 1)
redis.call('HSET', KEYS[1], 'last_ms', ARGV[4])
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[6], ARGV[1], ARGV[7])
else
  redis.call('HDEL', KEYS[6], ARGV[1])
end
for i = 8, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1])
end
