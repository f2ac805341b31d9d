"""Visits of a fleet's pages on the server: Lua scripts, each atomic, each with bounded work.

    {PREFIX:u:N}:v:SITE:KEY  a URL's hash, in the slot of the site's URLs:
                             r + reader → record, see visit_records.py
                             d + spider → the run that completed the page last
    {PREFIX:u:N}:v:SITE:KEY:h  what a sitemap says of the URL; expires
    {PREFIX}:run:SPIDER      run, over ('1' once a worker has ended it), workers (their number),
                             began (the server's clock; the run may be later, where that went
                             back), open (workers of earlier runs that had not ended when it began),
                             mixed ('1' where such a worker was at work meanwhile)
    {PREFIX}:run:SPIDER:RUN  and {PREFIX:u:N}:c:SPIDER:RUN: see change_log.py
    {PREFIX}:noise:SPIDER    worker → its run (a double), then what it learnt
    {PREFIX}:hosts:SPIDER    host → how far its validators were right
    {PREFIX}:rates:SPIDER    's' + shape of URLs, or 'd' + host → sums, three doubles: of how often
                             pages changed; of how often a sitemap's dates were right
    {PREFIX:u:N}:l:SPIDER  and others that tell what is linked: see unlinked_scripts.py
    {PREFIX}:rates:SPIDER:WORKER  the last message of a worker that is in these sums; expires

A run is a time of the server's clock in milliseconds. So those after a loss of data are newer, too.
"""

from scrapy_neardup.fleet.unlinked_scripts import ALIVE, MARKING
from scrapy_neardup.state.visit_file import Status

LOG_MS = 30 * 86_400_000  # for which it is kept what changed in a run

# KEYS[1]: the run of a spider. ARGV: worker. Answer: the run that a worker which starts takes part
# in. A new one once a worker has ended the last: if all were killed, that goes on.
BEGIN = (
    ALIVE
    + """
-- Workers of the last run that have not ended, and those of the runs before it that may go on.
local function left_open(run)
  local found, ends = {}, redis.call('HGETALL', KEYS[1] .. ':' .. string.format('%.0f', run))
  local function note(worker)
    if is_alive(worker) or redis.call('EXISTS', of(worker, ':since:')) == 1 then
      found[#found + 1] = worker
    end
  end
  for i = 1, #ends, 2 do if ends[i + 1] == '' then note(ends[i]) end end
  for worker in string.gmatch(redis.call('HGET', KEYS[1], 'open') or '', '%x+') do note(worker) end
  return table.concat(found, ' ')
end

local run = tonumber(redis.call('HGET', KEYS[1], 'run') or '0')
if run == 0 or redis.call('HGET', KEYS[1], 'over') == '1' then
  local open, time = left_open(run), redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  run = math.max(run + 1, now)
  redis.call('HSET', KEYS[1], 'run', string.format('%.0f', run), 'over', '0', 'workers', '0',
    'open', open, 'mixed', any_at_work(open, now) and '1' or '0',
    'began', string.format('%.0f', now))
end
local members = KEYS[1] .. ':' .. string.format('%.0f', run)
if redis.call('HSET', members, ARGV[1], '') == 1 then
  local n = tonumber(redis.call('HGET', KEYS[1], 'workers') or '0')
  redis.call('HSET', KEYS[1], 'workers', n + 1)
end
"""
    + f"redis.call('PEXPIRE', members, {LOG_MS})"
    + """
return string.format('%.0f', run)
"""
)

# ARGV: the run that a worker has ended, worker, how it ended.
END = """
redis.call('HSET', KEYS[1] .. ':' .. ARGV[1], ARGV[2], ARGV[3])
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then
  local open = string.gsub(redis.call('HGET', KEYS[1], 'open') or '', ARGV[2], '')
  redis.call('HSET', KEYS[1], 'open', open, 'mixed', '1')
  return 0
end
redis.call('HSET', KEYS[1], 'over', '1')
return 1
"""

