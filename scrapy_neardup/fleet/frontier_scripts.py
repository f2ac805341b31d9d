"""The shared frontier on the server: Lua scripts, each atomic, each with bounded work.

KEYS[1], Q below, is the frontier of a fleet, in the slot of the fleet's heartbeats; S = Q:s:SPIDER.

    S:requests       id → record: host, key, score, then what the server does not read
    S:keys           key → id of the request that waits, or is leased, under it
    S:n              how many requests wait
    S:h:HOST         those of a host that wait: ids by score, the lowest first
    S:free           hosts with requests that wait and no owner, by their lowest score
    S:mine:WORKER    the same, owned by a worker of this spider
    S:resting        hosts that are to be left alone until a moment
    S:leases:WORKER  ids that a worker has been given and has not completed
    S:failed         ids that workers left uncompleted, or could not make: for the next run
    S:left_over      ids of those, and of what an earlier run left so and now waits again: one that
                     is found anew takes its place
    S:tries          id → how often a worker that had it stopped or died
    S:run            starter, started: who began the run, whether a worker has queued all of its
                     start requests; id: what no other run of the spider has;
                     visits: the run of visits that it belongs to, see visit_scripts.py
    S:arguments      digests of the arguments of the spider that began the last run
    S:starts         keys of the start requests that were queued in this run; expires
    S:workers        worker → 'b' (busy) or 'i' (idle)
    Q:workers        workers by the moment at which their lease expires
    Q:names          worker → spider
    Q:given          worker → number and ids of what it was given last
    Q:heard          worker → number of its last call that counts: see heard(); expires
    Q:folder:NAME    the highest number that was noted of a state folder: see NOTE; expires
    Q:owners         host → worker and spider; only while the worker has requests of it in hand
    Q:owned:WORKER   the same the other way round
    Q:wants:HOST     spiders whose requests wait and that do not own the host, the longest first
    Q:wanted:HOST    workers with requests of the host in their own memory, the longest first, until
                     they own it; expires
    Q:turn:HOST      which spider's turn it is, for TURN_MS
    Q:rest:HOST      who had the host last: for others it rests

A request is in exactly one of S:h:HOST, S:leases:WORKER and S:failed. An id ends in four bytes of
the worker that made it, and begins with its place in the order.
"""

