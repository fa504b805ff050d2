-- Removes waiting rows of a batch with their tasks. Returns the number of removed rows. It is below the maximum if no rows are left.
-- KEYS: waiting rows of the batch, turns of the queue. ARGV: batch, prefix of the keys of the batch's tasks, maximum number of rows.
for n = 1, tonumber(ARGV[3]) do
  local row = redis.call('RPOP', KEYS[1])
  if not row then
    redis.call('ZREM', KEYS[2], ARGV[1])
    return n - 1
  end
  if redis.call('HGET', ARGV[2] .. row, 'state') == 'waiting' then
    redis.call('DEL', ARGV[2] .. row)
  end
end
return tonumber(ARGV[3])
