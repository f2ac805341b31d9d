// The core with its registers, for any bus: simhash_stream.v and registers.v, wired once.
//
// In the cycle of a reset, the bus's or the register's, neither stream moves: `s_tready` and
// `m_tvalid` are low, whatever the engine still holds.

`default_nettype none

module simhash #(
    parameter N = 8,        // all as in simhash_stream.v
    parameter CW = 24,
    parameter BYTES = 1,
    parameter TIE_GE = 0,
    parameter MIXER = 0,
    parameter SLOTS = 0,
    parameter SHARED = 0,
    parameter ID = 8,
    parameter QUEUE = 4,
    parameter RESULTS = 5
) (
    input  wire          clk,
    input  wire          rst,

    input  wire          write,         // the registers, as in registers.v
    input  wire [5:2]    write_address,
    input  wire [31:0]   write_data,
    input  wire [3:0]    write_strobe,
    output wire          refused,
    input  wire [5:2]    read_address,
    output wire [31:0]   read_data,

    input  wire          s_tvalid,      // documents
    output wire          s_tready,
    input  wire [63:0]   s_tdata,
    input  wire [7:0]    s_tkeep,
    input  wire          s_tlast,
    input  wire [ID-1:0] s_tid,
    output wire          m_tvalid,      // results
    input  wire          m_tready,
    output wire [63:0]   m_tdata,
    output wire [ID-1:0] m_tid,
    output wire [2:0]    m_tuser
);
    wire        engine_rst, stream_ready, stream_valid;
    wire [63:0] key;
    wire [1:0]  select;
    wire        busy, blocked, lost, started, lane_stalled;

    assign s_tready = stream_ready & ~engine_rst;
    assign m_tvalid = stream_valid & ~engine_rst;

    registers #(
        .N(N), .CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .MIXER(MIXER), .SLOTS(SLOTS), .SHARED(SHARED), .ID(ID)
    ) control (
        .clk(clk), .rst(rst), .write(write & ~rst), .write_address(write_address),
        .write_data(write_data), .write_strobe(write_strobe), .refused(refused),
        .read_address(read_address), .read_data(read_data),
        .engine_rst(engine_rst), .key(key), .select(select),
        .busy(busy), .blocked(blocked), .lost(lost), .started(started),
        .in_stalled(s_tvalid & ~s_tready), .lane_stalled(lane_stalled),
        .out_stalled(m_tvalid & ~m_tready), .left(m_tvalid & m_tready)
    );

    simhash_stream #(
        .N(N), .CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .MIXER(MIXER), .SLOTS(SLOTS), .SHARED(SHARED), .ID(ID),
        .QUEUE(QUEUE), .RESULTS(RESULTS)
    ) stream (
        .clk(clk), .rst(engine_rst), .key(key), .select(select),
        .s_tvalid(s_tvalid & ~engine_rst), .s_tready(stream_ready), .s_tdata(s_tdata),
        .s_tkeep(s_tkeep), .s_tlast(s_tlast), .s_tid(s_tid),
        .m_tvalid(stream_valid), .m_tready(m_tready & ~engine_rst), .m_tdata(m_tdata),
        .m_tid(m_tid), .m_tuser(m_tuser), .busy(busy), .blocked(blocked), .lost(lost),
        .started(started), .lane_stalled(lane_stalled)
    );
endmodule

`default_nettype wire
