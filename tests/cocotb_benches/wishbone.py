"""simhash_wishbone.v in a simulator: documents and registers over a Wishbone bus."""

import json
import os
from random import Random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from scrapy_neardup.engines.fpga.core import SimHashCore
from scrapy_neardup.engines.fpga.design import Design
from scrapy_neardup.engines.fpga.stream import Beat, beats

IDENTITY, CONTROL, STATUS, KEY_LOW, KEY_HIGH, DOCUMENTS = 0x00, 0x08, 0x0C, 0x10, 0x14, 0x24
DATA_LOW, DATA_HIGH, SEND, WAITING = 0x40, 0x44, 0x48, 0x4C
RESULT_LOW, RESULT_HIGH, RESULT_TAG = 0x50, 0x54, 0x58

design = Design(**json.loads(os.environ["NEARDUP_DESIGN"]))


class Refused(Exception):
    """The core answered `err`."""


class Bus:
    """A Wishbone host that holds each transfer until it is answered."""

    def __init__(self, dut) -> None:  # type: ignore[no-untyped-def]
        self.dut = dut
        cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
        dut.cyc.value = dut.stb.value = 0
        dut.sel.value = 0xF

    async def start(self) -> None:
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 3)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 3)
        await self.write(KEY_LOW, design.key & 0xFFFFFFFF)
        await self.write(KEY_HIGH, design.key >> 32)

    async def transfer(self, address: int, data: int | None) -> int:
        dut = self.dut
        dut.adr.value, dut.we.value, dut.dat_w.value = address, data is not None, data or 0
        dut.cyc.value = dut.stb.value = 1
        while True:
            await RisingEdge(dut.clk)
            if dut.ack.value == 1 or dut.err.value == 1:
                break
        refused, read = dut.err.value == 1, dut.dat_r.value
        dut.cyc.value = dut.stb.value = 0
        await RisingEdge(dut.clk)
        if refused:
            raise Refused
        return int(read)

    async def write(self, address: int, data: int) -> None:
        await self.transfer(address, data)

    async def read(self, address: int) -> int:
        return await self.transfer(address, None)

    async def is_refused(self, address: int, data: int | None) -> bool:
        try:
            await self.transfer(address, data)
        except Refused:
            return True
        return False

    async def send(self, beat: Beat) -> None:
        value = int.from_bytes(beat.data, "little")
        await self.write(DATA_LOW, value & 0xFFFFFFFF)
        await self.write(DATA_HIGH, value >> 32)
        await self.write(SEND, beat.keep | beat.last << 8 | beat.id << 16)

    async def result(self) -> tuple[int, int]:
        """Tag and fingerprint of the next result, once one waits."""
        while not await self.read(WAITING):
            pass
        value = await self.read(RESULT_LOW) | await self.read(RESULT_HIGH) << 32
        return await self.read(RESULT_TAG), value


def expected(text: bytes) -> int | None:
    core = SimHashCore(design)
    for char in text:
        core.consume(char)
    return core.consume(0)


@cocotb.test()
async def documents_are_answered_with_their_ids(dut) -> None:  # type: ignore[no-untyped-def]
    bus, random = Bus(dut), Random(1)
    await bus.start()
    texts = {id: random.randbytes(random.choice([0, 5, 8, 30])).replace(b"\0", b" ") for id in
             random.sample(range(256), 12)}  # fmt: skip
    for id, text in texts.items():
        for beat in beats(text, id):
            await bus.send(beat)
    found = dict([await bus.result() for _ in texts])
    assert found == {id: expected(text) for id, text in texts.items()}
    assert await bus.read(WAITING) == 0
    assert await bus.read(DOCUMENTS) == len(texts)


@cocotb.test()
async def what_cannot_be_done_is_refused(dut) -> None:  # type: ignore[no-untyped-def]
    bus = Bus(dut)
    await bus.start()
    assert await bus.read(IDENTITY) == 0x4E445550
    assert await bus.is_refused(RESULT_TAG, None)
    assert await bus.is_refused(IDENTITY, 1)
    await bus.send(Beat(b"under wa", 0xFF, False, 1))
    assert await bus.read(STATUS) == 1
    assert await bus.is_refused(KEY_LOW, 1)
    await bus.write(CONTROL, 1)
    await ClockCycles(dut.clk, 3)
    assert await bus.read(STATUS) == 0
    assert not await bus.is_refused(KEY_LOW, 1)


@cocotb.test()
async def reset_takes_a_waiting_result_away_at_once(dut) -> None:  # type: ignore[no-untyped-def]
    """The transfer comes in the first cycle after reset, in which the engine still is reset."""
    bus = Bus(dut)
    await bus.start()
    await bus.send(Beat(b"gone    ", 0xFF, True, 3))
    while not await bus.read(WAITING):
        pass
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    assert await bus.is_refused(RESULT_TAG, None)
    assert await bus.read(WAITING) == 0