_FRONTIER = """
local Q, spider, worker = KEYS[1], ARGV[1], ARGV[2]
local TURN_MS, MAX_TRIES, HEARD_MS = 2000, 5, 7 * 24 * 3600 * 1000
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function of(name) return Q .. ':s:' .. name end
local S = of(spider)

-- Host, key and score of a request. One that is damaged is given out as if it had none: the worker
-- that gets it tells.
local function fields(record)
  local is_read, host, key, score = pcall(struct.unpack, '>I2c0I1c0d', record)
  if is_read and score == score then return host, key, score end
  return '', '', 0
end

-- Enter a host where those look who may take its requests.
local function list(name, host)
  local s, owner = of(name), call('HGET', Q .. ':owners', host)
  local is_ours = owner and string.sub(owner, 5) == name
  local mine = is_ours and s .. ':mine:' .. string.sub(owner, 1, 4)
  local head = call('ZRANGE', s .. ':h:' .. host, 0, 0, 'WITHSCORES')
  if not head[1] then
    call('ZREM', s .. ':free', host)
    call('ZREM', Q .. ':wants:' .. host, name)
    if is_ours then call('ZREM', mine, host) end
  elseif is_ours then
    call('ZADD', mine, head[2], host)
  else
    call('ZADD', Q .. ':wants:' .. host, 'NX', now, name)
    if not owner then call('ZADD', s .. ':free', head[2], host) end
  end
end

-- Let a request wait; the caller lists its host.
local function put(name, id, record)
  local host, _, score = fields(record)
  if call('ZADD', of(name) .. ':h:' .. host, score, id) == 1 then call('INCR', of(name) .. ':n') end
  return host
end

-- Let a request wait again that a worker was given and did not complete.
local function give_back(name, id, is_try)
  local s, record = of(name), call('HGET', of(name) .. ':requests', id)
  if not record then return 0 end
  if is_try and call('HINCRBY', s .. ':tries', id, 1) > MAX_TRIES then
    call('SADD', s .. ':failed', id)
    return 0
  end
  list(name, put(name, id, record))
  return 1
end

-- Remove a request that waits or failed; whether it did. One that is leased stays.
local function remove_idle(id)
  local host = fields(call('HGET', S .. ':requests', id))
  if call('ZREM', S .. ':h:' .. host, id) == 1 then
    call('DECR', S .. ':n')
    list(spider, host)
  elseif call('SREM', S .. ':failed', id) == 0 then
    return false
  end
  for _, what in ipairs({':requests', ':tries'}) do call('HDEL', S .. what, id) end
  call('SREM', S .. ':left_over', id)
  return true
end

local function is_working(name) return call('HLEN', of(name) .. ':workers') > 0 end

-- The worker that has wanted a host longest, and since when.
local function first_to_want(host)
  local waits = call('ZRANGE', Q .. ':wanted:' .. host, 0, -1, 'WITHSCORES')
  for i = 1, #waits, 2 do
    local until_ms = call('ZSCORE', Q .. ':workers', waits[i])
    if tonumber(until_ms or '0') > now then return waits[i], tonumber(waits[i + 1]) end
  end
  return nil, math.huge
end

-- Let others have a host. The spider or the worker that has waited for it longest is next.
local function release(one, name, host, rest_ms)
  if call('HGET', Q .. ':owners', host) ~= one .. name then return end
  call('HDEL', Q .. ':owners', host)
  call('SREM', Q .. ':owned:' .. one, host)
  call('ZREM', of(name) .. ':mine:' .. one, host)
  if rest_ms > 0 then call('SET', Q .. ':rest:' .. host, one, 'PX', rest_ms) end
  local next, since
  local waits = call('ZRANGE', Q .. ':wants:' .. host, 0, -1, 'WITHSCORES')
  for i = 1, #waits, 2 do
    if not next and is_working(waits[i]) then next, since = waits[i], tonumber(waits[i + 1]) end
    list(waits[i], host)
  end
  local _, wanted_since = first_to_want(host)
  if next and since <= wanted_since then call('SET', Q .. ':turn:' .. host, next, 'PX', TURN_MS) end
  list(name, host)
end

-- The number of the worker's last call that is remembered, and from now on this one's if it counts.
-- If that is less than what was answered, the server has gone back: to an older file, or a replica
-- that lagged behind. It stays behind then: see is_behind(). It is remembered of dead workers, too,
-- since they may only have been paused; until nobody has called for a while.
local function heard(counts)
  local number, answered = tonumber(ARGV[3]), tonumber(ARGV[4])
  local last = tonumber(call('HGET', Q .. ':heard', worker) or '0')
  if counts and last >= answered and number > last then
    call('HSET', Q .. ':heard', worker, number)
    call('PEXPIRE', Q .. ':heard', HEARD_MS)
  end
  return last
end

-- Whether the server has forgotten a call of the worker that it had answered, the last by `number`.
local function is_behind(number)
  return tonumber(call('HGET', Q .. ':heard', worker) or '0') < tonumber(number)
end

local function forget(one, name)
  call('ZREM', Q .. ':workers', one)
  call('HDEL', Q .. ':names', one)
  call('HDEL', Q .. ':given', one)
  call('HDEL', of(name) .. ':workers', one)
end

-- Take leave of a worker, a part at a time; how many requests wait again.
local function dismiss(one, name, is_over, most)
  local s, n = of(name), 0
  for _, id in ipairs(call('SPOP', s .. ':leases:' .. one, most)) do
    if is_over then call('SADD', s .. ':failed', id) else n = n + give_back(name, id, true) end
  end
  for _, host in ipairs(call('SPOP', Q .. ':owned:' .. one, most)) do
    release(one, name, host, 0)
  end
  local n_left = call('SCARD', s .. ':leases:' .. one) + call('SCARD', Q .. ':owned:' .. one)
  if n_left == 0 then forget(one, name) end
  return n
end

-- Have a worker that the server may have forgotten dismissed after a lease, unless it lives.
local function remember(one, name, lease_ms)
  call('ZADD', Q .. ':workers', 'NX', now + lease_ms, one)
  call('HSET', Q .. ':names', one, name)
end

local function remember_owner(host, lease_ms)
  local owner = call('HGET', Q .. ':owners', host)
  if owner then
    remember(string.sub(owner, 1, 4), string.sub(owner, 5), lease_ms)
    call('SADD', Q .. ':owned:' .. string.sub(owner, 1, 4), host)
  end
end

-- The worker lives. A full server refuses what adds, unless the script has removed before.
local function note(lease_ms)
  call('ZREM', Q .. ':workers', worker)
  call('ZADD', Q .. ':workers', now + lease_ms, worker)
  call('HSET', Q .. ':names', worker, spider)
end
"""

