"""simhash_axi.v in a simulator: every cycle is the model's, and every value the reference's.

The environment says what is built and how much is sent: NEARDUP_DESIGN is the design as JSON,
NEARDUP_SEED and NEARDUP_DOCUMENTS whole numbers.
"""

import json
import os
from itertools import cycle
from random import Random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from scrapy_neardup.engines.fpga.core import SimHashCore
from scrapy_neardup.engines.fpga.design import Design
from scrapy_neardup.engines.fpga.packaging import REGISTERS
from scrapy_neardup.engines.fpga.stream import (
    ALL_BYTES,
    BAD_KEEP,
    HAS_NUL,
    TOO_LONG,
    Answer,
    Beat,
    StreamCore,
    beats,
)
from scrapy_neardup.engines.fpga.verilog import MIXER_CODES, parameters

ADDRESS = {name: offset for name, (offset, _) in REGISTERS.items()}

design = Design(**json.loads(os.environ.get("NEARDUP_DESIGN", "{}")))
seed = int(os.environ.get("NEARDUP_SEED", "1"))
n_documents = int(os.environ.get("NEARDUP_DOCUMENTS", "40"))


def expected(text: bytes) -> int:
    """The fingerprint of a text whose NULs are spaces, by the core that takes single characters."""
    core = SimHashCore(design)
    for char in text.replace(b"\0", b" "):
        core.consume(char)
    fingerprint = core.consume(0)
    assert fingerprint is not None
    return fingerprint


QUEUE_BYTES = 16 * 8  # that may wait for a lane
LONGEST = 2**design.counter_bits - 2  # bytes of a text that the counters can certainly count
SIZES = [0, 1, 6, 7, 8, 9, 15, 16, 17, 24, 40, 90, 250]


def random_text(random: Random) -> bytes:
    letters = b"ab\xff  c" + b"\0" * (random.random() < 0.1)
    return bytes(random.choices(letters, k=random.choice(SIZES)))


class Sent:
    """A document on its way: its beats, and what has to come back."""

    def __init__(self, id: int, text: bytes, random: Random) -> None:
        self.text = text
        self.flags = HAS_NUL * (b"\0" in text) | TOO_LONG * (len(text) > LONGEST)
        self.id = id
        self.beats = [self._with_garbage(beat, random) for beat in beats(text, id)]

    @classmethod
    def at_random(cls, id: int, random: Random) -> "Sent":
        one = cls(id, random_text(random), random)
        if random.random() < 0.05:
            one._spoil(random)
        return one

    def _with_garbage(self, beat: Beat, random: Random) -> Beat:
        """Bytes that tkeep leaves out may be anything."""
        n_bytes = beat.keep.bit_count()
        return beat._replace(data=beat.data[:n_bytes] + random.randbytes(8 - n_bytes))

    def _spoil(self, random: Random) -> None:
        """Leave out a byte where none may be missing."""
        i = random.randrange(len(self.beats))
        hole = 0xFF - (1 << random.randrange(8 if not self.beats[i].last else 7))
        self.beats[i] = self.beats[i]._replace(keep=hole)
        self.flags = BAD_KEEP


