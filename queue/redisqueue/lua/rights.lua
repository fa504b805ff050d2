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

-- The commands, with @ for the key. After a write that needs no memory, Redis allows writes that
-- do, even when it has none left.
local commands = [[
HSET @ a 1
HSETNX @ b 1
HINCRBY @ a 1
HGET @ a
HMGET @ a
HGETALL @
HEXISTS @ a
HKEYS @
HVALS @
HLEN @
HSTRLEN @ a
HDEL @ a
EXISTS @
PEXPIRE @ 60000
EXPIRE @ 60
PTTL @
PERSIST @
UNLINK @
SETNX @ x
DEL @
SET @ x
GET @
INCR @:n
INCRBY @:n 2
EXPIREAT @:n 4102444800
DEL @ @:n
SETBIT @ 1 1
GETBIT @ 1
BITFIELD @ SET u1 2 1
BITFIELD_RO @ GET u1 2
DEL @
XADD @ 1-1 a b
XREAD STREAMS @ 0
XRANGE @ - +
XDEL @ 1-1
DEL @
LPUSH @ a
RPUSH @ a
LRANGE @ 0 1
LLEN @
RPOP @
RPOPLPUSH @ @
LREM @ 0 a
DEL @
SADD @ a
SMEMBERS @
SISMEMBER @ a
SREM @ a
DEL @
ZADD @ 1 a
ZCARD @
ZSCORE @ a
ZRANGE @ 0 1
ZREVRANGE @ 0 1
ZRANGEBYSCORE @ 0 1
ZREMRANGEBYRANK @ 1 2
ZREM @ a
TIME
DEL @
]]
for _, row in ipairs(rows) do
  try('DEL', row.key)
  if #failed > 0 then
    return failed -- stop: keys that the next commands create could not be deleted
  end
  for command in string.gmatch(commands, '[^\n]+') do
    local words = {}
    for word in string.gmatch((string.gsub(command, '@', row.key)), '%S+') do
      words[#words + 1] = word
    end
    try(unpack(words))
  end
end
return failed
