-- Ends an unfinished batch: its rows are no longer begun or recorded, and its keys expire after their retention. Returns 1, 0 if all rows
-- are recorded, -1 if the batch is unknown. It works even while Redis has no memory left: a script that first makes a write that needs no
-- memory, here DEL, may make other writes after it.
-- KEYS: meta, done, attempts, results, stream, jobs, checkpoints, deliveries, deaths. ARGV: now in ms.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end
if redis.call('HEXISTS', KEYS[1], 'finished_ms') == 1 then
  return 0
end
if redis.call('HEXISTS', KEYS[1], 'cancelled_ms') == 0 then
  redis.call('DEL', KEYS[7], KEYS[9])
  redis.call('DEL', KEYS[3])
  redis.call('HSET', KEYS[1], 'cancelled_ms', ARGV[1])
  for i = 1, #KEYS do
    redis.call('PEXPIRE', KEYS[i], redis.call('HGET', KEYS[1], 'retention_ms'))
  end
end
return 1