class Bench:
    """The core with its clock, and a monitor that steps the model beside it."""

    def __init__(self, dut) -> None:  # type: ignore[no-untyped-def]
        self.dut = dut
        self.random = Random(seed)
        self.answers: list[Answer] = []
        self.n_accepted = 0
        self.n_cycles = 0
        cocotb.start_soon(Clock(dut.aclk, 10, "ns").start())
        for name in ("s_axis_tvalid", "m_axis_tready", "s_axil_awvalid", "s_axil_wvalid",
                     "s_axil_bready", "s_axil_arvalid", "s_axil_rready", "aresetn"):  # fmt: skip
            getattr(dut, name).value = 0

    async def start(self) -> None:
        """Out of reset; from here the monitor compares every cycle."""
        await ClockCycles(self.dut.aclk, 3)
        self.dut.aresetn.value = 1
        self.model = StreamCore(design)
        cocotb.start_soon(self.monitor())

    async def monitor(self) -> None:
        dut = self.dut
        while True:
            await RisingEdge(dut.aclk)  # what is read is of the cycle that ends
            if dut.core.engine_rst.value == 1:
                assert dut.s_axis_tready.value == 0
                assert dut.m_axis_tvalid.value == 0
                self.model = StreamCore(design)
                continue
            self.n_cycles += 1
            self.compare()
            taken = bool(dut.m_axis_tready.value)
            if self.model.answer is not None and taken:
                self.answers.append(self.model.answer)
            beat = self.offered()
            self.n_accepted += beat is not None and self.model.ready
            self.model.clock(beat, taken)

    def compare(self) -> None:
        """Every output of the core against the model's."""
        dut, model = self.dut, self.model
        signals = (dut.s_axis_tready, dut.m_axis_tvalid, dut.core.busy, dut.core.blocked,
                   dut.core.lost)  # fmt: skip
        shown = tuple(int(signal.value) for signal in signals)
        right = (model.ready, model.answer is not None, model.busy, model.blocked, False)
        assert shown == right, f"cycle {self.n_cycles}: {shown} instead of {right}"
        if model.answer is not None:
            values = (dut.m_axis_tdata, dut.m_axis_tid, dut.m_axis_tuser)
            answer = Answer(*(int(signal.value) for signal in values))
            assert answer == model.answer, f"cycle {self.n_cycles}"
            assert (dut.m_axis_tkeep.value, dut.m_axis_tlast.value) == (ALL_BYTES, 1)

    def offered(self) -> Beat | None:
        dut = self.dut
        if dut.s_axis_tvalid.value == 0:
            return None
        data = int(dut.s_axis_tdata.value).to_bytes(8, "little")
        keep, last = int(dut.s_axis_tkeep.value), bool(dut.s_axis_tlast.value)
        return Beat(data, keep, last, int(dut.s_axis_tid.value))

    async def send(self, documents: list[Sent], pause: float) -> None:
        """Send documents, up to as many interleaved as there are lanes; stop at a reset."""
        waiting, open = iter(documents), []
        while True:
            while len(open) < len(self.model.lanes):
                one = next(waiting, None)
                if one is None:
                    break
                open.append(iter(one.beats))
            if not open:
                break
            await self.wait(pause)
            beats_of_one = self.random.choice(open)
            beat = next(beats_of_one)
            if beat.last:
                open.remove(beats_of_one)
            if not await self.put(beat):
                return

    async def put(self, beat: Beat) -> bool:
        """Offer a beat until it is taken; garbage stands on the bus between beats."""
        dut = self.dut
        dut.s_axis_tdata.value = int.from_bytes(beat.data, "little")
        dut.s_axis_tkeep.value, dut.s_axis_tlast.value = beat.keep, beat.last
        dut.s_axis_tid.value, dut.s_axis_tvalid.value = beat.id, 1
        while True:
            await RisingEdge(dut.aclk)
            ready, reset = dut.s_axis_tready.value == 1, dut.core.engine_rst.value == 1
            if ready or reset:
                break
        dut.s_axis_tvalid.value = 0
        dut.s_axis_tdata.value = self.random.getrandbits(64)
        dut.s_axis_tkeep.value, dut.s_axis_tlast.value = self.random.getrandbits(8), 1
        return not reset

    async def wait(self, pause: float) -> None:
        while self.random.random() < pause:
            await RisingEdge(self.dut.aclk)

    async def receive(self, pause: float) -> None:
        """Take results, or not, for ever."""
        while True:
            self.dut.m_axis_tready.value = self.random.random() >= pause
            await RisingEdge(self.dut.aclk)

    async def until_idle(self) -> None:
        while self.model.busy or self.dut.s_axis_tvalid.value == 1:
            await RisingEdge(self.dut.aclk)

    def check(self, documents: list[Sent], answers: list[Answer]) -> None:
        """Each document was answered once, with its own id, flags and fingerprint."""
        found = {answer.id: answer for answer in answers}
        assert len(found) == len(answers) == len(documents)
        for one in documents:
            flags = found[one.id].flags
            if one.flags == BAD_KEEP:  # of bytes behind a hole no flag says anything
                assert flags & BAD_KEEP, one.text
                continue
            assert flags == one.flags, one.text
            if not flags & TOO_LONG:
                assert found[one.id].fingerprint == expected(one.text), one.text


def documents(random: Random, n: int = n_documents) -> list[Sent]:
    """As many documents as ids can tell apart, at most."""
    return [Sent.at_random(id, random) for id in random.sample(range(256), min(n, 256))]


async def started(dut) -> tuple[Bench, AxiLiteMaster]:  # type: ignore[no-untyped-def]
    """The bench out of reset, with the design's key and mixer in the registers."""
    bench = Bench(dut)
    registers = AxiLiteMaster(
        AxiLiteBus.from_prefix(dut, "s_axil"), dut.aclk, dut.aresetn, reset_active_level=False
    )
    await bench.start()
    await ClockCycles(dut.aclk, 3)
    await set_up(registers)
    return bench, registers


