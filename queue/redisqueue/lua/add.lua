-- Adds tasks at the end of the waiting rows of their batches, except tasks whose ids exist. A batch that had no waiting rows gets the
-- lowest turn of the other batches (see fill.lua, which precedes this script). The model alias of the queue is noted in each batch's meta.
-- Returns the numbers (from 1) of the tasks whose ids exist.
-- ARGV: queue, now in ns, then id and message of each task.
local known, joined, named = {}, {}, {}
local alias = string.match(ARGV[1], '^(.*):')
local turns = 'ingot:{' .. ARGV[1] .. '}:turns'
for i = 3, #ARGV, 2 do
  local task = 'asynq:{' .. ARGV[1] .. '}:t:' .. ARGV[i]
  local batch, row = string.match(ARGV[i], '^([^:]*):(.*)$')
  if not named[batch] then
    named[batch] = true
    local meta = 'ingot:{' .. batch .. '}:meta'
    if redis.call('EXISTS', meta) == 1 then
      redis.call('HSETNX', meta, 'alias:' .. alias, 1)
    end
  end
  if redis.call('EXISTS', task) == 1 then
    known[#known + 1] = (i - 1) / 2
  else
    redis.call('HSET', task, 'msg', ARGV[i + 1], 'state', 'waiting', 'pending_since', ARGV[2])
    redis.call('LPUSH', 'ingot:{' .. ARGV[1] .. '}:waiting:' .. batch, row)
    if not joined[batch] then
      joined[batch] = true
      local first = redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')
      redis.call('ZADD', turns, 'NX', first[2] or 0, batch)
    end
  end
end
fill(ARGV[1])
return known
