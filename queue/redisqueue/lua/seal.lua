-- Sets the number of rows of a batch, once all are queued. lib/finish.lua precedes this script.
-- Values: batch, total, now, file_sha256. Returns reply.ok, reply.no_batch or reply.cancelled.
local keys = keysOf(arg.batch)
local refused = closed(keys)
if refused then
  return refused
end
redis.call('HSET', keys.meta, 'total', arg.total, 'file_sha256', arg.file_sha256)
redis.call('HSETNX', keys.meta, 'last_ms', arg.now)
finish(keys)
return reply.ok