# KEYS[1]: how the hashes of a site's URLs begin. What is told of a page: of each reader its eight
# bytes, the status and the version.
_PAGE = """
local function of(key) return KEYS[1] .. ':' .. key end
local function told(fields)
  local found = {}
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 1) == 'r' then
      found[#found + 1] = string.sub(fields[i], 2) .. string.sub(fields[i + 1], 13, 21)
    end
  end
  return table.concat(found)
end
"""

# ARGV: key, reader, spider, run, name of the spider. Answer: whether the run is done with the page;
# its record, or ''; what a sitemap says of it, or ''; what is told of the page, and of each page
# for which items of it were dropped. The page counts as linked from now on, so that no other run
# that ends meanwhile calls it gone; a full server answers all the same.
VISITED = (
    _PAGE
    + MARKING
    + """
pcall(linked, ARGV[5], ARGV[1], tonumber(ARGV[4]))
local fields, done, record = redis.call('HGETALL', of(ARGV[1])), 0, ''
for i = 1, #fields, 2 do
  if fields[i] == 'r' .. ARGV[2] then record = fields[i + 1] end
  if fields[i] == 'd' .. ARGV[3] and fields[i + 1] == ARGV[4] then done = 1 end
end
local answer = {done, record, redis.call('GET', of(ARGV[1]) .. ':h') or '', told(fields)}
if record ~= '' then
  for at = 24, 24 * struct.unpack('>H', record, 22), 24 do
    answer[#answer + 1] = told(redis.call('HGETALL', of(string.sub(record, at, at + 15))))
  end
end
return answer
"""
)

# ARGV: key. Answer: what is told of the page.
VERSIONS = _PAGE + "return told(redis.call('HGETALL', of(ARGV[1])))"

# ARGV: key, reader, run, record, milliseconds after which it is forgotten (0: never), name of the
# spider, how the record begins that the page was compared with, or ''. Answer: '' if it was
# written, else the record that stands: of a run that of the worker which wrote first, and kept
# items, unless the page was compared with that. One of a page whose items were dropped for others'
# does not stand: if that worker died, those others may have been under way, and the next keeps it.
PUT = (
    _PAGE
    + MARKING
    + f"local GONE = {int(Status.GONE)}"
    + """
local page, field, run = of(ARGV[1]), 'r' .. ARGV[2], tonumber(ARGV[3])
local known = redis.call('HGET', page, field)
if known then
  local its = struct.unpack('>d', known)
  local is_ours = string.sub(known, 9, 12) == string.sub(ARGV[4], 9, 12)
  local is_kept = struct.unpack('>H', known, 22) == 0
  local was_known = ARGV[7] ~= '' and string.sub(known, 1, #ARGV[7]) == ARGV[7]
  local stands = its == run and is_kept and not is_ours and not was_known
  if its > run or stands then return known end
end
redis.call('HSET', page, field, ARGV[4])
if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', page, ARGV[5]) end
if string.byte(ARGV[4], 13) < GONE then stands(ARGV[6], ARGV[1], run)
else redis.call('ZREM', place(ARGV[6], ARGV[1])) end
return ''
"""
)

_READ_SINCE = (
    _PAGE
    + f"local GONE = {int(Status.GONE)}"
    + """
-- Whether a worker of a run, or of a later one, has read a page, or completed it.
local function is_read(page, reader, spider, run)
  local done, known = unpack(redis.call('HMGET', page, 'd' .. spider, 'r' .. reader))
  if tonumber(done or '0') >= run then return true end
  if not known then return false end
  return struct.unpack('>d', known) >= run and string.byte(known, 13) < GONE
end
"""
)

# ARGV: key, reader, spider, run. Answer: whether a worker has read the page in that run.
IS_READ = (
    _READ_SINCE + "return is_read(of(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])) and 1 or 0"
)

