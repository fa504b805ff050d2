-- Sets the number of rows of a batch, once all are queued. lib/finish.lua precedes this script.
-- Values: batch, total, now, file_sha256. Returns reply.ok, reply.no_batch or reply.cancelled.
local keys = keysOf(arg.batch)
local is = redis.call('HMGET', keys.meta, 'created_ms', 'cancelled_ms')
if not is[1] then
  return reply.no_batch
end
if is[2] then
  return reply.cancelled
end
redis.call('HSET', keys.meta, 'total', arg.total, 'file_sha256', arg.file_sha256)
redis.call('HSETNX', keys.meta, 'last_ms', arg.now)
finish(keys)
return reply.ok
