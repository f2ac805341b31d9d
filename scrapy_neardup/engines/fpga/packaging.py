"""The core as a package for hardware tools: a FuseSoC core file, and IP-XACT for the AXI core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

VERSION = "0.1.0"

# Offset and access of each register, as in rtl/registers.v.
REGISTERS = {
    "IDENTITY": (0x00, "read-only"),
    "DESIGN": (0x04, "read-only"),
    "CONTROL": (0x08, "write-only"),
    "STATUS": (0x0C, "read-only"),
    "KEY_LOW": (0x10, "read-write"),
    "KEY_HIGH": (0x14, "read-write"),
    "MIXER": (0x18, "read-write"),
    "CYCLES": (0x20, "read-only"),
    "DOCUMENTS": (0x24, "read-only"),
    "RESULTS": (0x28, "read-only"),
    "IN_STALLS": (0x2C, "read-only"),
    "LANE_STALLS": (0x30, "read-only"),
    "OUT_STALLS": (0x34, "read-only"),
}
REGISTER_BYTES = 0x40  # of address space

# Signals of simhash_axi's bus interfaces, with their bits.
STREAM = {
    "tvalid": 1,
    "tready": 1,
    "tdata": 64,
    "tkeep": 8,
    "tlast": 1,
    "tid": 8,
}
LITE = {
    "awvalid": 1, "awready": 1, "awaddr": 6, "awprot": 3, "wvalid": 1, "wready": 1, "wdata": 32,
    "wstrb": 4, "bvalid": 1, "bready": 1, "bresp": 2, "arvalid": 1, "arready": 1, "araddr": 6,
    "arprot": 3, "rvalid": 1, "rready": 1, "rdata": 32, "rresp": 2,
}  # fmt: skip
DRIVEN_BY_LITE_SLAVE = {
    "awready",
    "wready",
    "bvalid",
    "bresp",
    "arready",
    "rvalid",
    "rdata",
    "rresp",
}


def core_file(top: str, files: Sequence[str], parameters: Mapping[str, int]) -> str:
    """A FuseSoC core file (CAPI2): the sources, and a target that lints them with Verilator."""
    lines = [
        "CAPI=2:",
        f"name: scrapy_neardup:simhash:{top}:{VERSION}",
        "description: simhash fingerprints of documents, several documents at a time",
        "filesets:",
        "  rtl:",
        f"    files: [{', '.join(sorted(files))}]",
        "    file_type: verilogSource-2005",
        "parameters:",
    ]
    for name, value in parameters.items():
        lines += [f"  {name}:", "    datatype: int", "    paramtype: vlogparam"]
        lines += [f"    default: {value}"]
    names = ", ".join(parameters)
    lines += ["targets:", "  default: &default", "    filesets: [rtl]", f"    toplevel: {top}"]
    lines += [f"    parameters: [{names}]", "  lint:", "    <<: *default"]
    lines += ["    default_tool: verilator", "    tools:", "      verilator:"]
    lines += ["        mode: lint-only", "        verilator_options: [-Wall]"]
    return "\n".join(lines) + "\n"


def ip_xact(files: Sequence[str], parameters: Mapping[str, int]) -> str:
    """simhash_axi as an IP-XACT component (IEEE 1685-2014)."""
    interfaces = [*stream("s_axis", "slave"), *stream("m_axis", "master"), *lite()]
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<ipxact:component xmlns:ipxact="http://www.accellera.org/XMLSchema/IPXACT/1685-2014">',
            *identity("scrapy_neardup", "simhash", "simhash_axi", VERSION),
            *wrapped("busInterfaces", interfaces),
            *wrapped("memoryMaps", memory_map()),
            *wrapped("model", [*wrapped("views", view()), *instances(parameters),
                               *wrapped("ports", ports())]),
            *wrapped("fileSets", file_set(files)),
            "</ipxact:component>",
        ]
    ) + "\n"  # fmt: skip


def tag(name: str, value: object) -> str:
    return f"<ipxact:{name}>{escape(str(value))}</ipxact:{name}>"


def wrapped(name: str, lines: Sequence[str]) -> list[str]:
    return [f"<ipxact:{name}>", *(f"  {line}" for line in lines), f"</ipxact:{name}>"]


def identity(vendor: str, library: str, name: str, version: str) -> list[str]:
    values = {"vendor": vendor, "library": library, "name": name, "version": version}
    return [tag(key, value) for key, value in values.items()]


def stream(prefix: str, role: str) -> list[str]:
    """An AXI4-Stream interface."""
    signals = [*STREAM, "tuser"] if role == "master" else list(STREAM)
    bus = 'vendor="amba.com" library="AMBA4" name="AXI4Stream"'
    return interface(prefix, bus, signals, f"<ipxact:{role}/>")


def lite() -> list[str]:
    """The AXI4-Lite interface of the registers."""
    slave = '<ipxact:slave><ipxact:memoryMapRef memoryMapRef="registers"/></ipxact:slave>'
    bus = 'vendor="amba.com" library="AMBA4" name="AXI4Lite"'
    return interface("s_axil", bus, list(LITE), slave)


def interface(prefix: str, bus: str, signals: Sequence[str], role: str) -> list[str]:
    maps: list[str] = []
    for signal in signals:
        logical = wrapped("logicalPort", [tag("name", signal.upper())])
        physical = wrapped("physicalPort", [tag("name", f"{prefix}_{signal}")])
        maps += wrapped("portMap", logical + physical)
    abstraction = f'<ipxact:abstractionRef {bus[:-1]}_rtl" version="r0p0_0"/>'
    kind = wrapped("abstractionType", [abstraction, *wrapped("portMaps", maps)])
    body = [tag("name", prefix), f'<ipxact:busType {bus} version="r0p0_0"/>']
    return wrapped("busInterface", [*body, *wrapped("abstractionTypes", kind), role])


def memory_map() -> list[str]:
    registers: list[str] = []
    for name, (offset, access) in REGISTERS.items():
        field = [tag("name", "value"), tag("bitOffset", 0), tag("bitWidth", 32)]
        body = [tag("name", name), tag("addressOffset", f"'h{offset:02x}"), tag("size", 32)]
        body += [tag("access", access), *wrapped("field", field)]
        registers += wrapped("register", body)
    block = [tag("name", "control"), tag("baseAddress", 0), tag("range", REGISTER_BYTES)]
    block += [tag("width", 32), *registers]
    return wrapped("memoryMap", [tag("name", "registers"), *wrapped("addressBlock", block)])


def view() -> list[str]:
    return wrapped("view", [tag("name", "rtl"), tag("componentInstantiationRef", "verilog")])


def instances(parameters: Mapping[str, int]) -> list[str]:
    values: list[str] = []
    for name, value in parameters.items():
        body = [tag("name", name), tag("value", value)]
        values += wrapped("moduleParameter", body)
    body = [tag("name", "verilog"), tag("language", "verilog"), tag("moduleName", "simhash_axi")]
    body += wrapped("moduleParameters", values)
    body += wrapped("fileSetRef", [tag("localName", "rtl")])
    return wrapped("instantiations", wrapped("componentInstantiation", body))


def ports() -> list[str]:
    found = [("aclk", "in", 1), ("aresetn", "in", 1), *stream_ports("s_axis", False)]
    found += [*stream_ports("m_axis", True), ("m_axis_tuser", "out", 3)]
    for signal, width in LITE.items():
        found.append((f"s_axil_{signal}", "out" if signal in DRIVEN_BY_LITE_SLAVE else "in", width))
    lines: list[str] = []
    for name, direction, bits in found:
        vector = [tag("left", bits - 1), tag("right", 0)]
        wire = [tag("direction", direction)]
        if bits != 1:
            wire += wrapped("vectors", wrapped("vector", vector))
        lines += wrapped("port", [tag("name", name), *wrapped("wire", wire)])
    return lines


def stream_ports(prefix: str, drives: bool) -> Iterator[tuple[str, str, int]]:
    for signal, width in STREAM.items():
        goes_out = drives != (signal == "tready")
        yield f"{prefix}_{signal}", "out" if goes_out else "in", width


def file_set(files: Sequence[str]) -> list[str]:
    body = [tag("name", "rtl")]
    for file in sorted(files):
        body += wrapped("file", [tag("name", file), tag("fileType", "verilogSource-2005")])
    return wrapped("fileSet", body)
