-- Removes the record of a worker that has stopped. Values: worker.
for _, name in ipairs({'records', 'beats', 'lost'}) do
  redis.call('HDEL', fleetKey(name), arg.worker)
end
return reply.ok