# ARGV: spider, worker, number of this call and of the last that was answered, then id and record of
# each request. Answer: the number of the call before, as for all that count, and for each request 1
# if it was queued, 0 if it, or one of its key, waits or is leased; what is left over of earlier
# runs makes room. A start request of a key is queued once a run. A call that queues nothing does
# not count: a full server refuses what adds.
PUSH = (
    _FRONTIER
    + """
local hosts, answers = {}, {}
for i = 5, #ARGV, 2 do
  local id, record = ARGV[i], ARGV[i + 1]
  local _, key = fields(record)
  local is_known = call('HEXISTS', S .. ':requests', id) == 1
  local same = key ~= '' and call('HGET', S .. ':keys', key)
  if same and not is_known and call('HEXISTS', S .. ':requests', same) == 1 then
    is_known = call('SISMEMBER', S .. ':left_over', same) == 0 or not remove_idle(same)
  end
  if not is_known and key ~= '' and string.sub(id, 1, 1) == 's' then
    is_known = call('SADD', S .. ':starts', key) == 0
    call('PEXPIRE', S .. ':starts', HEARD_MS)
  end
  if not is_known then
    call('HSET', S .. ':requests', id, record)
    if key ~= '' then call('HSET', S .. ':keys', key, id) end
    hosts[put(spider, id, record)] = true
  end
  answers[#answers + 1] = is_known and 0 or 1
end
for host in pairs(hosts) do list(spider, host) end
table.insert(answers, 1, heard(next(hosts) ~= nil))
return answers
"""
)