async def set_up(registers: AxiLiteMaster) -> None:
    await write(registers, ADDRESS["KEY_LOW"], design.key & 0xFFFFFFFF)
    await write(registers, ADDRESS["KEY_HIGH"], design.key >> 32)
    if design.selectable:
        await write(registers, ADDRESS["MIXER"], MIXER_CODES[design.mixer])


async def write(
    registers: AxiLiteMaster, address: int, value: int, response: AxiResp = AxiResp.OKAY
) -> None:
    """A write, and the response that has to come."""
    assert (await registers.write(address, value.to_bytes(4, "little"))).resp == response


@cocotb.test()
async def random_traffic_is_the_models_cycle_by_cycle(dut) -> None:  # type: ignore[no-untyped-def]
    bench, registers = await started(dut)
    sent = []
    for send_pause, receive_pause in ((0.0, 0.0), (0.5, 0.3), (0.0, 0.9)):
        before = len(bench.answers)
        batch = documents(bench.random, n_documents // 3 + 1)
        receiver = cocotb.start_soon(bench.receive(receive_pause))
        await bench.send(batch, send_pause)
        await bench.until_idle()
        receiver.cancel()
        bench.check(batch, bench.answers[before:])
        sent += batch
    counts = [
        await registers.read_dword(at)
        for at in (ADDRESS["DOCUMENTS"], ADDRESS["RESULTS"], ADDRESS["LANE_STALLS"])
    ]
    assert counts == [len(sent), len(sent), bench.model.n_lane_stalls]


def edges() -> list[bytes]:
    """Texts at the limits of beats, queues, the floor and the counters."""
    sizes = [0, 1, 6, 7, 8, 9, *(QUEUE_BYTES + n for n in (-8, -1, 0, 1, 7, 8))]
    if LONGEST < 1000:
        sizes += [LONGEST + n for n in (-8, -1, 0, 1, 2, 8)]
    letters = [b"ab c" * (size // 4) + b"d" * (size % 4) for size in sizes]
    empties = [b"\0" * n for n in (1, 7, 8, 9)] + [b" " * n for n in (7, 8, 9)]
    return letters + empties + [b"", b"", b"a\0", b"\0a", b"words \0", b"\xff" * 8]


@cocotb.test()
async def texts_at_every_limit_are_answered_with_ids_that_wrap(dut) -> None:  # type: ignore[no-untyped-def]
    """Back to back, for a receiver that takes all, and for one that first takes nothing."""
    bench, _ = await started(dut)
    batch = [Sent((240 + i) % 256, text, bench.random) for i, text in enumerate(edges())]
    for wait in (0, 2500):
        before = len(bench.answers)
        sender = cocotb.start_soon(bench.send(batch, 0.0))
        await ClockCycles(dut.aclk, wait + 1)
        receiver = cocotb.start_soon(bench.receive(0.0))
        await sender
        await bench.until_idle()
        receiver.cancel()
        dut.m_axis_tready.value = 0
        bench.check(batch, bench.answers[before:])


@cocotb.test()
async def documents_that_share_an_id_are_all_answered(dut) -> None:  # type: ignore[no-untyped-def]
    """One after the other; which of them an answer is of, ids then cannot tell."""
    bench, _ = await started(dut)
    batch = [Sent(7, random_text(bench.random), bench.random) for _ in range(20)]
    cocotb.start_soon(bench.receive(0.2))
    for one in batch:
        for beat in one.beats:
            await bench.put(beat)
    await bench.until_idle()
    assert {answer.id for answer in bench.answers} == {7}
    found = sorted(a.fingerprint for a in bench.answers if not a.flags & TOO_LONG)
    assert found == sorted(expected(one.text) for one in batch if not one.flags & TOO_LONG)


@cocotb.test()
async def text_of_16_mib_is_flagged_at_its_last_byte(dut) -> None:  # type: ignore[no-untyped-def]
    """The count of its beats is set beside the model's, for the text takes too long to send."""
    bench, _ = await started(dut)
    cocotb.start_soon(bench.receive(0.0))
    for length, flags in ((LONGEST, 0), (LONGEST + 1, TOO_LONG), (LONGEST + 9, TOO_LONG)):
        before, start = len(bench.answers), b"so long "
        await bench.put(Beat(start, ALL_BYTES, False, 9))
        await ClockCycles(dut.aclk, 3)
        n_beats = (length - 1) // 8
        bench.model.lanes[0].n_beats = n_beats
        dut.core.stream._id("in", extended=False).beats.value = n_beats
        await put_all(bench, list(beats(b"x" * (length - 8 * n_beats), 9)))
        await bench.until_idle()
        assert [answer.flags for answer in bench.answers[before:]] == [flags]


async def put_all(bench: Bench, sent: list[Beat]) -> None:
    for beat in sent:
        await bench.put(beat)


@cocotb.test()
async def after_a_reset_at_any_time_documents_are_answered(dut) -> None:  # type: ignore[no-untyped-def]
    bench, registers = await started(dut)
    cocotb.start_soon(bench.receive(0.3))
    for i in range(6):
        sender = cocotb.start_soon(bench.send(documents(bench.random), 0.2))
        await ClockCycles(dut.aclk, bench.random.randrange(1, 120))
        if i % 2:
            await write(registers, ADDRESS["CONTROL"], 1)
            await ClockCycles(dut.aclk, 2)
        else:
            dut.aresetn.value = 0
            await ClockCycles(dut.aclk, bench.random.randrange(2, 5))
            dut.aresetn.value = 1
            await ClockCycles(dut.aclk, 3)
        sender.cancel()
        dut.s_axis_tvalid.value = 0
        # A beat that came in after the reset began a document: end it before others begin.
        await write(registers, ADDRESS["CONTROL"], 1)
        await ClockCycles(dut.aclk, 3)
        await set_up(registers)
    before, batch = len(bench.answers), documents(bench.random, 12)
    await bench.send(batch, 0.0)
    await bench.until_idle()
    bench.check(batch, bench.answers[before:])


@cocotb.test()
async def registers_tell_the_design_and_refuse_what_they_must(dut) -> None:  # type: ignore[no-untyped-def]
    bench, registers = await started(dut)
    values = parameters(design)
    flags = values["TIE_GE"] << 12 | values["SLOTS"] << 13
    flags |= values["SHARED"] << 14 | values["CW"] << 16 | 8 << 24
    assert await registers.read_dword(ADDRESS["IDENTITY"]) == 0x4E445550
    told = values["N"] | values["BYTES"] << 4 | values["MIXER"] << 8 | flags
    assert await registers.read_dword(ADDRESS["DESIGN"]) == told
    await registers.write(ADDRESS["KEY_LOW"], bytes([1, 2, 3, 4]))
    await registers.write(ADDRESS["KEY_LOW"] + 1, bytes([9]))  # one byte enable
    assert (await registers.read(ADDRESS["KEY_LOW"], 4)).data == bytes([1, 9, 3, 4])
    await write(registers, ADDRESS["IDENTITY"], 0, AxiResp.SLVERR)
    await write(registers, ADDRESS["DOCUMENTS"], 0, AxiResp.SLVERR)
    mixer = await registers.read_dword(ADDRESS["MIXER"])
    assert mixer == MIXER_CODES[design.mixer]
    await write(registers, ADDRESS["MIXER"], 3, AxiResp.SLVERR)
    # A document is under way: the key would change in its middle.
    await bench.put(Beat(b"one long", 0xFF, False, 7))
    await ClockCycles(dut.aclk, 2)
    assert await registers.read_dword(ADDRESS["STATUS"]) == 1
    await write(registers, ADDRESS["KEY_HIGH"], 5, AxiResp.SLVERR)
    await write(registers, ADDRESS["MIXER"], mixer, AxiResp.SLVERR)
    # N documents are open and another one comes: nothing is lost, and the host can see why.
    for id in range(design.n_cores):
        await bench.put(Beat(b"one more", 0xFF, False, 100 + id))
    await ClockCycles(dut.aclk, 4)
    assert await registers.read_dword(ADDRESS["STATUS"]) == 3
    await write(registers, ADDRESS["CONTROL"], 1)
    await ClockCycles(dut.aclk, 2)
    assert await registers.read_dword(ADDRESS["STATUS"]) == 0
    assert await registers.read_dword(ADDRESS["DOCUMENTS"]) == 0


@cocotb.test()
async def parts_from_elsewhere_understand_the_streams(dut) -> None:  # type: ignore[no-untyped-def]
    """Source and sink of cocotbext-axi, with pauses of their own."""
    await started(dut)
    ports = (dut.aclk, dut.aresetn)
    source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), *ports, False)
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), *ports, False)
    source.set_pause_generator(cycle([1, 0, 0]))
    sink.set_pause_generator(cycle([1, 1, 0, 1]))
    texts = [b"x%d and more words" % i * (i % 4) + b"end" for i in range(10)]
    for id, text in enumerate(texts):
        await source.send(AxiStreamFrame(text, tid=id))
    for _ in texts:
        frame = await sink.recv()
        fingerprint = int.from_bytes(bytes(frame.tdata), "little")
        if len(texts[frame.tid]) <= 2**design.counter_bits - 2:
            assert (frame.tuser, fingerprint) == (0, expected(texts[frame.tid]))
