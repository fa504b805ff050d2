-- Ends an unfinished batch: its rows are no longer begun or recorded, and its keys expire after
-- their retention. It works even while Redis has no memory left: a script that first makes a write
-- that needs no memory, here DEL, may make other writes after it. Values: batch, now. Returns
-- reply.ok, or reply.recorded if all rows are recorded, or reply.no_batch.
local keys = keysOf(arg.batch)
if redis.call('EXISTS', keys.meta) == 0 then
  return reply.no_batch
end
if redis.call('HEXISTS', keys.meta, 'finished_ms') == 1 then
  return reply.recorded
end
if redis.call('HEXISTS', keys.meta, 'cancelled_ms') == 0 then
  redis.call('DEL', keys.checkpoints, keys.deaths)
  redis.call('DEL', keys.attempts)
  redis.call('HSET', keys.meta, 'cancelled_ms', arg.now)
  for _, key in ipairs(keys) do
    redis.call('PEXPIRE', key, redis.call('HGET', keys.meta, 'retention_ms'))
  end
end
return reply.ok
