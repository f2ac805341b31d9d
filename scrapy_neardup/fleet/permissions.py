"""Whether the server's user may run every command of our scripts.

A script that is refused in the middle keeps what it wrote before. So a worker asks before its first
script writes, and a script that would leave half of something asks itself, for a permission may be
taken away while a crawl runs.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from types import ModuleType

from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet.protocol import Call, fleet

_COMMAND = re.compile(r"\bcall\('([A-Z]+)'")  # no pcall: what that tries can be done without

# The commands among some that may not be run. Redis 6 cannot tell. There are as many arguments as
# any needs: where EVAL had too few, Redis 7.0.15 looked for keys behind them, and crashed.
_FORBIDDEN = """
local function forbidden(names)
  local key, found = KEYS[1], {}
  for _, name in ipairs(redis.acl_check_cmd and names or {}) do
    local is_known, may = pcall(redis.acl_check_cmd, name, key, key, key, key)
    if not (is_known and may) then found[#found + 1] = name end
  end
  return found
end
"""

# KEYS[1]: a key of the fleet. ARGV: names of commands. Answer: those that may not be run.
_ASK = _FORBIDDEN + "return forbidden(ARGV)"

# What makes a script one that is refused before it writes.
_GUARD = """
local lacks = forbidden({%s})
if lacks[1] then return redis.error_reply('NOPERM may not run ' .. table.concat(lacks, ' ')) end
"""


# What servers and our guard say of a command or a key that the user may not use.
_FORBIDDING = re.compile(r"\bmay not run\b|\bno permissions?\b|\bcan't (run|access)\b")


def is_forbidden(error: Exception) -> bool:
    """Whether a server refused something for want of a permission."""
    return _FORBIDDING.search(str(error)) is not None


def commands_of(*modules: ModuleType) -> list[str]:
    """The commands without which the scripts of some modules fail."""
    texts = (text for module in modules for text in vars(module).values() if isinstance(text, str))
    return _commands_in("".join(texts))


def _commands_in(text: str) -> list[str]:
    return sorted(set(_COMMAND.findall(text)))


@lru_cache(maxsize=64)
def whole(script: str) -> str:
    """A script that does all it does, or nothing if the user may not run all its commands."""
    names = ",".join(f"'{name}'" for name in _commands_in(script))
    return _FORBIDDEN + _GUARD % names + script


def ask_for(prefix: str, commands: list[str]) -> Call:
    """Whether the user may run some commands. Raises FleetError, which names those it may not."""
    return Call(_ASK, fleet(prefix).key, tuple(commands), partial(_check, commands))


def _check(commands: list[str], answer: list[bytes]) -> bool:
    forbidden = [name.lower() for name in commands if name.encode() in answer]
    if forbidden:
        raise FleetError(
            f"the user of NEARDUP_BACKEND may not run all commands that its workers need: "
            f"ACL SETUSER <user> +{' +'.join(forbidden)}. The handbook's page 'A fleet of workers' "
            f"lists all, under 'Permissions'"
        )
    return True