# ARGV: spider, worker, two numbers as for PUSH, number of this question, 'b' or 'i', milliseconds
# of the lease, most requests to give, most of one host, milliseconds for which a released host
# rests for others, numbers of hosts in hand and of hosts wanted, each of the first with how many
# more of it, each of the second, then the hosts that are out of hand.
# Answer: {number of the call before, how many wait, busy workers, 1 if the start requests are all
# in, requests that were lost, requests of dead workers that wait again, id of the run or '', for
# each wanted host 1 if it is the worker's, id, record, ...}. A question that was asked already, by
# its number, is answered with the same requests: its answer was lost. Those of them that are
# completed since are left out.
TAKE = (
    _FRONTIER
    + """
local MOST = 1000 -- Lua passes some thousands of values at once
local number, lease_ms, per_host = ARGV[5], ARGV[7], tonumber(ARGV[9])
local most = math.min(MOST, tonumber(ARGV[8]))
local rest_ms, n_hands, n_wanted = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
local leases, mine, free = S .. ':leases:' .. worker, S .. ':mine:' .. worker, S .. ':free'
local ID, REAPED, RESTING = 13, 100, 64
local rooms = {}
for i = 13, 11 + 2 * n_hands, 2 do rooms[ARGV[i]] = tonumber(ARGV[i + 1]) end

local function is_wanted(host)
  for _, other in ipairs(call('ZRANGE', Q .. ':wants:' .. host, 0, -1)) do
    if is_working(other) then return true end
  end
  return first_to_want(host) ~= nil
end

-- Whether the worker owns a free host from now on. One that rests is put aside until then.
local function own(host)
  if call('HGET', Q .. ':owners', host) then return false end -- listed again when released
  local turn, last = call('GET', Q .. ':turn:' .. host), call('GET', Q .. ':rest:' .. host)
  local first = not turn and first_to_want(host) or worker
  if turn and turn ~= spider or last and last ~= worker or first ~= worker then
    local rest = 0
    for _, why in ipairs({':turn:', ':rest:', ':wanted:'}) do
      rest = math.max(rest, call('PTTL', Q .. why .. host))
    end
    call('ZADD', S .. ':resting', now + rest, host)
    return false
  end
  call('HSET', Q .. ':owners', host, worker .. spider)
  call('SADD', Q .. ':owned:' .. worker, host)
  call('ZREM', Q .. ':wants:' .. host, spider)
  call('DEL', Q .. ':turn:' .. host)
  return true
end

-- Whether a host is the worker's now that has requests of it in its memory.
local function own_wanted(host)
  if call('HGET', Q .. ':owners', host) == worker .. spider or own(host) then
    call('ZREM', Q .. ':wanted:' .. host, worker)
    list(spider, host)
    return true
  end
  remember_owner(host, lease_ms)
  call('ZADD', Q .. ':wanted:' .. host, 'NX', now, worker)
  call('PEXPIRE', Q .. ':wanted:' .. host, TURN_MS)
  return false
end

-- One of the best hosts, the worker's own or free, by chance: in any order of theirs, a few hosts
-- without end would keep all others waiting.
math.randomseed(now) -- else each script would draw the same
local function best()
  local lowest
  for _, hosts in ipairs({mine, free}) do
    local score = call('ZRANGE', hosts, 0, 0, 'WITHSCORES')[2]
    if score and (not lowest or tonumber(score) < tonumber(lowest)) then lowest = score end
  end
  if not lowest then return nil end
  local n_mine = call('ZCOUNT', mine, '-inf', lowest)
  local at = math.random(n_mine + call('ZCOUNT', free, '-inf', lowest)) - 1
  local is_ours = at < n_mine
  local hosts = is_ours and mine or free
  if not is_ours then at = at - n_mine end
  local host = call('ZRANGE', hosts, at, at)[1]
  call('ZREM', hosts, host)
  return host, lowest, is_ours
end

local function taken()
  local ids, aside, tries = {}, {}, 2 * most + RESTING
  while #ids < most and tries > 0 do
    tries = tries - 1
    local host, score, is_ours = best()
    if not host then break end
    local room = rooms[host] or per_host
    if is_ours and (room < 1 or is_wanted(host)) then
      aside[#aside + 1] = host
    elseif is_ours or own(host) then
      local key, n = S .. ':h:' .. host, math.min(room, most - #ids)
      local some = call('ZRANGEBYSCORE', key, score, score, 'LIMIT', 0, n)
      for _, id in ipairs(some) do
        call('ZREM', key, id)
        call('SADD', leases, id)
        ids[#ids + 1] = id
      end
      rooms[host] = room - #some
      list(spider, host)
    end
  end
  for _, host in ipairs(aside) do list(spider, host) end
  if #ids > 0 then call('DECRBY', S .. ':n', #ids) end
  return ids
end

local function given_before()
  local given = call('HGET', Q .. ':given', worker)
  local at = given and string.find(given, ' ', 1, true)
  if not at then return nil end
  local last = tonumber(string.sub(given, 1, at - 1))
  if last > tonumber(number) then return {} end -- it was on its way for long: nobody waits for it
  if last < tonumber(number) then return nil end
  local ids = {}
  for i = at + 1, #given, ID do
    local id = string.sub(given, i, i + ID - 1)
    if call('HEXISTS', S .. ':requests', id) == 0 then -- completed by one that was paused
      call('SREM', leases, id)
    elseif call('SISMEMBER', leases, id) == 1 then
      ids[#ids + 1] = id
    end
  end
  return ids
end

-- Release hosts that the worker says are out of hand, but for those of requests that it is given
-- again: it does not know of them.
local function release_named(given_again)
  local in_hand = {}
  for _, id in ipairs(given_again) do
    local host = fields(call('HGET', S .. ':requests', id))
    in_hand[host] = true
  end
  for i = 13 + 2 * n_hands + n_wanted, #ARGV do
    if not in_hand[ARGV[i]] then release(worker, spider, ARGV[i], rest_ms) end
  end
end

note(lease_ms)
local last, n_returned = heard(true), 0
local dead = call('ZRANGEBYSCORE', Q .. ':workers', '-inf', now, 'LIMIT', 0, 1)[1]
if dead then n_returned = dismiss(dead, call('HGET', Q .. ':names', dead) or '', false, REAPED) end
local ids = given_before()
release_named(ids or {})
local are_given = {}
for i = 1, n_wanted do are_given[i] = own_wanted(ARGV[12 + 2 * n_hands + i]) and 1 or 0 end
if not ids then
  for _, host in ipairs(call('ZRANGEBYSCORE', S .. ':resting', '-inf', now, 'LIMIT', 0, RESTING)) do
    call('ZREM', S .. ':resting', host)
    list(spider, host)
  end
  ids = taken()
  call('HSET', Q .. ':given', worker, number .. ' ' .. table.concat(ids))
end
call('HSET', S .. ':workers', worker, #ids > 0 and 'b' or ARGV[6])
local n_lost, records = 0, {}
for _, id in ipairs(ids) do
  local record = call('HGET', S .. ':requests', id)
  if record then
    records[#records + 1] = id
    records[#records + 1] = record
  else
    call('SREM', leases, id)
    n_lost = n_lost + 1
  end
end
local n_busy = 0
for _, state in ipairs(call('HVALS', S .. ':workers')) do
  if state == 'b' then n_busy = n_busy + 1 end
end
local is_started = call('EXISTS', S .. ':run') == 0 or call('HEXISTS', S .. ':run', 'started') == 1
local n_waiting = tonumber(call('GET', S .. ':n') or '0')
local run = call('HGET', S .. ':run', 'id') or ''
is_started = is_started and 1 or 0
return {last, n_waiting, n_busy, is_started, n_lost, n_returned, run, are_given, unpack(records)}
"""
)

