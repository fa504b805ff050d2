-- Subtracts a death that was counted for a worker that was only suspended and runs again. Values:
-- batch, line.
local deaths = batchKey(arg.batch, 'deaths')
local n = tonumber(redis.call('HGET', deaths, arg.line) or 0)
if n > 1 then
  redis.call('HINCRBY', deaths, arg.line, -1)
elseif n == 1 then
  redis.call('HDEL', deaths, arg.line)
end
return reply.ok
