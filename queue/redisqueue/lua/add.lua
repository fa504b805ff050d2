-- Adds tasks at the end of the waiting rows of their batches, except tasks whose ids exist. A batch
-- that had no waiting rows gets the lowest turn of the other batches (see fill.lua). The model
-- alias of the queue is noted in each batch's meta. Values: queue, now_ns. Rows: id, message.
-- Returns the numbers (from 1) of the rows whose ids exist.
local known, joined, named = {}, {}, {}
local alias = string.match(arg.queue, '^(.*):')
local turns = turnsKey(arg.queue)
redis.call('SADD', 'asynq:queues', arg.queue)
for n, row in ipairs(rows) do
  local task = taskKey(arg.queue, row.id)
  local batch, line = string.match(row.id, '^([^:]*):(.*)$')
  if not named[batch] then
    named[batch] = true
    local meta = batchKey(batch, 'meta')
    if redis.call('EXISTS', meta) == 1 then
      redis.call('HSETNX', meta, 'alias:' .. alias, 1)
    end
  end
  if redis.call('EXISTS', task) == 1 then
    known[#known + 1] = n
  else
    redis.call('HSET', task, 'msg', row.message, 'state', 'waiting', 'pending_since', arg.now_ns)
    redis.call('LPUSH', waitingKey(arg.queue, batch), line)
    if not joined[batch] then
      joined[batch] = true
      local first = redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')
      redis.call('ZADD', turns, 'NX', first[2] or 0, batch)
    end
  end
end
fill(arg.queue)
return known