# ARGV: spider, worker, id, number of the last call that was answered; the same again for each. A
# request that was given to another worker meanwhile, or waits again, is removed as well. None is
# removed if the server has gone back: what was found on its page may be lost.
DONE = (
    _FRONTIER
    + """
local answers = {}
for i = 3, #ARGV, 4 do
  local id, knows = ARGV[i], not is_behind(ARGV[i + 1])
  if knows then call('SREM', S .. ':leases:' .. worker, id) end
  local record = knows and call('HGET', S .. ':requests', id)
  if record then
    local host, key = fields(record)
    call('HDEL', S .. ':requests', id)
    call('HDEL', S .. ':tries', id)
    call('SREM', S .. ':failed', id)
    call('SREM', S .. ':left_over', id)
    if key ~= '' and call('HGET', S .. ':keys', key) == id then call('HDEL', S .. ':keys', key) end
    if call('ZREM', S .. ':h:' .. host, id) == 1 then
      call('DECR', S .. ':n')
      list(spider, host)
    end
  end
  answers[#answers + 1] = 1
end
return answers
"""
)

# ARGV: spider, worker, milliseconds of the lease, the run of visits that the worker takes part in,
# or 0, digests of its arguments. Answer: {how, whether the run was there before, S:arguments}.
# How: 0 another worker has begun the run, 1 this one has, 2 as 0, and start requests of a
# worker are all in the queue, 3 ask again: what an earlier run left uncompleted is being queued. A
# run that is over may not be ended: its last worker's word was lost, or it is still closing. Who
# takes part in the same run of visits joins it all the same.
START = (
    _FRONTIER
    + """
-- Whether nothing waits or is under way. What an idle worker has not completed failed; what a dead
-- one has not is given to others.
local function is_over()
  if tonumber(call('GET', S .. ':n') or '0') > 0 then return false end
  local workers = call('HGETALL', S .. ':workers')
  for i = 1, #workers, 2 do
    local lives = tonumber(call('ZSCORE', Q .. ':workers', workers[i]) or '0') > now
    if lives and workers[i + 1] == 'b' then return false end
    if not lives and call('SCARD', S .. ':leases:' .. workers[i]) > 0 then return false end
  end
  return true
end

local arguments = call('GET', S .. ':arguments') or ''
local function joins(how)
  call('HSET', S .. ':workers', worker, 'b')
  return {how, 1, arguments}
end

note(ARGV[3])
if call('HEXISTS', S .. ':run', 'started') == 1 then
  if ARGV[4] ~= '0' and call('HGET', S .. ':run', 'visits') == ARGV[4] then return joins(2) end
  if not is_over() then return joins(2) end
  call('DEL', S .. ':run')
end
local starter = call('HGET', S .. ':run', 'starter')
local until_ms = tonumber(starter and call('ZSCORE', Q .. ':workers', starter) or 0)
if starter ~= worker and until_ms > now then return joins(0) end
call('HSET', S .. ':run', 'starter', worker, 'visits', ARGV[4])
call('HSET', S .. ':workers', worker, 'b')
call('SET', S .. ':arguments', ARGV[5])
local goes_on = call('HEXISTS', S .. ':run', 'id')
if goes_on == 0 then -- by the clock: no number comes again
  call('HSET', S .. ':run', 'id', string.format('%.0f', now))
end
call('SADD', Q .. ':spiders', spider)
for _, id in ipairs(call('SPOP', S .. ':failed', 200)) do
  call('HDEL', S .. ':tries', id)
  call('SADD', S .. ':left_over', id)
  give_back(spider, id, false)
end
call('SPOP', S .. ':starts', 1000)
local is_left = call('SCARD', S .. ':failed') + call('SCARD', S .. ':starts') > 0
return {is_left and 3 or 1, goes_on, arguments}
"""
)

