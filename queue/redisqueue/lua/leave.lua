-- Removes the record of a worker that has stopped.
-- KEYS: records, beats, lost. ARGV: worker's id.
for i = 1, #KEYS do
  redis.call('HDEL', KEYS[i], ARGV[1])
end
return 1
