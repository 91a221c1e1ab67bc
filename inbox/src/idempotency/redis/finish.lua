-- KEYS: the record. ARGV: owner, fence, state, time to keep in ms, and the answer unless it is open again.
local state, owner, fence = unpack(redis.call('HMGET', KEYS[1], 's', 'o', 'f'))
if owner ~= ARGV[1] or fence ~= ARGV[2] then
  return 'fenced'
elseif state == ARGV[3] then
  return 'written'
elseif state ~= 'started' then
  return 'otherwise'
end
redis.call('HSET', KEYS[1], 's', ARGV[3])
redis.call('HDEL', KEYS[1], 'x')
if ARGV[5] then
  redis.call('HSET', KEYS[1], 'a', ARGV[5])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 'written'
