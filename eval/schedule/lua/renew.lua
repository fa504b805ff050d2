-- Extends a lease. Returns 1, or 0 if another scheduler holds it.
-- KEYS: lease. ARGV: owner, lease in ms.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
