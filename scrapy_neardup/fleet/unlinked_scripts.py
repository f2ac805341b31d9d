"""Which of a fleet's known pages are linked, on the server: Lua scripts, each with bounded work.

U, below, is {PREFIX:u:N}, one of the shards of URLs.

    U:l:SPIDER               pages that stand at their URL, by the run that found a link to each, or
                             read it, last; half a run more where that run found it new
    U:m:SPIDER:RUN           't' + text of a page that is new in a run, or 'c' + key of a page that
                             one read in it repeats → its URL; 'w' + worker → the number of its last
                             message about links; expires
    {PREFIX}:starts:SPIDER   's' + start URL → the last run that began with it; 'n', how many;
                             'since', the first run of which all are known
    {PREFIX}:readers         reader → JSON of its spider and callback
    {PREFIX}:run:SPIDER:RUN:told   worker that has finished a run and told all links → JSON, by
                             shard the number of its last message about links; expires

A page in U:l is its site, 16 hexadecimal digits, and its key.
"""

KEPT_MS = 2 * 86_400_000  # for which what a run alone needs is kept
MAX_STARTS = 10_000  # start URLs of all runs; of a spider with more nothing is gone for its links
NEVER = 9_000_000_000_000_000  # a run later than all others

# KEYS[1]: how the hashes of a site's URLs begin.
MARKING = """
local function place(spider, key)
  local shard, site = string.match(KEYS[1], '^(.*):v:(%x+)$')
  return shard .. ':l:' .. spider, site .. key
end

-- A link to a page was found in a run. Pages that stand nowhere are not entered.
local function linked(spider, key, run)
  local pages, page = place(spider, key)
  local before = redis.call('ZSCORE', pages, page)
  if before and tonumber(before) < run then
    redis.call('ZADD', pages, string.format('%.0f', run), page)
  end
end

-- A page was read in a run.
local function stands(spider, key, run)
  local pages, page = place(spider, key)
  if redis.call('ZSCORE', pages, page) then return linked(spider, key, run) end
  redis.call('ZADD', pages, string.format('%.1f', run + 0.5), page)
end
"""

# KEYS[1]: as above. ARGV: spider, run, worker, number of this message to the shard, milliseconds,
# keys of pages that are linked. Answer: the number of the message before.
LINKED = (
    MARKING
    + """
local spider, run, number = ARGV[1], ARGV[2], tonumber(ARGV[4])
local shard = string.match(KEYS[1], '^(.*):v:%x+$')
local heard, worker = shard .. ':m:' .. spider .. ':' .. run, 'w' .. ARGV[3]
local last = tonumber(redis.call('HGET', heard, worker) or '0')
if number > last then redis.call('HSET', heard, worker, ARGV[4]) end
redis.call('PEXPIRE', heard, ARGV[5])
for i = 6, #ARGV do linked(spider, ARGV[i], tonumber(run)) end
return last
"""
)

# KEYS[1]: U:m. ARGV: of each page what it is found by, and its URL.
NOTE = (
    """
local answers = {}
for i = 1, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  answers[#answers + 1] = 1
end
"""
    + f"redis.call('PEXPIRE', KEYS[1], {KEPT_MS})\nreturn answers"
)

# KEYS[1]: U:m. ARGV: what pages are found by. Answer: their URLs, '' where there is none.
WHERE = """
local found = redis.call('HMGET', KEYS[1], unpack(ARGV))
for i = 1, #ARGV do found[i] = found[i] or '' end
return found
"""

# KEYS[1]: {PREFIX}:starts. ARGV: run, start URLs with which it begins.
STARTED = (
    """
local run = tonumber(ARGV[1])
local n = tonumber(redis.call('HGET', KEYS[1], 'n') or '0')
if not redis.call('HGET', KEYS[1], 'since') then redis.call('HSET', KEYS[1], 'since', ARGV[1]) end
for i = 2, #ARGV do
  local last = redis.call('HGET', KEYS[1], 's' .. ARGV[i])
  if not last then n = n + 1 end
  """
    + f"if n > {MAX_STARTS} then redis.call('HSET', KEYS[1], 'since', '{NEVER}') break end"
    + """
  if not last or tonumber(last) < run then redis.call('HSET', KEYS[1], 's' .. ARGV[i], ARGV[1]) end
end
redis.call('HSET', KEYS[1], 'n', n)
return 1
"""
)

# KEYS[1]: the run of a spider. Whether workers, given by hexadecimal digits, hold their lease; and
# whether one may have held it since a run began. One that was paused gets it anew when it goes on.
# Since when was known of all of them: of which it is not, the server has evicted it.
ALIVE = """
local function of(worker, what)
  return string.match(KEYS[1], '^(.-}):run:') .. what .. worker
end

local function is_alive(worker) return redis.call('EXISTS', of(worker, ':w:')) == 1 end

local function any_at_work(workers, began)
  for worker in string.gmatch(workers, '%x+') do
    local since = redis.call('GET', of(worker, ':since:'))
    if is_alive(worker) or not since or tonumber(since) >= began then return true end
  end
  return false
end
"""

