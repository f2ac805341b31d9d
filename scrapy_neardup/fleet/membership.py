"""Whether a worker still belongs to the fleet it joined: one hash on the server, read each beat.

The hash holds the fleet's secret, its specification and an epoch: EPOCH_BYTES of the
specification's digest, which names the secret's id as well, then as many random ones of whoever
wrote the hash. What a heartbeat finds:

- the epoch that it knows: nothing has happened;
- none: the server lost its data. The worker writes the hash again, secret included, so that those
  who come later join the same fleet;
- the same specification with other random bytes: another worker did that already. In both cases
  the worker tells the server again what it knows;
- another specification: somebody joined before it was written again, and drew another secret.
  Under another secret no fingerprint means the same, so the worker leaves.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from hashlib import blake2b
from secrets import token_bytes
from typing import Any

from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet.protocol import Call, beat, join

logger = logging.getLogger(__name__)

EPOCH_BYTES = 8


class OtherFleet(FleetError):
    """The server holds another fleet under the same prefix."""


class Membership:
    """One worker's place in its fleet.

    Its answers are read on the link's thread. It holds no reference to the worker.

    prefix      NEARDUP_BACKEND_PREFIX
    lost_data   whether the server has lost what it was told; reset by whoever tells it again
    n_restored  how often that was noticed
    epoch       of the fleet on the server; None until that has answered
    """

    def __init__(self, prefix: str, secret: str, identity: Mapping[str, Any]) -> None:
        """secret: what the server is to keep; "" if all workers bring it along."""
        self.prefix = prefix
        self._secret = secret
        self._identity = json.dumps(dict(identity), sort_keys=True)
        self._digest = blake2b(self._identity.encode(), digest_size=EPOCH_BYTES).digest()
        self.epoch: bytes | None = None
        self.lost_data = False
        self.n_restored = 0
        self.ask: Callable[[Call], Any] | None = None  # how to call the server from a beat

    def join(self) -> Call:
        """Write the fleet's hash, unless there is one; reads it either way. Raises OtherFleet."""
        epoch = self._digest + token_bytes(EPOCH_BYTES)
        return join(self.prefix, self._secret, self._identity, epoch, self.found)

    def beat(self, worker: bytes) -> Call:
        """Renew the worker's lease, and read the hash. Raises OtherFleet."""
        return beat(self.prefix, worker, self._digest, self._heard)

    def _heard(self, epoch: bytes, identity: bytes) -> bool:
        if epoch:
            return self.found(epoch, identity)
        if self.ask is not None:
            self.ask(self.join())
        return False

    def found(self, epoch: bytes, identity: bytes) -> bool:
        """The fleet's hash, as it is now. Raises OtherFleet if it is of another fleet."""
        if epoch[:EPOCH_BYTES] != self._digest:
            raise OtherFleet(
                f"the fleet under NEARDUP_BACKEND_PREFIX={self.prefix!r} has another "
                f"specification: {differences(json.loads(identity), json.loads(self._identity))}. "
                f"Give all workers the same settings and the same version of scrapy-neardup, or "
                f"another prefix"
            )
        if self.epoch not in (None, epoch):
            self._note_loss()
        self.epoch = epoch
        return True

    def _note_loss(self) -> None:
        self.n_restored += 1
        self.lost_data = True
        logger.warning(
            "neardup: the server of NEARDUP_BACKEND lost what the fleet under "
            "NEARDUP_BACKEND_PREFIX=%r had told it. This worker tells it again of the pages it "
            "knows; URLs that others fetched may be fetched again",
            self.prefix,
        )


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """In what two specifications differ, with both values."""
    return ", ".join(
        f"{part} is {theirs.get(part)!r} there and {ours.get(part)!r} here"
        for part in sorted({*theirs, *ours})
        if theirs.get(part) != ours.get(part)
    )
