-- Tries the queue's commands on keys that only this script uses, and deletes those keys. Returns
-- the errors, each after its command. Rows: key, one that begins like those of batches, and one
-- that begins like asynq's.
local failed = {}
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = string.lower((...)) .. ': ' .. reply.err
  end
end
for _, row in ipairs(rows) do
  local key = row.key
  -- After a write that needs no memory, Redis allows writes that do, even when it has none left.
  try('DEL', key)
  if #failed > 0 then
    return failed -- stop: keys that the next commands create could not be deleted
  end
  try('HSET', key, 'a', 1)
  try('HSETNX', key, 'b', 1)
  try('HINCRBY', key, 'a', 1)
  try('HGET', key, 'a')
  try('HMGET', key, 'a')
  try('HGETALL', key)
  try('HEXISTS', key, 'a')
  try('HKEYS', key)
  try('HVALS', key)
  try('HLEN', key)
  try('HSTRLEN', key, 'a')
  try('HDEL', key, 'a')
  try('EXISTS', key)
  try('PEXPIRE', key, 60000)
  try('EXPIRE', key, 60)
  try('PTTL', key)
  try('PERSIST', key)
  try('UNLINK', key)
  try('SETNX', key, 'x')
  try('DEL', key)
  try('SET', key, 'x')
  try('GET', key)
  try('INCR', key .. ':n')
  try('INCRBY', key .. ':n', 2)
  try('EXPIREAT', key .. ':n', 4102444800)
  try('DEL', key, key .. ':n')
  try('SETBIT', key, 1, 1)
  try('GETBIT', key, 1)
  try('BITFIELD', key, 'SET', 'u1', 2, 1)
  try('BITFIELD_RO', key, 'GET', 'u1', 2)
  try('DEL', key)
  try('XADD', key, '1-1', 'a', 'b')
  try('XREAD', 'STREAMS', key, '0')
  try('XRANGE', key, '-', '+')
  try('XDEL', key, '1-1')
  try('DEL', key)
  try('LPUSH', key, 'a')
  try('RPUSH', key, 'a')
  try('LRANGE', key, 0, 1)
  try('LLEN', key)
  try('RPOP', key)
  try('RPOPLPUSH', key, key)
  try('LREM', key, 0, 'a')
  try('DEL', key)
  try('SADD', key, 'a')
  try('SMEMBERS', key)
  try('SISMEMBER', key, 'a')
  try('SREM', key, 'a')
  try('DEL', key)
  try('ZADD', key, 1, 'a')
  try('ZCARD', key)
  try('ZSCORE', key, 'a')
  try('ZRANGE', key, 0, 1)
  try('ZREVRANGE', key, 0, 1)
  try('ZRANGEBYSCORE', key, 0, 1)
  try('ZREMRANGEBYRANK', key, 1, 2)
  try('ZREM', key, 'a')
  try('TIME')
  try('DEL', key)
end
return failed