# ARGV: key, reader, spider, run, the record that says that the page has left, milliseconds after
# which it is forgotten (0: never), name of the spider; the list of changes, milliseconds for which
# it is kept, name and value of the change. Answer: whether the page has left: not if another worker
# has read it in that run.
LEAVE = (
    _READ_SINCE
    + MARKING
    + """
local page = of(ARGV[1])
if is_read(page, ARGV[2], ARGV[3], tonumber(ARGV[4])) then return 0 end
redis.call('HSET', page, 'r' .. ARGV[2], ARGV[5])
if tonumber(ARGV[6]) > 0 then redis.call('PEXPIRE', page, ARGV[6]) end
redis.call('ZREM', place(ARGV[7], ARGV[1]))
redis.call('HSET', ARGV[8], ARGV[10], ARGV[11])
redis.call('PEXPIRE', ARGV[8], ARGV[9])
return 1
"""
)

# ARGV: key, spider, run, milliseconds as above. Answer: whether it was the newest run.
DONE = (
    _PAGE
    + """
local page, field = of(ARGV[1]), 'd' .. ARGV[2]
if tonumber(redis.call('HGET', page, field) or '0') > tonumber(ARGV[3]) then return 0 end
redis.call('HSET', page, field, ARGV[3])
if tonumber(ARGV[4]) > 0 then redis.call('PEXPIRE', page, ARGV[4]) end
return 1
"""
)

# ARGV: of each page its key, what a sitemap says of it, milliseconds after which that is forgotten.
HINT = (
    _PAGE
    + """
local answers = {}
for i = 1, #ARGV, 3 do
  redis.call('SET', of(ARGV[i]) .. ':h', ARGV[i + 1], 'PX', ARGV[i + 2])
  answers[#answers + 1] = 1
end
return answers
"""
)

# KEYS[1]: what changed in a run. ARGV: of each change its name, and what is told of it; '': it did
# not happen.
LOG = (
    """
local answers = {}
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then redis.call('HDEL', KEYS[1], ARGV[i])
  else redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
  answers[#answers + 1] = 1
end
"""
    + f"redis.call('PEXPIRE', KEYS[1], {LOG_MS})\nreturn answers"
)

# KEYS[1]: sums by name. ARGV: a worker, the number of its message, milliseconds for which that is
# remembered, a name, and what to add to its three sums. A message that comes twice counts once.
ADD = """
local last = KEYS[1] .. ':' .. ARGV[1]
if tonumber(redis.call('GET', last) or '0') >= tonumber(ARGV[2]) then return 0 end
redis.call('SET', last, ARGV[2], 'PX', ARGV[3])
local known, sums = redis.call('HGET', KEYS[1], ARGV[4]), {0, 0, 0}
if known and #known == 24 then sums = {struct.unpack('>ddd', known)} end
for i = 1, 3 do sums[i] = sums[i] + tonumber(ARGV[i + 4]) end
redis.call('HSET', KEYS[1], ARGV[4], struct.pack('>ddd', sums[1], sums[2], sums[3]))
return 1
"""

# ARGV: worker, run as eight bytes, what it learnt. All workers of this run know what was learnt in
# those before it, so that is forgotten.
LEARNT = """
local fields, run = redis.call('HGETALL', KEYS[1]), struct.unpack('>d', ARGV[2])
for i = 1, #fields, 2 do
  if struct.unpack('>d', fields[i + 1]) < run then redis.call('HDEL', KEYS[1], fields[i]) end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ARGV[3])
return 1
"""

# KEYS[1]: hosts → how often a page had changed under the same validator, and how many unchanged
# ones had another, in a row. ARGV: a host, and both numbers. The first never falls.
JUDGED = """
local known = redis.call('HGET', KEYS[1], ARGV[1])
local refuted = known and tonumber(string.match(known, '^%d+')) or 0
local most = math.max(refuted, tonumber(ARGV[2]))
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d', most) .. ' ' .. ARGV[3])
return 1
"""

WHOLE = "return redis.call('HGETALL', KEYS[1])"