# ARGV: spider, worker, two numbers as for PUSH. Answer: the number of the call before.
STARTED = (
    _FRONTIER
    + """
local last = heard(true)
call('HSET', S .. ':run', 'starter', worker, 'started', 1)
return {last}
"""
)

# ARGV: spider, worker, name of a state folder, its next number. Answer: the number that is noted of
# it. If that is less than what the folder has, the server has gone back to an older state, and
# stays behind. A full server notes no more.
NOTE = (
    _FRONTIER
    + """
local key, number, FOLDER_MS = Q .. ':folder:' .. ARGV[3], tonumber(ARGV[4]), 366 * 24 * 3600 * 1000
local last = tonumber(call('GET', key) or '0')
if last == number - 1 and not redis.pcall('SET', key, number, 'PX', FOLDER_MS).err then
  last = number
end
return last
"""
)

# ARGV: spider, worker, milliseconds of a lease, where to go on, '0' at first. For a queue that
# stands still, as after an eviction: hosts that no worker comes by are listed again. A worker that
# is not in Q:workers is dismissed when a lease has expired, unless it lives. Answer: where to go
# on, '0' at the end; how many requests wait in the queues of their hosts, of those looked through;
# and how many are to wait in all. While a worker is busy nothing is looked for, and 0 are to wait:
# it may have some that are not among its leases any more. If S:n, by which a run ends, is 0,
# nothing is looked for either.
RELIST = (
    _FRONTIER
    + """
local AT_ONCE, lease_ms, cursor = 500, ARGV[3], ARGV[4]
local n_elsewhere, is_busy = call('SCARD', S .. ':failed'), false
local workers = call('HGETALL', S .. ':workers')
for i = 1, #workers, 2 do
  remember(workers[i], spider, lease_ms)
  is_busy = is_busy or workers[i + 1] == 'b'
  n_elsewhere = n_elsewhere + call('SCARD', S .. ':leases:' .. workers[i])
end
if is_busy then return {'0', 0, 0} end
local n_waiting = math.max(0, tonumber(call('GET', S .. ':n') or '0'))
local n_due = math.max(n_waiting, call('HLEN', S .. ':requests') - n_elsewhere)
if n_waiting == 0 then return {'0', 0, n_due} end
local found = call('HSCAN', S .. ':requests', cursor, 'COUNT', AT_ONCE)
local n_there, hosts = 0, {}
for i = 1, #found[2], 2 do
  local host = fields(found[2][i + 1])
  if call('ZSCORE', S .. ':h:' .. host, found[2][i]) then
    n_there = n_there + 1
    hosts[host] = true
  end
end
for host in pairs(hosts) do
  remember_owner(host, lease_ms)
  list(spider, host)
end
return {found[1], n_there, n_due}
"""
)