# KEYS[1]: {PREFIX}:readers. ARGV: reader, JSON of its spider and callback.
READER = """
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
"""

# KEYS[1]: the run of a spider. ARGV: run, worker, which has finished it and told all links, by JSON
# in how many messages, milliseconds. Answer: if it is the last of the run, no other run has begun,
# and no worker of an earlier one was at work meanwhile, which may have read pages in place of this
# run's workers, of each worker itself and its JSON; else nothing. So one of them is answered.
TOLD = (
    ALIVE
    + """
local members = KEYS[1] .. ':' .. ARGV[1]
local told = members .. ':told'
redis.call('HSET', told, ARGV[2], ARGV[3])
redis.call('PEXPIRE', told, ARGV[4])
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return {} end
local mixed, open, began = unpack(redis.call('HMGET', KEYS[1], 'mixed', 'open', 'began'))
if mixed == '1' or any_at_work(open or '', tonumber(began or '0')) then return {} end
local ends, answer = redis.call('HGETALL', members), {}
if #ends / 2 ~= tonumber(redis.call('HGET', KEYS[1], 'workers')) then return {} end -- evicted
for i = 1, #ends, 2 do
  local its = redis.call('HGET', told, ends[i])
  if ends[i + 1] ~= 'finished' or not its then return {} end
  answer[#answer + 1] = ends[i]
  answer[#answer + 1] = its
end
return answer
"""
)

_PAGES = """
local shard = string.match(KEYS[1], '^(.*}):l:')
local function of(page)
  return shard .. ':v:' .. string.sub(page, 1, 16) .. ':' .. string.sub(page, 17)
end
"""

# KEYS[1]: U:l. ARGV: run. Answer: how many pages were known before it and are linked.
N_LINKED = "return redis.call('ZCOUNT', KEYS[1], ARGV[1], ARGV[1])"

# KEYS[1]: U:m, which only its run needed.
FORGET = "return redis.call('DEL', KEYS[1])"

# KEYS[1]: U:l. ARGV: two runs, between which a link to pages was found last; how many to pass over,
# and to look at. Answer: how many were looked at, of how many of these something is known. Others
# have expired or were forgotten, and are taken out.
N_UNLINKED = (
    _PAGES
    + """
local n, pages = 0, redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '(' .. ARGV[2], 'LIMIT',
  ARGV[3], ARGV[4])
for _, page in ipairs(pages) do
  if redis.call('EXISTS', of(page)) == 1 then n = n + 1 else redis.call('ZREM', KEYS[1], page) end
end
return {#pages, n}
"""
)

# KEYS[1], ARGV: as above. Answer: of each page itself, then fields and values of its hash.
UNLINKED = (
    _PAGES
    + """
local answer = {}
for _, page in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '(' .. ARGV[2], 'LIMIT',
    ARGV[3], ARGV[4])) do
  answer[#answer + 1] = {page, unpack(redis.call('HGETALL', of(page)))}
end
return answer
"""
)

# KEYS[1]: U:l. ARGV: run, 'd' + spider, milliseconds after which visits are forgotten (0: never),
# page, the list of changes, milliseconds for which it is kept, name and value of the change; U:m, a
# number of workers, and of each its field there and the number of its last message; then of each
# reader its field, how its record begins, and the record that says that the page has left. Answer:
# whether it has. Not if it was linked, read or completed since, in whatever run, nor if the server
# has forgotten a message: it was restored, or failed over to a replica that lagged behind.
LEFT = (
    _PAGES
    + """
local run, page, hash = tonumber(ARGV[1]), ARGV[4], of(ARGV[4])
local last = redis.call('ZSCORE', KEYS[1], page)
if not last or tonumber(last) >= run then return 0 end
if tonumber(redis.call('HGET', hash, ARGV[2]) or '0') >= run then return 0 end
local first = 11 + 2 * ARGV[10]
for i = 11, first - 1, 2 do
  if tonumber(redis.call('HGET', ARGV[9], ARGV[i]) or '0') < tonumber(ARGV[i + 1]) then return 0 end
end
for i = first, #ARGV, 3 do
  local known = redis.call('HGET', hash, ARGV[i])
  if not known or string.sub(known, 1, #ARGV[i + 1]) ~= ARGV[i + 1] then return 0 end
end
for i = first, #ARGV, 3 do redis.call('HSET', hash, ARGV[i], ARGV[i + 2]) end
if tonumber(ARGV[3]) > 0 then redis.call('PEXPIRE', hash, ARGV[3]) end
redis.call('ZREM', KEYS[1], page)
redis.call('HSET', ARGV[5], ARGV[7], ARGV[8])
redis.call('PEXPIRE', ARGV[5], ARGV[6])
return 1
"""
)
