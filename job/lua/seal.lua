-- Says how many rows a batch has, once all are queued.
-- KEYS: meta, done, attempts, results, stream. ARGV: total, now in ms, SHA-256 of the file.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end
redis.call('HSET', KEYS[1], 'total', ARGV[1], 'file_sha256', ARGV[3])
redis.call('HSETNX', KEYS[1], 'last_ms', ARGV[2])