# Answer: maxmemory-policy of a server that evicts keys, else ''; '?' without the permission to ask.
EVICTION = """
local info = redis.pcall('INFO', 'memory')
if type(info) == 'table' then return '?' end
local policy = string.match(info, 'maxmemory_policy:([%w-]+)') or ''
if string.find(info, 'maxmemory:0', 1, true) or policy == 'noeviction' then return '' end
return policy
"""

# ARGV: spider, worker. Answer: how many requests wait, how many are leased, how many are for the
# next run, and how many workers live. Who may not ask that is told of one.
LEFT = (
    _FRONTIER
    + """
local n_leased, n_alive = 0, 0
local workers = redis.pcall('HGETALL', S .. ':workers')
if workers.err then return {0, 0, 0, 1} end
for i = 1, #workers, 2 do
  n_leased = n_leased + call('SCARD', S .. ':leases:' .. workers[i])
  local until_ms = redis.pcall('ZSCORE', Q .. ':workers', workers[i])
  if type(until_ms) == 'table' then return {0, 0, 0, 1} end
  if tonumber(until_ms or '0') > now then n_alive = n_alive + 1 end
end
return {tonumber(call('GET', S .. ':n') or '0'), n_leased, call('SCARD', S .. ':failed'), n_alive}
"""
)

# ARGV: spider, worker, ids that it was given and did not begin.
RETURN = (
    _FRONTIER
    + """
for i = 3, #ARGV do
  local id = ARGV[i]
  if call('SREM', S .. ':leases:' .. worker, id) == 1 then give_back(spider, id, false) end
end
return 1
"""
)

# ARGV: spider, worker, ids that it was given and cannot make. They are left for the next run,
# unless they are found anew before.
SET_ASIDE = (
    _FRONTIER
    + """
for i = 3, #ARGV do
  if call('SREM', S .. ':leases:' .. worker, ARGV[i]) == 1 then
    call('SADD', S .. ':failed', ARGV[i])
    call('SADD', S .. ':left_over', ARGV[i])
  end
end
return 1
"""
)

# ARGV: spider, worker, how the run ended for it (1 it is over, 0 it goes on, -1 requests were lost:
# the next worker makes the start requests again), most ids and hosts to deal with.
# Answer: whether there is more to deal with.
LEAVE = (
    _FRONTIER
    + """
local is_over, n_busy = ARGV[3] == '1', 0
dismiss(worker, spider, is_over, tonumber(ARGV[4]))
for _, state in ipairs(call('HVALS', S .. ':workers')) do
  if state == 'b' then n_busy = n_busy + 1 end
end
if is_over and n_busy == 0 and tonumber(call('GET', S .. ':n') or '0') == 0 then
  call('DEL', S .. ':run')
end
if ARGV[3] == '-1' then call('DEL', S .. ':run') end
if call('ZSCORE', Q .. ':workers', worker) then return 1 end
call('HDEL', Q .. ':heard', worker)
return 0
"""
)
