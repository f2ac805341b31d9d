"""Whether the server's user may run every command of our scripts.

A script that is refused in the middle keeps what it wrote before, so this is asked before the first
of them writes.
"""

from __future__ import annotations

import re
from functools import partial
from types import ModuleType

from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet.protocol import Call, fleet

_COMMAND = re.compile(r"\bcall\('([A-Z]+)'")  # no pcall: what that tries can be done without

# KEYS[1]: a key of the fleet. ARGV: names of commands. Answer: those that may not be run. Redis 6
# cannot tell. There are as many arguments as any of the commands needs: where EVAL had too few,
# Redis 7.0.15 looked for keys behind them, and crashed.
_FORBIDDEN = """
local key, forbidden = KEYS[1], {}
for _, name in ipairs(redis.acl_check_cmd and ARGV or {}) do
  local is_known, may = pcall(redis.acl_check_cmd, name, key, key, key, key)
  if not (is_known and may) then forbidden[#forbidden + 1] = name end
end
return forbidden
"""


def commands_of(*modules: ModuleType) -> list[str]:
    """The commands without which the scripts of some modules fail."""
    texts = (text for module in modules for text in vars(module).values() if isinstance(text, str))
    return sorted({command for text in texts for command in _COMMAND.findall(text)})


def ask_for(prefix: str, commands: list[str]) -> Call:
    """Whether the user may run some commands. Raises FleetError, which names those it may not."""
    return Call(_FORBIDDEN, fleet(prefix).key, tuple(commands), partial(_check, commands))


def _check(commands: list[str], answer: list[bytes]) -> bool:
    forbidden = [name.lower() for name in commands if name.encode() in answer]
    if forbidden:
        raise FleetError(
            f"the user of NEARDUP_BACKEND may not run all commands that its workers need: "
            f"ACL SETUSER <user> +{' +'.join(forbidden)}. The handbook's page 'A fleet of workers' "
            f"lists all, under 'Permissions'"
        )
    return True
