// The fingerprint engine between two AXI4-Streams: documents in, a fingerprint for each out.
//
// In: 64-bit beats, see stream_in.v. Out: one beat a document, in the order in which they are
// ready: tdata the fingerprint, tid the document's, tuser its flags: 0 NUL in the text, 1 bad tkeep,
// 2 text too long for the counters; the fingerprint of a document with flag 1 or 2 means nothing.

`default_nettype none

module simhash_stream #(
    parameter N = 8,        // as in fingerprint_engine.v
    parameter CW = 24,      // 4 or more
    parameter BYTES = 1,
    parameter TIE_GE = 0,
    parameter MIXER = 0,
    parameter SLOTS = 0,
    parameter SHARED = 0,
    parameter ID = 8,       // bits of tid
    parameter QUEUE = 4,    // log2 of the words that may wait for a lane
    parameter RESULTS = 5   // log2 of the results that may be in the engine or wait
) (
    input  wire          clk,
    input  wire          rst,
    input  wire [63:0]   key,           // both may change only while not busy
    input  wire [1:0]    select,
    input  wire          s_tvalid,
    output wire          s_tready,
    input  wire [63:0]   s_tdata,
    input  wire [7:0]    s_tkeep,
    input  wire          s_tlast,
    input  wire [ID-1:0] s_tid,
    output wire          m_tvalid,
    input  wire          m_tready,
    output wire [63:0]   m_tdata,
    output wire [ID-1:0] m_tid,
    output wire [2:0]    m_tuser,
    output wire          busy,
    output wire          blocked,       // by more than N interleaved documents
    output wire          lost,          // never, see no_loss.sv
    output wire          started,       // a document takes a lane
    output wire          lane_stalled   // a word waits for its lane though it is its turn
);
    localparam       ROTATION = 8 / BYTES;
    localparam [2:0] LAST_TURN = ROTATION[2:0] - 3'd1;

    generate
        if (CW < 4) begin : counters
            CW_must_be_4_to_64 refused ();
        end
        if (ID < 1 || QUEUE < 1 || RESULTS < 1) begin : sizes
            ID_QUEUE_and_RESULTS_must_be_1_or_more refused ();
        end
    endgenerate

    wire [N-1:0]    full, empty;
    wire            word_valid, word_last, give, give_last, place, in_busy, out_busy;
    wire [2:0]      word_lane, turn, lane;
    wire [63:0]     word, give_word, fingerprint;
    wire [ID*N-1:0] id;
    wire [3*N-1:0]  flags;
    wire            done;

    stream_in #(.N(N), .CW(CW), .ID(ID)) in (
        .clk(clk), .rst(rst), .s_tvalid(s_tvalid), .s_tready(s_tready), .s_tdata(s_tdata),
        .s_tkeep(s_tkeep), .s_tlast(s_tlast), .s_tid(s_tid), .full(full), .empty(empty),
        .word_valid(word_valid), .word_lane(word_lane), .word_last(word_last), .word(word),
        .id(id), .flags(flags), .started(started), .busy(in_busy), .blocked(blocked)
    );

    lane_queues #(.N(N), .LOG(QUEUE)) queues (
        .clk(clk), .rst(rst), .in_valid(word_valid), .in_lane(word_lane), .in_last(word_last),
        .in_word(word), .full(full), .empty(empty), .next((turn + 3'd1) & LAST_TURN),
        .may_leave(place), .stalled(lane_stalled),
        .out_valid(give), .out_last(give_last), .out_word(give_word)
    );

    fingerprint_engine #(
        .N(N), .CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .MIXER(MIXER), .SLOTS(SLOTS), .SHARED(SHARED)
    ) engine (
        .clk(clk), .rst(rst), .key(key), .select(select), .turn(turn),
        .in_valid(give), .in_word(give_word),
        .out_valid(done), .out_lane(lane), .out_fingerprint(fingerprint), .overflow(lost)
    );

    stream_out #(.N(N), .ID(ID), .LOG(RESULTS)) out (
        .clk(clk), .rst(rst), .last_goes(give_last), .lane(turn), .id(id), .flags(flags),
        .place(place), .in_valid(done), .in_lane(lane), .in_fingerprint(fingerprint),
        .m_tvalid(m_tvalid), .m_tready(m_tready), .m_tdata(m_tdata), .m_tid(m_tid),
        .m_tuser(m_tuser), .busy(out_busy)
    );

    // From the first word of a document in a queue to its place for a result, its lane is not empty.
    assign busy = in_busy | out_busy | give | ~&empty;
endmodule

`default_nettype wire
